//! CPUs that ask each other, and kernel addresses.

use super::*;

/// Two CPUs shoot at each other over one space.
pub(super) const CROSSFIRE: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), UnmapOther(A)]];

/// Three do.
const THREE: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), UnmapOther(A)], &[Run(A), FreeTable(A)]];

/// Two CPUs ask one for the same space.
pub(super) const MERGED: &[&[Act]] = &[&[Unmap(A)], &[UnmapOther(A)], &[Run(A)]];

/// As that, and the one has just flushed the space itself, so that it owes what neither of them asks.
const MERGED_LATE: &[&[Act]] = &[&[Unmap(A)], &[UnmapOther(A)], &[Run(A), ProtectBoth(A), Write]];

/// A CPU asks one that leaves the space, and then asks it for something else in the next.
pub(super) const LEFT: &[&[Act]] = &[&[Unmap(A), UnmapOther(B)], &[Run(A), Run(B)]];

/// A CPU has paid in one space, and then owes as much in the next.
const CALLED_NEXT: &[&[Act]] = &[&[Unmap(B), FreeTable(A)], &[Run(B), Run(A)]];

/// A CPU is called for what it has paid on its way in, and then for something else.
pub(super) const CALLED_LATE: &[&[Act]] = &[&[Unmap(A), UnmapOther(A)], &[Run(A)]];

/// A CPU is called, goes down and comes up.
const CALLED_DOWN: &[&[Act]] = &[&[Unmap(A), UnmapOther(A)], &[Run(A), Restart, Run(A)]];

/// A table goes while a CPU goes down for good.
const GONE: &[&[Act]] = &[&[Unmap(A), FreeTable(A)], &[Run(A), Down]];

/// Two CPUs ask one for two spaces.
const TWO_SPACES: &[&[Act]] = &[&[Unmap(A)], &[Unmap(B)], &[Run(A), Run(B)]];

/// The target is in user mode before and after its answer.
const EARLY: &[&[Act]] = &[&[UnmapEarly(A)], &[Run(A), Read, Write, Read]];

/// One CPU asks for an early answer and another does not.
const MIXED: &[&[Act]] = &[&[UnmapEarly(A)], &[UnmapOther(A)], &[Run(A), Write]];

/// What user code has under way when its CPU is interrupted.
pub(super) const USER: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Write]];

/// The same by a CPU that does not run the space.
const USER_OF_OTHERS: &[&[Act]] = &[&[Unmap(A)], &[Run(A), Write]];

/// One CPU holds a lock while it flushes that another one spins for, with interrupts off.
const MOVED: &[&[Act]] = &[&[Run(A), Move(A)], &[Run(A), UnmapMoved(A)]];

const KERNEL: &[&[Act]] = &[&[Run(A), UnmapKernel], &[Run(A), Run(B)]];

/// The same, begun with interrupts on.
const KERNEL_OPENLY: &[&[Act]] = &[&[Run(A), UnmapKernelOpenly], &[Run(A), UnmapOther(A)]];

pub(super) const KERNEL_UP: &[&[Act]] = &[&[FlushKernel, Await, ClaimKernel], &[Up, Tell]];

const KERNEL_LAZY: &[&[Act]] = &[&[UnmapKernel], &[Run(A), Lazy, Park]];

const KERNEL_DOWN: &[&[Act]] = &[&[FlushKernel, Await, ClaimKernel], &[Run(A), Restart, Tell]];

