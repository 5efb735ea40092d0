//! Other roots or tags for the kernel than for user mode: KPTI, and kernels with a root of their own.

use super::super::{
    Depth::{self, Exhaust},
    Entry, Explored, Open,
    pairs::{Act::*, *},
};

const A: usize = 0;
const B: usize = 1;

/// A page is unmapped while another CPU switches away and back between user mode and the kernel.
const VISITED: &[&[Act]] = &[&[Unmap(A, 0)], &[Run(A), Visit, Copy, Visit]];
/// A CPU unmaps a page that it has used in user mode itself.
const OWN: &[&[Act]] = &[&[Run(A), Visit, Unmap(A, 0), Visit, Copy]];
/// Another CPU has left the space in between, and catches up when it switches back.
const AWAY: &[&[Act]] = &[&[Unmap(A, 0)], &[Run(A), Visit, Run(B), Visit, Run(A), Visit]];
/// A CPU runs more spaces than it has slots, and leaves for user mode in each.
const SLOTS: &[&[Act]] = &[&[
    Run(A),
    Visit,
    Run(B),
    Visit,
    Run(2),
    Visit,
    Run(A),
    Visit,
    Run(B),
    Visit,
    Unmap(B, 0),
    Visit,
]];
/// A page is unmapped in a space that the CPU has left.
const LEFT: &[&[Act]] = &[&[Run(A), Visit, Run(B), Unmap(A, 0), Unmap(A, 1), Run(A), Visit]];
const PROTECTED: &[&[Act]] = &[&[Protect(A)], &[Run(A), Write, Visit]];
const OWN_PROTECTED: &[&[Act]] = &[&[Run(A), Write, Protect(A), Write]];
const TABLE: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Visit, Visit]];
const OWN_TABLE: &[&[Act]] = &[&[Run(A), Visit, FreeTable(A), Visit]];
const EVERYTHING: &[&[Act]] = &[&[Run(A), Visit, Clear(A), Visit], &[Run(A), Visit, Visit]];
/// A table is freed while another CPU is lazy, which was in user mode before.
const LAZY: &[&[Act]] = &[&[FreeTable(A)], &[Run(A), Visit, Lazy, Run(A), Visit]];
/// Both CPUs run the space, and one unmaps.
const BOTH: &[&[Act]] = &[&[Run(A), Visit, Unmap(A, 0), Visit], &[Run(A), Visit, Visit]];

/// A CPU runs more spaces than there are tags, and unmaps in one that it has run in the epoch before.
const TURN: &[&[Act]] = &[&[
    Run(A),
    Visit,
    Run(B),
    Visit,
    Run(2),
    Visit,
    Run(3),
    Visit,
    Unmap(A, 0),
    Run(A),
    Visit,
    Run(B),
    Visit,
]];
/// The same while another CPU stays in user mode.
const STAYS: &[&[Act]] =
    &[&[Run(B), Visit, Run(2), Visit, Run(3), Visit, Unmap(A, 0)], &[Run(A), Visit, Visit]];
/// A space is released in which another CPU is lazy, and its tag goes to another one.
const RELEASED: &[&[Act]] =
    &[&[Await, Release(A), Run(B), Visit], &[Run(A), Visit, Lazy, Signal, Run(B), Visit, Copy]];
/// A CPU releases the space that it has run itself, and runs others under its tag.
const REUSED: &[&[Act]] =
    &[&[Run(A), Visit, Run(B), Release(A), Visit, Run(2), Visit, Run(3), Visit, Run(4), Visit]];
