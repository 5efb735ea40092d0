//! The catalogue of scenarios.

mod blocks;
mod c;
mod early;
mod errata;
mod flush;
mod fresh;
mod gather;
mod nmi;
mod pairs;
mod pending;
mod recent;
mod roots;
mod shootdown;
mod tags;
mod wide;

use std::sync::LazyLock;

use lookaside::tags::Cookie;

use super::{
    Depth::{Bounded, Exhaust, Random},
    Entry, Explored, Open,
    act::Act::{self, *},
    hardware::*,
    kept,
    program::{epochs_on, recent_on},
    script::Few,
};

/// A scenario with `GlobalAsids`: one tag for a space on all CPUs, allocated by epoch.
macro_rules! by_epoch {
    ($name:literal, $hardware:ty, $few:expr, $cpus:expr, $depth:expr, $about:literal) => {
        Entry {
            name: $name,
            about: $about,
            depth: $depth,
            open: Open::With(|more| on_epochs::<$hardware>($name, $cpus, $few, more)),
        }
    };
}

/// A scenario with `PerCpuAsids`: each CPU has tags of its own, and two slots.
macro_rules! by_recency {
    ($name:literal, $hardware:ty, $cpus:expr, $depth:expr, $about:literal) => {
        Entry {
            name: $name,
            about: $about,
            depth: $depth,
            open: Open::With(|more| on_recent::<$hardware>($name, $cpus, more)),
        }
    };
}

use by_epoch;
use by_recency;

/// A protocol of the library, and the scenarios that exercise it.
pub struct Topic {
    /// Its name, on the command line.
    pub name: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    /// The scenarios.
    pub scenarios: &'static [Entry],
}

/// The protocols, in the order in which they are best read.
pub static TOPICS: LazyLock<Vec<Topic>> = LazyLock::new(|| {
    vec![
        Topic {
            name: "epochs",
            about: "tags that are the same on all CPUs, and rollover",
            scenarios: tags::SCENARIOS,
        },
        Topic {
            name: "recent",
            about: "tags of each CPU's own, with generations",
            scenarios: recent::SCENARIOS,
        },
        Topic {
            name: "flush",
            about: "which CPUs must act for a flush",
            scenarios: flush::SCENARIOS,
        },
        Topic { name: "fresh", about: "a new tag instead of a flush", scenarios: fresh::SCENARIOS },
        Topic {
            name: "shootdown",
            about: "flush requests to other CPUs, and waiting",
            scenarios: shootdown::SCENARIOS,
        },
        Topic {
            name: "pending",
            about: "flushes that are begun with interrupts off and waited for with interrupts on",
            scenarios: pending::SCENARIOS,
        },
        Topic {
            name: "gather",
            about: "concurrent gathers, and batches",
            scenarios: gather::SCENARIOS,
        },
        Topic {
            name: "early",
            about: "scenarios of the topics above, where loads may be satisfied early",
            scenarios: early::SCENARIOS,
        },
        Topic { name: "nmi", about: "NMIs that access user memory", scenarios: nmi::SCENARIOS },
        Topic {
            name: "pairs",
            about: "separate tables for user mode (KPTI)",
            scenarios: pairs::SCENARIOS,
        },
        Topic { name: "roots", about: "a top table for each CPU", scenarios: roots::SCENARIOS },
        Topic {
            name: "wide",
            about: "more CPUs than one word of a space's residency holds",
            scenarios: wide::SCENARIOS,
        },
        Topic { name: "blocks", about: "contiguous entries", scenarios: blocks::SCENARIOS },
        Topic {
            name: "c",
            about: "a kernel in C, through the functions of the C interface",
            scenarios: c::SCENARIOS,
        },
        Topic { name: "errata", about: "hardware with errata", scenarios: errata::SCENARIOS },
        Topic {
            name: "kept",
            about: "generated programs that found a fault",
            scenarios: kept::entries().leak(),
        },
    ]
});

/// All scenarios, in the order of their topics.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    TOPICS.iter().flat_map(|topic| topic.scenarios)
}

/// Scenarios on a machine that breaks a promise on which the library relies: each of them fails.
pub static RELIED_ON: [Entry; 1] = [by_epoch!(
    "user-riscv-sbi-hasty",
    Hasty<Rv>,
    THREE_TAGS,
    shootdown::USER,
    Exhaust,
    "as user-riscv-sbi, with firmware that does not wait for stores"
)];

/// The scenario of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.name == name)
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const E: usize = 4;
const F: usize = 5;

const fn few(usable: u32) -> Few {
    Few { usable, pins: 0, last_epoch: Cookie::LAST_EPOCH }
}

const THREE_TAGS: Few = few(3);
const ONE_PIN: Few = Few { pins: 1, ..few(4) };
const SHORT: Few = Few { last_epoch: 2, ..few(3) };
/// The first epoch is the last.
const FOR_EVER: Few = Few { last_epoch: 1, ..few(3) };

fn on_epochs<H: Hardware>(name: &str, cpus: &[&[Act]], tags: Few, more: More) -> Explored {
    epochs_on(name, Described { more, ..Described::of::<H>() }, own(cpus), tags)
}

fn on_recent<H: Hardware>(name: &str, cpus: &[&[Act]], more: More) -> Explored {
    recent_on(name, Described { more, ..Described::of::<H>() }, own(cpus))
}

fn own(cpus: &[&[Act]]) -> Vec<Vec<Act>> {
    cpus.iter().map(|acts| acts.to_vec()).collect()
}