const KERNEL_CROSSFIRE: &[&[Act]] = &[&[Run(A), FlushKernel], &[Run(A), Unmap(A), FlushKernel]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_recency!("crossfire-recent", Pcid, CROSSFIRE, Bounded(4),
        "two CPUs take a page each from one space"),
    by_epoch!("crossfire-riscv-interrupts", RvInterrupts, THREE_TAGS, CROSSFIRE, Bounded(4),
        "as crossfire-recent, on RISC-V with one tag a space"),
    by_epoch!("crossfire-arm-interrupts", ArmInterrupts, THREE_TAGS, CROSSFIRE, Bounded(4),
        "as crossfire-recent, on Arm where an interrupt is cheap"),
    by_recency!("crossfire-three", Pcid, THREE, Random(10_000),
        "three CPUs shoot at each other over one space"),
    by_epoch!("crossfire-three-riscv", RvInterrupts, few(4), THREE, Random(10_000),
        "as crossfire-three, on RISC-V with one tag a space"),
    by_epoch!("crossfire-three-riscv-both", RvBoth, few(4), THREE, Random(10_000),
        "as crossfire-three, where one interrupt is cheaper than a broadcast and two are not"),
    by_recency!("merged-recent", Pcid, MERGED, Bounded(3),
        "two CPUs ask a third for one space"),
    by_epoch!("merged-riscv-interrupts", RvInterrupts, few(4), MERGED, Bounded(3),
        "as merged-recent, on RISC-V with one tag a space"),
    by_recency!("merged-riscv", RvInterrupts, MERGED, Bounded(3),
        "as merged-recent, on RISC-V, where each hart may number spaces by itself"),
    by_recency!("merged-late-recent", Pcid, MERGED_LATE, Random(20_000),
        "as merged-recent, and the third has flushed the space itself"),
    by_recency!("called-left-recent", Pcid, LEFT, Bounded(4),
        "a CPU is called in a space that it leaves, and again in the next"),
    by_recency!("called-left-riscv", RvInterrupts, LEFT, Bounded(4),
        "as called-left-recent, on RISC-V"),
    by_recency!("called-late-recent", Pcid, CALLED_LATE, Exhaust,
        "a CPU is called for what it has paid on its way in, and once more"),
    by_recency!("called-next-no-pcid", Plain, CALLED_NEXT, Exhaust,
        "a CPU without PCIDs pays in a space, and the next takes its slot"),
    by_recency!("called-down-recent", Pcid, CALLED_DOWN, Exhaust,
        "a CPU is called while it goes down and comes up"),
    by_recency!("called-gone-recent", Pcid, GONE, Bounded(4),
        "a CPU is called while it goes down for good"),
    by_recency!("two-spaces-recent", Pcid, TWO_SPACES, Bounded(3),
        "two CPUs ask a third for two spaces"),
    by_recency!("early-recent", Pcid, EARLY, Exhaust,
        "a target answers before it invalidates, with user code before and after"),
    by_recency!("early-recent-riscv", RvInterrupts, EARLY, Exhaust,
        "as early-recent, on RISC-V, where each hart may number spaces by itself"),
    by_epoch!("early-riscv-interrupts", RvInterrupts, THREE_TAGS, EARLY, Exhaust,
        "as early-recent, on RISC-V with one tag a space"),
    by_recency!("early-mixed-recent", Pcid, MIXED, Bounded(3),
        "two CPUs ask a third, one of them for an early answer"),
    by_recency!("user-riscv", RvInterrupts, USER, Exhaust,
        "a page goes while user code's stores to it are under way"),
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
        "as user-riscv-sbi, by a CPU that does not run the space"),
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
    by_recency!("kernel-recent", Pcid, KERNEL, Exhaust,
        "a page of the kernel's goes while another CPU switches"),
    by_recency!("kernel-openly-recent", Pcid, KERNEL_OPENLY, Bounded(3),
        "a page of the kernel's goes, and interrupts are on when that begins"),
    by_epoch!("kernel-arm", Arm, THREE_TAGS, KERNEL, Exhaust,
        "as kernel-recent, on Arm"),
    by_epoch!("kernel-riscv", Rv, THREE_TAGS, KERNEL, Exhaust,
        "as kernel-recent, on RISC-V"),
    by_epoch!("kernel-x86", Broadcast, THREE_TAGS, KERNEL, Exhaust,
        "as kernel-recent, on x86 with INVLPGB"),
    by_recency!("kernel-up-recent", Pcid, KERNEL_UP, Exhaust,
        "a page of the kernel's goes while another CPU comes up"),
    by_epoch!("kernel-up-arm", Arm, THREE_TAGS, KERNEL_UP, Exhaust,
        "as kernel-up-recent, on Arm"),
    by_epoch!("kernel-up-riscv-interrupts", RvInterrupts, THREE_TAGS, KERNEL_UP, Exhaust,
        "as kernel-up-recent, on RISC-V with one tag a space"),
    by_recency!("kernel-lazy-recent", Pcid, KERNEL_LAZY, Exhaust,
        "a page of the kernel's goes while another CPU rests"),
    by_recency!("kernel-down-recent", Pcid, KERNEL_DOWN, Bounded(4),
        "a page of the kernel's goes while another CPU goes down and comes up: both finish"),
    by_recency!("kernel-crossfire-recent", Pcid, KERNEL_CROSSFIRE, Bounded(4),
        "two CPUs flush the kernel and a space against each other: both finish"),
];
