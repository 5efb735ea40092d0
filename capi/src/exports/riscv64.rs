//! The hardware of RISC-V.

use lookaside::arch::{
    Tag,
    riscv64::{Extensions, Native, Riscv},
};

use super::riscv;
pub(super) use super::riscv::{Boot, Features};
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

pub(super) const fn prefers_broadcasts(_: &Boot) -> bool {
    false
}

pub(super) const fn set_up_cpu(_: &Mmu) {}

pub(super) fn trampoline_fences(mmu: &Mmu) -> bool {
    mmu.trampoline_fences()
}

pub(super) const fn has_user_tables(_: &Mmu) -> bool {
    false
}

pub(super) const fn asid(_: &Mmu, tag: Tag) -> u16 {
    tag.0
}

pub(super) const fn user_asid(_: &Mmu, tag: Tag) -> u16 {
    tag.0
}
