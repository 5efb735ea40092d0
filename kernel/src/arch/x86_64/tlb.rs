//! The library's hardware on this machine: all that an integrator writes for x86-64.

#[cfg(not(feature = "no-remote"))]
use lookaside::arch::x86_64::Native;
use lookaside::{
    Error,
    arch::x86_64::{Config, Features, Levels, Tables, Use, X86},
};

use super::paging;

#[cfg(feature = "no-remote")]
type Native = super::no_remote::Deaf;

pub(crate) type Mmu = X86<Native>;

/// The features of this CPU.
pub(crate) fn features() -> Features {
    Features::read()
}

/// The translation hardware: PCIDs and `INVLPGB` where there are any.
pub(crate) fn mmu() -> Result<Mmu, Error> {
    let config = Config {
        pcids: Use::WherePresent,
        invlpgb: Use::WherePresent,
        tables: Tables::One,
        levels: Levels::Four,
        reserved_root: paging::reserved_root(),
    };
    // SAFETY: this is the kernel, in ring 0. Every root has the kernel's entry, every CPU is asked
    // whether it fits before it is used, and nobody else writes CR3, or CR4 once it is set up.
    let cpu = unsafe { Native::new() };
    // Every leaf of the kernel's tables has the G bit, and boot code sets CR4.PGE.
    Ok(X86::new(cpu, &features(), config)?.with_global_kernel())
}

/// Brings the control registers of this CPU into the state that the library relies on.
pub(super) fn set_up_cpu() {
    // A CPU that is not fit is refused where it comes online.
    if let Ok(mmu) = mmu() {
        mmu.set_up_cpu();
    }
}
