//! Tags of each CPU's own: `PerCpuAsids`.

use super::{flush::LAZY_GONE, tags::HALTED, *};

/// A page is unmapped while another CPU switches away and back.
pub(super) const VISIT: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(B), Run(A)]];

pub(super) const LAZY: &[&[Act]] = &[&[Unmap(A)], &[Run(A), Lazy, Run(A)]];

/// Two pages are unmapped, one after the other, while the CPU is lazy.
const LAZY_TWICE: &[&[Act]] = &[&[Unmap(A), UnmapOther(A)], &[Run(A), Lazy, Run(A)]];

const LAZY_TABLE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Lazy, Run(A), Run(B)]];

/// The CPU was lazy before a table is freed, and parks: for the next table it is not interrupted.
const LAZY_ONCE: &[&[Act]] = &[&[Await, FreeTable(A), Forgotten(A)], &[Run(A), Lazy, Tell]];

/// Two pages are unmapped one after the other while the CPU catches up with the first.
const LAZY_CATCHES_UP: &[&[Act]] =
    &[&[Await, Unmap(A), UnmapOther(A)], &[Run(A), Lazy, Tell, Run(A)]];

/// A page is unmapped while the CPU runs another space; then the CPU switches back.
pub(super) const CAME_BACK: &[&[Act]] = &[&[Await, Unmap(A)], &[Run(A), Run(B), Tell, Run(A)]];

/// Two initiators interrupt a lazy CPU.
const LAZY_SEVERAL: &[&[Act]] = &[&[FreeTable(A)], &[Unmap(A)], &[Run(A), Lazy, Run(A)]];

/// A lazy CPU calls firmware under another root, and is interrupted meanwhile.
const LAZY_FIRMWARE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Lazy, LongFirmware, Run(A)]];

/// A table is freed while another CPU leaves its space.
pub(super) const LEAVE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Run(B), Park]];

/// Two CPUs request flushes of one space from each other.
const CROSSFIRE: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), FreeTable(A)]];

const SLOTS: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(A), Firmware, Run(B), Restart, Run(A)]];

/// A space is retired that another CPU has left, which may hold walks of its tables.
const ENDED: &[&[Act]] = &[&[Await, End(A)], &[Run(A), Run(B), Tell]];

/// A CPU misses two flushes, each of a page.
const TWICE: &[&[Act]] =
    &[&[Run(B), Unmap(A), UnmapOther(A)], &[Run(A), Run(B), Run(A), Run(B), Run(A)]];

/// Two flushes of pages, one after the other; a CPU that missed only one may catch up by page.
pub(super) const NOTE: &[&[Act]] =
    &[&[Unmap(A), UnmapOther(A)], &[Run(A), Run(B), Run(A), Run(B), Run(A)]];

const PARKED: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Park, Run(B)]];

const FIRMWARE: &[&[Act]] = &[&[Run(B), Unmap(A), FreeTable(A)], &[Run(A), Firmware, Run(B)]];

const FLUSHED_AWAY: &[&[Act]] =
    &[&[Run(B), Unmap(A), Unmap(C)], &[Run(A), Run(B), Run(C), Run(A), Run(C)]];

/// A large page is unmapped while the CPU runs another space; it catches up by page on switch-in.
const LARGE: &[&[Act]] = &[&[UnmapLarge(A)], &[Run(A), Run(B), Run(A)]];

const CROWD: &[&[Act]] = &[
    &[Run(A), Unmap(B), Run(C), FreeTable(A)],
    &[Run(B), Run(A), Lazy, Run(A), Run(C)],
    &[Run(C), Run(B), Unmap(C), Run(A)],
];

