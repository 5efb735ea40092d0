//! Several gathers at one time, gathers that are given up, and batches.

use super::*;

/// One CPU unmaps a page; another relies on its absence.
pub(super) const RELIES: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Zap(A)]];

/// The same, when a table goes.
const RELIES_LATE: &[&[Act]] = &[&[Run(A), Abandon(A), UnmapOther(A)], &[Zap(A)]];

/// A gather is given up; the next flush is told of it by the page that it finds absent.
pub(super) const GIVEN_UP: &[&[Act]] = &[&[Run(A), Abandon(A)], &[Run(A), Zap(A)]];

/// A gather is given up while another one is flushed.
pub(super) const GIVEN_UP_LATE: &[&[Act]] = &[&[Run(A), Abandon(A)], &[UnmapOther(A), Zap(A)]];

/// The same for a CPU that was away.
const GIVEN_UP_AWAY: &[&[Act]] = &[&[Abandon(A), Zap(A)], &[Run(A), Run(B), Run(A)]];

const BATCH: &[&[Act]] = &[&[Run(A), Batch(A, B)], &[Run(A), Run(B), Run(A)]];

/// The thread that begins a batch moves.
const HANDED: &[&[Act]] = &[&[Run(A), Defer(A, B)], &[Run(A), Run(B), Complete]];

/// The thread that begins a batch moves to a CPU that it would have asked.
const HANDED_STAYS: &[&[Act]] = &[&[Run(B), Defer(A, B)], &[Run(A), Complete]];

/// `munmap` meets a batch that is not complete.
const BATCH_ZAP: &[&[Act]] = &[&[Run(A), Batch(A, B)], &[Run(A), Zap(A)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("relies-arm", Arm, THREE_TAGS, RELIES, Exhaust,
        "a CPU relies on the absence of what another one is still flushing"),
    by_epoch!("relies-riscv-interrupts", RvInterrupts, THREE_TAGS, RELIES, Bounded(4),
        "as relies-arm, on RISC-V with interrupts"),
    by_recency!("relies-recent", Pcid, RELIES, Bounded(4),
        "as relies-arm, on x86 with tags of each CPU's own"),
    by_epoch!("relies-late-arm", Arm, THREE_TAGS, RELIES_LATE, Exhaust,
        "a CPU relies on the absence of what another one has given up and flushed something else"),
    by_epoch!("given-up-arm", Arm, THREE_TAGS, GIVEN_UP, Exhaust,
        "a gather is given up, and the next one flushes what it left"),
    by_recency!("given-up-recent", Pcid, GIVEN_UP, Bounded(4),
        "as given-up-arm, on x86 with tags of each CPU's own"),
    by_epoch!("given-up-late-arm", Arm, THREE_TAGS, GIVEN_UP_LATE, Exhaust,
        "a gather is given up while another one is flushed, and a third one relies on it"),
    by_epoch!("given-up-away-arm", Arm, THREE_TAGS, GIVEN_UP_AWAY, Exhaust,
        "a gather is given up while another CPU comes and goes"),
    by_recency!("given-up-away-recent", Pcid, GIVEN_UP_AWAY, Bounded(4),
        "as given-up-away-arm, on x86 with tags of each CPU's own"),

    by_epoch!("batch-arm", Arm, THREE_TAGS, BATCH, Bounded(4),
        "pages of two spaces go at once while another CPU runs both"),
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
        "a batch is completed on a CPU that it would have asked"),
    by_epoch!("batch-zap-arm", Arm, THREE_TAGS, BATCH_ZAP, Bounded(4),
        "a CPU relies on the absence of what a batch has not flushed yet"),
    by_recency!("batch-zap-recent", Pcid, BATCH_ZAP, Bounded(4),
        "as batch-zap-arm, on x86 with tags of each CPU's own"),
];
