//! Retagging: a new tag instead of a flush.

use super::*;

/// Tags enough for each of two CPUs to have a spare one.
const SPARE: Few = few(33);

/// The one tag that is spare is given back.
const RETURNED: Few = few(4);

/// Two pages are unmapped by the only CPU in the space; another CPU may switch to it during the retagging.
pub(super) const BOTH: &[&[Act]] = &[&[Run(A), Zap(A), Run(B)], &[Run(B), Run(A), Run(B)]];

/// The other CPUs are marked absent first, while they hold entries, and switch back.
pub(super) const BACK: &[&[Act]] = &[
    &[Run(B), Fill(A), Await, Run(A), Unfill(A), ProtectBoth(A), Unmap(A)],
    &[Run(A), Run(B), Tell, Run(A), Run(B)],
];

/// Two CPUs unmap the same pages, and either may retag the space.
const CROSSFIRE: &[&[Act]] = &[&[Run(A), Zap(A), Run(B)], &[Run(A), Run(B), Zap(A)]];

/// An initiator that does not run the space flushes by its former tag.
pub(super) const FORMER: &[&[Act]] =
    &[&[Run(B), Unmap(A), UnmapOther(A)], &[Run(A), ProtectBoth(A)]];

/// The same, and frees a table.
const FORMER_TABLE: &[&[Act]] = &[&[Run(B), FreeTable(A)], &[Run(A), ProtectBoth(A)]];

/// The CPU that retags the space is lazy in it.
const LAZY: &[&[Act]] = &[&[Run(A), Lazy, Zap(A), Run(A)], &[Run(B), Run(A), Run(B)]];

/// The other CPU is lazy in the space, or on its way there.
const LAZIES: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Lazy, Run(B), Run(A)]];

/// The spare tag came back, and the tags run out meanwhile.
const TURN: &[&[Act]] =
    &[&[Run(B), Run(A), Release(B), Zap(A), Run(A)], &[Run(C), Run(D), Run(A), Run(E)]];

/// Entries left under the former tag are flushed when the table is freed.
pub(super) const TABLE: &[&[Act]] =
    &[&[Run(A), ProtectBoth(A), FreeTable(A)], &[Run(A), Run(B), Run(A)]];

const PINNED: &[&[Act]] = &[&[Pin(A), Run(A), Zap(A), Unpin(A)], &[Run(A), Run(B), Run(A)]];

/// A device comes to use the tag while it is left behind.
const PINS: &[&[Act]] = &[&[Run(A), Zap(A), Run(B)], &[Run(B), Pin(A), Unpin(A)]];

/// A space is flushed whose tag another space has in the epoch that has come meanwhile, by the CPU that runs that one and
/// kept a tag of the epoch before.
const FOREIGN: &[&[Act]] = &[
    &[Run(A), Run(B), Run(C), Release(B), Await, Run(E), ProtectBoth(A), Read],
    &[Run(D), Run(E), Tell],
];

/// Where CPUs use each other's entries, a broadcast is spared.
const SHARED: &[&[Act]] = &[&[Run(A), Unmap(A), Run(B)], &[Run(A), Run(B), Run(A)]];

/// The same by a CPU that does not run the space.
const STRANGER: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(B), Run(A)]];

