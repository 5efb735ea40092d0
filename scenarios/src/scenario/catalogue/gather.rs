//! Concurrent gathers, abandoned gathers, and batches.

use super::*;

/// One CPU unmaps a page; another relies on its absence.
pub(super) const RELIES: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Zap(A)]];

/// The same, when a table is freed.
const RELIES_LATE: &[&[Act]] = &[&[Run(A), Abandon(A), UnmapOther(A)], &[Zap(A)]];

/// A gather is abandoned; the next gather records the page that it finds absent, and flushes it.
pub(super) const GIVEN_UP: &[&[Act]] = &[&[Run(A), Abandon(A)], &[Run(A), Zap(A)]];

/// A gather is abandoned while another one is flushed.
pub(super) const GIVEN_UP_LATE: &[&[Act]] = &[&[Run(A), Abandon(A)], &[UnmapOther(A), Zap(A)]];

/// The same for a CPU that ran another space.
const GIVEN_UP_AWAY: &[&[Act]] = &[&[Abandon(A), Zap(A)], &[Run(A), Run(B), Run(A)]];

const BATCH: &[&[Act]] = &[&[Run(A), Batch(A, B)], &[Run(A), Run(B), Run(A)]];

/// The thread that begins a batch migrates.
const HANDED: &[&[Act]] = &[&[Run(A), Defer(A, B)], &[Run(A), Run(B), Complete]];

/// The thread that begins a batch migrates to a CPU that the batch would have interrupted.
const HANDED_STAYS: &[&[Act]] = &[&[Run(B), Defer(A, B)], &[Run(A), Complete]];

/// `munmap` meets a batch that is not complete.
const BATCH_ZAP: &[&[Act]] = &[&[Run(A), Batch(A, B)], &[Run(A), Zap(A)]];

/// A page is unmapped with early acknowledgement, and the same CPU relies on its absence before the target
/// has invalidated.
const EARLY_GONE: &[&[Act]] = &[&[UnmapEarly(A), FindGone(A)], &[Run(A), Read]];

/// The same, and another CPU relies on it.
const EARLY_GONE_ELSEWHERE: &[&[Act]] =
    &[&[UnmapEarly(A), Tell], &[Await, FindGone(A)], &[Run(A), Read]];

/// `munmap` finds all its pages unmapped, one of them with early acknowledgement.
const EARLY_ZAP: &[&[Act]] = &[&[UnmapOther(A), UnmapEarly(A), Zap(A)], &[Run(A), Write]];

/// The same in a batch.
const EARLY_ZAP_IN_BATCH: &[&[Act]] =
    &[&[UnmapOther(A), UnmapEarly(A), ZapInBatch(A)], &[Run(A), Write]];

/// Both CPUs rely on absent pages, and one of them requests early acknowledgement of the other.
const EARLY_ZAP_BOTH: &[&[Act]] = &[&[Run(A), UnmapEarly(A), Zap(A)], &[Run(A), Zap(A)]];

/// A page is unmapped with early acknowledgement, then another with a separate flush; then a CPU relies on
/// the absence of both.
const EARLY_THEN_OTHER: &[&[Act]] =
    &[&[UnmapEarly(A), UnmapOther(A), FindGone(A)], &[Run(A), Write]];

/// A page is unmapped with early acknowledgement, then its table freed.
const EARLY_TABLE: &[&[Act]] = &[&[UnmapEarly(A), FreeTableEarly(A)], &[Run(A), Write]];

/// A page is unmapped with early acknowledgement while the target is about to be lazy, and comes back.
const EARLY_LAZY: &[&[Act]] = &[&[UnmapEarly(A), FindGone(A)], &[Run(A), Lazy, Run(A), Read]];

/// A page is unmapped with early acknowledgement while the target leaves, and comes back.
const EARLY_AWAY: &[&[Act]] = &[&[UnmapEarly(A), FindGone(A)], &[Run(A), Run(B), Run(A)]];

