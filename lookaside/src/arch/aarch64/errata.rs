//! Deviations of CPUs from the architecture, as data.
//!
//! [`TABLE`] is the only place that knows CPUs. Everything else asks for a bit of [`Errata`], and
//! the tests walk the same table.
//!
//! Where the range of affected revisions is not public, the row covers all of them: a workaround
//! that is not needed costs time, one that is missing costs memory. Parts and ranges follow the
//! vendors' errata notices as collected in public kernels' documentation, not read at first hand.

use crate::arch::Errata;

/// The instruction cache is invalidated after every write of the root register that changes the
/// tag. Concerns the CPU that has it.
///
/// Cavium 27456: broadcast invalidations can corrupt instruction-cache lines that belong to a tag
/// that is not the current one.
pub const ICACHE_AFTER_LOAD: Errata = Errata(1 << 0);

/// The tag and the table are never changed by one write while walks can start. Concerns the CPU
/// that has it.
///
/// Qualcomm Falkor 1003: a walk at that moment may be cached under the wrong one of the two tags.
pub const TAG_AND_ROOT_APART: Errata = Errata(1 << 1);

/// A broadcast `TLBI; DSB` is followed by a second one. Concerns every CPU of a machine as soon as
/// one CPU has it: the accesses that are late are that CPU's, the CPU that must wait is another.
///
/// The entries are gone after the first pair, but accesses that were translated by them may not be
/// performed yet, and the frame may not be reused before they are.
pub const REPEAT_BROADCAST: Errata = Errata(1 << 2);

/// CnP must stay 0. Concerns the CPU that has it, which a machine with CnP refuses.
///
/// NVIDIA Carmel: a local `TLBI` does not remove entries that another CPU has installed.
pub const NO_CNP: Errata = Errata(1 << 3);

/// The errata that every CPU must honour if one CPU of the machine has them. The union of what the
/// CPUs report is to be cut with this and added to what each CPU itself has.
pub const MACHINE_WIDE: Errata = REPEAT_BROADCAST;

/// One row: a range of revisions of one part, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The vendor's name for it.
    pub name: &'static str,
    /// `MIDR_EL1[31:24]`.
    pub implementer: u8,
    /// `MIDR_EL1[15:4]`, first and last.
    pub parts: (u16, u16),
    /// Variant (`MIDR_EL1[23:20]`) and revision (`MIDR_EL1[3:0]`) as one number of two hexadecimal
    /// digits, first and last: r1p2 is `0x12`.
    pub revisions: (u8, u8),
    /// The deviations.
    pub errata: Errata,
}

impl Row {
    /// Whether the row speaks of the CPU with this `MIDR_EL1`.
    #[must_use]
    pub const fn matches(&self, midr: u64) -> bool {
        let implementer = (midr >> 24 & 0xff) as u8;
        let part = (midr >> 4 & 0xfff) as u16;
        let revision = ((midr >> 20 & 0xf) << 4 | midr & 0xf) as u8;
        implementer == self.implementer
            && part >= self.parts.0
            && part <= self.parts.1
            && revision >= self.revisions.0
            && revision <= self.revisions.1
    }
}

/// What deviates on the CPU with this `MIDR_EL1`.
#[must_use]
pub const fn of(midr: u64) -> Errata {
    let mut errata = Errata::NONE;
    let mut i = 0;
    while i < TABLE.len() {
        if TABLE[i].matches(midr) {
            errata = errata.union(TABLE[i].errata);
        }
        i += 1;
    }
    errata
}

const ARM: u8 = 0x41;
const CAVIUM: u8 = 0x43;
const NVIDIA: u8 = 0x4e;
const QUALCOMM: u8 = 0x51;
const MICROSOFT: u8 = 0x6d;

const fn row(
    name: &'static str,
    implementer: u8,
    part: u16,
    revisions: (u8, u8),
    errata: Errata,
) -> Row {
    Row { name, implementer, parts: (part, part), revisions, errata }
}

/// A part of which all revisions count as affected.
const fn all(name: &'static str, implementer: u8, part: u16, errata: Errata) -> Row {
    row(name, implementer, part, (0x00, 0xff), errata)
}

