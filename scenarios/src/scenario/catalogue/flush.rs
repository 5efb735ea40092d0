//! Which CPUs must act for a flush.

use super::*;

/// A CPU switches away and back while another one, which runs the space, unmaps its page.
pub(super) const BACK: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(A), Run(B), Run(A)]];

/// The same, initiated by a CPU that does not run the space.
pub(super) const STRANGER: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(B), Run(A)]];

/// The same with a table.
pub(super) const TABLE: &[&[Act]] = &[&[Run(B), FreeTable(A)], &[Run(A), Run(B), Run(A)]];

/// The whole space is unmapped.
const ALL: &[&[Act]] = &[&[Run(A), FreeAll(A)], &[Run(A), Run(B), Run(A)]];

/// A thread migrates from CPU 1 to CPU 0, which then unmaps two pages: no other CPU need act.
const MIGRATED: &[&[Act]] =
    &[&[Await, Run(A), Unmap(A), UnmapOther(A)], &[Run(A), Run(B), Tell, Run(A)]];

/// As above, and a table is freed in the end: entries left on CPU 1 must be flushed, too.
const DECAY: &[&[Act]] = &[&[Run(A), Unmap(A), FreeTable(A)], &[Run(A), Run(B), Run(A)]];

/// Two CPUs mark a third one absent, or stale.
pub(super) const THIRD: &[&[Act]] =
    &[&[Run(A), Unmap(A)], &[UnmapOther(A)], &[Run(A), Run(B), Run(A)]];

/// Stores of user code are under way when its CPU leaves the space.
pub(super) const LEFT: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Write, Run(B)]];

pub(super) const LAZY: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Lazy, Run(A)]];

/// Stores of user code are under way when its CPU becomes lazy.
const LAZY_WRITE: &[&[Act]] = &[&[Unmap(A)], &[Run(A), Write, Lazy]];

/// A page is unmapped and another mapped in its place, and the walker of a lazy CPU reads both.
const LAZY_REMAP: &[&[Act]] = &[&[SwapOut(A), Remap(A)], &[Run(A), Lazy, Run(A)]];

/// A lazy CPU switches to another space, and back.
const LAZY_AWAY: &[&[Act]] = &[&[Unmap(A)], &[Run(A), Lazy, Run(B), Run(A)]];

const LAZY_TABLE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Lazy, Run(A), Run(B)]];

/// The CPU was lazy before the table is freed.
pub(super) const LAZY_GONE: &[&[Act]] = &[&[Await, FreeTable(A)], &[Run(A), Lazy, Tell]];

/// A page is unmapped in a space whose tag is from before the rollover.
const TURN: &[&[Act]] = &[&[Run(B), Unmap(A)], &[Run(A), Run(C), Run(D), Run(A)]];

/// The only thread of a process has migrated here, and then unmaps and protects pages.
const MOVED: &[&[Act]] =
    &[&[Await, Run(A), Protect(A), UnmapOther(A)], &[Run(A), Run(B), Tell, Run(C)]];

/// The same while the CPU that it has left does not switch: a CPU in mid-switch may be leaving any
/// space, and is interrupted once.
const MOVED_AWAY: &[&[Act]] =
    &[&[Await, Run(A), Protect(A), UnmapOther(A)], &[Run(A), Run(B), Tell, Lazy]];

/// A table is freed in a space that has another tag than when the other CPU ran it.
const OLDER_TABLE: &[&[Act]] =
    &[&[Await, Run(C), Run(D), Run(A), FreeTable(A)], &[Run(B), Run(A), Tell, Run(B)]];

/// The same, after all entries under the former tag have been flushed, while the CPU is still leaving
/// the space.
const OLDER_TWICE: &[&[Act]] =
    &[&[Await, Run(C), Run(D), Run(A), FlushAll(A), FreeTable(A)], &[Run(B), Run(A), Tell, Run(B)]];

/// The space gets another tag while a CPU switches back that was present under the former one.
const TURNED: &[&[Act]] = &[&[Run(C), Run(D), Run(A), Unmap(A)], &[Run(A), Run(B), Run(A)]];

const TURN_TABLE: &[&[Act]] = &[&[Run(B), FreeTable(A)], &[Run(A), Run(C), Run(D), Run(A)]];