/// A space ends while another CPU is lazy in it.
const END_LAZY: &[&[Act]] = &[&[End(A)], &[Run(A), Lazy]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_recency!("recent-slots", Pcid, SLOTS, Exhaust,
        "one CPU, three spaces, two slots, firmware and a restart"),
    by_recency!("recent-unmap", Pcid, VISIT, Exhaust,
        "a page is unmapped while another CPU switches away and back"),
    by_recency!("recent-unmap-no-invpcid", PcidOnly, VISIT, Exhaust,
        "as recent-unmap, without INVPCID"),
    by_recency!("recent-unmap-no-pcid", Plain, VISIT, Exhaust,
        "as recent-unmap, without PCIDs"),
    by_recency!("recent-unmap-riscv", RvInterrupts, VISIT, Exhaust,
        "as recent-unmap, on RISC-V, where each hart may number spaces by itself"),
    by_recency!("recent-lazy", Pcid, LAZY, Exhaust,
        "a page is unmapped while another CPU is lazy and then resumes"),
    by_recency!("recent-lazy-twice", Pcid, LAZY_TWICE, Exhaust,
        "two pages are unmapped while another CPU is lazy and then resumes"),
    by_recency!("recent-lazy-twice-riscv", RvInterrupts, LAZY_TWICE, Exhaust,
        "as recent-lazy-twice, on RISC-V"),
    by_recency!("recent-lazy-riscv", RvInterrupts, LAZY, Exhaust,
        "as recent-lazy, on RISC-V"),
    by_recency!("recent-lazy-table", Pcid, LAZY_TABLE, Exhaust,
        "a table is freed while another CPU is lazy"),
    by_recency!("recent-lazy-table-no-pcid", Plain, LAZY_TABLE, Exhaust,
        "as recent-lazy-table, without PCIDs"),
    by_recency!("recent-lazy-table-riscv", RvInterrupts, LAZY_TABLE, Exhaust,
        "as recent-lazy-table, on RISC-V"),
    by_recency!("recent-lazy-once", Pcid, LAZY_ONCE, Exhaust,
        "a table is freed while another CPU is lazy, which is interrupted once only"),
    by_recency!("recent-lazy-gone", Pcid, LAZY_GONE, Exhaust,
        "a table is freed after another CPU became lazy"),
    by_recency!("recent-lazy-pays", Pcid, LAZY_CATCHES_UP, Bounded(3),
        "two pages are unmapped while another CPU leaves lazy mode"),
    by_recency!("recent-came-back", Pcid, CAME_BACK, Exhaust,
        "a page is unmapped while another CPU runs another space and switches back"),
    by_recency!("recent-lazy-several", Pcid, LAZY_SEVERAL, Bounded(3),
        "two CPUs free a table and unmap a page while a third is lazy and then resumes"),
    by_recency!("recent-lazy-firmware", Pcid, LAZY_FIRMWARE, Exhaust,
        "a table is freed while another CPU is lazy and calls firmware, with interrupts on"),
    by_recency!("recent-leave", Pcid, LEAVE, Exhaust,
        "a table is freed while another CPU leaves the space"),
    by_recency!("recent-leave-riscv", RvInterrupts, LEAVE, Exhaust,
        "as recent-leave, on RISC-V"),
    by_recency!("recent-park", Pcid, PARKED, Exhaust,
        "a table is freed while another CPU parks"),
    by_recency!("recent-park-no-asid", RvPlain, PARKED, Exhaust,
        "as recent-park, on RISC-V without ASIDs"),
    by_recency!("recent-leave-no-asid", RvPlain, LEAVE, Exhaust,
        "as recent-leave, on RISC-V without ASIDs"),
    by_recency!("recent-ended-arm", ArmInterrupts, ENDED, Bounded(4),
        "a space is retired, with its tables, that another CPU has left, on Arm"),
    by_recency!("recent-firmware", Pcid, FIRMWARE, Exhaust,
        "a page is unmapped and a table freed while another CPU calls firmware"),
    by_recency!("recent-twice", Pcid, TWICE, Exhaust,
        "two pages are unmapped while another CPU switches away and back, twice"),
    by_recency!("recent-note-riscv", RvInterrupts, NOTE, Bounded(6),
        "two flushes of pages, each missed and caught up by page, on RISC-V"),
    by_recency!("recent-large-arm", ArmHints, LARGE, Bounded(4),
        "a large page is unmapped while a CPU with level hints runs another space and switches back"),
    by_recency!("recent-large", Pcid, LARGE, Bounded(4),
        "as recent-large-arm, on x86"),
    by_recency!("recent-unmap-arm", ArmInterrupts, VISIT, Bounded(4),
        "as recent-unmap, on Arm, where each CPU may number spaces by itself"),
    by_recency!("recent-lazy-arm", ArmInterrupts, LAZY, Bounded(4),
        "as recent-lazy, on Arm"),
    by_recency!("recent-firmware-no-pcid", Plain, FIRMWARE, Exhaust,
        "as recent-firmware, without PCIDs"),
    by_recency!("recent-halted", Pcid, HALTED, Exhaust,
        "a space is released that a CPU ran when it halted"),
    by_recency!("recent-end-lazy-arm", ArmInterrupts, END_LAZY, Bounded(2),
        "a space ends while a CPU is lazy in it, on Arm, where walks that it has cached outlive tags"),
    by_recency!("recent-crossfire", Pcid, CROSSFIRE, Exhaust,
        "two CPUs request flushes of one space from each other"),
    by_recency!("recent-away", Pcid, FLUSHED_AWAY, Exhaust,
        "pages are unmapped in spaces that have a slot on a CPU but do not run there"),
    by_recency!("recent-crowd", Pcid, CROWD, Random(20_000),
        "three CPUs, three spaces, everything at once"),
];
