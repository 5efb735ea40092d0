//! Flush requests between CPUs, and kernel addresses.

use super::*;

/// Two CPUs request flushes of one space from each other.
pub(super) const CROSSFIRE: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), UnmapOther(A)]];

/// Three CPUs do.
const THREE: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), UnmapOther(A)], &[Run(A), FreeTable(A)]];

/// Two CPUs request flushes of one space from a third.
pub(super) const MERGED: &[&[Act]] = &[&[Unmap(A)], &[UnmapOther(A)], &[Run(A)]];

/// As `MERGED`, and the third has just initiated a flush of the space itself, so that its generation is
/// behind by more than either request covers.
const MERGED_OWN: &[&[Act]] = &[&[Unmap(A)], &[UnmapOther(A)], &[Run(A), ProtectBoth(A), Write]];

/// A CPU requests a flush from one that leaves the space, and then another in the next space. One is early and one of two
/// pages, so that the requests are described: one page, a target is told.
pub(super) const LEFT: &[&[Act]] = &[&[UnmapEarly(A), Zap(B)], &[Run(A), Run(B)]];

/// A CPU has caught up in one space, and then is behind by as much in the next.
const BEHIND_IN_NEXT: &[&[Act]] = &[&[Unmap(B), FreeTable(A)], &[Run(B), Run(A)]];

/// A CPU is interrupted for a flush that it has caught up with on switch-in, and then for another.
pub(super) const REQUESTED_TWICE: &[&[Act]] = &[&[Unmap(A), UnmapOther(A)], &[Run(A)]];

/// A CPU is interrupted while it goes offline and comes online.
const REQUESTED_RESTART: &[&[Act]] = &[&[Unmap(A), UnmapOther(A)], &[Run(A), Restart, Run(A)]];

/// A table is freed while a CPU goes offline for good.
const GONE: &[&[Act]] = &[&[Unmap(A), FreeTable(A)], &[Run(A), Down]];

/// Two CPUs request flushes of two spaces from a third.
const TWO_SPACES: &[&[Act]] = &[&[Unmap(A)], &[Unmap(B)], &[Run(A), Run(B)]];

/// The target is in user mode before and after its acknowledgement.
const EARLY: &[&[Act]] = &[&[UnmapEarly(A)], &[Run(A), Read, Write, Read]];

/// One CPU requests early acknowledgement and another does not.
const MIXED: &[&[Act]] = &[&[UnmapEarly(A)], &[UnmapOther(A)], &[Run(A), Write]];

/// Stores of user code are under way when its CPU is interrupted.
pub(super) const USER: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Write]];

/// The same, initiated by a CPU that does not run the space.
const USER_OF_OTHERS: &[&[Act]] = &[&[Unmap(A)], &[Run(A), Write]];

/// One CPU holds a lock while it flushes that another one spins for, with interrupts off.
const MOVED: &[&[Act]] = &[&[Run(A), Move(A)], &[Run(A), UnmapMoved(A)]];

/// A table moves with the page in it, which is unmapped at its new address.
const MOVED_TABLE: &[&[Act]] =
    &[&[Run(A), MoveTable(A), UnmapInMovedTable(A)], &[Run(A), Look(A), Look(A), Look(A)]];

const KERNEL: &[&[Act]] = &[&[Run(A), UnmapKernel], &[Run(A), Run(B)]];

/// The same, begun with interrupts on.
const KERNEL_OPENLY: &[&[Act]] = &[&[Run(A), UnmapKernelOpenly], &[Run(A), UnmapOther(A)]];

pub(super) const KERNEL_UP: &[&[Act]] = &[&[FlushKernel, Await, ClaimKernel], &[Up, Tell]];

const KERNEL_LAZY: &[&[Act]] = &[&[UnmapKernel], &[Run(A), Lazy, Park]];

const KERNEL_DOWN: &[&[Act]] = &[&[FlushKernel, Await, ClaimKernel], &[Run(A), Restart, Tell]];

/// Several pages of the kernel's are unmapped in one request, which does not fit a slot of the ring.
const KERNEL_MANY: &[&[Act]] = &[&[Run(A), UnmapKernelMany], &[Run(A), Run(B)]];

/// Two CPUs unmap a page of the kernel's each.
const KERNEL_CROSSED: &[&[Act]] = &[&[UnmapKernel], &[UnmapKernelOther]];

/// The same, and a third CPU has to flush both.
pub(super) const KERNEL_THREE: &[&[Act]] = &[&[UnmapKernel], &[UnmapKernelOther], &[Run(A)]];