const RELEASED: &[&[Act]] = &[&[Run(A), Unmap(A)], &[Run(B), Run(A), Release(B), Run(C)]];

const PINNED: &[&[Act]] =
    &[&[Pin(A), Unmap(A), Unpin(A), UnmapOther(A)], &[Run(A), Run(B), Run(A)]];

/// The last epoch begins while a space is pinned, which is unpinned then.
const UNPINNED: &[&[Act]] =
    &[&[Pin(A), Run(A), Unpin(A)], &[Run(B), Run(C), Run(D), Run(E), Run(A), Unmap(A)]];

/// A device walks the tables all the time.
const HEARD: &[&[Act]] = &[&[Pin(A), Unmap(A), Zap(A)], &[Run(A), Run(B), Run(A)]];

const LAST: &[&[Act]] = &[&[Run(A), Unmap(A), FreeTable(A)], &[Run(A), Run(B), Run(A)]];

/// The last epoch begins while a tag is allocated to a space.
const SHORT_LIVED: &[&[Act]] =
    &[&[Run(B), Run(E), Release(B), Run(A), Unmap(A)], &[Run(C), Run(D), Run(F), Run(A)]];

const FIRMWARE: &[&[Act]] = &[&[Run(B), Unmap(A), FreeTable(A)], &[Run(A), Firmware, Run(B)]];

const RESTART: &[&[Act]] = &[&[Unmap(A), FreeTable(A)], &[Run(A), Restart, Run(A)]];

const PARKED: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Park, Run(B)]];

const PROTECT: &[&[Act]] = &[&[Run(A), Protect(A)], &[Run(A), Write, Run(B), Run(A)]];

/// A table is freed while another CPU leaves its space.
const LEAVE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Run(B), Park]];

/// The CPU that unmaps a page accesses it afterwards.
const OWN: &[&[Act]] = &[&[Run(A), Unmap(A), Write]];

/// A page is made writable again without a flush.
const RELAX: &[&[Act]] = &[&[Run(A), Protect(A), Allow(A)], &[Run(A), Retry(A)]];

/// A page is mapped that a CPU may have cached as absent, and the CPU accesses it.
const FILLED: &[&[Act]] = &[&[Fill(A)], &[Run(A), Touch(A)]];

/// The same, and the CPU switches away and back in between.
const FILLED_BACK: &[&[Act]] = &[&[Fill(A)], &[Run(A), Run(B), Run(A), Touch(A)]];

/// The absent entry is gone once the space is flushed for another page.
const FILLED_LATE: &[&[Act]] = &[&[Fill(A), Unmap(A)], &[Run(A), Touch(A), Read]];

const THREE: &[&[Act]] = &[
    &[Run(A), Unmap(B), Run(C), FreeTable(A)],
    &[Run(B), Run(A), Lazy, Run(A), Run(C)],
    &[Run(C), Run(B), Protect(C), Run(A)],
];

/// A CPU that is lazy in a space frees a table of it, and comes back.
const OWN_LAZY_TABLE: &[&[Act]] = &[&[Run(A), Lazy, FreeTable(A), Run(A)], &[Run(B)]];

