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
