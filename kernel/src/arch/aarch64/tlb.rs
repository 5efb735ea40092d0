//! The library's hardware on this machine.

#[cfg(not(any(feature = "no-remote", feature = "one-tag")))]
use lookaside::arch::aarch64::Native;
use lookaside::{
    Error,
    arch::{
        Sharing,
        aarch64::{Aarch64, AsidIn, Config, Features, IdRegisters, Pairing, Park},
        errata,
    },
};

use super::{entry::size_change_on, halt, register::read_register, reserved_root};
use crate::{lock::Once, println};

#[cfg(any(feature = "no-remote", feature = "one-tag"))]
type Native = super::no_remote::Alone;

pub(crate) type Mmu = Aarch64<Native>;

static BOOT: Once<Features> = Once::new();

/// The features of this CPU.
pub(crate) fn features() -> Features {
    Features::decode(IdRegisters {
        midr: read_register!("midr_el1"),
        mmfr0: read_register!("id_aa64mmfr0_el1"),
        mmfr1: read_register!("id_aa64mmfr1_el1"),
        mmfr2: read_register!("id_aa64mmfr2_el1"),
        // ID_AA64MMFR3_EL1, by its place: assemblers are slow to learn names. Where there is no such
        // register it reads as zero.
        mmfr3: read_register!("s3_0_c0_c7_3"),
        isar0: read_register!("id_aa64isar0_el1"),
    })
}

/// The features of the boot CPU.
pub(super) fn boot_features() -> &'static Features {
    BOOT.get()
}

/// Records the features of the boot CPU.
pub(super) fn open() {
    BOOT.set(features());
}

/// Refuses a CPU for differences that the library does not check.
pub(super) fn check_cpu() {
    let (cpu, boot) = (features(), boot_features());
    // `Tables::protect` takes the permission to execute away in place.
    if errata::of_arm(cpu.midr).errata.contains(errata::BREAK_BEFORE_NO_EXECUTE) {
        println!("CPU {} needs break-before-make for execute permissions", super::cpu());
        halt();
    }
    let fits = cpu.hardware_updates >= boot.hardware_updates
        && size_change_on(&cpu) == size_change_on(boot);
    if !fits {
        println!("CPU {} lacks what the boot CPU has", super::cpu());
        halt();
    }
}

/// The hardware, once the boot CPU runs as all shall.
pub(crate) fn mmu() -> Result<Mmu, Error> {
    let config = Config {
        features: *boot_features(),
        tcr: read_register!("tcr_el1"),
        park: Park::ReservedRoot(reserved_root()),
        sharing: Sharing::Private,
        pairing: Pairing::Single,
        asid_in: AsidIn::Ttbr0,
    };
    // SAFETY: all CPUs are in EL1, and have the upper half to themselves: no root that the library
    // loads changes where the kernel is. From here on nobody else writes TTBR0_EL1, whose present
    // value is the reserved root, and TCR_EL1 is the same on all CPUs. What the boot CPU can do is as
    // its registers say; `online` compares each other CPU.
    Aarch64::new(unsafe { Native::new() }, config)
}
