//! The precondition of the other tests: words show the executions that C11 allows, and none that it forbids.

#![cfg(loom)]

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lookaside::platform::{Ordering, Word as _};
use lookaside_loom::{Exploration, Word, World, explore, keep};

const fn exploration(name: &'static str) -> Exploration {
    Exploration { name, preemptions: None, outcomes: &[] }
}

/// Two CPUs write a word each, by `write`, and read the other's, by `read`. Returns whether neither saw the
/// other's write.
fn store_buffering(
    world: &'static World<lookaside::PerCpuAsids<2>>,
    write: Ordering,
    read: Ordering,
) -> bool {
    let (x, y, other_saw) = (keep(Word::ZERO), keep(Word::ZERO), keep(AtomicBool::new(false)));
    let other = world.start(1, move |_| {
        y.swap(1, write);
        other_saw.store(x.load(read) == 1, Relaxed);
    });
    x.swap(1, write);
    let saw = y.load(read) == 1;
    world.stop(1, other);
    !saw && !other_saw.load(Relaxed)
}

#[test]
fn sequentially_consistent_accesses_are_not_taken_for_weaker_ones() {
    explore(exploration("store buffering, forbidden"), |seen| {
        let world = World::recent(seen, 2, 1);
        assert!(!store_buffering(world, Ordering::SeqCst, Ordering::SeqCst));
    });
}

#[test]
fn weaker_accesses_are_not_taken_for_sequentially_consistent_ones() {
    static SHOWN: AtomicBool = AtomicBool::new(false);
    explore(exploration("store buffering, allowed"), |seen| {
        let world = World::recent(seen, 2, 1);
        if store_buffering(world, Ordering::AcqRel, Ordering::Acquire) {
            SHOWN.store(true, Relaxed);
        }
    });
    assert!(SHOWN.load(Relaxed));
}

/// Without the objects beside each word loom never tries the write before the other CPU's read.
#[test]
fn a_read_of_the_writer_does_not_hide_that_of_another() {
    static SHOWN: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
    explore(exploration("reads of two"), |seen| {
        let world = World::recent(seen, 2, 1);
        let x = keep(Word::ZERO);
        let other = world.start(1, |_| {
            x.load(Relaxed);
            x.swap(1, Relaxed);
        });
        SHOWN[x.load(Relaxed) as usize].store(true, Relaxed);
        world.stop(1, other);
    });
    assert!(SHOWN.iter().all(|shown| shown.load(Relaxed)));
}
