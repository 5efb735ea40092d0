//! CPUs that deviate from the architecture.

use core::marker::PhantomData;

use lookaside::{
    Error,
    arch::{
        aarch64::{self, Aarch64},
        riscv64::{self, Riscv},
        x86_64::{self, X86},
    },
    platform::Costs,
};
use lookaside_machine::adversary::{Config, Deviations, Frame, arm, riscv, x86};

use super::{Arm, Broadcast, Hardware, Pcid, x86::x86_mmu};

/// Arm64 CPUs of one kind, known by their `MIDR_EL1`, and what is wrong with them.
macro_rules! arm_deviants {
    ($($(#[doc = $doc:literal])* $name:ident: $midr:expr, $deviation:ident;)*) => {$(
        $(#[doc = $doc])*
        pub(in crate::scenario) enum $name {}

        impl Hardware for $name {
            type Mmu = Aarch64<arm::Insn>;

            fn config(cpus: usize) -> Config {
                Config::arm(cpus).with_deviations(Deviations::$deviation)
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                Arm::mmu(reserved)
            }

            fn features() -> aarch64::Features {
                aarch64::Features { midr: $midr, ..Arm::features() }.corrected()
            }
        }
    )*};
}

arm_deviants! {
    /// Cortex-A76 r4p1: a broadcast completes before accesses of other CPUs that it must wait for.
    Late: 0x414f_d0b1, LATE_ACCESSES;
    /// Falkor: table and tag of a root may be mixed with those of the last one.
    Mixed: 0x510f_8000, MIXED_ROOTS;
    /// Cavium ThunderX: a broadcast corrupts instruction caches.
    Corrupt: 0x431f_0a11, CORRUPT_CODE;
    /// Cavium ThunderX2: an access right after the write of a root may abort.
    Aborting: 0x431f_0af1, SPURIOUS_ABORTS;
}

/// Intel's Alder Lake, in a kernel that maps itself globally: `INVLPG` leaves global entries.
pub(in crate::scenario) enum Sparing {}

impl Hardware for Sparing {
    type Mmu = X86<x86::Insn>;

    fn config(cpus: usize) -> Config {
        Pcid::config(cpus).with_deviations(Deviations::INVLPG_SPARES_GLOBALS)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        Ok(x86_mmu(reserved, &Self::features())?.with_global_kernel())
    }

    fn features() -> x86_64::Features {
        let vendor = x86_64::Vendor::Intel;
        x86_64::Features { vendor, family: 6, model: 0x97, ..Pcid::features() }
    }
}

/// AMD's Zen 2 as some report themselves: with `INVLPGB`, which they do not have.
pub(in crate::scenario) enum Boasting {}

impl Hardware for Boasting {
    type Mmu = X86<x86::Insn>;

    fn config(cpus: usize) -> Config {
        Broadcast::config(cpus).with_deviations(Deviations::UNDEFINED_INVLPGB)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        x86_mmu(reserved, &Self::features())
    }

    fn features() -> x86_64::Features {
        let vendor = x86_64::Vendor::Amd;
        x86_64::Features { vendor, family: 0x17, model: 0x47, ..Broadcast::features() }
    }
}

/// SiFive's FU740: fences with operands remove nothing, here and where the firmware executes them.
pub(in crate::scenario) struct Vain<H>(PhantomData<H>);

impl<H: Hardware<Mmu = Riscv<riscv::Insn>>> Hardware for Vain<H> {
    type Mmu = H::Mmu;

    fn config(cpus: usize) -> Config {
        H::config(cpus).with_deviations(Deviations::FENCE_WITHOUT_OPERANDS)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        H::mmu(reserved)
    }

    fn features() -> riscv64::Features {
        let identity = riscv64::Identity {
            vendor: 0x489,
            architecture: 1 << 63 | 7,
            implementation: 0x2018_1004,
        };
        riscv64::Features { identity, ..H::features() }
    }

    fn costs() -> Costs {
        H::costs()
    }
}
