//! Blocks of entries that hardware may hold as one.

use super::super::{
    Depth::{self, Bounded, Exhaust},
    Entry, Explored,
    blocks::{Act::*, mapped::*, *},
};

/// A block is unmapped as a whole while user code stores through it.
pub(super) const UNMAP: &[&[Act]] = &[&[Unmap(0..4)], &[Store(1), Load(2)]];
/// Two of its pages are unmapped.
const UNMAP_PART: &[&[Act]] = &[&[Unmap(1..3)], &[Store(1), Store(3)]];
/// Its two halves belong to two areas, and are unmapped one after the other.
const UNMAP_HALVES: &[&[Act]] = &[&[Unmap(0..2), Unmap(2..4)], &[Store(1), Store(3)]];
/// While a CPU switches away and back.
const UNMAP_AWAY: &[&[Act]] = &[&[Unmap(1..3)], &[Store(1), Park, Run]];
/// Across two blocks, with both ends ragged.
const UNMAP_TWO: &[&[Act]] = &[&[Unmap(2..7)], &[Store(3), Store(7)]];
const UNMAP_LAST: &[&[Act]] = &[&[Unmap(13..16)], &[Store(12), Store(15)]];
const UNMAP_WIDE: &[&[Act]] = &[&[Unmap(3..16)], &[Store(1), Store(15)]];

/// The process has ended everywhere else.
const EXIT: &[&[Act]] = &[&[Await, Exit(1..4), Exit(0..1)], &[Store(0), Park, Tell]];

pub(super) const UNFOLD: &[&[Act]] = &[&[Unfold(2)], &[Store(1), Load(2)]];
const FOLD: &[&[Act]] = &[&[Fold(0)], &[Store(1), Load(2)]];
const FOLD_AND_UNFOLD: &[&[Act]] = &[&[Fold(0), Unfold(3)], &[Store(1), Store(2)]];
/// The accessed flag is cleared before the size changes.
const AGED_UNFOLD: &[&[Act]] = &[&[Age(0..4), Unfold(0)], &[Load(1), Store(2)]];

pub(super) const PROTECT: &[&[Act]] = &[&[Protect(0..4)], &[Store(1), Store(2)]];
const PROTECT_PART: &[&[Act]] = &[&[Protect(0..2)], &[Store(1), Store(2)]];
const AGE: &[&[Act]] = &[&[Age(1..2), Age(0..4)], &[Load(0), Store(2)]];
const CLEAN: &[&[Act]] = &[&[Clean(1..2), Clean(0..4)], &[Store(0), Store(2)]];
const ALLOW: &[&[Act]] = &[&[Protect(0..4), Allow(1)], &[Store(1), Store(2)]];

/// A store to a page whose own entry says less than that of another page of its block.
const INSIST: &[&[Act]] = &[&[Unfold(1)], &[Insist(1)]];
const REPAIR: &[&[Act]] = &[&[Run, Insist(1)], &[Insist(1), Store(2)]];
const INSIST_TWICE: &[&[Act]] = &[&[Clean(0..4)], &[Insist(1), Insist(1)]];

/// The state of a block in pieces is read, and the block is unmapped.
const IN_PIECES: &[&[Act]] = &[&[Ask(2), Unmap(2..4), Ask(0)], &[Load(0), Load(3)]];

const LOOK_UNFOLD: &[&[Act]] = &[&[Unfold(0)], &[Look(1), Look(0)]];
const LOOK_FOLD: &[&[Act]] = &[&[Unfold(0), Fold(0)], &[Look(1), Look(2)]];
const LOOK_UNMAP: &[&[Act]] = &[&[Unmap(2..4)], &[Look(1), Look(3)]];

/// Pages are written to and mapped while a reader without the lock looks for one of them.
const LOOK_MAP: &[&[Act]] = &[&[Map(4..8)], &[Peruse(5)]];
/// A block is made read-only while a reader without the lock relies on it.
const RELY_PROTECTED: &[&[Act]] = &[&[Protect(0..4)], &[Rely(2)], &[Store(2)]];

/// A scenario of a kind of table.
macro_rules! blocks {
    ($name:literal, $kind:ty, $mapped:expr, $cpus:expr, $depth:expr, $about:literal) => {
        blocks!($name, $kind, $mapped, &[], $cpus, $depth, $about)
    };
    ($name:literal, $kind:ty, $mapped:expr, $written:expr, $cpus:expr, $depth:expr, $about:literal) => {
        Entry {
            name: $name,
            about: $about,
            depth: $depth,
            open: $crate::scenario::Open::By(|| {
                $crate::scenario::catalogue::blocks::open::<$kind>($name, $mapped, $written, $cpus)
            }),
        }
    };
}