/// The CPU that retags the space it runs goes on to run it.
const RETAGGED: &[&[Act]] = &[&[Run(A), FlushAll(A), Retry(A)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("fresh-alone-x86", BroadcastFresh, SPARE, RETAGGED, Exhaust,
        "a CPU retags the space that it runs, and runs it on"),
    by_epoch!("fresh-both-arm", ArmFresh, SPARE, BOTH, Exhaust,
        "two pages are unmapped by a new tag while another CPU enters the space"),
    by_epoch!("fresh-both-riscv", RvFresh, SPARE, BOTH, Exhaust,
        "as fresh-both-arm, on RISC-V"),
    by_epoch!("fresh-both-riscv-interrupts", RvFreshInterrupts, SPARE, BOTH, Exhaust,
        "as fresh-both-arm, on RISC-V with interrupts"),
    by_epoch!("fresh-both-x86", BroadcastFresh, SPARE, BOTH, Exhaust,
        "as fresh-both-arm, on x86 with INVLPGB"),
    by_epoch!("fresh-back-arm", ArmFresh, SPARE, BACK, Bounded(4),
        "a space gets a new tag while a CPU comes back that holds something under the former"),
    by_epoch!("fresh-back-riscv", RvFresh, SPARE, BACK, Bounded(4),
        "as fresh-back-arm, on RISC-V"),
    by_epoch!("fresh-back-riscv-interrupts", RvFreshInterrupts, SPARE, BACK, Bounded(4),
        "as fresh-back-arm, on RISC-V with interrupts"),
    by_epoch!("fresh-back-x86", BroadcastFresh, SPARE, BACK, Bounded(4),
        "as fresh-back-arm, on x86 with INVLPGB"),
    by_epoch!("fresh-crossfire-arm", ArmFresh, SPARE, CROSSFIRE, Bounded(4),
        "two CPUs unmap the same pages, and either may retag the space"),
    by_epoch!("fresh-crossfire-riscv", RvFresh, SPARE, CROSSFIRE, Bounded(4),
        "as fresh-crossfire-arm, on RISC-V"),
    by_epoch!("fresh-crossfire-x86", BroadcastFresh, SPARE, CROSSFIRE, Bounded(4),
        "as fresh-crossfire-arm, on x86 with INVLPGB"),
    by_epoch!("fresh-former-arm", ArmFresh, SPARE, FORMER, Bounded(4),
        "a CPU flushes by the tag that the space had while it gets another"),
    by_epoch!("fresh-former-riscv", RvFresh, SPARE, FORMER, Bounded(4),
        "as fresh-former-arm, on RISC-V"),
    by_epoch!("fresh-former-x86", BroadcastFresh, SPARE, FORMER, Bounded(4),
        "as fresh-former-arm, on x86 with INVLPGB"),
    by_epoch!("fresh-former-table-arm", ArmFresh, SPARE, FORMER_TABLE, Bounded(4),
        "a table is freed while the space gets another tag"),
    by_epoch!("fresh-lazy-arm", ArmFresh, SPARE, LAZY, Bounded(4),
        "a lazy CPU gives its space a new tag"),
    by_epoch!("fresh-lazy-riscv-interrupts", RvFreshInterrupts, SPARE, LAZY, Bounded(4),
        "as fresh-lazy-arm, on RISC-V with interrupts"),
    by_epoch!("fresh-turn-arm", ArmFresh, RETURNED, TURN, Bounded(3),
        "a space gets a tag that was released during rollovers"),
    by_epoch!("fresh-turn-x86", BroadcastFresh, RETURNED, TURN, Bounded(3),
        "as fresh-turn-arm, on x86 with INVLPGB"),
    by_epoch!("fresh-last-arm", ArmFresh, Few { last_epoch: 2, ..RETURNED }, TURN, Bounded(3),
        "as fresh-turn-arm, when no epoch is left"),
    by_epoch!("fresh-table-arm", ArmFresh, SPARE, TABLE, Bounded(4),
        "a table is freed after the space got a new tag"),
    by_epoch!("fresh-table-riscv", RvFresh, SPARE, TABLE, Bounded(4),
        "as fresh-table-arm, on RISC-V"),
    by_epoch!("fresh-pinned-arm", ArmFresh, Few { pins: 1, ..SPARE }, PINNED, Bounded(4),
        "two pages are unmapped from a space whose tag is pinned"),
    by_epoch!("fresh-pins-arm", ArmFresh, Few { pins: 1, ..SPARE }, PINS, Bounded(4),
        "a space gets a new tag while it is pinned"),
    by_epoch!("fresh-foreign-arm", ArmFresh, RETURNED, FOREIGN, Bounded(3),
        "a space is flushed by a CPU that runs the one that has its former tag"),
    by_epoch!("fresh-foreign-x86", BroadcastFresh, RETURNED, FOREIGN, Bounded(3),
        "as fresh-foreign-arm, on x86 with INVLPGB"),
    by_epoch!("fresh-shared-arm-cnp", ArmSharedFresh, SPARE, SHARED, Bounded(4),
        "a space gets a new tag where CPUs use each other's entries"),
    by_epoch!("fresh-stranger-arm-cnp", ArmSharedFresh, SPARE, STRANGER, Bounded(4),
        "as fresh-shared-arm-cnp, by a CPU that does not run the space"),
    by_epoch!("fresh-lazies-arm-cnp", ArmSharedFresh, SPARE, LAZIES, Bounded(4),
        "as fresh-shared-arm-cnp, while another CPU is lazy"),
];
