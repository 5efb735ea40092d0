//! Known deviations of CPUs from the architecture, as data.
//!
//! [`TABLE`] maps CPUs to [`Errata`] bits; the bits decide what [`super::X86`] emits; the tests
//! walk the same table.

use super::features::{Features, Vendor};
use crate::arch::Errata;

/// `INVLPG` may leave global entries of the address when `CR4.PCIDE` is set.
///
/// *Instead:* an address that is mapped globally is removed with `INVPCID` type 2 (everything,
/// global entries too), or by toggling `CR4.PGE` where `INVPCID` is missing. `INVLPG` stays in use
/// for addresses that are mapped for one tag, and everywhere while `CR4.PCIDE` is clear.
///
/// Source: Intel's specification updates for the 12th generation (ADL063) and the 13th (RPL042).
/// New microcode mends it. Its revision is not in CPUID and hypervisors hide it, so the CPU is
/// treated as affected whatever its microcode; the same goes for guests, where Intel says that it
/// does not occur: the longer sequence costs refills, never correctness.
pub const INVLPG_KEEPS_GLOBALS: Errata = Errata(1 << 0);

/// One line of [`TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affected {
    /// Who made it.
    pub vendor: Vendor,
    /// Family, as in [`Features::family`].
    pub family: u32,
    /// Model, as in [`Features::model`].
    pub model: u32,
    /// First and last stepping.
    pub steppings: (u32, u32),
    /// What is wrong with it.
    pub errata: Errata,
    /// What it is called.
    pub name: &'static str,
}

const fn core(model: u32, name: &'static str) -> Affected {
    let (vendor, family, steppings) = (Vendor::Intel, 6, (0, 15));
    Affected { vendor, family, model, steppings, errata: INVLPG_KEEPS_GLOBALS, name }
}

/// CPUs known to deviate. A CPU may be on several lines.
pub const TABLE: &[Affected] = &[
    core(0x97, "Alder Lake, desktop"),
    core(0x9a, "Alder Lake, mobile"),
    core(0xbe, "Alder Lake N (Gracemont cores alone)"),
    core(0xb7, "Raptor Lake, desktop"),
    core(0xba, "Raptor Lake, mobile"),
    core(0xbf, "Raptor Lake, small desktop"),
];

/// What must be worked around on a CPU.
#[must_use]
pub fn of(cpu: &Features) -> Errata {
    TABLE
        .iter()
        .filter(|row| {
            row.vendor == cpu.vendor
                && row.family == cpu.family
                && row.model == cpu.model
                && (row.steppings.0..=row.steppings.1).contains(&cpu.stepping)
        })
        .fold(Errata::NONE, |errata, row| errata.union(row.errata))
}
