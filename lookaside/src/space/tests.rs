//! Records of missed flushes while other CPUs write them; and the residency lock.

use super::*;
use crate::{
    arch::aarch64::{Aarch64, Dsb, Instructions, Tlbi},
    ids::{CpuId, Targets},
    tests::{Busy, keep, meanwhile},
};

// ---- While others write

/// A machine of which only the words are used.
struct Paper;

impl Instructions for Paper {
    fn tlbi(&self, _: Tlbi) {}
    fn dsb(&self, _: Dsb) {}
    fn isb(&self) {}
    fn write_ttbr0(&self, _: u64) {}
    fn read_ttbr1(&self) -> u64 {
        0
    }
    fn write_ttbr1(&self, _: u64) {}
    fn ic_iallu(&self) {}
}

// SAFETY: no CPU runs anything.
unsafe impl Platform for Paper {
    type Word = Busy;
    type Mmu = Aarch64<Self>;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = [Busy; 1];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &Self::Mmu {
        unreachable!("nothing is flushed")
    }

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    fn send_ipi(&self, _: Targets) {}

    fn relax(&self) {}
}

/// A space of one CPU that others can use meanwhile.
fn space() -> &'static AddressSpace<Paper> {
    keep(AddressSpace::with_id(Root::new(4096), 1, TlbId::NONE, [Busy::ZERO]))
}

fn page(number: u64) -> MissedFlush {
    MissedFlush::Pages(VaRange::new(number << 12, 1 << 12, 12).unwrap())
}

#[test]
fn missing_one_flush_needs_its_pages_and_two_everything() {
    let space = space();
    space.record(1, page(7));
    space.record(2, page(8));
    let missed = [(2, 2), (1, 2), (0, 2)].map(|(done, now)| space.missed_flush(done, now));
    assert_eq!(missed, [None, Some(page(8)), Some(MissedFlush::Everything)]);
}

#[test]
fn the_note_of_a_later_flush_stays() {
    let space = space();
    space.record(5, page(7));
    space.record(4, page(8));
    assert_eq!(space.missed_flush(4, 5), Some(page(7)));
}

#[test]
fn a_note_that_comes_while_an_older_one_is_read_is_not_taken_for_what_was_read() {
    let space = space();
    space.record(1, page(7));
    // The pages were read, and then it comes that the generation is 2.
    let missed = meanwhile(3, || space.record(2, page(8)), || space.missed_flush(1, 2));
    assert_eq!(missed, Some(MissedFlush::Everything));
}

#[test]
fn a_note_that_changes_after_its_generation_was_read_is_not_believed() {
    let space = space();
    space.record(2, page(7));
    let missed = meanwhile(2, || space.record(3, page(8)), || space.missed_flush(1, 2));
    assert_eq!(missed, Some(MissedFlush::Everything));
}

#[test]
fn a_record_that_loses_the_race_writes_nothing() {
    let space = space();
    // The one has looked, and the other one writes its note.
    meanwhile(2, || space.record(3, page(8)), || space.record(2, page(7)));
    assert_eq!(space.missed_flush(2, 3), Some(page(8)));
}

// ---- The residency lock

#[test]
fn one_at_a_time_has_the_residency_lock() {
    let space = space();
    let residency = space.try_lock_residency();
    assert!(residency.is_some() && space.try_lock_residency().is_none());
    drop(residency);
    assert!(space.try_lock_residency().is_some());
}

#[test]
fn retagging_notes_held_entries_only_if_walks_outlive_tags() {
    for outlive in [false, true] {
        let space = space();
        space.lock_residency(&Paper).set_stale(true);
        assert!(space.absent_may_hold_entries());
        space.lock_residency(&Paper).note_former_tag(outlive);
        assert!(!space.absent_may_hold_entries(), "not under the next tag");
        assert_eq!(space.held_under_older_tags(), outlive);
        space.lock_residency(&Paper).set_older(false);
        assert!(!space.held_under_older_tags());
    }
}

// ---- How a note is packed

#[test]
fn notes_survive_the_packing() {
    for (start, pages) in [(0, 1), (0x7fff_ffff_f000, 1), (0x1000, 33), (1 << 40, MAX_NOTED)] {
        let range = VaRange::new(start, pages << 12, 12).unwrap();
        for uniform in [false, true] {
            let missed = MissedFlush::Pages(if uniform { range } else { range.mixed() });
            assert_eq!(unpack(pack(missed)), missed);
        }
    }
}

#[test]
fn a_missed_flush_too_large_to_pack_is_everything() {
    let many = VaRange::new(0, (MAX_NOTED + 1) << 12, 12).unwrap();
    let large = VaRange::new(0, 1 << 21, 21).unwrap();
    for range in [many, large] {
        assert_eq!(unpack(pack(MissedFlush::Pages(range))), MissedFlush::Everything);
    }
    assert_eq!(unpack(pack(MissedFlush::Everything)), MissedFlush::Everything);
}