/// A CPU calls firmware from a space in which a page is unmapped meanwhile.
const CALLED: &[&[Act]] = &[&[Unmap(A, 0)], &[Run(A), Visit, Firmware, Copy, Visit]];
/// A CPU calls firmware between two spaces.
const CALLS: &[&[Act]] = &[&[Run(A), Firmware, Visit, Copy, Run(B), Firmware, Copy, Visit]];
/// A CPU parks while a page is unmapped, and comes back.
const PARKED: &[&[Act]] = &[&[Unmap(A, 0)], &[Run(A), Visit, Park, Run(A), Visit, Copy]];
/// A page is unmapped with early acknowledgement.
const EARLY: &[&[Act]] = &[&[Early(A)], &[Run(A), Visit, Copy, Visit]];
/// Both pages are unmapped in a batch.
const BATCH: &[&[Act]] = &[&[Batch(A)], &[Run(A), Visit, Copy, Visit]];
/// A page that only the kernel has is unmapped while another CPU goes to user mode and comes back.
const KERNEL: &[&[Act]] = &[&[Run(A), UnmapKernel], &[Run(A), Visit, Copy, Run(B), Copy]];
/// It is unmapped while another CPU has left a space, and switches back.
const KERNEL_BACK: &[&[Act]] = &[&[UnmapKernel], &[Run(A), Run(B), Run(A), Copy]];
/// It is unmapped while another CPU parks. What that CPU holds of the reserved root is from before its first switch.
const KERNEL_PARK: &[&[Act]] = &[&[UnmapKernel], &[Run(A), Park, Run(A), Copy]];
/// It is unmapped while another CPU has a foreign root loaded.
const KERNEL_CALLED: &[&[Act]] = &[&[UnmapKernel], &[Run(A), Firmware, Copy, Park]];
/// It is unmapped, and then a CPU has to park that is lazy and has a foreign root loaded.
const KERNEL_CALLED_LAZY: &[&[Act]] =
    &[&[UnmapKernel, Await, FreeTable(A)], &[Run(A), Lazy, Signal, Firmware]];
/// It is unmapped while another CPU is lazy in one of two spaces.
const KERNEL_LAZY: &[&[Act]] = &[&[UnmapKernel], &[Run(A), Run(B), Lazy, Run(A), Copy]];
/// The trap frame is unmapped while another CPU goes to user mode and comes back.
const TRAP: &[&[Act]] = &[&[UnmapTrap], &[Run(A), Visit, Copy, Visit]];
/// It is unmapped while another CPU has left a space in which it was in user mode, and switches back.
const TRAP_BACK: &[&[Act]] = &[&[UnmapTrap], &[Run(A), Visit, Run(B), Run(A), Visit]];
/// Its table is freed while another CPU goes to user mode, switches away and parks.
const TRAP_TABLE: &[&[Act]] = &[&[FreeTrapTable], &[Run(A), Visit, Copy, Visit]];
/// The same while the CPU switches away and back, and parks.
const TRAP_TABLE_BACK: &[&[Act]] = &[&[FreeTrapTable], &[Run(A), Run(B), Run(A), Park]];
/// A CPU goes between user mode and the kernel, and neither meets the other's page.
const CROSSES: &[&[Act]] = &[&[Run(A), Copy, Visit, Copy, Run(B), Visit, Copy, Visit]];

