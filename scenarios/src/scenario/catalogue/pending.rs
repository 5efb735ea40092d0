//! Flushes that are begun with interrupts off, and waited for with interrupts on.

use super::*;

/// The target executes user code until it is interrupted.
const BEGUN: &[&[Act]] = &[&[Run(A), BeginUnmap(A), Finish], &[Run(A), Write]];

/// Two CPUs begin flushes of one space that the other one must answer.
const CROSSED: &[&[Act]] = &[&[Run(A), BeginUnmap(A), Finish], &[Run(A), UnmapOther(A), Write]];

/// The initiator flushes another page of the space before the target has read the first request.
const OVERTAKEN: &[&[Act]] = &[&[BeginUnmap(A), UnmapOther(A), Finish], &[Run(A), Write]];

/// The same with a page of another space.
const OVERTAKEN_BY_OTHER: &[&[Act]] =
    &[&[BeginUnmap(A), UnmapOther(B), Finish], &[Run(A), Write], &[Run(B), Write]];

/// The same with a page of the kernel's.
const OVERTAKEN_BY_KERNEL: &[&[Act]] = &[&[BeginUnmap(A), UnmapKernel, Finish], &[Run(A), Write]];

/// Two flushes are begun before the first is waited for.
const TWO_BEGUN: &[&[Act]] =
    &[&[BeginUnmap(A), BeginUnmap(B), Finish, Finish], &[Run(A), Run(B), Write]];

/// The initiator releases a space that a CPU is lazy in, before the target has read the first request.
const RELEASED: &[&[Act]] = &[&[BeginUnmap(A), End(B), Finish], &[Run(A), Run(B), Lazy]];

/// The same while the description of the first request, which frees a table, is in use: the target cannot read the second.
const RELEASED_BESIDE_TABLE: &[&[Act]] =
    &[&[BeginFreeTable(A), End(B), Finish], &[Run(A), Run(B), Lazy]];

/// The initiator holds entries of a space that it does not run.
const OWN: &[&[Act]] = &[&[Run(A), Run(B), BeginUnmap(A), Finish], &[Run(A), Run(B)]];

/// The same with a page table, of which CPUs keep walks under tags of their own.
const OWN_TABLE: &[&[Act]] = &[&[Run(A), Run(B), BeginFreeTable(A), Finish], &[Run(A), Write]];

/// A page table is freed in two steps.
const TABLE: &[&[Act]] = &[&[BeginFreeTable(A), Finish], &[Run(A), Lazy, Run(A), Write]];

/// The initiator goes offline and comes online before it waits.
const RESTARTED: &[&[Act]] = &[&[BeginUnmap(A), Restart, Finish], &[Run(A), Write]];

/// The target does.
const TARGET_RESTARTED: &[&[Act]] = &[&[BeginUnmap(A), Finish], &[Run(A), Restart, Run(A)]];

/// Another CPU acts on the absence of the page before the flush is complete.
const RELIED: &[&[Act]] = &[&[BeginUnmap(A), Finish], &[FindGone(A)], &[Run(A)]];

/// The thread waits on another CPU, which it may have to interrupt.
const HANDED: &[&[Act]] = &[&[Run(A), HandOver(A)], &[Run(A), Complete, Write]];

/// The first CPU flushes again meanwhile.
const HANDED_OVERTAKEN: &[&[Act]] = &[&[HandOver(A), UnmapOther(A)], &[Complete], &[Run(A), Write]];

