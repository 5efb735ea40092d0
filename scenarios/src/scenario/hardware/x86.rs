//! x86-64.

use lookaside::{
    Error,
    arch::x86_64::{self, Levels, Tables, Use, X86},
    platform::Costs,
};
use lookaside_machine::adversary::{COSTS, Config, Frame, x86::Insn};

use super::{FRESH, Hardware, pa};

pub(super) fn x86_mmu(reserved: Frame, features: &x86_64::Features) -> Result<X86<Insn>, Error> {
    let config = x86_64::Config {
        pcids: Use::WherePresent,
        invlpgb: Use::WherePresent,
        tables: Tables::One,
        levels: Levels::Four,
        reserved_root: pa(reserved),
    };
    X86::new(Insn, features, config)
}

pub(in crate::scenario) fn x86_features([pcid, invpcid, invlpgb]: [bool; 3]) -> x86_64::Features {
    let mut features = x86_64::Features::decode(|leaf, _| match leaf {
        0 => [7, 0, 0, 0],
        1 => [0, 0, 1 << 17, 1 << 13],
        7 => [0, 1 << 10, 0, 0],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        0x8000_0008 => [48 | 48 << 8, u32::from(invlpgb) << 3, 0, 0],
        _ => [0; 4],
    });
    features.pcid = pcid;
    features.invpcid = invpcid;
    features
}

macro_rules! x86_hardware {
    ($($(#[doc = $doc:literal])* $name:ident: $features:expr, $costs:expr;)*) => {$(
        $(#[doc = $doc])*
        pub(in crate::scenario) enum $name {}

        impl Hardware for $name {
            type Mmu = X86<Insn>;

            fn config(cpus: usize) -> Config {
                Config::x86(cpus).with_interrupts()
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                x86_mmu(reserved, &Self::features())
            }

            fn features() -> x86_64::Features {
                x86_features($features)
            }

            fn costs() -> Costs {
                $costs
            }
        }
    )*};
}

/// x86-64 with PCIDs and INVPCID, in a kernel that maps itself globally.
pub(in crate::scenario) enum GlobalKernel {}

impl Hardware for GlobalKernel {
    type Mmu = X86<Insn>;

    fn config(cpus: usize) -> Config {
        Pcid::config(cpus)
    }

    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
        Ok(Pcid::mmu(reserved)?.with_global_kernel())
    }

    fn features() -> x86_64::Features {
        Pcid::features()
    }
}

x86_hardware! {
    /// x86-64 with PCIDs and INVPCID.
    Pcid: [true, true, false], COSTS;
    /// x86-64 with PCIDs but without INVPCID.
    PcidOnly: [true, false, false], COSTS;
    /// x86-64 without PCIDs.
    Plain: [false, false, false], COSTS;
    /// x86-64 with PCIDs, INVPCID and INVLPGB.
    Broadcast: [true, true, true], COSTS;
    /// The same, where retagging is cheaper than a flush.
    BroadcastFresh: [true, true, true], FRESH;
}
