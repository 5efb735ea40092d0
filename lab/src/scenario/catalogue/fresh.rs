//! Fresh tags instead of flushes.

use super::*;

/// A page goes while another CPU goes away and comes back.
const BACK: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Run(B), Run(A)]];

/// The same by a CPU that does not run the space.
const STRANGER: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(B), Run(A)]];

/// A thread has moved here, and takes two pages.
const MIGRATED: &[&[Act]] =
    &[&[Await, Run(A), Unmap(A), UnmapOther(A)], &[Run(A), Run(B), Tell, Run(A)]];

/// Two pages go, and nobody else is there: the tag is left to whoever comes meanwhile.
const BOTH: &[&[Act]] = &[&[Run(A), Zap(A), Run(B)], &[Run(B), Run(A), Run(B)]];

/// The same while the tags run out.
const BOTH_TURN: &[&[Act]] = &[&[Run(A), Zap(A), Run(B)], &[Run(C), Run(D), Run(A), Run(C)]];

const LAZY: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Lazy, Run(A)]];

/// Two CPUs take a page each, and either may leave the tag behind.
const CROSSFIRE: &[&[Act]] = &[&[Run(A), Unmap(A), Run(B)], &[Run(A), Run(B), UnmapOther(A)]];

/// The tags run out meanwhile.
const TURN: &[&[Act]] = &[&[Run(A), Unmap(A), Run(B), Run(A)], &[Run(A), Run(C), Run(D), Run(A)]];

/// A page goes, and then a table: what was left behind under the former tag must go, too.
const TABLE: &[&[Act]] = &[&[Run(A), Unmap(A), FreeTable(A)], &[Run(A), Run(B)]];

const PINNED: &[&[Act]] = &[&[Pin(A), Run(A), Unmap(A), Unpin(A)], &[Run(A), Run(B), Run(A)]];

const RELEASED: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(B), Run(A), Release(B), Run(C)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("fresh-arm", ArmFresh, few(6), BACK, Bounded(4),
        "a space gets a fresh tag while another CPU goes away and comes back"),
    by_epoch!("fresh-riscv", RvFresh, few(6), BACK, Bounded(4),
        "as fresh-arm, on RISC-V"),
    by_epoch!("fresh-riscv-interrupts", RvFreshInterrupts, few(6), BACK, Bounded(4),
        "as fresh-arm, on RISC-V with interrupts"),
    by_epoch!("fresh-x86", BroadcastFresh, few(6), BACK, Bounded(4),
        "as fresh-arm, on x86 with INVLPGB"),
    by_epoch!("fresh-stranger-arm", ArmFresh, few(6), STRANGER, Bounded(4),
        "as fresh-arm, by a CPU that does not run the space"),
    by_epoch!("fresh-migrated-arm", ArmFresh, few(6), MIGRATED, Bounded(4),
        "a thread has moved here, and takes two pages, with a fresh tag each"),
    by_epoch!("fresh-both-arm", ArmFresh, few(6), BOTH, Exhaust,
        "two pages go by a fresh tag while another CPU enters the space"),
    by_epoch!("fresh-both-riscv", RvFresh, few(6), BOTH, Exhaust,
        "as fresh-both-arm, on RISC-V"),
    by_epoch!("fresh-both-x86", BroadcastFresh, few(6), BOTH, Exhaust,
        "as fresh-both-arm, on x86 with INVLPGB"),
    by_epoch!("fresh-both-turn-arm", ArmFresh, few(3), BOTH_TURN, Bounded(4),
        "as fresh-both-arm, while the tags run out"),
    by_epoch!("fresh-lazy-arm", ArmFresh, few(6), LAZY, Bounded(4),
        "a space gets a fresh tag while another CPU is lazy"),
    by_epoch!("fresh-lazy-riscv-interrupts", RvFreshInterrupts, few(6), LAZY, Bounded(4),
        "as fresh-lazy-arm, on RISC-V with interrupts"),
    by_epoch!("fresh-crossfire-arm", ArmFresh, few(6), CROSSFIRE, Bounded(4),
        "two CPUs take a page each, and either may leave the tag behind"),
    by_epoch!("fresh-crossfire-riscv", RvFresh, few(6), CROSSFIRE, Bounded(4),
        "as fresh-crossfire-arm, on RISC-V"),
    by_epoch!("fresh-turn-arm", ArmFresh, few(3), TURN, Bounded(4),
        "a space gets a fresh tag while the tags run out"),
    by_epoch!("fresh-turn-riscv", RvFresh, few(3), TURN, Bounded(4),
        "as fresh-turn-arm, on RISC-V"),
    by_epoch!("fresh-table-arm", ArmFresh, few(6), TABLE, Bounded(4),
        "a table goes after a page was taken by a fresh tag"),
    by_epoch!("fresh-pinned-arm", ArmFresh, Few { pins: 1, ..few(6) }, PINNED, Bounded(4),
        "a page goes from a space whose tag is pinned"),
    by_epoch!("fresh-released-arm", ArmFresh, few(6), RELEASED, Bounded(4),
        "a page goes while the tag of another space is released"),
];
