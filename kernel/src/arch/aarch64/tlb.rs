//! The library's hardware on this machine.

use lookaside::{
    Error,
    arch::aarch64::{Aarch64, Config, Features},
};

use super::{Native, cpu, register::read_register, reserved_root};

pub(crate) type Mmu = Aarch64<Native>;

/// The features of this CPU.
///
/// # Panics
///
/// If the kernel's page tables are not made for it.
pub(crate) fn features() -> Features {
    let features = Features::read();
    // `Tables::protect` takes the permission to execute away in place.
    assert!(!features.breaks_before_no_execute(), "CPU {} breaks before no-execute", cpu());
    features
}

/// The hardware, once the boot CPU runs as all shall.
pub(crate) fn mmu() -> Result<Mmu, Error> {
    // SAFETY: all CPUs are in EL1, and have the upper half to themselves: no root that the library
    // loads changes where the kernel is. From here on nobody else writes TTBR0_EL1, whose present
    // value is the reserved root, and TCR_EL1 is the same on all CPUs. What the boot CPU can do is as
    // its registers say; `online` compares each other CPU.
    let native = unsafe { Native::new() };
    let tcr = read_register!("tcr_el1");
    Aarch64::new(native, Config::new(features(), tcr, reserved_root()))
}
