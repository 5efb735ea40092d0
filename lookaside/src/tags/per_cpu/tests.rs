//! What is written into a CPU's slots, and what others read there meanwhile.

use super::*;
use crate::tests::{Busy, keep, meanwhile};

/// One bit for each slot that was ever hit.
enum Seen {}

impl Replacement for Seen {
    const NOTES_HITS: bool = true;

    fn hit(word: u64, slot: usize) -> u64 {
        word | 1 << slot
    }

    fn victim(word: u64, _: usize, _: usize) -> (usize, u64) {
        (0, word)
    }
}

#[test]
fn a_hit_of_which_the_policy_learns_nothing_new_writes_nothing() {
    let slots = Slots::<Busy, 2>::EMPTY;
    for (slot, writes) in [(0, 1), (0, 0), (1, 1), (0, 0), (1, 0)] {
        slots.hit::<Seen>(slot);
        assert_eq!(slots.replacement.work().1, writes, "slot {slot}");
    }
}

#[test]
fn flushed_up_to_only_grows_while_a_slot_keeps_its_space() {
    let slots = keep(Slots::<Busy, 2>::EMPTY);
    slots.record(0, running(7), 3);
    for access in 1..=4 {
        let (before, after) = (2 + u64::from(access), 3 + u64::from(access));
        let look = move || {
            assert_eq!(slots.id[0].load(Ordering::Relaxed), running(7));
            let done = slots.flushed_up_to[0].load(Ordering::Relaxed);
            assert!(done == before || done == after, "{before} was flushed, and now {done}");
        };
        meanwhile(access, look, || slots.record(0, running(7), after));
    }
}

#[test]
fn emptied_slots_are_all_but_the_present_one() {
    for (present, held) in [(Some(1), [0, 6, 0]), (None, [0; 3])] {
        let slots = Slots::<Busy, 3>::EMPTY;
        assert!(!slots.hold_any());
        for (slot, who) in [5, 6, 7].into_iter().enumerate() {
            slots.record(slot, who, 3);
        }
        slots.empty_all_but(present);
        let now = slots.id.each_ref().map(|id| id.load(Ordering::Relaxed));
        assert_eq!(now, held);
        assert_eq!(slots.hold_any(), present.is_some(), "whichever of them it is");
        // Initiators still learn from the present slot how far it has flushed.
        assert_eq!(slots.flushed_up_to(1), 3);
    }
}

#[test]
fn a_slot_that_is_empty_already_is_not_written() {
    let slots = Slots::<Busy, 2>::EMPTY;
    slots.record(0, running(7), 3);
    for writes in [1, 0] {
        let written = || slots.id.iter().map(|id| id.work().1).sum::<u64>();
        let _ = written();
        slots.empty_all_but(None);
        assert_eq!(written(), writes);
    }
}
