//! Separate tables for the kernel and user mode (KPTI).

use core::marker::PhantomData;

use lookaside_machine::explore::Explorer;

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

fn open<K: Kind>(name: &'static str, cpus: &'static [&'static [Act]]) -> Box<dyn Explored> {
    Box::new(Explorer::new(Script::<K> { name, cpus, kind: PhantomData }))
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
}
