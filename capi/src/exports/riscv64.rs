//! The hardware of RISC-V.

use core::arch::asm;

use lookaside::arch::riscv64::{Extensions, Native, Riscv};

use super::riscv;
pub(super) use super::riscv::{Boot, Features, prefers_broadcasts, trampoline_fences, user_asid};
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

/// `sstatus.SIE`.
const INTERRUPTS: u64 = 1 << 1;

/// Whether this hart, in supervisor mode, certainly takes no interrupt.
#[inline]
pub(super) fn are_masked() -> bool {
    let status: u64;
    // SAFETY: supervisor mode may read the register, and reading it changes nothing.
    unsafe { asm!("csrr {}, sstatus", out(reg) status, options(nomem, nostack, preserves_flags)) };
    status & INTERRUPTS == 0
}
