//! NMIs that come at every step, and look at user memory where they may.

use super::{fresh::BOTH, recent::LAZY, shootdown::CROSSFIRE, *};

/// A page is unmapped while a CPU switches to its space, away and back.
const VISIT: &[&[Act]] = &[&[Unmap(A)], &[Run(A), Run(B), Run(A)]];

/// A page is unmapped while a CPU is lazy and then switches to another space.
const LAZY_AWAY: &[&[Act]] = &[&[Unmap(A)], &[Run(A), Lazy, Run(B)]];

/// A table is freed while a CPU is lazy.
const LAZY_TABLE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Lazy, Run(A)]];

/// Firmware has a root of its own.
const FIRMWARE: &[&[Act]] = &[&[Run(A), Firmware, Park]];

/// The same with interrupts on meanwhile, one of which is answered early.
const LONG_FIRMWARE: &[&[Act]] = &[&[UnmapEarly(A)], &[Run(A), LongFirmware]];

/// A page is unmapped, and the target acknowledges before it invalidates.
const EARLY: &[&[Act]] = &[&[UnmapEarly(A)], &[Run(A), Run(B)]];

/// The epoch turns, and the tag that A had is D's.
const REUSED: &[&[Act]] = &[&[Run(A), Run(B), Run(C), Run(D), Run(A)]];

/// The last epoch begins: one tag for all.
const LAST: &[&[Act]] = &[&[Run(A), Run(B), Run(A)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_recency!("nmi-recent", Nmis<Pcid>, VISIT, Bounded(3),
        "an NMI at every step, while a page is unmapped and another CPU switches away and back"),
    by_recency!("nmi-recent-no-pcid", Nmis<Plain>, VISIT, Bounded(3),
        "as nmi-recent, without PCIDs"),
    by_recency!("nmi-recent-lazy", Nmis<Pcid>, LAZY, Bounded(3),
        "as nmi-recent, while the CPU is lazy and resumes"),
    by_recency!("nmi-recent-lazy-away", Nmis<Pcid>, LAZY_AWAY, Bounded(3),
        "as nmi-recent, while the CPU is lazy and switches to another space"),
    by_recency!("nmi-recent-table", Nmis<Pcid>, LAZY_TABLE, Bounded(3),
        "as nmi-recent-lazy, and a table is freed"),
    by_recency!("nmi-recent-firmware", Nmis<Pcid>, FIRMWARE, Exhaust,
        "an NMI at every step of a call of firmware"),
    by_recency!("nmi-recent-long-firmware", Nmis<Pcid>, LONG_FIRMWARE, Bounded(3),
        "as nmi-recent-firmware, with interrupts on, and a page is unmapped"),
    by_recency!("nmi-recent-early", Nmis<Pcid>, EARLY, Bounded(3),
        "an NMI at every step, also between an early acknowledgement and the invalidation"),
    by_recency!("nmi-recent-crossfire", Nmis<Pcid>, CROSSFIRE, Bounded(2),
        "as nmi-recent, on two CPUs that request flushes from each other"),
    by_epoch!("nmi-x86", Nmis<Broadcast>, THREE_TAGS, VISIT, Bounded(3),
        "as nmi-recent, on x86 with INVLPGB"),
    by_epoch!("nmi-x86-lazy", Nmis<Broadcast>, THREE_TAGS, LAZY, Bounded(4),
        "as nmi-recent-lazy, on x86 with INVLPGB"),
    by_epoch!("nmi-x86-fresh", Nmis<BroadcastFresh>, few(33), BOTH, Bounded(3),
        "as nmi-x86, where a new tag is cheaper than a flush"),
    by_epoch!("nmi-x86-firmware", Nmis<Broadcast>, THREE_TAGS, FIRMWARE, Exhaust,
        "as nmi-recent-firmware, on x86 with INVLPGB"),
    by_epoch!("nmi-x86-reused", Nmis<Broadcast>, THREE_TAGS, REUSED, Exhaust,
        "an NMI at every step, during a rollover and a tag gets another space"),
    by_epoch!("nmi-x86-last", Nmis<Broadcast>, FOR_EVER, LAST, Exhaust,
        "an NMI at every step of switches in the last epoch"),
    by_epoch!("nmi-arm-lazy", Nmis<Arm>, THREE_TAGS, LAZY_AWAY, Bounded(4),
        "as nmi-recent-lazy-away, on Arm"),
    by_epoch!("nmi-riscv-lazy", Nmis<RvInterrupts>, THREE_TAGS, LAZY, Bounded(4),
        "as nmi-recent-lazy, on RISC-V with one tag a space"),
    by_epoch!("nmi-riscv-early", Nmis<RvInterrupts>, THREE_TAGS, EARLY, Bounded(3),
        "as nmi-recent-early, on RISC-V with one tag a space"),
];