/// Kryo is a family of parts 0x200 to 0x2ff that shares Falkor's errata.
const fn kryo(name: &'static str, errata: Errata) -> Row {
    Row { name, implementer: QUALCOMM, parts: (0x200, 0x2ff), revisions: (0x00, 0xff), errata }
}

/// Every known deviation that concerns this crate.
pub const TABLE: &[Row] = &[
    row("Cavium 27456, ThunderX T88", CAVIUM, 0x0a1, (0x00, 0x11), ICACHE_AFTER_LOAD),
    row("Cavium 27456, ThunderX T81", CAVIUM, 0x0a2, (0x00, 0x00), ICACHE_AFTER_LOAD),
    row("Falkor 1003", QUALCOMM, 0x800, (0x00, 0x00), TAG_AND_ROOT_APART),
    kryo("Falkor 1003, Kryo", TAG_AND_ROOT_APART),
    row("Falkor 1009", QUALCOMM, 0x800, (0x00, 0x00), REPEAT_BROADCAST),
    kryo("Falkor 1009, Kryo", REPEAT_BROADCAST),
    row("1286807, Cortex-A76", ARM, 0xd0b, (0x00, 0x30), REPEAT_BROADCAST),
    row("1286807, Kryo 4xx Gold", QUALCOMM, 0x804, (0xce, 0xfe), REPEAT_BROADCAST),
    all("2441007, Cortex-A55", ARM, 0xd05, REPEAT_BROADCAST),
    row("2441009, Cortex-A510", ARM, 0xd46, (0x00, 0x11), REPEAT_BROADCAST),
    // CVE-2025-10263. The mitigations published so far name parts and no revisions.
    all("4193800, Cortex-A76", ARM, 0xd0b, REPEAT_BROADCAST),
    all("4193801, Cortex-A76AE", ARM, 0xd0e, REPEAT_BROADCAST),
    all("CVE-2025-10263, Cortex-A77", ARM, 0xd0d, REPEAT_BROADCAST),
    all("CVE-2025-10263, Cortex-A78", ARM, 0xd41, REPEAT_BROADCAST),
    all("4193793, Cortex-A78AE", ARM, 0xd42, REPEAT_BROADCAST),
    all("4193794, Cortex-A78C", ARM, 0xd4b, REPEAT_BROADCAST),
    all("4193788, Cortex-A710", ARM, 0xd47, REPEAT_BROADCAST),
    all("4193791, Cortex-X1", ARM, 0xd44, REPEAT_BROADCAST),
    all("4193792, Cortex-X1C", ARM, 0xd4c, REPEAT_BROADCAST),
    all("4193788, Cortex-X2", ARM, 0xd48, REPEAT_BROADCAST),
    all("4193786, Cortex-X3", ARM, 0xd4e, REPEAT_BROADCAST),
    all("4118414, Cortex-X4", ARM, 0xd82, REPEAT_BROADCAST),
    all("4193781, Cortex-X925", ARM, 0xd85, REPEAT_BROADCAST),
    all("4193800, Neoverse-N1", ARM, 0xd0c, REPEAT_BROADCAST),
    all("4193789, Neoverse-N2", ARM, 0xd49, REPEAT_BROADCAST),
    all("4193790, Neoverse-V1", ARM, 0xd40, REPEAT_BROADCAST),
    all("4193787, Neoverse-V2", ARM, 0xd4f, REPEAT_BROADCAST),
    all("4193784, Neoverse-V3", ARM, 0xd84, REPEAT_BROADCAST),
    all("4193784, Neoverse-V3AE", ARM, 0xd83, REPEAT_BROADCAST),
    all("CVE-2025-10263, C1-Ultra", ARM, 0xd8c, REPEAT_BROADCAST),
    all("CVE-2025-10263, C1-Premium", ARM, 0xd90, REPEAT_BROADCAST),
    all("T410-OLY-1029, NVIDIA Olympus", NVIDIA, 0x010, REPEAT_BROADCAST),
    all("4193789, Microsoft Cobalt 100", MICROSOFT, 0xd49, REPEAT_BROADCAST),
    all("CnP, NVIDIA Carmel", NVIDIA, 0x004, NO_CNP),
];
