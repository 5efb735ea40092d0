//! Scenarios of other topics on machines whose loads may be satisfied early, where a missing `Acquire`
//! shows.

use super::{
    flush::{BACK, LAZY, LEFT, STRANGER, TABLE, THIRD},
    fresh, gather,
    recent::{CAME_BACK, LAZY as RECENT_LAZY, LEAVE, NOTE, VISIT},
    shootdown::{
        self, CROSSFIRE, KERNEL_DESCRIBED, KERNEL_THREE, KERNEL_UP, KERNEL_WRITTEN, MERGED,
        REQUESTED_TWICE,
    },
    tags::{ENDED, MEET, RELEASE, ROLLOVER, UNMAP, WINDOW},
    *,
};

/// The kernel writes out a page to which user code has stored, after unmapping it.
const SWAPPED: &[&[Act]] = &[&[SwapOut(A)], &[Run(A), Write]];

/// Another flush of the space is under way, so that the request is described.
const SWAPPED_BESIDE: &[&[Act]] = &[&[SwapOut(A)], &[Run(A), Write], &[UnmapOther(A)]];

/// The same while the CPU that has written leaves the space.
const SWAPPED_BESIDE_LEFT: &[&[Act]] = &[&[SwapOut(A)], &[Run(A), Write, Run(B)], &[UnmapOther(A)]];

/// The same while the CPU leaves the space.
const SWAPPED_LEFT: &[&[Act]] = &[&[SwapOut(A)], &[Run(A), Write, Run(B)]];

