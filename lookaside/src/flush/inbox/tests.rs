//! Tests of what is written into boxes and read from them.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::tests::{Busy, keep, meanwhile};

#[test]
fn requests_survive_the_packing() {
    let pages = |start, pages: u64, shift| VaRange::new(start, pages << shift, shift).unwrap();
    for range in [pages(0, 1, 12), pages(1 << 47, 512, 21), pages(!0 << 30, 1, 30)] {
        for uniform in [true, false] {
            let stretch = Stretch { range, uniform };
            assert_eq!(unpack(pack(&stretch)), Some(stretch));
        }
    }
}

#[test]
fn a_target_reads_what_was_asked() {
    let boxes = [Inbox::<AtomicU64>::NEW, Inbox::NEW];
    let mut sweep = Sweep::new();
    for page in 0..MAX_STRETCHES as u64 {
        sweep.add(Stretch::uniform(VaRange::new(page << 20, 4096, 12).unwrap()));
    }
    let whose = Whose::Space { label: 7, first: 9, last: 9 };
    boxes[0].describe(&Demand { whose, sweep: &sweep, early: true });
    boxes[1].post(CpuId(0));
    assert_eq!(boxes[1].latest(), 1);
    let read = boxes[1].demand(1, |cpu| boxes.get(cpu.index()));
    assert_eq!((read.whose, read.early), (whose, true));
    assert_eq!(read.sweep.stretches(), sweep.stretches());
}

#[test]
fn what_cannot_be_told_is_everything() {
    let boxes = [Inbox::<AtomicU64>::NEW, Inbox::NEW];
    let ask = |number| boxes[1].demand(number, |cpu| boxes.get(cpu.index()));
    assert!(ask(1).sweep.is_everything(), "not written yet");
    for _ in 0..=RING {
        boxes[1].post(CpuId(0));
    }
    assert!(ask(1).sweep.is_everything(), "overwritten");
    assert!(!ask(2).sweep.is_everything());
}

#[test]
fn whose_and_how_deep_is_read_as_it_was_asked() {
    let asker = Inbox::<AtomicU64>::NEW;
    let space = Whose::Space { label: 7, first: 9, last: 9 };
    for whose in [space, Whose::Kernel, Whose::EverySpace] {
        for depth in [Depth::Leaves, Depth::Tables] {
            let mut sweep = Sweep::new();
            sweep.add(page(0x5000));
            sweep.deepen(depth);
            asker.describe(&Demand { whose, sweep: &sweep, early: true });
            let read = asker.read();
            assert_eq!((read.whose, read.sweep.depth()), (whose, depth));
            assert_eq!(read.early, depth == Depth::Leaves, "nobody answers early if a table goes");
        }
    }
}

// ---- Several as one

fn page(start: u64) -> Stretch {
    Stretch::uniform(VaRange::new(start, 4096, 12).unwrap())
}

/// A page of the space with this label, flushed at these generations.
fn asked(label: u64, first: u64, last: u64) -> Asked {
    let mut sweep = Sweep::new();
    sweep.add(page(last << 20));
    Asked { whose: Whose::Space { label, first, last }, sweep, early: true }
}

#[test]
fn successive_flushes_of_a_space_become_one_in_either_order() {
    for (one, other) in [((5, 6), (7, 9)), ((7, 9), (5, 6)), ((5, 8), (6, 9))] {
        let mut sum = asked(7, one.0, one.1);
        assert!(sum.add(&asked(7, other.0, other.1)));
        assert_eq!(sum.whose, Whose::Space { label: 7, first: 5, last: 9 });
        assert!(!sum.sweep.is_everything() && sum.sweep.stretches().len() == 2);
    }
}

#[test]
fn what_was_flushed_between_two_that_are_told_is_not_known_and_may_be_everything() {
    for (one, other) in [((5, 6), (8, 9)), ((8, 9), (5, 6))] {
        let mut sum = asked(7, one.0, one.1);
        assert!(sum.add(&asked(7, other.0, other.1)));
        assert_eq!(sum.whose, Whose::Space { label: 7, first: 5, last: 9 });
        assert!(sum.sweep.is_everything());
    }
}

#[test]
fn flushes_of_two_spaces_stay_two() {
    let mut sum = asked(7, 5, 5);
    assert!(!sum.add(&asked(8, 6, 6)));
    assert_eq!(sum.whose, asked(7, 5, 5).whose);
    assert_eq!(sum.sweep.stretches(), [page(5 << 20)], "untouched");
}

// ---- While others write

#[test]
fn a_request_that_is_written_while_it_is_read_is_not_believed() {
    let asker = keep(Inbox::<Busy>::NEW);
    let Asked { whose, sweep, .. } = asked(7, 9, 9);
    asker.describe(&Demand { whose, sweep: &sweep, early: false });
    let serial = &asker.request.serial;
    assert_eq!(asker.read_flush(7, 9).map(|asked| asked.whose), Some(whose));
    assert!(asker.read_flush(7, 8).is_none() && asker.read_flush(8, 9).is_none());
    // The next one was begun before it was looked at, and is not finished.
    serial.fetch_add(1, Relaxed);
    assert!(asker.read_flush(7, 9).is_none());
    // The next one was begun, and may be finished, between the two looks.
    for added in [1, 2] {
        serial.fetch_add(1, Relaxed);
        serial.fetch_and(!1, Relaxed);
        let next = move || _ = serial.fetch_add(added, Relaxed);
        assert!(meanwhile(2, next, || asker.read_flush(7, 9)).is_none());
    }
}

#[test]
fn a_target_that_comes_late_flushes_everything_if_the_next_request_is_being_written() {
    let (asker, target) = (keep(Inbox::<Busy>::NEW), Inbox::<Busy>::NEW);
    let Asked { whose, sweep, .. } = asked(7, 9, 9);
    asker.describe(&Demand { whose, sweep: &sweep, early: false });
    target.post(CpuId(3));
    let told = || target.demand(1, |_| Some(asker));
    assert_eq!((told().whose, told().sweep.is_everything()), (whose, false));
    asker.request.serial.fetch_add(1, Relaxed);
    assert_eq!((told().whose, told().sweep.is_everything()), (Whose::Kernel, true));
}

#[test]
fn among_many_who_call_a_cpu_those_who_come_late_write_nothing() {
    let target = Inbox::<Busy>::NEW;
    let called = &target.asked.called;
    assert!(target.call(CpuId(1), false), "nobody has, so that it must be interrupted");
    assert_eq!(called.work(), (0, 1), "who expects to be alone does not look first");
    assert!(!target.call(CpuId(2), true));
    assert_eq!(called.work(), (1, 2));
    assert!(!target.call(CpuId(3), true));
    assert_eq!(called.work(), (1, 0), "several have called, and that is all that could be said");
    assert!(!target.call(CpuId(3), false));
    assert_eq!(called.work(), (0, 1));
}