/// An early gather relies, and is not early for those that rely on it.
const EARLY_TWICE: &[&[Act]] =
    &[&[UnmapEarly(A), FindGone(A), FindGone(A)], &[Run(A), UnmapOther(A), Read]];

/// Two CPUs rely on a page that was unmapped with early acknowledgement, and one of them on the other.
const EARLY_TWO_RELY: &[&[Act]] =
    &[&[UnmapEarly(A), Tell, FindGone(A)], &[Await, FindGone(A)], &[Run(A), Read]];

/// A gather is abandoned while the pages of another abandoned gather are flushed.
const GIVEN_UP_TWICE: &[&[Act]] =
    &[&[Run(A), Abandon(A), FlushAll(A)], &[Run(A), AbandonOther(A), Zap(A)]];

/// A page is unmapped while a CPU flushes for a batch.
const BATCH_LATER: &[&[Act]] = &[&[Batch(A, B)], &[UnmapOther(A)], &[Run(A)]];

/// A page is unmapped in a batch that is complete, and an NMI may look again.
const BATCH_VISIBLE: &[&[Act]] = &[&[Batch(A, B), Tell], &[Run(A), Await, Visible(A)]];

/// A gather is open while its CPU is interrupted for a flush of the same space.
const OPENLY: &[&[Act]] = &[&[Run(A), UnmapOpenly(A)], &[Run(A), UnmapOther(A), Write]];

/// A gather is flushed on another CPU than it was opened on, and the first leaves the space.
const CARRIED: &[&[Act]] = &[&[Run(A), Carry(A), Run(B)], &[Run(A), Complete, Write]];

/// The same by a CPU that runs another space, while a third runs this one.
const CARRIED_AWAY: &[&[Act]] = &[&[Run(A), Carry(A)], &[Complete], &[Run(A), Run(B), Run(A)]];

/// A CPU relies on the absence of a page that another one is still flushing, and has nothing else to flush.
const RELIED_ALONE: &[&[Act]] = &[&[Unmap(A)], &[FindGone(A)], &[Run(A), Read]];

