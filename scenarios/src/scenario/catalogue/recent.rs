//! Tags of a CPU's own, by which spaces it ran recently.

use super::{flush::LAZY_GONE, tags::HALTED, *};

/// Another CPU comes and goes.
pub(super) const VISIT: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(B), Run(A)]];

pub(super) const LAZY: &[&[Act]] = &[&[Unmap(A)], &[Run(A), Lazy, Run(A)]];

/// Two pages go, one after the other.
const LAZY_TWICE: &[&[Act]] = &[&[Unmap(A), UnmapOther(A)], &[Run(A), Lazy, Run(A)]];

const LAZY_TABLE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Lazy, Run(A), Run(B)]];

/// The CPU was lazy before the table goes: it is not asked for the next one.
const LAZY_ONCE: &[&[Act]] = &[&[Await, FreeTable(A), Forgotten(A)], &[Run(A), Lazy, Tell]];

/// Two pages go one after the other while the CPU pays for the first.
const LAZY_PAYS: &[&[Act]] = &[&[Await, Unmap(A), UnmapOther(A)], &[Run(A), Lazy, Tell, Run(A)]];

/// A page goes while the CPU is in another space, and it comes back.
pub(super) const CAME_BACK: &[&[Act]] = &[&[Await, Unmap(A)], &[Run(A), Run(B), Tell, Run(A)]];

/// A lazy CPU is called by two.
const LAZY_SEVERAL: &[&[Act]] = &[&[FreeTable(A)], &[Unmap(A)], &[Run(A), Lazy, Run(A)]];

/// A lazy CPU lends its root register, and is called meanwhile.
const LAZY_LENT: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Lazy, LongFirmware, Run(A)]];

/// A table goes from under a CPU that is leaving it.
pub(super) const LEAVE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Run(B), Park]];

/// Two CPUs shoot at each other over one space.
const CROSSFIRE: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), FreeTable(A)]];

const SLOTS: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(A), Firmware, Run(B), Restart, Run(A)]];

/// Two flushes are missed, the second of a page.
const TWICE: &[&[Act]] =
    &[&[Run(B), Unmap(A), UnmapOther(A)], &[Run(A), Run(B), Run(A), Run(B), Run(A)]];

/// Two flushes of pages, one after the other, each of which may be paid by page.
pub(super) const NOTE: &[&[Act]] =
    &[&[Unmap(A), UnmapOther(A)], &[Run(A), Run(B), Run(A), Run(B), Run(A)]];

const PARKED: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Park, Run(B)]];

const LENT: &[&[Act]] = &[&[Run(B), Unmap(A), FreeTable(A)], &[Run(A), Firmware, Run(B)]];

const FLUSHED_AWAY: &[&[Act]] =
    &[&[Run(B), Unmap(A), Unmap(C)], &[Run(A), Run(B), Run(C), Run(A), Run(C)]];

/// A large page goes while the CPU is away, and pays by page when it comes back.
const LARGE: &[&[Act]] = &[&[UnmapLarge(A)], &[Run(A), Run(B), Run(A)]];

