//! Tests of the sequences that [`super::X86`] emits, on a CPU in software.
//!
//! * `cpu`: that CPU. It records what it executes, faults where hardware would, and forgets exactly
//!   what the manuals say that each instruction removes and nothing more, by the same rules as the machines
//!   on which scenarios are explored.
//! * `sequences`: the instructions of every operation in every configuration, written out.
//! * `ranges`: those of flushes by address.
//! * `contract`: what must be gone afterwards, whatever the instructions were.
//! * `admission`: what is refused.
//! * `ranges`: plans of `INVLPGB` against intervals.
//! * `identity`: CPUID and the errata table.

mod admission;
mod contract;
mod cpu;
mod identity;
mod invlpgb;
mod ranges;
mod sequences;

use super::{Config, Features, Levels, Tables, Use, Vendor, invlpgb::PageLimit};

/// A CPU with everything but five levels and `INVLPGB`.
const FULL: Features = Features {
    vendor: Vendor::Intel,
    family: 6,
    model: 0x8f,
    stepping: 8,
    microcode: None,
    hypervisor: false,
    pcid: true,
    invpcid: true,
    pge: true,
    la57: false,
    invlpgb: None,
    tce: false,
    physical_bits: 46,
    linear_bits: 48,
};

const NO_INVPCID: Features = Features { invpcid: false, ..FULL };
const NO_PCID: Features = Features { pcid: false, invpcid: false, ..FULL };

/// A CPU that broadcasts, eight pages at a time.
const BROADCASTING: Features =
    Features { vendor: Vendor::Amd, family: 0x19, model: 1, invlpgb: PageLimit::new(8), ..FULL };

const RESERVED_ROOT: u64 = 0x1000;

/// Everything used where present, one table for both modes.
const PLAIN: Config = Config {
    pcids: Use::WherePresent,
    invlpgb: Use::WherePresent,
    tables: Tables::One,
    levels: Levels::Four,
    reserved_root: RESERVED_ROOT,
};
