//! When a replacement policy is called, and with what.

use core::cell::RefCell;

use crate::support::{
    Fake,
    machine::{Machine, What, flush, space, start, this_cpu},
};
use lookaside::{
    PerCpuAsids,
    tags::{Replacement, RoundRobin, Switched},
};

thread_local! {
    static TOLD: RefCell<Vec<Told>> = const { RefCell::new(Vec::new()) };
}

/// What a policy is told, or asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Hit(usize),
    /// The slot that it has chosen.
    Victim(usize),
}

fn told() -> Vec<Told> {
    TOLD.take()
}

/// Slots in turn, of which everything is noted.
enum Noted<const HITS: bool> {}

impl<const HITS: bool> Replacement for Noted<HITS> {
    const NOTES_HITS: bool = HITS;

    fn hit(word: u64, slot: usize) -> u64 {
        TOLD.with_borrow_mut(|told| told.push(Told::Hit(slot)));
        word
    }

    fn victim(word: u64, slots: usize, current: usize) -> (usize, u64) {
        let (slot, after) = RoundRobin::victim(word, slots, current);
        TOLD.with_borrow_mut(|told| told.push(Told::Victim(slot)));
        (slot, after)
    }
}

fn machine<const HITS: bool>(tag_bits: u32) -> Machine<PerCpuAsids<2, Noted<HITS>>> {
    start(1, Fake::new(1, tag_bits).without_broadcast(), PerCpuAsids::new())
}

#[test]
fn a_policy_is_told_once_of_each_space_that_is_entered() {
    let tlb = machine::<true>(12);
    let spaces = [1, 2, 3].map(|number| space(tlb, number));
    let enter = |index: usize| (this_cpu(tlb).switch(&spaces[index]), told());
    assert_eq!(enter(0), (Switched::Fresh, vec![Told::Hit(0)]));
    assert_eq!(enter(1), (Switched::Fresh, vec![Told::Hit(1)]));
    assert_eq!(enter(0), (Switched::Kept, vec![Told::Hit(0)]));
    let _ = flush(tlb, 0, &spaces[1], |gather| What::Page.tell(gather));
    assert_eq!(
        enter(1),
        (Switched::Flushed, vec![Told::Hit(1)]),
        "it was found, and had missed a flush"
    );
    assert_eq!(enter(2), (Switched::Fresh, vec![Told::Victim(0)]), "it knows what it has chosen");
}

#[test]
fn a_policy_that_notes_no_hits_is_told_of_none() {
    let tlb = machine::<false>(12);
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    for space in [&a, &b, &a] {
        let _ = this_cpu(tlb).switch(space);
    }
    assert_eq!(told(), []);
}

#[test]
fn pcid_10_without_tags_one_slot_will_do_and_no_policy_is_asked() {
    let tlb = machine::<true>(0);
    for number in 1..=4 {
        assert_eq!(this_cpu(tlb).switch(&space(tlb, number)), Switched::Fresh);
    }
    assert_eq!(told(), []);
}
