//! Arm64.

use core::convert::identity;

use lookaside::{
    Error,
    arch::{
        Sharing,
        aarch64::{self, Aarch64, AsidIn, IdRegisters, Pairing},
    },
    platform::Costs,
};
use lookaside_machine::adversary::{COSTS, Config, Frame, arm::Insn};

use super::{BY_ADDRESS, FRESH, Hardware, INTERRUPTS, pa};

fn arm_mmu(
    reserved: Frame,
    sharing: Sharing,
    features: aarch64::Features,
) -> Result<Aarch64<Insn>, Error> {
    Aarch64::new(
        Insn,
        aarch64::Config {
            features,
            // T0SZ 16, 4 KiB granule, 48-bit physical addresses, 16-bit ASIDs.
            tcr: 16 | 5 << 32 | 1 << 36,
            reserved_root: pa(reserved),
            sharing,
            pairing: Pairing::Single,
            asid_in: AsidIn::Ttbr0,
        },
    )
}

/// What ID registers say of these CPUs.
fn arm_features() -> aarch64::Features {
    aarch64::Features::decode(IdRegisters { mmfr0: 5 | 2 << 4, mmfr2: 1, ..IdRegisters::default() })
}

macro_rules! arm_hardware {
    ($($(#[doc = $doc:literal])* $name:ident: $config:expr, $sharing:ident, $features:expr, $costs:expr;)*) => {$(
        $(#[doc = $doc])*
        pub(in crate::scenario) enum $name {}

        impl Hardware for $name {
            type Mmu = Aarch64<Insn>;

            fn config(cpus: usize) -> Config {
                $config(Config::arm(cpus))
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                arm_mmu(reserved, Sharing::$sharing, Self::features())
            }

            fn features() -> aarch64::Features {
                $features
            }

            fn costs() -> Costs {
                $costs
            }
        }
    )*};
}

arm_hardware! {
    /// Arm64 with private TLBs.
    Arm: identity, Private, arm_features(), COSTS;
    /// Arm64 with CnP.
    ArmShared: Config::with_cnp, Shared, arm_features(), COSTS;
    /// Arm64 with private TLBs, where retagging is cheaper than a flush.
    ArmFresh: identity, Private, arm_features(), FRESH;
    /// Arm64 with CnP, where retagging is cheaper than a flush.
    ArmSharedFresh: Config::with_cnp, Shared, arm_features(), FRESH;
    /// Arm64 with private TLBs, where one interrupt is cheaper than a broadcast.
    ArmInterrupts: Config::with_interrupts, Private, arm_features(), INTERRUPTS;
    /// Arm64 with private TLBs and level hints, where every flush is by address and one interrupt is cheaper
    /// than a broadcast.
    ArmHints: Config::with_interrupts, Private, aarch64::Features { level_hints: true, ..arm_features() }, BY_ADDRESS;
}
