//! Spaces with a top table for each CPU, which map the same pages of user mode and a page of the CPU's own.

use super::{
    flush::{LAZY, TABLE},
    recent::{LEAVE, VISIT},
    tags::{ROLLOVER, UNMAP},
    *,
};

/// A space ends while a CPU may be lazy in it.
const END_LAZY: &[&[Act]] = &[&[Await, End(A), Run(B)], &[Run(A), Lazy, Tell, Run(B)]];

/// A CPU that is lazy in a space when it is released parks; so does one that has called firmware from it.
const RELEASE_FIRMWARE: &[&[Act]] =
    &[&[Await, End(A), Run(B)], &[Run(A), Lazy, Tell, LongFirmware]];

/// CPUs 1 and 2 are lazy in a space, each under its own root, when it is released.
const RELEASE_TWO: &[&[Act]] = &[&[End(A)], &[Run(A), Lazy], &[Run(A), Lazy]];

/// A firmware call in between: the root of before comes back.
const FIRMWARE: &[&[Act]] = &[&[Run(A), Firmware, Read], &[Run(A), Unmap(A)]];

/// As `by_epoch`, with a root for each CPU.
macro_rules! own_epoch {
    ($name:literal, $hardware:ty, $few:expr, $cpus:expr, $depth:expr, $about:literal) => {
        Entry {
            name: $name,
            about: $about,
            depth: $depth,
            open: Open::With(|more| {
                on_epochs::<$hardware>($name, $cpus, $few, More { roots: true, ..more })
            }),
        }
    };
}

/// As `by_recency`, with a root for each CPU.
macro_rules! own_recent {
    ($name:literal, $hardware:ty, $cpus:expr, $depth:expr, $about:literal) => {
        Entry {
            name: $name,
            about: $about,
            depth: $depth,
            open: Open::With(|more| {
                on_recent::<$hardware>($name, $cpus, More { roots: true, ..more })
            }),
        }
    };
}

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    own_epoch!("roots-unmap-arm", Arm, THREE_TAGS, UNMAP, Bounded(2),
        "a page is unmapped during rollovers, by CPUs with roots of their own"),
    own_epoch!("roots-unmap-riscv", Rv, THREE_TAGS, UNMAP, Bounded(2),
        "as roots-unmap-arm, on RISC-V"),
    own_epoch!("roots-rollover-arm", Arm, THREE_TAGS, ROLLOVER, Bounded(2),
        "rollovers of CPUs with roots of their own"),
    own_epoch!("roots-table-arm", Arm, THREE_TAGS, TABLE, Bounded(2),
        "a table is freed that the roots of all CPUs lead to"),
    own_epoch!("roots-lazy-arm-interrupts", ArmInterrupts, THREE_TAGS, LAZY, Bounded(2),
        "a page is unmapped while a CPU is lazy under a root of its own"),
    own_epoch!("roots-table-x86-invlpgb", Broadcast, THREE_TAGS, TABLE, Bounded(2),
        "as roots-table-arm, on x86-64 with INVLPGB"),
    own_epoch!("roots-release-riscv-interrupts", RvInterrupts, THREE_TAGS, END_LAZY, Bounded(3),
        "a space is released while a CPU may be lazy under its own root of it"),
    own_epoch!("roots-release-two-riscv-interrupts", RvInterrupts, few(4), RELEASE_TWO, Bounded(2),
        "as roots-release-riscv-interrupts, with two such CPUs"),
    own_epoch!("roots-release-firmware-arm", Arm, THREE_TAGS, RELEASE_FIRMWARE, Bounded(3),
        "a space is released while a CPU calls firmware from its own root of it"),
    own_recent!("roots-visit-x86", Pcid, VISIT, Bounded(2),
        "a page is unmapped while CPUs with roots of their own visit the space"),
    own_recent!("roots-visit-x86-no-pcid", Plain, VISIT, Bounded(2),
        "as roots-visit-x86, without PCIDs"),
    own_recent!("roots-leave-riscv", RvInterrupts, LEAVE, Bounded(2),
        "a page is unmapped while a CPU with a root of its own leaves the space"),
    own_recent!("roots-release-x86", Pcid, END_LAZY, Bounded(3),
        "a space is released while a CPU may be lazy under its own root of it"),
    own_recent!("roots-release-two-x86", Pcid, RELEASE_TWO, Bounded(2),
        "as roots-release-x86, with two such CPUs"),
    own_recent!("roots-firmware-x86", Pcid, FIRMWARE, Bounded(3),
        "a page is unmapped while a CPU calls firmware, and comes back to its own root"),
];