/// CPU 1 runs A when it begins the last epoch. Found by generated programs: CPU 0 read what CPU 1 runs before the rollover,
/// and the epoch after it, so that it looked for the tag of the last epoch in a register of the epoch before.
const RELEASED_IN_LAST_EPOCH: &[&[Act]] = &[&[End(A)], &[Run(B), Run(D), Run(A), Run(C)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("rollover-arm-early", Early<Arm>, THREE_TAGS, ROLLOVER, Bounded(3),
        "as rollover-arm, with early loads"),
    by_epoch!("rollover-riscv-early", Early<Rv>, THREE_TAGS, ROLLOVER, Bounded(3),
        "as rollover-riscv, with early loads"),
    by_epoch!("meet-arm-early", Early<Arm>, THREE_TAGS, MEET, Bounded(3),
        "as meet-arm, with early loads"),
    by_epoch!("meet-riscv-early", Early<Rv>, THREE_TAGS, MEET, Bounded(3),
        "as meet-riscv, with early loads"),
    by_epoch!("window-riscv-early", Early<Rv>, THREE_TAGS, WINDOW, Bounded(3),
        "as window-arm, on RISC-V with early loads"),
    by_epoch!("ended-riscv-early", Early<Rv>, THREE_TAGS, ENDED, Bounded(3),
        "as ended-riscv, with early loads"),
    by_epoch!("unmap-arm-early", Early<Arm>, THREE_TAGS, UNMAP, Bounded(3),
        "as unmap-arm, with early loads"),
    by_epoch!("unmap-riscv-early", Early<Rv>, THREE_TAGS, UNMAP, Bounded(3),
        "as unmap-riscv, with early loads"),
    by_epoch!("release-arm-early", Early<Arm>, THREE_TAGS, RELEASE, Bounded(3),
        "as release-arm, with early loads"),

    by_recency!("recent-unmap-riscv-early", Early<RvInterrupts>, VISIT, Bounded(3),
        "as recent-unmap-riscv, with early loads"),
    by_recency!("recent-lazy-riscv-early", Early<RvInterrupts>, RECENT_LAZY, Bounded(3),
        "as recent-lazy-riscv, with early loads"),
    by_recency!("recent-leave-riscv-early", Early<RvInterrupts>, LEAVE, Bounded(3),
        "as recent-leave-riscv, with early loads"),
    by_recency!("recent-note-riscv-early", Early<RvInterrupts>, NOTE, Bounded(4),
        "as recent-note-riscv, with early loads"),

    by_recency!("recent-came-back-riscv-early", Early<RvInterrupts>, CAME_BACK, Bounded(4),
        "a page is unmapped while a CPU switches back to the space, on RISC-V with early loads"),

    by_epoch!("flush-back-arm-early", Early<Arm>, THREE_TAGS, BACK, Bounded(3),
        "as flush-back-arm, with early loads"),
    by_epoch!("flush-back-riscv-early", Early<Rv>, THREE_TAGS, BACK, Bounded(3),
        "as flush-back-riscv, with early loads"),
    by_epoch!("flush-stranger-riscv-early", Early<Rv>, THREE_TAGS, STRANGER, Bounded(3),
        "as flush-stranger-riscv, with early loads"),
    by_epoch!("flush-table-arm-early", Early<Arm>, THREE_TAGS, TABLE, Bounded(3),
        "as flush-table-arm, with early loads"),
    by_epoch!("flush-lazy-riscv-early", Early<Rv>, THREE_TAGS, LAZY, Bounded(3),
        "as flush-lazy-riscv, with early loads"),
    by_epoch!("flush-left-riscv-early", Early<RvInterrupts>, THREE_TAGS, LEFT, Bounded(3),
        "as flush-left-riscv-interrupts, with early loads"),
    by_epoch!("flush-third-arm-early", Early<Arm>, few(4), THIRD, Bounded(2),
        "as flush-third-arm, with early loads"),
    by_epoch!("fresh-both-riscv-early", Early<RvFresh>, few(33), fresh::BOTH, Bounded(3),
        "as fresh-both-riscv, with early loads"),
    by_epoch!("fresh-back-arm-early", Early<ArmFresh>, few(33), fresh::BACK, Bounded(3),
        "as fresh-back-arm, with early loads"),
    by_epoch!("fresh-former-riscv-early", Early<RvFresh>, few(33), fresh::FORMER, Bounded(3),
        "as fresh-former-riscv, with early loads"),
    by_epoch!("fresh-table-riscv-early", Early<RvFresh>, few(33), fresh::TABLE, Bounded(2),
        "as fresh-table-riscv, with early loads"),

    by_epoch!("crossfire-riscv-early", Early<RvInterrupts>, THREE_TAGS, CROSSFIRE, Bounded(3),
        "as crossfire-riscv-interrupts, with early loads"),
    by_epoch!("merged-riscv-interrupts-early", Early<RvInterrupts>, few(4), MERGED, Bounded(3),
        "as merged-riscv-interrupts, with early loads"),
    by_recency!("merged-riscv-early", Early<RvInterrupts>, MERGED, Bounded(3),
        "as merged-riscv, with early loads"),
    by_recency!("called-left-riscv-early", Early<RvInterrupts>, shootdown::LEFT, Random(20_000),
        "as called-left-riscv, with early loads"),
    by_epoch!("asked-twice-riscv-early", Early<RvInterrupts>, THREE_TAGS, REQUESTED_TWICE, Bounded(4),
        "a CPU gets requests for two pages, one after the other, with early loads"),
    by_epoch!("kernel-up-riscv-early", Early<RvInterrupts>, THREE_TAGS, KERNEL_UP, Bounded(4),
        "as kernel-up-riscv-interrupts, with early loads"),
    by_epoch!("kernel-written-riscv-early", Early<RvInterrupts>, THREE_TAGS, KERNEL_WRITTEN, Bounded(4),
        "as kernel-written-recent, on RISC-V with early loads"),
    by_epoch!("kernel-three-riscv-early", Early<RvInterrupts>, few(4), KERNEL_THREE, Random(10_000),
        "as kernel-three-recent, on RISC-V with early loads"),
    by_epoch!("kernel-described-riscv-early", Early<RvInterrupts>, few(4), KERNEL_DESCRIBED, Random(20_000),
        "as kernel-described-recent, on RISC-V with early loads"),
    by_epoch!("swapped-arm-early", Early<Arm>, THREE_TAGS, SWAPPED, Bounded(4),
        "a page is written out after its flush is complete, with early loads"),
    by_epoch!("swapped-riscv-early", Early<RvInterrupts>, THREE_TAGS, SWAPPED, Bounded(4),
        "as swapped-arm-early, on RISC-V with interrupts"),
    by_epoch!("swapped-beside-riscv-early", Early<RvInterrupts>, few(4), SWAPPED_BESIDE, Bounded(3),
        "as swapped-riscv-early, while another page of the space is unmapped"),
    by_recency!("swapped-recent-early", Early<RvInterrupts>, SWAPPED, Bounded(4),
        "as swapped-arm-early, on RISC-V with tags of each CPU's own"),
    by_recency!("swapped-beside-recent-early", Early<RvInterrupts>, SWAPPED_BESIDE, Random(200_000),
        "as swapped-beside-riscv-early, with tags of each CPU's own"),
    by_recency!("swapped-beside-left-early", Early<RvInterrupts>, SWAPPED_BESIDE_LEFT, Random(200_000),
        "as swapped-beside-recent-early, while the CPU leaves the space"),
    by_recency!("swapped-left-early", Early<RvInterrupts>, SWAPPED_LEFT, Bounded(4),
        "as swapped-recent-early, while the CPU leaves the space"),

    by_epoch!("relies-arm-early", Early<Arm>, THREE_TAGS, gather::RELIES, Bounded(3),
        "as relies-arm, with early loads"),
    by_epoch!("relies-riscv-early", Early<Rv>, THREE_TAGS, gather::RELIES, Bounded(4),
        "as relies-arm-early, on RISC-V"),
    by_epoch!("given-up-arm-early", Early<Arm>, THREE_TAGS, gather::GIVEN_UP, Bounded(4),
        "as given-up-arm, with early loads"),
    by_epoch!("given-up-late-arm-early", Early<Arm>, THREE_TAGS, gather::GIVEN_UP_LATE, Bounded(4),
        "as given-up-late-arm, with early loads"),
    by_epoch!("released-as-last-epoch-begins-early", Early<ArmInterrupts>, SHORT, RELEASED_IN_LAST_EPOCH, Bounded(3),
        "a space is released while a CPU that runs it begins the last epoch, with early loads"),
];