/// A CPU that has left a space is made absent by the flush of a page, while another CPU frees a table.
const ABSENT_TABLE: &[&[Act]] = &[&[Run(A), Run(B)], &[Unmap(A)], &[FreeTable(A)]];

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    by_epoch!("flush-absent-table-arm-interrupts", ArmInterrupts, few(4), ABSENT_TABLE, Bounded(1),
        "a CPU becomes absent while a table is freed of which it has cached walks"),
    by_recency!("flush-lazy-own-table-recent", Pcid, OWN_LAZY_TABLE, Exhaust,
        "a CPU frees a table of the space in which it is lazy itself"),
    by_recency!("flush-lazy-own-table-arm-recent", ArmInterrupts, OWN_LAZY_TABLE, Bounded(2),
        "as flush-lazy-own-table-recent, on Arm, where walks that it has cached outlive tags"),
    by_epoch!("flush-lazy-own-table-riscv-interrupts", RvInterrupts, THREE_TAGS, OWN_LAZY_TABLE, Bounded(2),
        "as flush-lazy-own-table-recent, on RISC-V with one tag a space"),
    by_epoch!("flush-back-arm", Arm, THREE_TAGS, BACK, Exhaust,
        "a page is unmapped while another CPU switches away and back"),
    by_epoch!("flush-back-arm-cnp", ArmShared, THREE_TAGS, BACK, Exhaust,
        "as flush-back-arm, with shared TLBs"),
    by_epoch!("flush-back-arm-interrupts", ArmInterrupts, THREE_TAGS, BACK, Exhaust,
        "as flush-back-arm, where an interrupt is cheap"),
    by_epoch!("flush-back-riscv", Rv, THREE_TAGS, BACK, Exhaust,
        "as flush-back-arm, on RISC-V"),
    by_epoch!("flush-back-riscv-interrupts", RvInterrupts, THREE_TAGS, BACK, Exhaust,
        "as flush-back-arm, on RISC-V with interrupts"),
    by_epoch!("flush-back-riscv-both", RvBoth, THREE_TAGS, BACK, Exhaust,
        "as flush-back-arm, on RISC-V where an interrupt is cheap"),
    by_epoch!("flush-back-x86", Broadcast, THREE_TAGS, BACK, Exhaust,
        "as flush-back-arm, on x86 with INVLPGB"),
    by_epoch!("flush-back-x86-interrupts", Pcid, THREE_TAGS, BACK, Exhaust,
        "as flush-back-arm, on x86 with one tag a space, and interrupts"),
    by_recency!("flush-back-recent", Pcid, BACK, Exhaust,
        "as flush-back-arm, on x86 with tags of each CPU's own"),

    by_epoch!("flush-stranger-arm", Arm, THREE_TAGS, STRANGER, Exhaust,
        "as flush-back-arm, by a CPU that does not run the space"),
    by_epoch!("flush-stranger-riscv", Rv, THREE_TAGS, STRANGER, Exhaust,
        "as flush-stranger-arm, on RISC-V"),
    by_epoch!("flush-stranger-riscv-interrupts", RvInterrupts, THREE_TAGS, STRANGER, Exhaust,
        "as flush-stranger-arm, on RISC-V with interrupts"),
    by_epoch!("flush-stranger-x86", Broadcast, THREE_TAGS, STRANGER, Exhaust,
        "as flush-stranger-arm, on x86 with INVLPGB"),

    by_epoch!("flush-table-arm", Arm, THREE_TAGS, TABLE, Exhaust,
        "a table is freed while another CPU switches away and back"),
    by_epoch!("flush-table-arm-cnp", ArmShared, THREE_TAGS, TABLE, Exhaust,
        "as flush-table-arm, with shared TLBs"),
    by_epoch!("flush-table-riscv", Rv, THREE_TAGS, TABLE, Exhaust,
        "as flush-table-arm, on RISC-V"),
    by_epoch!("flush-table-x86", Broadcast, THREE_TAGS, TABLE, Exhaust,
        "as flush-table-arm, on x86 with INVLPGB"),
    by_epoch!("flush-all-arm", Arm, THREE_TAGS, ALL, Exhaust,
        "the whole space is unmapped while another CPU switches away and back"),
    by_recency!("flush-all-recent", Pcid, ALL, Exhaust,
        "as flush-all-arm, on x86 with tags of each CPU's own"),

    by_epoch!("flush-migrated-arm", Arm, THREE_TAGS, MIGRATED, Exhaust,
        "a thread has moved here, and takes two pages"),
    by_epoch!("flush-migrated-arm-cnp", ArmShared, THREE_TAGS, MIGRATED, Exhaust,
        "as flush-migrated-arm, with shared TLBs"),
    by_epoch!("flush-migrated-riscv", Rv, THREE_TAGS, MIGRATED, Exhaust,
        "as flush-migrated-arm, on RISC-V"),
    by_epoch!("flush-decay-arm", Arm, THREE_TAGS, DECAY, Exhaust,
        "a page is unmapped, and then a table, while another CPU switches away and back"),
    by_epoch!("flush-decay-arm-cnp", ArmShared, THREE_TAGS, DECAY, Exhaust,
        "as flush-decay-arm, with shared TLBs"),
    by_epoch!("flush-third-arm", Arm, few(4), THIRD, Bounded(3),
        "two CPUs take a page each while a third switches away and back"),
    by_epoch!("flush-third-arm-cnp", ArmShared, few(4), THIRD, Bounded(3),
        "as flush-third-arm, with shared TLBs"),
    by_epoch!("flush-third-riscv", Rv, few(4), THIRD, Bounded(3),
        "as flush-third-arm, on RISC-V"),

    by_epoch!("flush-left-arm", Arm, THREE_TAGS, LEFT, Exhaust,
        "a page is unmapped while user code's stores to it are under way on a CPU that leaves"),
    by_epoch!("flush-left-riscv-interrupts", RvInterrupts, THREE_TAGS, LEFT, Exhaust,
        "as flush-left-arm, on RISC-V with interrupts"),
    by_recency!("flush-left-recent", RvInterrupts, LEFT, Exhaust,
        "as flush-left-arm, on RISC-V with tags of each CPU's own"),

    by_epoch!("flush-lazy-arm", Arm, THREE_TAGS, LAZY, Exhaust,
        "a page is unmapped while another CPU is lazy, and comes back"),
    by_epoch!("flush-lazy-arm-cnp", ArmShared, THREE_TAGS, LAZY, Exhaust,
        "as flush-lazy-arm, with shared TLBs"),
    by_epoch!("flush-lazy-riscv", Rv, THREE_TAGS, LAZY, Exhaust,
        "as flush-lazy-arm, on RISC-V"),
    by_epoch!("flush-lazy-x86", Broadcast, THREE_TAGS, LAZY, Exhaust,
        "as flush-lazy-arm, on x86 with INVLPGB"),
    by_epoch!("flush-lazy-x86-interrupts", Pcid, THREE_TAGS, LAZY, Exhaust,
        "as flush-lazy-arm, on x86 with one tag a space, and interrupts"),
    by_epoch!("flush-lazy-write-arm", Arm, THREE_TAGS, LAZY_WRITE, Exhaust,
        "a page is unmapped while user code's stores to it are under way on a CPU that becomes lazy"),
    by_recency!("flush-lazy-write-recent", RvInterrupts, LAZY_WRITE, Exhaust,
        "as flush-lazy-write-arm, on RISC-V with tags of each CPU's own"),
    by_epoch!("flush-lazy-away-arm", Arm, THREE_TAGS, LAZY_AWAY, Exhaust,
        "a page is unmapped while a lazy CPU switches to another space and back"),
    by_epoch!("flush-lazy-away-riscv", Rv, THREE_TAGS, LAZY_AWAY, Exhaust,
        "as flush-lazy-away-arm, on RISC-V"),
    by_epoch!("flush-lazy-remap-arm", Arm, THREE_TAGS, LAZY_REMAP, Bounded(3),
        "a page is unmapped and another comes in its place while a CPU is lazy"),
    by_epoch!("flush-lazy-remap-arm-interrupts", ArmInterrupts, THREE_TAGS, LAZY_REMAP, Bounded(3),
        "as flush-lazy-remap-arm, where an interrupt is cheap"),
    by_recency!("flush-lazy-remap-recent", ArmInterrupts, LAZY_REMAP, Bounded(3),
        "as flush-lazy-remap-arm, on Arm with tags of each CPU's own"),
    by_epoch!("flush-lazy-table-arm", Arm, THREE_TAGS, LAZY_TABLE, Exhaust,
        "a table is freed while another CPU is lazy"),
    by_epoch!("flush-lazy-table-riscv-interrupts", RvInterrupts, THREE_TAGS, LAZY_TABLE, Exhaust,
        "as flush-lazy-table-arm, on RISC-V with interrupts"),
    by_epoch!("flush-lazy-gone-riscv-interrupts", RvInterrupts, THREE_TAGS, LAZY_GONE, Exhaust,
        "a table is freed when another CPU has become lazy, on RISC-V with interrupts"),

    by_epoch!("flush-turn-arm", Arm, THREE_TAGS, TURN, Bounded(4),
        "a page is unmapped during rollovers"),
    by_epoch!("flush-turn-arm-cnp", ArmShared, THREE_TAGS, TURN, Bounded(3),
        "as flush-turn-arm, with shared TLBs"),
    by_epoch!("flush-turn-riscv-interrupts", RvInterrupts, THREE_TAGS, TURN, Bounded(3),
        "as flush-turn-arm, on RISC-V with interrupts"),
    by_epoch!("flush-turned-arm", Arm, THREE_TAGS, TURNED, Bounded(3),
        "a space gets another tag while a CPU comes back that was present under the former one"),
    by_epoch!("quiet-arm", Quiet<Arm>, THREE_TAGS, MOVED, Exhaust,
        "the only thread of a process has moved; its flushes stay where it is"),
    by_epoch!("quiet-riscv", Quiet<Rv>, THREE_TAGS, MOVED, Exhaust,
        "as quiet-arm, on RISC-V"),
    by_epoch!("quiet-riscv-interrupts", Quiet<RvInterrupts>, THREE_TAGS, MOVED, Exhaust,
        "as quiet-arm, on RISC-V with interrupts"),
    by_epoch!("quiet-x86", Quiet<Broadcast>, THREE_TAGS, MOVED, Exhaust,
        "as quiet-arm, on x86 with INVLPGB"),
    by_recency!("quiet-recent", Quiet<Pcid>, MOVED_AWAY, Exhaust,
        "as quiet-arm, on x86 with interrupts"),
    by_epoch!("flush-older-table-arm", Arm, THREE_TAGS, OLDER_TABLE, Bounded(3),
        "a table is freed from a space that has another tag than when the other CPU ran it"),
    by_epoch!("flush-older-table-riscv", Rv, THREE_TAGS, OLDER_TABLE, Bounded(3),
        "as flush-older-table-arm, on RISC-V"),
    by_epoch!("flush-older-table-riscv-interrupts", RvInterrupts, THREE_TAGS, OLDER_TABLE, Bounded(3),
        "as flush-older-table-arm, on RISC-V with interrupts"),
    by_epoch!("flush-older-table-x86", Broadcast, THREE_TAGS, OLDER_TABLE, Bounded(3),
        "as flush-older-table-arm, on x86 with INVLPGB"),
    by_epoch!("flush-older-twice-arm", Arm, THREE_TAGS, OLDER_TWICE, Bounded(3),
        "as flush-older-table-arm, after all entries under the former tag were flushed"),
    by_epoch!("flush-turn-table-arm", Arm, THREE_TAGS, TURN_TABLE, Bounded(4),
        "a table is freed during rollovers"),
    by_epoch!("flush-released-arm", Arm, THREE_TAGS, RELEASED, Exhaust,
        "a page is unmapped while the tag of another space is released"),
    by_epoch!("flush-pinned-arm", Arm, ONE_PIN, PINNED, Exhaust,
        "two pages are unmapped, one of them while the tag is pinned"),
    by_epoch!("heard-arm", Heard<Arm>, ONE_PIN, HEARD, Exhaust,
        "two pages are unmapped while a device walks"),
    by_epoch!("heard-fresh-arm", Heard<ArmFresh>, Few { pins: 1, ..few(33) }, HEARD, Exhaust,
        "as heard-arm, where a new tag is cheaper than a flush"),
    by_epoch!("flush-short-arm", Arm, Few { last_epoch: 2, ..few(4) }, SHORT_LIVED, Bounded(4),
        "a page is unmapped while the last epoch begins"),
    by_epoch!("flush-last-arm", Arm, FOR_EVER, LAST, Exhaust,
        "a page is unmapped and a table freed in the last epoch"),
    by_epoch!("flush-last-arm-cnp", ArmShared, FOR_EVER, LAST, Exhaust,
        "as flush-last-arm, with shared TLBs"),
    by_epoch!("flush-last-riscv-interrupts", RvInterrupts, FOR_EVER, LAST, Bounded(4),
        "as flush-last-arm, on RISC-V with interrupts"),
    by_epoch!("flush-unpinned-last-riscv-interrupts", RvInterrupts, Few { last_epoch: 2, pins: 1, ..few(4) },
        UNPINNED, Bounded(3), "a page of a space goes that is unpinned in the last epoch"),
    by_epoch!("flush-firmware-arm", Arm, THREE_TAGS, FIRMWARE, Exhaust,
        "a page is unmapped and a table freed while another CPU calls firmware"),
    by_epoch!("flush-firmware-riscv-interrupts", RvInterrupts, THREE_TAGS, FIRMWARE, Bounded(4),
        "as flush-firmware-arm, on RISC-V with interrupts"),
    by_epoch!("flush-restart-arm", Arm, THREE_TAGS, RESTART, Exhaust,
        "a page is unmapped and a table freed while another CPU goes offline and online"),
    by_epoch!("flush-restart-riscv-interrupts", RvInterrupts, THREE_TAGS, RESTART, Bounded(4),
        "as flush-restart-arm, on RISC-V with interrupts"),
    by_recency!("flush-restart-recent", Pcid, RESTART, Bounded(4),
        "as flush-restart-arm, on x86 with tags of each CPU's own"),
    by_epoch!("flush-parked-arm", Arm, THREE_TAGS, PARKED, Exhaust,
        "a table is freed while another CPU parks"),
    by_epoch!("flush-parked-riscv-interrupts", RvInterrupts, THREE_TAGS, PARKED, Exhaust,
        "as flush-parked-arm, on RISC-V with interrupts"),

    by_epoch!("flush-leave-riscv-interrupts", RvInterrupts, THREE_TAGS, LEAVE, Exhaust,
        "a table is freed while another CPU leaves the space"),
    by_epoch!("flush-own-arm", Arm, THREE_TAGS, OWN, Exhaust,
        "a CPU takes a page and touches it"),

    by_epoch!("protect-arm", Arm, THREE_TAGS, PROTECT, Exhaust,
        "a page becomes read-only while another CPU switches away and back"),
    by_epoch!("protect-riscv-interrupts", RvInterrupts, THREE_TAGS, PROTECT, Bounded(4),
        "as protect-arm, on RISC-V with interrupts"),
    by_recency!("protect-recent", Pcid, PROTECT, Exhaust,
        "as protect-arm, on x86 with tags of each CPU's own"),
    by_epoch!("relax-arm", Arm, THREE_TAGS, RELAX, Exhaust,
        "a page is made writable again while another CPU writes to it"),
    by_epoch!("relax-arm-cnp", ArmShared, THREE_TAGS, RELAX, Bounded(3),
        "as relax-arm, with shared TLBs"),
    by_epoch!("relax-riscv-interrupts", RvInterrupts, THREE_TAGS, RELAX, Bounded(4),
        "as relax-arm, on RISC-V with interrupts"),
    by_epoch!("filled-riscv", Invalid<Rv>, THREE_TAGS, FILLED, Exhaust,
        "a page comes, and a hart remembers that there was none"),
    by_epoch!("filled-riscv-interrupts", Invalid<RvInterrupts>, THREE_TAGS, FILLED_LATE, Bounded(4),
        "as filled-riscv, with interrupts, and another page is unmapped"),
    by_recency!("filled-recent", Invalid<RvInterrupts>, FILLED, Exhaust,
        "as filled-riscv, with tags of each hart's own"),
    by_recency!("filled-no-asid", Invalid<RvPlain>, FILLED, Exhaust,
        "as filled-riscv, on harts without ASIDs"),
    by_epoch!("filled-back-riscv", Invalid<Rv>, THREE_TAGS, FILLED_BACK, Exhaust,
        "as filled-riscv, and the hart switches away and back"),
    by_epoch!("filled-arm", Invalid<Arm>, THREE_TAGS, FILLED, Exhaust,
        "as filled-riscv, on Arm, where a fault synchronises"),

    by_epoch!("flush-crowd-arm", Arm, few(4), THREE, Random(20_000),
        "three CPUs, three spaces, everything at once"),
    by_epoch!("flush-crowd-arm-cnp", ArmShared, few(4), THREE, Random(20_000),
        "as flush-crowd-arm, with shared TLBs"),
    by_epoch!("flush-crowd-riscv-both", RvBoth, few(4), THREE, Random(20_000),
        "as flush-crowd-arm, on RISC-V where an interrupt is cheap"),
    by_epoch!("flush-crowd-x86", Broadcast, few(4), THREE, Random(20_000),
        "as flush-crowd-arm, on x86 with INVLPGB"),
];