/// The same with one page, and one of them unmaps another afterwards: its requests do not fit a slot of the ring, and the
/// second takes the place of the first.
pub(super) const KERNEL_DESCRIBED: &[&[Act]] =
    &[&[UnmapKernelOther], &[UnmapKernelOther, UnmapKernelMany], &[Run(A)]];

/// A table of the kernel's is freed, with its pages.
const KERNEL_TABLE: &[&[Act]] = &[&[Run(A), FreeKernelTable], &[Run(A), Run(B)]];

/// The same while the other CPU parks, or is lazy.
const KERNEL_TABLE_LAZY: &[&[Act]] = &[&[FreeKernelTable], &[Run(A), Lazy, Park]];

/// The same while it comes online, or goes offline and comes online.
const KERNEL_TABLE_RESTART: &[&[Act]] = &[&[FreeKernelTable], &[Run(A), Restart]];

/// The kernel's page is written to while it is unmapped, and is read and freed.
pub(super) const KERNEL_WRITTEN: &[&[Act]] = &[&[UnmapKernel], &[WriteKernel]];

/// The flush of kernel addresses is dropped, and its initiator flushes others.
const KERNEL_DROPPED: &[&[Act]] =
    &[&[BeginUnmapKernelMany, DropBegun, UnmapKernelOther, ClaimKernel], &[Run(A)]];

const KERNEL_CROSSFIRE: &[&[Act]] = &[&[Run(A), FlushKernel], &[Run(A), Unmap(A), FlushKernel]];

/// An initiator stops anywhere in its flush, also between the pending word of its target and the IPI. Another one may rely
/// on that IPI. The target reports it.
const STOPPED: &[&[Act]] = &[&[Run(A), Tell, Stop], &[Await, Unmap(A)], &[Await, UnmapOther(A)]];

