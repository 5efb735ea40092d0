//! RISC-V.

use core::convert::identity;

use lookaside::{
    Error,
    arch::{
        Root,
        riscv64::{self, Extensions, Mode, Remote, Riscv},
    },
    platform::Costs,
};
use lookaside_machine::adversary::{COSTS, Config, Frame, riscv::Insn};

use super::{FRESH, Hardware, INTERRUPTS, pa};

macro_rules! riscv_hardware {
    ($($(#[doc = $doc:literal])* $name:ident: $remote:expr, $asid_bits:literal, $extensions:expr, $config:expr, $costs:expr;)*) => {$(
        $(#[doc = $doc])*
        pub(in crate::scenario) enum $name {}

        impl Hardware for $name {
            type Mmu = Riscv<Insn>;

            fn config(cpus: usize) -> Config {
                $config(Config::riscv(cpus).with_tag_bits($asid_bits))
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                let config = riscv64::Config {
                    mode: Mode::Sv39,
                    relies_on: $extensions,
                    reserved: Root::new(pa(reserved)),
                    tables: riscv64::Tables::One,
                    remote: $remote,
                };
                Riscv::new(Insn, &Self::features(), config)
            }

            fn features() -> riscv64::Features {
                riscv64::Features {
                    mode: Mode::Sv39,
                    asid_bits: $asid_bits,
                    extensions: $extensions,
                    identity: riscv64::Identity::default(),
                }
            }

            fn costs() -> Costs {
                $costs
            }
        }
    )*};
}

riscv_hardware! {
    /// RISC-V with SBI remote fences.
    Rv: Remote::Sbi, 16, Extensions::NONE, identity, COSTS;
    /// RISC-V whose harts are interrupted for remote fences.
    RvInterrupts: Remote::Interrupts, 16, Extensions::NONE, Config::with_interrupts, COSTS;
    /// RISC-V without ASIDs, whose harts are interrupted for remote fences.
    RvPlain: Remote::Interrupts, 0, Extensions::NONE, Config::with_interrupts, COSTS;
    /// RISC-V with SBI remote fences, where one interrupt is cheaper than a broadcast.
    RvBoth: Remote::Sbi, 16, Extensions::NONE, Config::with_interrupts, INTERRUPTS;
    /// RISC-V with SBI remote fences, where retagging is cheaper than a flush.
    RvFresh: Remote::Sbi, 16, Extensions::NONE, identity, FRESH;
    /// RISC-V with interrupts, where retagging is cheaper than a flush.
    RvFreshInterrupts: Remote::Interrupts, 16, Extensions::NONE, Config::with_interrupts, FRESH;
    /// RISC-V with SBI remote fences and Svinval.
    RvSvinval: Remote::Sbi, 16, Extensions::SVINVAL, identity, COSTS;
}