const KERNEL: &[&[Act]] = &[&[Run(A), BeginUnmapKernel, Finish], &[Run(A), UnmapOther(A)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_recency!("pending-recent", Pcid, BEGUN, Bounded(4),
        "a flush is begun with interrupts off and waited for with interrupts on"),
    by_epoch!("pending-riscv-interrupts", RvInterrupts, THREE_TAGS, BEGUN, Bounded(4),
        "as pending-recent, on RISC-V with one tag a space"),
    by_epoch!("pending-arm", Arm, THREE_TAGS, BEGUN, Bounded(4),
        "as pending-recent, on Arm with broadcasts"),
    by_recency!("pending-crossed-recent", Pcid, CROSSED, Bounded(3),
        "two CPUs unmap a page each of one space, one of them in two steps"),
    by_epoch!("pending-crossed-riscv-interrupts", RvInterrupts, THREE_TAGS, CROSSED, Bounded(3),
        "as pending-crossed-recent, on RISC-V with one tag a space"),
    by_recency!("pending-overtaken-recent", Pcid, OVERTAKEN, Bounded(3),
        "a CPU flushes another page of the space before the flush that it has begun is complete"),
    by_epoch!("pending-overtaken-riscv-interrupts", RvInterrupts, THREE_TAGS, OVERTAKEN, Bounded(3),
        "as pending-overtaken-recent, on RISC-V with one tag a space"),
    by_epoch!("pending-overtaken-arm-interrupts", ArmInterrupts, THREE_TAGS, OVERTAKEN, Bounded(3),
        "as pending-overtaken-recent, on Arm where an interrupt is cheap"),
    by_recency!("pending-overtaken-other-recent", Pcid, OVERTAKEN_BY_OTHER, Bounded(2),
        "a CPU flushes a page of another space before the flush that it has begun is complete"),
    by_epoch!("pending-overtaken-other-riscv-interrupts", RvInterrupts, few(4), OVERTAKEN_BY_OTHER, Bounded(2),
        "as pending-overtaken-other-recent, on RISC-V with one tag a space"),
    by_recency!("pending-overtaken-kernel-recent", Pcid, OVERTAKEN_BY_KERNEL, Bounded(3),
        "a CPU flushes a page of the kernel before the flush that it has begun is complete"),
    by_epoch!("pending-overtaken-kernel-riscv-interrupts", RvInterrupts, THREE_TAGS, OVERTAKEN_BY_KERNEL, Bounded(3),
        "as pending-overtaken-kernel-recent, on RISC-V with one tag a space"),
    by_recency!("pending-two-recent", Pcid, TWO_BEGUN, Bounded(3),
        "a CPU begins two flushes before it waits for either"),
    by_epoch!("pending-two-riscv-interrupts", RvInterrupts, THREE_TAGS, TWO_BEGUN, Bounded(3),
        "as pending-two-recent, on RISC-V with one tag a space"),
    by_recency!("pending-released-recent", Pcid, RELEASED, Bounded(3),
        "a CPU releases a space before the flush of another one that it has begun is complete"),
    by_epoch!("pending-released-riscv-interrupts", RvInterrupts, THREE_TAGS, RELEASED_BESIDE_TABLE, Bounded(3),
        "as pending-released-recent, on RISC-V with one tag a space, and the flush is of a page table"),
    by_epoch!("pending-own-riscv-interrupts", RvInterrupts, THREE_TAGS, OWN, Bounded(3),
        "a CPU begins the flush of a space of which it holds entries itself"),
    by_recency!("pending-own-recent", Pcid, OWN, Bounded(3),
        "as pending-own-riscv-interrupts, on x86 with tags of each CPU's own"),
    by_recency!("pending-own-table-arm", ArmInterrupts, OWN_TABLE, Bounded(3),
        "a CPU begins to free a table of a space that it does not run, on Arm with tags of each CPU's own"),
    by_recency!("pending-table-recent", Pcid, TABLE, Bounded(3),
        "a page table is freed in two steps"),
    by_epoch!("pending-table-riscv-interrupts", RvInterrupts, THREE_TAGS, TABLE, Bounded(3),
        "as pending-table-recent, on RISC-V with one tag a space"),
    by_recency!("pending-restarted-recent", Pcid, RESTARTED, Bounded(3),
        "a CPU goes offline and comes online before the flush that it has begun is complete"),
    by_epoch!("pending-restarted-riscv-interrupts", RvInterrupts, THREE_TAGS, RESTARTED, Bounded(3),
        "as pending-restarted-recent, on RISC-V with one tag a space"),
    by_recency!("pending-target-restarted-recent", Pcid, TARGET_RESTARTED, Bounded(3),
        "a target goes offline and comes online before the flush is complete"),
    by_epoch!("pending-target-restarted-riscv-interrupts", RvInterrupts, THREE_TAGS, TARGET_RESTARTED, Bounded(3),
        "as pending-target-restarted-recent, on RISC-V with one tag a space"),
    by_recency!("pending-relied-recent", Pcid, RELIED, Bounded(3),
        "a CPU relies on the absence of a page whose flush is begun and not complete"),
    by_epoch!("pending-relied-riscv-interrupts", RvInterrupts, few(4), RELIED, Bounded(3),
        "as pending-relied-recent, on RISC-V with one tag a space"),
    by_recency!("pending-handed-recent", Pcid, HANDED, Bounded(4),
        "a flush is waited for on another CPU than it was begun on"),
    by_epoch!("pending-handed-riscv-interrupts", RvInterrupts, THREE_TAGS, HANDED, Bounded(4),
        "as pending-handed-recent, on RISC-V with one tag a space"),
    by_recency!("pending-handed-overtaken-recent", Pcid, HANDED_OVERTAKEN, Bounded(2),
        "as pending-handed-recent, and the first CPU flushes again meanwhile"),
    by_epoch!("pending-handed-overtaken-riscv-interrupts", RvInterrupts, few(4), HANDED_OVERTAKEN, Bounded(2),
        "as pending-handed-overtaken-recent, on RISC-V with one tag a space"),
    by_recency!("pending-kernel-recent", Pcid, KERNEL, Bounded(3),
        "the flush of a page of the kernel is begun with interrupts off and waited for with interrupts on"),
    by_epoch!("pending-kernel-riscv-interrupts", RvInterrupts, THREE_TAGS, KERNEL, Bounded(3),
        "as pending-kernel-recent, on RISC-V"),
];
