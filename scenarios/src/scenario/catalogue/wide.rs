//! Machines with more CPUs than one word of a space's residency holds: 33, all but two of which are idle.

use super::*;

/// The first CPU and the last, whose state is in another word, are active.
const fn ends(
    first: &'static [Act],
    middle: &'static [Act],
    last: &'static [Act],
) -> [&'static [Act]; 33] {
    let mut all: [&[Act]; 33] = [&[]; 33];
    all[0] = first;
    all[1] = middle;
    all[32] = last;
    all
}

/// A page is unmapped while the last CPU switches away and back.
const VISIT: &[&[Act]] = &ends(&[Unmap(A)], &[], &[Run(A), Run(B), Run(A)]);
/// A table is freed from under CPUs of both words.
const TABLE: &[&[Act]] = &ends(&[FreeTable(A)], &[Run(A)], &[Run(A), Run(B)]);
/// A page is unmapped of a space that its own CPU and the last one run.
const BOTH: &[&[Act]] = &ends(&[Run(A), Unmap(A), UnmapOther(A)], &[], &[Run(A), Run(B), Run(A)]);
/// The last CPU takes a page from the first one.
const BACKWARDS: &[&[Act]] = &ends(&[Run(A), Run(B), Run(A)], &[], &[Unmap(A)]);
const LAZY: &[&[Act]] = &ends(&[FreeTable(A)], &[], &[Run(A), Lazy, Run(A)]);

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("wide-unmap-arm", Arm, few(36), VISIT, Bounded(2),
        "a page is unmapped while the last of 33 CPUs switches away and back"),
    by_epoch!("wide-both-arm", Arm, few(36), BOTH, Bounded(2),
        "two pages are unmapped from the first and the last of 33 CPUs"),
    by_epoch!("wide-table-arm-cnp", ArmShared, few(36), TABLE, Bounded(2),
        "a table is freed from under CPUs of both words, with shared TLBs"),
    by_epoch!("wide-unmap-arm-interrupts", ArmInterrupts, few(36), VISIT, Bounded(2),
        "as wide-unmap-arm, where an interrupt is cheap"),
    by_epoch!("wide-backwards-arm-interrupts", ArmInterrupts, few(36), BACKWARDS, Bounded(2),
        "the same in the other direction"),
    by_epoch!("wide-table-riscv", Rv, few(36), TABLE, Bounded(2),
        "a table is freed from under harts of both words, by the firmware"),
    by_epoch!("wide-both-riscv-interrupts", RvInterrupts, few(36), BOTH, Bounded(2),
        "as wide-both-arm, on RISC-V, by interrupts"),
    by_recency!("wide-unmap", Pcid, VISIT, Bounded(2),
        "as wide-unmap-arm, on x86, where the last CPU is interrupted or catches up"),
    by_recency!("wide-table", Pcid, TABLE, Bounded(2),
        "a table is freed from under CPUs of both words, by interrupts"),
    by_recency!("wide-both", Pcid, BOTH, Bounded(2),
        "as wide-both-arm, on x86"),
    by_recency!("wide-backwards", Pcid, BACKWARDS, Bounded(2),
        "as wide-unmap, in the other direction"),
    by_recency!("wide-lazy-table", Pcid, LAZY, Bounded(2),
        "a table is freed while the last CPU is lazy, and comes back"),
];
