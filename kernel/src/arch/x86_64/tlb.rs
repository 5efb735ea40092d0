//! The library's hardware on this machine: all that an integrator writes for x86-64.

use lookaside::{
    Error,
    arch::x86_64::{Config, Features, X86},
};

use super::{Native, paging};

pub(crate) type Mmu = X86<Native>;

/// The features of this CPU.
pub(crate) fn features() -> Features {
    Features::read()
}

/// The translation hardware: PCIDs and `INVLPGB` where there are any.
pub(crate) fn mmu() -> Result<Mmu, Error> {
    // SAFETY: this is the kernel, in ring 0. Every root has the kernel's entry, every CPU is asked
    // whether it fits before it is used, and nobody else writes CR3, or CR4 once it is set up.
    let cpu = unsafe { Native::new() };
    // Every leaf of the kernel's tables has the G bit, and boot code sets CR4.PGE.
    Ok(X86::new(cpu, &features(), Config::new(paging::reserved_root()))?.with_global_kernel())
}