const CROWD: &[&[Act]] = &[
    &[Run(A), Unmap(B), Run(C), FreeTable(A)],
    &[Run(B), Run(A), Lazy, Run(A), Run(C)],
    &[Run(C), Run(B), Unmap(C), Run(A)],
];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_recency!("recent-slots", Pcid, SLOTS, Exhaust,
        "one CPU, three spaces, two slots, firmware and a restart"),
    by_recency!("recent-unmap", Pcid, VISIT, Exhaust,
        "a page goes while another CPU comes and goes"),
    by_recency!("recent-unmap-no-invpcid", PcidOnly, VISIT, Exhaust,
        "as recent-unmap, without INVPCID"),
    by_recency!("recent-unmap-no-pcid", Plain, VISIT, Exhaust,
        "as recent-unmap, without PCIDs"),
    by_recency!("recent-unmap-riscv", RvInterrupts, VISIT, Exhaust,
        "as recent-unmap, on RISC-V, where each hart may number spaces by itself"),
    by_recency!("recent-lazy", Pcid, LAZY, Exhaust,
        "a page goes while another CPU is lazy, and comes back"),
    by_recency!("recent-lazy-twice", Pcid, LAZY_TWICE, Exhaust,
        "two pages go while another CPU is lazy, and comes back"),
    by_recency!("recent-lazy-twice-riscv", RvInterrupts, LAZY_TWICE, Exhaust,
        "as recent-lazy-twice, on RISC-V"),
    by_recency!("recent-lazy-riscv", RvInterrupts, LAZY, Exhaust,
        "as recent-lazy, on RISC-V"),
    by_recency!("recent-lazy-table", Pcid, LAZY_TABLE, Exhaust,
        "a table goes while another CPU is lazy"),
    by_recency!("recent-lazy-table-no-pcid", Plain, LAZY_TABLE, Exhaust,
        "as recent-lazy-table, without PCIDs"),
    by_recency!("recent-lazy-table-riscv", RvInterrupts, LAZY_TABLE, Exhaust,
        "as recent-lazy-table, on RISC-V"),
    by_recency!("recent-lazy-once", Pcid, LAZY_ONCE, Exhaust,
        "a table goes while another CPU is lazy, which need not be asked again"),
    by_recency!("recent-lazy-gone", Pcid, LAZY_GONE, Exhaust,
        "a table goes when another CPU has become lazy"),
    by_recency!("recent-lazy-pays", Pcid, LAZY_PAYS, Bounded(3),
        "two pages go while another CPU ends being lazy"),
    by_recency!("recent-came-back", Pcid, CAME_BACK, Exhaust,
        "a page goes while another CPU is in another space, and it comes back"),
    by_recency!("recent-lazy-several", Pcid, LAZY_SEVERAL, Bounded(3),
        "a table and a page go by two CPUs while a third is lazy, and comes back"),
    by_recency!("recent-lazy-firmware", Pcid, LAZY_LENT, Exhaust,
        "a table goes while another CPU is lazy and calls firmware, with interrupts on"),
    by_recency!("recent-leave", Pcid, LEAVE, Exhaust,
        "a table goes while another CPU leaves the space"),
    by_recency!("recent-leave-riscv", RvInterrupts, LEAVE, Exhaust,
        "as recent-leave, on RISC-V"),
    by_recency!("recent-park", Pcid, PARKED, Exhaust,
        "a table goes while another CPU parks"),
    by_recency!("recent-firmware", Pcid, LENT, Exhaust,
        "a page and a table go while another CPU calls firmware"),
    by_recency!("recent-twice", Pcid, TWICE, Exhaust,
        "two pages go while another CPU comes and goes"),
    by_recency!("recent-note-riscv", RvInterrupts, NOTE, Bounded(6),
        "the notes of two flushes, each missed and paid by page, on RISC-V"),
    by_recency!("recent-large-arm", ArmHints, LARGE, Bounded(4),
        "a large page goes while a CPU with level hints is away, and comes back"),
    by_recency!("recent-large", Pcid, LARGE, Bounded(4),
        "as recent-large-arm, on x86"),
    by_recency!("recent-unmap-arm", ArmInterrupts, VISIT, Bounded(4),
        "as recent-unmap, on Arm, where each CPU may number spaces by itself"),
    by_recency!("recent-lazy-arm", ArmInterrupts, LAZY, Bounded(4),
        "as recent-lazy, on Arm"),
    by_recency!("recent-firmware-no-pcid", Plain, LENT, Exhaust,
        "as recent-firmware, without PCIDs"),
    by_recency!("recent-halted", Pcid, HALTED, Exhaust,
        "a space is released that a CPU ran when it stopped"),
    by_recency!("recent-crossfire", Pcid, CROSSFIRE, Exhaust,
        "two CPUs shoot at each other over one space"),
    by_recency!("recent-away", Pcid, FLUSHED_AWAY, Exhaust,
        "pages go in spaces that a CPU remembers and does not run"),
    by_recency!("recent-crowd", Pcid, CROWD, Random(20_000),
        "three CPUs, three spaces, everything at once"),
];