fn open<K: Kind>(name: &'static str, cpus: &'static [&'static [Act]]) -> Explored {
    let cpus = cpus.iter().map(|acts| acts.to_vec()).collect();
    Explored::new(Script { name: name.to_owned(), cpus, kind: Described::of::<K>(), early: false })
}

macro_rules! pairs {
    ($($name:literal, $kind:ty, $cpus:expr, $about:literal;)*) => {
        pub(super) static SCENARIOS: &[Entry] = &[$(Entry {
            name: $name,
            about: $about,
            depth: DEPTH,
            open: Open::By(|| open::<$kind>($name, $cpus)),
        }),*];
    };
}

const DEPTH: Depth = Exhaust;

pairs! {
    "pair-unmap", OnLoad, VISITED,
        "a page is unmapped while another CPU is in user mode, in the kernel, or between";
    "pair-unmap-at-exit", AtExit, VISITED,
        "as pair-unmap, with the user's half flushed on exit";
    "pair-unmap-no-invpcid", NoInvpcid, VISITED, "as pair-unmap, without INVPCID";
    "pair-unmap-invlpgb", Broadcast, BOTH, "as pair-both, by broadcasts";
    "pair-both", OnLoad, BOTH, "a page is unmapped from two CPUs that leave for user mode";
    "pair-own", OnLoad, OWN, "a page is unmapped that a CPU has used in user mode";
    "pair-own-at-exit", AtExit, OWN, "as pair-own, with the user's half flushed on exit";
    "pair-own-no-invpcid", NoInvpcid, OWN, "as pair-own, without INVPCID";
    "pair-own-invlpgb", Broadcast, OWN, "as pair-own, with global tags";
    "pair-away", OnLoad, AWAY, "a page is unmapped while another CPU is in another space, and comes back";
    "pair-away-at-exit", AtExit, AWAY, "as pair-away, with the user's half flushed on exit";
    "pair-away-no-invpcid", NoInvpcid, AWAY, "as pair-away, without INVPCID";
    "pair-away-invlpgb", Broadcast, AWAY, "as pair-away, by broadcasts";
    "pair-slots-at-exit", AtExit, SLOTS, "one CPU, three spaces, two slots, user mode in each, flushed on exit";
    "pair-left-at-exit", AtExit, LEFT, "pages are unmapped in a space that a CPU has left and switches back to; flushed on exit";
    "pair-protect", OnLoad, PROTECTED, "a page becomes read-only while another CPU is in user mode";
    "pair-own-protect", OnLoad, OWN_PROTECTED, "a page becomes read-only that a CPU has written to";
    "pair-table", OnLoad, TABLE, "a table is freed while another CPU is in user mode";
    "pair-table-at-exit", AtExit, TABLE, "as pair-table, with the user's half flushed on exit";
    "pair-table-invlpgb", Broadcast, TABLE, "as pair-table, by broadcasts";
    "pair-own-table", OnLoad, OWN_TABLE, "a table is freed that a CPU has walked in user mode";
    "pair-own-table-invlpgb", Broadcast, OWN_TABLE, "as pair-own-table, with global tags";
    "pair-everything", OnLoad, EVERYTHING, "a whole space is unmapped that two CPUs have used in user mode";
    "pair-everything-invlpgb", Broadcast, EVERYTHING, "as pair-everything, by broadcasts";
    "pair-lazy-table", OnLoad, LAZY, "a table is freed while another CPU is lazy, and comes back";
    "pair-lazy-table-at-exit", AtExit, LAZY, "as pair-lazy-table, with the user's half flushed on exit";
    "pair-unmap-riscv", Rv, VISITED, "as pair-unmap, with a root of the kernel's own";
    "pair-unmap-riscv-sbi", RvSbi, BOTH, "as pair-both, by remote fences, with a root of the kernel's own";
    "pair-unmap-riscv-recent", RvRecent, VISITED, "as pair-unmap-riscv, with tags by recency";
    "pair-unmap-riscv-no-asid", RvPlain, VISITED, "as pair-unmap-riscv, without ASIDs";
    "pair-own-riscv", Rv, OWN, "as pair-own, with a root of the kernel's own";
    "pair-own-riscv-no-asid", RvPlain, OWN, "as pair-own-riscv, without ASIDs";
    "pair-away-riscv", Rv, AWAY, "as pair-away, with a root of the kernel's own";
    "pair-away-riscv-recent", RvRecent, AWAY, "as pair-away-riscv, with tags by recency";
    "pair-away-riscv-no-asid", RvPlain, AWAY, "as pair-away-riscv, without ASIDs";
    "pair-slots-riscv", RvRecent, SLOTS, "one CPU, three spaces, two slots, with a root of the kernel's own";
    "pair-protect-riscv", Rv, PROTECTED, "as pair-protect, with a root of the kernel's own";
    "pair-table-riscv", Rv, TABLE, "as pair-table, with a root of the kernel's own";
    "pair-table-riscv-no-asid", RvPlain, TABLE, "as pair-table-riscv, without ASIDs";
    "pair-own-table-riscv", Rv, OWN_TABLE, "as pair-own-table, with a root of the kernel's own";
    "pair-lazy-table-riscv", RvRecent, LAZY, "as pair-lazy-table, with a root of the kernel's own";
    "pair-lazy-table-riscv-no-asid", RvPlain, LAZY, "as pair-lazy-table-riscv, without ASIDs";
    "pair-turn-riscv", Rv, TURN, "the tags run out, with a root of the kernel's own";
    "pair-stays-riscv", Rv, STAYS, "the tags run out while another CPU is in user mode, with a root of the kernel's own";
    "pair-last-riscv", RvLast, TURN, "the last epoch begins, with a root of the kernel's own";
    "pair-release-riscv", Rv, RELEASED, "a space is released in which another CPU is lazy, with a root of the kernel's own";
    "pair-release-riscv-recent", RvRecent, RELEASED, "as pair-release-riscv, with tags by recency";
    "pair-release-riscv-no-asid", RvPlain, RELEASED, "as pair-release-riscv, without ASIDs";
    "pair-reuse-riscv", Rv, REUSED, "a released space's tag is given again, with a root of the kernel's own";
    "pair-firmware-riscv", Rv, CALLED, "a page is unmapped during a firmware call, with a root of the kernel's own";
    "pair-firmware-riscv-no-asid", RvPlain, CALLED, "as pair-firmware-riscv, without ASIDs";
    "pair-calls-riscv", Rv, CALLS, "firmware is called in two spaces, with a root of the kernel's own";
    "pair-park-riscv", Rv, PARKED, "a page is unmapped while another CPU is parked, with a root of the kernel's own";
    "pair-cross-riscv-no-asid", RvPlain, CROSSES, "kernel and user mode have other pages at one address, without ASIDs";
    "pair-unmap-arm", Arm, VISITED, "as pair-unmap, with two ASIDs";
    "pair-unmap-arm-ttbr1", ArmTtbr1, VISITED, "as pair-unmap-arm, with the ASID in TTBR1";
    "pair-unmap-arm-recent", ArmRecent, VISITED, "as pair-unmap-arm, with tags by recency";
    "pair-own-arm", Arm, OWN, "as pair-own, with two ASIDs";
    "pair-away-arm", Arm, AWAY, "as pair-away, with two ASIDs";
    "pair-slots-arm", ArmRecent, SLOTS, "one CPU, three spaces, two slots, with two ASIDs";
    "pair-protect-arm", Arm, PROTECTED, "as pair-protect, with two ASIDs";
    "pair-table-arm", Arm, TABLE, "as pair-table, with two ASIDs";
    "pair-own-table-arm-ttbr1", ArmTtbr1, OWN_TABLE, "as pair-own-table, with two ASIDs and the ASID in TTBR1";
    "pair-lazy-table-arm", Arm, LAZY, "as pair-lazy-table, with two ASIDs";
    "pair-turn-arm", Arm, TURN, "the tags run out, with two ASIDs";
    "pair-release-arm", Arm, RELEASED, "a space is released in which another CPU is lazy, with two ASIDs";
    "pair-reuse-arm", Arm, REUSED, "a released space's tags are given again, with two ASIDs";
    "pair-early", OnLoad, EARLY, "a page is unmapped with early acknowledgement while another CPU is in user mode";
    "pair-early-riscv", Rv, EARLY, "as pair-early, with a root of the kernel's own";
    "pair-batch", OnLoad, BATCH, "two pages are unmapped in a batch while another CPU is in user mode";
    "pair-batch-at-exit", AtExit, BATCH, "as pair-batch, with the user's half flushed on exit";
    "pair-batch-riscv", Rv, BATCH, "as pair-batch, with a root of the kernel's own";
    "pair-batch-arm", Arm, BATCH, "as pair-batch, with two ASIDs";
    "pair-kernel", OnLoad, KERNEL, "a page of the kernel is unmapped while another CPU is in user mode, which never reaches it";
    "pair-kernel-no-invpcid", NoInvpcid, KERNEL, "as pair-kernel, without INVPCID";
    "pair-kernel-invlpgb", Broadcast, KERNEL, "as pair-kernel, by broadcasts";
    "pair-kernel-back", OnLoad, KERNEL_BACK, "a page of the kernel is unmapped while another CPU is in another space, and comes back";
    "pair-kernel-park", OnLoad, KERNEL_PARK, "a page of the kernel is unmapped while another CPU parks, and comes back";
    "pair-kernel-firmware", OnLoad, KERNEL_CALLED, "a page of the kernel is unmapped while another CPU calls firmware";
    "pair-kernel-firmware-lazy", OnLoad, KERNEL_CALLED_LAZY, "as pair-kernel-firmware, and the CPU must leave its space meanwhile";
    "pair-kernel-lazy", OnLoad, KERNEL_LAZY, "a page of the kernel is unmapped while another CPU is lazy, and switches to another space";
    "pair-trap", OnLoad, TRAP, "a trap frame is unmapped while another CPU is in user mode, in the kernel, or between";
    "pair-trap-at-exit", AtExit, TRAP, "as pair-trap, with the user's half flushed on exit";
    "pair-trap-at-exit-no-invpcid", AtExitNoInvpcid, TRAP, "as pair-trap-at-exit, without INVPCID";
    "pair-trap-back", OnLoad, TRAP_BACK, "a trap frame is unmapped while another CPU is in another space, and comes back";
    "pair-trap-back-at-exit", AtExit, TRAP_BACK, "as pair-trap-back, with the user's half flushed on exit";
    "pair-trap-table", OnLoad, TRAP_TABLE, "the table of a trap frame is freed while another CPU is in user mode";
    "pair-trap-table-at-exit", AtExit, TRAP_TABLE, "as pair-trap-table, with the user's half flushed on exit";
    "pair-trap-table-back", OnLoad, TRAP_TABLE_BACK, "the table of a trap frame is freed while another CPU switches and parks";
    "one-kernel-back", One, KERNEL_BACK, "as pair-kernel-back, with one table whose kernel entries are not global";
    "one-kernel-park", One, KERNEL_PARK, "as pair-kernel-park, with one table whose kernel entries are not global";
    "pair-kernel-riscv", Rv, KERNEL, "as pair-kernel, with a root of the kernel's own";
    "pair-kernel-riscv-sbi", RvSbi, KERNEL, "as pair-kernel-riscv, by remote fences";
    "pair-kernel-riscv-no-asid", RvPlain, KERNEL, "as pair-kernel-riscv, without ASIDs";
    "pair-kernel-arm", Arm, KERNEL, "a page of the kernel is unmapped, with two ASIDs";
    "pair-unmap-arm-cnp", ArmShared, VISITED, "as pair-unmap-arm, with shared TLBs";
    "pair-turn-arm-cnp", ArmShared, TURN, "as pair-turn-arm, with shared TLBs";
    "pair-stays-arm-cnp", ArmShared, STAYS, "the tags run out while another CPU is in user mode, with two ASIDs and shared TLBs";
    "pair-release-arm-cnp", ArmShared, RELEASED, "as pair-release-arm, with shared TLBs";
    "pair-last-arm-cnp", ArmSharedLast, TURN, "the last epoch begins, with two ASIDs and shared TLBs";
    "pair-stays-arm-cnp-last", ArmSharedLast, STAYS, "as pair-stays-arm-cnp, and the last epoch begins";
}