/// The same, and the other initiator reports it.
const STOPPED_OTHER: &[&[Act]] = &[&[Stop, UnmapOther(A)], &[Unmap(A)], &[Run(A)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_recency!("crossfire-recent", Pcid, CROSSFIRE, Bounded(4),
        "two CPUs unmap a page each of one space"),
    by_epoch!("crossfire-riscv-interrupts", RvInterrupts, THREE_TAGS, CROSSFIRE, Bounded(4),
        "as crossfire-recent, on RISC-V with one tag a space"),
    by_epoch!("crossfire-arm-interrupts", ArmInterrupts, THREE_TAGS, CROSSFIRE, Bounded(4),
        "as crossfire-recent, on Arm where an interrupt is cheap"),
    by_recency!("crossfire-three", Pcid, THREE, Random(10_000),
        "three CPUs request flushes of one space from each other"),
    by_epoch!("crossfire-three-riscv", RvInterrupts, few(4), THREE, Random(10_000),
        "as crossfire-three, on RISC-V with one tag a space"),
    by_epoch!("crossfire-three-riscv-both", RvBoth, few(4), THREE, Random(10_000),
        "as crossfire-three, where one interrupt is cheaper than a broadcast and two are not"),
    by_recency!("merged-recent", Pcid, MERGED, Bounded(3),
        "two CPUs request flushes of one space from a third"),
    by_epoch!("merged-riscv-interrupts", RvInterrupts, few(4), MERGED, Bounded(3),
        "as merged-recent, on RISC-V with one tag a space"),
    by_recency!("merged-riscv", RvInterrupts, MERGED, Bounded(3),
        "as merged-recent, on RISC-V, where each hart may number spaces by itself"),
    by_recency!("merged-late-recent", Pcid, MERGED_OWN, Random(20_000),
        "as merged-recent, and the third has initiated a flush of the space itself"),
    by_recency!("called-left-recent", Pcid, LEFT, Bounded(4),
        "a CPU is interrupted for a space that it leaves, and again for the next"),
    by_recency!("called-left-riscv", RvInterrupts, LEFT, Bounded(4),
        "as called-left-recent, on RISC-V"),
    by_recency!("called-late-recent", Pcid, REQUESTED_TWICE, Exhaust,
        "a CPU is interrupted for a flush it caught up with on switch-in, and once more"),
    by_recency!("called-next-no-pcid", Plain, BEHIND_IN_NEXT, Exhaust,
        "a CPU without PCIDs catches up in a space, and the next space takes its slot"),
    by_recency!("called-down-recent", Pcid, REQUESTED_RESTART, Exhaust,
        "a CPU is interrupted while it goes offline and comes online"),
    by_recency!("called-gone-recent", Pcid, GONE, Bounded(4),
        "a CPU is interrupted while it goes offline for good"),
    by_recency!("called-gone-arm-recent", ArmInterrupts, GONE, Bounded(4),
        "as called-gone-recent, on Arm, where walks that a CPU has cached outlive tags"),
    by_recency!("stopped-recent", Pcid, STOPPED, Bounded(2),
        "an initiator stops in the middle of a flush, whose target reports it, while another waits"),
    by_recency!("stopped-other-recent", Pcid, STOPPED_OTHER, Bounded(2),
        "as stopped-recent, and another initiator reports it"),
    by_recency!("two-spaces-recent", Pcid, TWO_SPACES, Bounded(3),
        "two CPUs request flushes of two spaces from a third"),
    by_recency!("early-recent", Pcid, EARLY, Exhaust,
        "a target acknowledges before it invalidates, with user code before and after"),
    by_recency!("early-recent-riscv", RvInterrupts, EARLY, Exhaust,
        "as early-recent, on RISC-V, where each hart may number spaces by itself"),
    by_epoch!("early-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY, Exhaust,
        "as early-recent, on RISC-V with one tag a space"),
    by_recency!("early-mixed-recent", Pcid, MIXED, Bounded(3),
        "two CPUs send requests to a third, one with early acknowledgement"),
    by_recency!("user-riscv", RvInterrupts, USER, Exhaust,
        "a page is unmapped while stores of user code to it are under way"),
    by_epoch!("user-arm", Arm, THREE_TAGS, USER, Exhaust,
        "as user-riscv, on Arm"),
    by_epoch!("user-x86", Broadcast, THREE_TAGS, USER, Exhaust,
        "as user-riscv, on x86 with INVLPGB"),
    by_recency!("user-recent", Pcid, USER, Exhaust,
        "as user-riscv, on x86 with tags of each CPU's own"),
    by_epoch!("user-riscv-interrupts", RvInterrupts, THREE_TAGS, USER, Exhaust,
        "as user-riscv, on RISC-V with one tag a space"),
    by_epoch!("user-riscv-sbi", Rv, THREE_TAGS, USER, Exhaust,
        "as user-riscv, with remote fences of firmware that waits for stores"),
    by_epoch!("user-others-riscv-sbi", Rv, THREE_TAGS, USER_OF_OTHERS, Exhaust,
        "as user-riscv-sbi, initiated by a CPU that does not run the space"),
    by_epoch!("user-others-arm", Arm, THREE_TAGS, USER_OF_OTHERS, Exhaust,
        "as user-others-riscv-sbi, on Arm"),
    by_epoch!("user-others-x86", Broadcast, THREE_TAGS, USER_OF_OTHERS, Exhaust,
        "as user-others-riscv-sbi, on x86 with INVLPGB"),
    by_recency!("user-others-recent", Pcid, USER_OF_OTHERS, Exhaust,
        "as user-others-riscv-sbi, on x86 with tags of each CPU's own"),
    by_recency!("moved-recent", Pcid, MOVED, Bounded(4),
        "a page moves under a lock that another CPU spins for"),
    by_epoch!("moved-arm", Arm, THREE_TAGS, MOVED, Exhaust,
        "as moved-recent, on Arm"),
    by_epoch!("moved-table-arm", ArmHints, THREE_TAGS, MOVED_TABLE, Bounded(3),
        "a table moves under a lock, and a page in it is unmapped there"),
    by_recency!("kernel-recent", Pcid, KERNEL, Exhaust,
        "a kernel page is unmapped while another CPU switches"),
    by_recency!("kernel-openly-recent", Pcid, KERNEL_OPENLY, Bounded(3),
        "a kernel page is unmapped, beginning with interrupts on"),
    by_epoch!("kernel-arm", Arm, THREE_TAGS, KERNEL, Exhaust,
        "as kernel-recent, on Arm"),
    by_epoch!("kernel-riscv", Rv, THREE_TAGS, KERNEL, Exhaust,
        "as kernel-recent, on RISC-V"),
    by_epoch!("kernel-x86", Broadcast, THREE_TAGS, KERNEL, Exhaust,
        "as kernel-recent, on x86 with INVLPGB"),
    by_recency!("kernel-up-recent", Pcid, KERNEL_UP, Exhaust,
        "a kernel page is unmapped while another CPU comes online"),
    by_epoch!("kernel-up-arm", Arm, THREE_TAGS, KERNEL_UP, Exhaust,
        "as kernel-up-recent, on Arm"),
    by_epoch!("kernel-up-riscv-interrupts", RvInterrupts, THREE_TAGS, KERNEL_UP, Exhaust,
        "as kernel-up-recent, on RISC-V with one tag a space"),
    by_recency!("kernel-lazy-recent", Pcid, KERNEL_LAZY, Exhaust,
        "a kernel page is unmapped while another CPU is lazy"),
    by_recency!("kernel-down-recent", Pcid, KERNEL_DOWN, Bounded(4),
        "a kernel page is unmapped while another CPU goes offline and online: both finish"),
    by_recency!("kernel-crossfire-recent", Pcid, KERNEL_CROSSFIRE, Bounded(4),
        "two CPUs flush the kernel and a space against each other: both finish"),
    by_epoch!("kernel-down-arm", Arm, THREE_TAGS, KERNEL_DOWN, Bounded(4),
        "as kernel-down-recent, on Arm: what is broadcast does not reach a CPU that is off"),
    by_epoch!("kernel-down-riscv", Rv, THREE_TAGS, KERNEL_DOWN, Bounded(4),
        "as kernel-down-arm, on RISC-V with remote fences of firmware"),
    by_recency!("kernel-global-recent", GlobalKernel, KERNEL, Exhaust,
        "as kernel-recent, in a kernel that maps itself globally"),
    by_recency!("kernel-many-recent", Pcid, KERNEL_MANY, Exhaust,
        "several kernel pages are unmapped while another CPU switches"),
    by_recency!("kernel-many-global-recent", GlobalKernel, KERNEL_MANY, Exhaust,
        "as kernel-many-recent, in a kernel that maps itself globally"),
    by_epoch!("kernel-many-arm", Arm, THREE_TAGS, KERNEL_MANY, Exhaust,
        "as kernel-many-recent, on Arm"),
    by_epoch!("kernel-many-riscv-interrupts", RvInterrupts, THREE_TAGS, KERNEL_MANY, Exhaust,
        "as kernel-many-recent, on RISC-V with one tag a space"),
    by_epoch!("kernel-many-x86", Broadcast, THREE_TAGS, KERNEL_MANY, Exhaust,
        "as kernel-many-recent, on x86 with INVLPGB"),
    by_recency!("kernel-crossed-recent", Pcid, KERNEL_CROSSED, Exhaust,
        "two CPUs unmap a kernel page each"),
    by_epoch!("kernel-crossed-riscv-interrupts", RvInterrupts, THREE_TAGS, KERNEL_CROSSED, Exhaust,
        "as kernel-crossed-recent, on RISC-V with one tag a space"),
    by_recency!("kernel-three-recent", Pcid, KERNEL_THREE, Random(10_000),
        "two CPUs unmap a kernel page each, and a third flushes both"),
    by_recency!("kernel-described-recent", Pcid, KERNEL_DESCRIBED, Random(10_000),
        "as kernel-three-recent, and one of the two describes two requests, one after the other"),
    by_recency!("kernel-table-recent", Pcid, KERNEL_TABLE, Exhaust,
        "a table of the kernel is freed while another CPU switches"),
    by_recency!("kernel-table-global-recent", GlobalKernel, KERNEL_TABLE, Exhaust,
        "as kernel-table-recent, in a kernel that maps itself globally"),
    by_epoch!("kernel-table-arm", Arm, THREE_TAGS, KERNEL_TABLE, Exhaust,
        "as kernel-table-recent, on Arm"),
    by_epoch!("kernel-table-riscv", Rv, THREE_TAGS, KERNEL_TABLE, Exhaust,
        "as kernel-table-recent, on RISC-V"),
    by_epoch!("kernel-table-x86", Broadcast, THREE_TAGS, KERNEL_TABLE, Exhaust,
        "as kernel-table-recent, on x86 with INVLPGB"),
    by_recency!("kernel-table-no-asid", RvPlain, KERNEL_TABLE, Exhaust,
        "as kernel-table-recent, on RISC-V without ASIDs"),
    by_recency!("kernel-table-lazy-recent", Pcid, KERNEL_TABLE_LAZY, Exhaust,
        "a table of the kernel is freed while another CPU is lazy"),
    by_epoch!("kernel-table-down-arm", Arm, THREE_TAGS, KERNEL_TABLE_RESTART, Bounded(4),
        "a table of the kernel is freed while another CPU goes offline and online"),
    by_recency!("kernel-written-recent", Pcid, KERNEL_WRITTEN, Exhaust,
        "a kernel page is unmapped and read while stores to it are under way"),
    by_epoch!("kernel-written-arm", Arm, THREE_TAGS, KERNEL_WRITTEN, Exhaust,
        "as kernel-written-recent, on Arm"),
    by_recency!("kernel-dropped-recent", Pcid, KERNEL_DROPPED, Bounded(3),
        "a flush of the kernel that was begun is dropped, and the next one has another request"),
    by_epoch!("kernel-dropped-riscv-interrupts", RvInterrupts, THREE_TAGS, KERNEL_DROPPED, Bounded(3),
        "as kernel-dropped-recent, on RISC-V with one tag a space"),
];