pub(super) use blocks;

pub(super) fn open<K: Kind>(
    name: &'static str,
    mapped: &'static [Mapped],
    written: &'static [usize],
    cpus: &'static [&'static [Act]],
) -> Explored {
    Explored::new(Script {
        name: name.to_owned(),
        mapped,
        written,
        cpus: cpus.iter().map(|acts| acts.to_vec()).collect(),
        refusals: false,
        kind: Described::of::<K>(),
    })
}

const FULL: Depth = Exhaust;

#[rustfmt::skip]
pub(super) static SCENARIOS: &[Entry] = &[
    blocks!("block-unmap-arm", ArmBreaks, USED, UNMAP, FULL,
        "a block is unmapped as a whole while user code stores through it"),
    blocks!("block-unmap-fresh-arm", ArmBreaks, FRESH, UNMAP, FULL,
        "as block-unmap-arm, before any access"),
    blocks!("block-unmap-riscv", NapotFree, USED, UNMAP, FULL,
        "as block-unmap-arm, on RISC-V with Svnapot"),
    blocks!("block-part-arm", ArmBreaks, USED, UNMAP_PART, FULL,
        "pages are unmapped out of the middle of a block while user code stores through it"),
    blocks!("block-part-arm-free", ArmFree, USED, UNMAP_PART, FULL,
        "as block-part-arm, where sizes may change without a break"),
    blocks!("block-part-arm-held", ArmHeld, FRESH, UNMAP_PART, Bounded(3),
        "as block-part-arm, where only blocks that may be held are flushed"),
    blocks!("block-part-arm-interrupts", ArmAsks, USED, UNMAP_PART, Bounded(3),
        "as block-part-arm, where an interrupt is cheap"),
    blocks!("block-part-riscv", NapotBreaks, USED, UNMAP_PART, FULL,
        "as block-part-arm, on RISC-V with Svnapot"),
    blocks!("block-part-riscv-free", NapotFree, USED, UNMAP_PART, FULL,
        "as block-part-riscv, without a flush in the middle"),
    blocks!("block-part-riscv-interrupts", NapotAsks, USED, UNMAP_PART, Bounded(3),
        "as block-part-riscv-free, with interrupts"),
    blocks!("block-away-arm", ArmBreaks, USED, UNMAP_AWAY, Bounded(3),
        "pages are unmapped out of a block while another CPU switches away and back"),
    blocks!("block-halves-arm", ArmBreaks, USED, UNMAP_HALVES, FULL,
        "a block across two areas is unmapped in two halves"),
    blocks!("block-two-arm", ArmBreaks, TWO, UNMAP_TWO, Bounded(3),
        "pages of two blocks are unmapped, and both blocks are unfolded"),
    blocks!("block-two-riscv-free", NapotFree, TWO, UNMAP_TWO, Bounded(3),
        "as block-two-arm, on RISC-V without flushes in the middle"),
    blocks!("block-last-arm", ArmBreaks, LAST, UNMAP_LAST, FULL,
        "as block-part-arm, at the end of the table"),
    blocks!("block-wide-arm", ArmWide, WIDE, &[1, 15], UNMAP_WIDE, Bounded(2),
        "as block-part-arm, with sixteen pages"),
    blocks!("block-wide-riscv", NapotWide, WIDE, &[1, 15], UNMAP_WIDE, Bounded(2),
        "as block-part-riscv-free, with sixteen pages"),

    blocks!("block-exit-arm", ArmBreaks, USED, EXIT, FULL,
        "a block is unmapped in two parts when no CPU runs the space any more"),
    blocks!("block-exit-riscv", NapotBreaks, USED, EXIT, FULL,
        "as block-exit-arm, on RISC-V with Svnapot"),

    blocks!("block-unfold-arm", ArmBreaks, USED, UNFOLD, FULL,
        "a block becomes pages while user code stores through it"),
    blocks!("block-unfold-fresh-arm", ArmHeld, FRESH, UNFOLD, FULL,
        "a block that was never accessed becomes pages, without a flush if no TLB can hold it"),
    blocks!("block-unfold-arm-free", ArmFree, USED, UNFOLD, FULL,
        "as block-unfold-arm, without a break"),
    blocks!("block-unfold-riscv-free", NapotFree, USED, UNFOLD, FULL,
        "as block-unfold-arm-free, on RISC-V with Svnapot"),
    blocks!("block-aged-arm", ArmHeld, USED, AGED_UNFOLD, Bounded(3),
        "the accessed flag of a block is cleared, and then it becomes pages"),
    blocks!("block-fold-arm", ArmBreaks, FRESH_PAGES, FOLD, FULL,
        "pages become a block while user code stores through them"),
    blocks!("block-fold-riscv-free", NapotFree, FRESH_PAGES, FOLD, FULL,
        "as block-fold-arm, on RISC-V without a break"),
    blocks!("block-both-arm", ArmBreaks, PAGES, FOLD_AND_UNFOLD, FULL,
        "pages become a block and pages again"),
    blocks!("block-both-riscv", NapotBreaks, PAGES, FOLD_AND_UNFOLD, FULL,
        "as block-both-arm, on RISC-V with Svnapot"),

    blocks!("block-protect-arm", ArmBreaks, USED, PROTECT, FULL,
        "a block becomes read-only while user code stores through it"),
    blocks!("block-protect-riscv", NapotBreaks, USED, PROTECT, FULL,
        "as block-protect-arm, on RISC-V with Svnapot"),
    blocks!("block-protect-part-arm", ArmBreaks, USED, PROTECT_PART, FULL,
        "half a block becomes read-only"),
    blocks!("block-protect-part-riscv-free", NapotFree, USED, PROTECT_PART, FULL,
        "as block-protect-part-arm, on RISC-V without a break"),
    blocks!("block-age-arm", ArmBreaks, USED, AGE, FULL,
        "the accessed flag of a block is cleared while hardware sets it"),
    blocks!("block-age-riscv", NapotFree, USED, AGE, FULL,
        "as block-age-arm, on RISC-V with Svnapot"),
    blocks!("block-clean-arm", ArmBreaks, DIRTY, CLEAN, FULL,
        "a block becomes clean while user code stores through it"),
    blocks!("block-clean-riscv", NapotFree, DIRTY, CLEAN, FULL,
        "as block-clean-arm, on RISC-V with Svnapot"),
    blocks!("block-allow-arm", ArmBreaks, DIRTY, ALLOW, FULL,
        "a block becomes read-only, and one of its pages writable again"),
    blocks!("block-allow-riscv", NapotFree, DIRTY, ALLOW, FULL,
        "as block-allow-arm, on RISC-V with Svnapot"),

    blocks!("block-pieces-arm", ArmBreaks, PIECES, IN_PIECES, FULL,
        "a block whose entries differ is read, and unmapped"),
    blocks!("block-pieces-riscv", NapotFree, PIECES, IN_PIECES, FULL,
        "as block-pieces-arm, on RISC-V with Svnapot"),

    blocks!("block-fault-arm", ArmByHand, DIRTY, INSIST, FULL,
        "without hardware updates: a fault on a page whose entry lacks a flag that its block has"),
    blocks!("block-repair-arm", ArmByHand, DIRTY, REPAIR, FULL,
        "without hardware updates: two faults on such a page"),
    blocks!("block-repair-riscv", NapotByHand, DIRTY, REPAIR, FULL,
        "as block-repair-arm, on RISC-V with Svade"),
    blocks!("block-fault-clean-arm", ArmByHand, USED, INSIST_TWICE, FULL,
        "without hardware updates: stores while the block becomes clean"),
    blocks!("block-fault-riscv", NapotByHand, DIRTY, INSIST, FULL,
        "as block-fault-arm, on RISC-V with Svade"),

    blocks!("block-look-unfold-arm", ArmBreaks, DIRTY, LOOK_UNFOLD, FULL,
        "a reader without the lock, while a block becomes pages"),
    blocks!("block-look-fold-arm", ArmBreaks, DIRTY, LOOK_FOLD, FULL,
        "a reader without the lock, while a block becomes pages and a block again"),
    blocks!("block-look-unmap-arm", ArmBreaks, DIRTY, LOOK_UNMAP, FULL,
        "a reader without the lock, while half the block is unmapped"),
    blocks!("block-look-unfold-riscv", NapotFree, DIRTY, LOOK_UNFOLD, FULL,
        "as block-look-unfold-arm, on RISC-V with Svnapot"),
    blocks!("block-look-map-arm-early", ArmEarly, USED, LOOK_MAP, FULL,
        "a reader without the lock, while a block is mapped that was written to before, with early loads"),
    blocks!("block-look-map-riscv-early", NapotEarly, USED, LOOK_MAP, FULL,
        "as block-look-map-arm-early, on RISC-V with Svnapot"),
    blocks!("block-rely-protected-arm-early", ArmEarly, DIRTY, RELY_PROTECTED, Bounded(3),
        "a reader without the lock relies on a page that becomes read-only, with early loads"),
];