/// A CPU relies on the absence of a page whose flush is in a batch that is not flushed yet.
const BATCH_RELIED: &[&[Act]] = &[&[Batch(A, B)], &[FindGone(A)], &[Run(A), Read]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("batch-relied-arm-interrupts", ArmInterrupts, few(4), BATCH_RELIED, Bounded(1),
        "a CPU relies on the absence of a page whose flush was put into a batch"),
    by_epoch!("relied-alone-arm", Arm, few(4), RELIED_ALONE, Bounded(3),
        "a CPU that maps at an address flushes what another one is still flushing there"),
    by_recency!("relied-alone-recent", Pcid, RELIED_ALONE, Bounded(3),
        "as relied-alone-arm, on x86 with tags of each CPU's own"),
    by_epoch!("relies-arm", Arm, THREE_TAGS, RELIES, Exhaust,
        "a CPU relies on the absence of a page that another one is still flushing"),
    by_epoch!("relies-riscv-interrupts", RvInterrupts, THREE_TAGS, RELIES, Bounded(4),
        "as relies-arm, on RISC-V with interrupts"),
    by_recency!("relies-recent", Pcid, RELIES, Bounded(4),
        "as relies-arm, on x86 with tags of each CPU's own"),
    by_epoch!("relies-late-arm", Arm, THREE_TAGS, RELIES_LATE, Exhaust,
        "a CPU relies on the absence of a page of an abandoned gather, after a flush of other pages"),
    by_epoch!("given-up-arm", Arm, THREE_TAGS, GIVEN_UP, Exhaust,
        "a gather is abandoned, and the next one flushes its pages"),
    by_recency!("given-up-recent", Pcid, GIVEN_UP, Bounded(4),
        "as given-up-arm, on x86 with tags of each CPU's own"),
    by_epoch!("given-up-late-arm", Arm, THREE_TAGS, GIVEN_UP_LATE, Exhaust,
        "a gather is abandoned while another one is flushed, and a third one relies on it"),
    by_epoch!("given-up-away-arm", Arm, THREE_TAGS, GIVEN_UP_AWAY, Exhaust,
        "a gather is abandoned while another CPU switches away and back"),
    by_recency!("given-up-away-recent", Pcid, GIVEN_UP_AWAY, Bounded(4),
        "as given-up-away-arm, on x86 with tags of each CPU's own"),

    by_recency!("openly-recent", Pcid, OPENLY, Bounded(4),
        "a CPU is interrupted while it gathers"),
    by_epoch!("openly-riscv-interrupts", RvInterrupts, THREE_TAGS, OPENLY, Bounded(4),
        "as openly-recent, on RISC-V with one tag a space"),
    by_recency!("carried-recent", Pcid, CARRIED, Bounded(4),
        "a gather is flushed on another CPU"),
    by_epoch!("carried-arm", Arm, THREE_TAGS, CARRIED, Exhaust,
        "as carried-recent, on Arm"),
    by_epoch!("carried-riscv-interrupts", RvInterrupts, THREE_TAGS, CARRIED, Bounded(4),
        "as carried-recent, on RISC-V with one tag a space"),
    by_recency!("carried-away-recent", Pcid, CARRIED_AWAY, Bounded(2),
        "a gather is flushed on another CPU, and a third switches away and back"),
    by_epoch!("carried-away-riscv-interrupts", RvInterrupts, few(4), CARRIED_AWAY, Bounded(2),
        "as carried-away-recent, on RISC-V with one tag a space"),

    by_epoch!("batch-arm", Arm, THREE_TAGS, BATCH, Bounded(4),
        "pages of two spaces are unmapped in one batch while another CPU runs both"),
    by_epoch!("batch-arm-cnp", ArmShared, THREE_TAGS, BATCH, Bounded(4),
        "as batch-arm, with shared TLBs"),
    by_epoch!("batch-x86", Broadcast, THREE_TAGS, BATCH, Bounded(4),
        "as batch-arm, on x86 with INVLPGB"),
    by_recency!("batch-recent", Pcid, BATCH, Bounded(4),
        "as batch-arm, on x86 with tags of each CPU's own"),
    by_epoch!("batch-riscv-interrupts", RvInterrupts, THREE_TAGS, BATCH, Bounded(4),
        "as batch-arm, on RISC-V with interrupts"),
    by_epoch!("batch-handed-arm", Arm, THREE_TAGS, HANDED, Exhaust,
        "a batch is completed on another CPU than it was begun on"),
    by_epoch!("batch-handed-x86", Broadcast, THREE_TAGS, HANDED, Exhaust,
        "as batch-handed-arm, on x86 with INVLPGB"),
    by_recency!("batch-handed-recent", Pcid, HANDED, Bounded(4),
        "as batch-handed-arm, on x86 with tags of each CPU's own"),
    by_recency!("batch-handed-stays-recent", Pcid, HANDED_STAYS, Bounded(4),
        "a batch is completed on a CPU that it would have interrupted"),
    by_epoch!("batch-zap-arm", Arm, THREE_TAGS, BATCH_ZAP, Bounded(4),
        "a CPU relies on the absence of a page that a batch has not flushed yet"),
    by_recency!("batch-zap-recent", Pcid, BATCH_ZAP, Bounded(4),
        "as batch-zap-arm, on x86 with tags of each CPU's own"),

    by_recency!("early-gone-recent", Pcid, EARLY_GONE, Exhaust,
        "a CPU relies on the absence of a page after early acknowledgement, before the target invalidates"),
    by_recency!("early-gone-no-pcid", Plain, EARLY_GONE, Exhaust,
        "as early-gone-recent, on x86 without PCIDs"),
    by_epoch!("early-gone-arm-interrupts", ArmInterrupts, THREE_TAGS, EARLY_GONE, Exhaust,
        "as early-gone-recent, on Arm where an interrupt is cheap"),
    by_recency!("early-gone-arm-recent", ArmInterrupts, EARLY_GONE, Exhaust,
        "as early-gone-recent, on Arm with tags of each CPU's own"),
    by_epoch!("early-gone-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY_GONE, Exhaust,
        "as early-gone-recent, on RISC-V with interrupts"),
    by_epoch!("early-gone-riscv-both", RvBoth, THREE_TAGS, EARLY_GONE, Exhaust,
        "as early-gone-recent, on RISC-V where one interrupt is cheaper than a broadcast"),
    by_recency!("early-gone-riscv-recent", RvInterrupts, EARLY_GONE, Exhaust,
        "as early-gone-recent, on RISC-V with tags of each hart's own"),
    by_epoch!("early-gone-x86-interrupts", Pcid, THREE_TAGS, EARLY_GONE, Exhaust,
        "as early-gone-recent, on x86 with one tag a space, and interrupts"),
    by_recency!("early-gone-elsewhere-recent", Pcid, EARLY_GONE_ELSEWHERE, Bounded(3),
        "as early-gone-recent, by another CPU than the one that unmapped the page"),
    by_epoch!("early-gone-elsewhere-riscv-interrupts", RvInterrupts, few(4), EARLY_GONE_ELSEWHERE, Bounded(3),
        "as early-gone-elsewhere-recent, on RISC-V with interrupts"),
    by_recency!("early-zap-recent", Pcid, EARLY_ZAP, Bounded(4),
        "munmap finds all its pages unmapped, one of them with early acknowledgement"),
    by_recency!("early-zap-no-pcid", Plain, EARLY_ZAP, Bounded(4),
        "as early-zap-recent, on x86 without PCIDs"),
    by_epoch!("early-zap-arm-interrupts", ArmInterrupts, THREE_TAGS, EARLY_ZAP, Bounded(4),
        "as early-zap-recent, on Arm where an interrupt is cheap"),
    by_recency!("early-zap-arm-recent", ArmInterrupts, EARLY_ZAP, Bounded(4),
        "as early-zap-recent, on Arm with tags of each CPU's own"),
    by_epoch!("early-zap-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY_ZAP, Bounded(4),
        "as early-zap-recent, on RISC-V with interrupts"),
    by_epoch!("early-zap-riscv-both", RvBoth, THREE_TAGS, EARLY_ZAP, Bounded(4),
        "as early-zap-recent, on RISC-V where one interrupt is cheaper than a broadcast"),
    by_recency!("early-zap-riscv-recent", RvInterrupts, EARLY_ZAP, Bounded(4),
        "as early-zap-recent, on RISC-V with tags of each hart's own"),
    by_epoch!("early-zap-x86-interrupts", Pcid, THREE_TAGS, EARLY_ZAP, Bounded(4),
        "as early-zap-recent, on x86 with one tag a space, and interrupts"),
    by_recency!("early-zap-batch-recent", Pcid, EARLY_ZAP_IN_BATCH, Bounded(4),
        "as early-zap-recent, in a batch"),
    by_epoch!("early-zap-batch-arm-interrupts", ArmInterrupts, THREE_TAGS, EARLY_ZAP_IN_BATCH, Bounded(4),
        "as early-zap-batch-recent, on Arm where an interrupt is cheap"),
    by_epoch!("early-zap-batch-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY_ZAP_IN_BATCH, Bounded(4),
        "as early-zap-batch-recent, on RISC-V with interrupts"),
    by_recency!("early-zap-both-recent", Pcid, EARLY_ZAP_BOTH, Bounded(3),
        "two CPUs unmap the same pages, one of them early"),
    by_epoch!("early-zap-both-arm-interrupts", ArmInterrupts, THREE_TAGS, EARLY_ZAP_BOTH, Bounded(3),
        "as early-zap-both-recent, on Arm where an interrupt is cheap"),
    by_epoch!("early-zap-both-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY_ZAP_BOTH, Bounded(3),
        "as early-zap-both-recent, on RISC-V with interrupts"),
    by_recency!("early-other-recent", Pcid, EARLY_THEN_OTHER, Bounded(4),
        "a page is unmapped with early acknowledgement, another one not, and a CPU relies on the first"),
    by_epoch!("early-other-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY_THEN_OTHER, Bounded(4),
        "as early-other-recent, on RISC-V with interrupts"),
    by_recency!("early-table-recent", Pcid, EARLY_TABLE, Bounded(4),
        "a page is unmapped with early acknowledgement, then its table freed"),
    by_recency!("early-table-no-pcid", Plain, EARLY_TABLE, Bounded(4),
        "as early-table-recent, on x86 without PCIDs"),
    by_epoch!("early-table-arm-interrupts", ArmInterrupts, THREE_TAGS, EARLY_TABLE, Bounded(4),
        "as early-table-recent, on Arm where an interrupt is cheap"),
    by_recency!("early-table-arm-recent", ArmInterrupts, EARLY_TABLE, Bounded(4),
        "as early-table-recent, on Arm with tags of each CPU's own"),
    by_epoch!("early-table-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY_TABLE, Bounded(4),
        "as early-table-recent, on RISC-V with interrupts"),
    by_epoch!("early-table-riscv-both", RvBoth, THREE_TAGS, EARLY_TABLE, Bounded(4),
        "as early-table-recent, on RISC-V where one interrupt is cheaper than a broadcast"),
    by_recency!("early-table-riscv-recent", RvInterrupts, EARLY_TABLE, Bounded(4),
        "as early-table-recent, on RISC-V with tags of each hart's own"),
    by_epoch!("early-table-x86-interrupts", Pcid, THREE_TAGS, EARLY_TABLE, Bounded(4),
        "as early-table-recent, on x86 with one tag a space, and interrupts"),
    by_recency!("early-lazy-recent", Pcid, EARLY_LAZY, Bounded(4),
        "after early acknowledgement the target becomes lazy, and a CPU relies on the page's absence"),
    by_epoch!("early-lazy-arm-interrupts", ArmInterrupts, THREE_TAGS, EARLY_LAZY, Bounded(4),
        "as early-lazy-recent, on Arm where an interrupt is cheap"),
    by_epoch!("early-lazy-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY_LAZY, Bounded(4),
        "as early-lazy-recent, on RISC-V with interrupts"),
    by_recency!("early-away-recent", Pcid, EARLY_AWAY, Bounded(4),
        "after early acknowledgement the target switches away and back, and a CPU relies on the absence"),
    by_epoch!("early-away-arm-interrupts", ArmInterrupts, THREE_TAGS, EARLY_AWAY, Bounded(4),
        "as early-away-recent, on Arm where an interrupt is cheap"),
    by_epoch!("early-away-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY_AWAY, Bounded(4),
        "as early-away-recent, on RISC-V with interrupts"),
    by_recency!("early-twice-recent", Pcid, EARLY_TWICE, Bounded(3),
        "a CPU relies twice on a page that was unmapped with early acknowledgement"),
    by_epoch!("early-twice-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY_TWICE, Bounded(3),
        "as early-twice-recent, on RISC-V with interrupts"),
    by_recency!("batch-visible-recent", Pcid, BATCH_VISIBLE, Exhaust,
        "when a batch is complete, an NMI may look at user memory again"),
    by_epoch!("batch-visible-riscv-interrupts", RvInterrupts, THREE_TAGS, BATCH_VISIBLE, Exhaust,
        "as batch-visible-recent, on RISC-V with interrupts"),
    by_recency!("batch-later-recent", Pcid, BATCH_LATER, Bounded(3),
        "a page is unmapped while another CPU flushes for a batch"),
    by_recency!("early-two-rely-recent", Pcid, EARLY_TWO_RELY, Bounded(3),
        "two CPUs rely on the absence of a page after early acknowledgement, before the target invalidates"),
    by_epoch!("given-up-twice-riscv-interrupts", RvInterrupts, THREE_TAGS, GIVEN_UP_TWICE, Bounded(3),
        "a gather is abandoned while the pages of another abandoned gather are flushed"),
    by_recency!("given-up-twice-recent", Pcid, GIVEN_UP_TWICE, Bounded(3),
        "as given-up-twice-riscv-interrupts, on x86 with tags of each CPU's own"),
];
