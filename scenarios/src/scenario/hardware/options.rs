//! Hardware with an option, and hardware that checks the events which the library reports.

use core::marker::PhantomData;

use lookaside::{
    Error,
    arch::Mmu,
    counts::{Event, Outcome},
    platform::Costs,
};
use lookaside_machine::adversary::{Config, Frame, Updates, oracle};

use super::{Hardware, see};

/// Hardware with an option.
macro_rules! more {
    ($(#[doc = $doc:literal])* $name:ident: $config:expr;) => {
        $(#[doc = $doc])*
        pub(in crate::scenario) struct $name<H>(PhantomData<H>);

        impl<H: Hardware> Hardware for $name<H> {
            type Mmu = H::Mmu;

            fn config(cpus: usize) -> Config {
                let more: fn(Config) -> Config = $config;
                more(H::config(cpus))
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                H::mmu(reserved)
            }

            fn features() -> <Self::Mmu as Mmu>::Features {
                H::features()
            }

            fn costs() -> Costs {
                H::costs()
            }

            fn observe(event: Event) {
                H::observe(event);
            }
        }
    };
}

more! {
    /// Hardware whose loads may be satisfied early.
    Early: Config::with_early_loads;
}

more! {
    /// Hardware that may cache absent entries.
    Invalid: Config::with_invalid_entries;
}

more! {
    /// RISC-V whose firmware reports a remote fence while stores of other harts are still under way.
    Hasty: Config::with_hasty_firmware;
}

more! {
    /// Hardware that sets the accessed and dirty flags of one page of one space.
    Noting: |config| config.with_updates(Updates::Dirty);
}

more! {
    /// Hardware on which every CPU takes an NMI.
    Nmis: |config| config.with_nmis(1);
}

/// Hardware that only checks the events that the library reports.
macro_rules! judged {
    ($(#[doc = $doc:literal])* $name:ident: $fits:expr, $complaint:literal;) => {
        $(#[doc = $doc])*
        pub(in crate::scenario) struct $name<H>(PhantomData<H>);

        impl<H: Hardware> Hardware for $name<H> {
            type Mmu = H::Mmu;

            fn config(cpus: usize) -> Config {
                H::config(cpus)
            }

            fn mmu(reserved: Frame) -> Result<Self::Mmu, Error> {
                H::mmu(reserved)
            }

            fn features() -> <Self::Mmu as Mmu>::Features {
                H::features()
            }

            fn costs() -> Costs {
                H::costs()
            }

            fn observe(event: Event) {
                if let Event::Flushed { outcome, targets, .. } = event {
                    see(event);
                    let fits: fn(Outcome, u32) -> bool = $fits;
                    oracle::check(fits(outcome, targets), $complaint);
                }
            }
        }
    };
}

judged! {
    /// Hardware on which no flush may leave the CPU that makes it.
    Quiet: |outcome, targets| outcome <= Outcome::Retagged && targets == 0,
    "a flush was broadcast, or interrupted other CPUs";
}

judged! {
    /// Hardware with a device that walks the tables, and receives broadcasts only.
    Heard: |outcome, _| outcome == Outcome::Broadcast,
    "a device did not hear of a flush";
}
