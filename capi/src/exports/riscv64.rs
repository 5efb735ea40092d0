//! The hardware of RISC-V.

use lookaside::arch::riscv64::{Extensions, Native, Riscv};

use super::riscv;
pub(super) use super::riscv::{
    Boot, Features, asid, prefers_broadcasts, trampoline_fences, user_asid,
};
use crate::error::Refused;

/// `LOOKASIDE_ARCH_RISCV64`.
pub(super) const ARCH: u32 = 3;

/// The hardware.
pub(super) type Mmu = Riscv<Native>;

pub(super) fn mmu(boot: &Boot) -> Result<Mmu, Refused> {
    // SAFETY: the kernel promises it, in the header: what it says of roots and of features is true, and nobody else
    // writes `satp` but as it says.
    let native = unsafe { Native::new() };
    riscv::mmu(native, boot, Extensions::SVINVAL.union(Extensions::SVNAPOT), true)
}
