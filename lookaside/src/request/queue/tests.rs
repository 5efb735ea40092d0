//! Tests of what is written into boxes and read from them.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::tests::{Busy, keep, meanwhile};

#[test]
fn requests_survive_the_packing() {
    let pages = |start, pages: u64, shift| VaRange::new(start, pages << shift, shift).unwrap();
    for range in [pages(0, 1, 12), pages(1 << 47, 512, 21), pages(!0 << 30, 1, 30)] {
        for uniform in [true, false] {
            let range = if uniform { range } else { range.mixed() };
            assert_eq!(VaRange::from_words(range.to_words()), Some(range));
        }
    }
}

#[test]
fn a_target_reads_what_was_asked() {
    let boxes = [RequestQueue::<AtomicU64>::NEW, RequestQueue::NEW];
    let mut ranges = FlushRanges::new();
    for page in 0..MAX_RANGES as u64 {
        ranges.add(VaRange::new(page << 20, 4096, 12).unwrap());
    }
    let scope = FlushScope::AddressSpace { context: 7, first: 9, last: 9 };
    boxes[0].describe(&FlushRequest { scope, ranges: &ranges, early: true });
    boxes[1].post(CpuId(0));
    assert_eq!(boxes[1].latest(), 1);
    let read = boxes[1].request(1, |cpu| boxes.get(cpu.index()));
    assert_eq!((read.scope, read.early), (scope, true));
    assert_eq!(read.ranges.ranges(), ranges.ranges());
}

#[test]
fn an_unreadable_request_flushes_everything() {
    let boxes = [RequestQueue::<AtomicU64>::NEW, RequestQueue::NEW];
    let ask = |number| boxes[1].request(number, |cpu| boxes.get(cpu.index()));
    assert!(ask(1).ranges.is_everything(), "not written yet");
    for _ in 0..=RING {
        boxes[1].post(CpuId(0));
    }
    assert!(ask(1).ranges.is_everything(), "overwritten");
    assert!(!ask(2).ranges.is_everything());
}

#[test]
fn scope_and_table_change_are_read_as_requested() {
    let initiator = RequestQueue::<AtomicU64>::NEW;
    let space = FlushScope::AddressSpace { context: 7, first: 9, last: 9 };
    for scope in [space, FlushScope::Kernel, FlushScope::EverySpace] {
        for change in [TableChange::LastLevel, TableChange::FreedTables] {
            let mut ranges = FlushRanges::new();
            ranges.add(page(0x5000));
            ranges.add_change(change);
            initiator.describe(&FlushRequest { scope, ranges: &ranges, early: true });
            let read = initiator.read();
            assert_eq!((read.scope, read.ranges.change()), (scope, change));
            assert_eq!(
                read.early,
                change == TableChange::LastLevel,
                "nobody answers early if a table goes"
            );
        }
    }
}

// ---- Several as one

fn page(start: u64) -> VaRange {
    VaRange::new(start, 4096, 12).unwrap()
}

/// A page of the space with this context id, flushed at these generations.
fn received(context: u64, first: u64, last: u64) -> ReceivedRequest {
    let mut ranges = FlushRanges::new();
    ranges.add(page(last << 20));
    ReceivedRequest {
        scope: FlushScope::AddressSpace { context, first, last },
        ranges,
        early: true,
    }
}

#[test]
fn successive_flushes_of_a_space_become_one_in_either_order() {
    for (one, other) in [((5, 6), (7, 9)), ((7, 9), (5, 6)), ((5, 8), (6, 9))] {
        let mut sum = received(7, one.0, one.1);
        assert!(sum.add(&received(7, other.0, other.1)));
        assert_eq!(sum.scope, FlushScope::AddressSpace { context: 7, first: 5, last: 9 });
        assert!(!sum.ranges.is_everything() && sum.ranges.ranges().len() == 2);
    }
}

#[test]
fn a_gap_between_two_merged_requests_flushes_everything() {
    for (one, other) in [((5, 6), (8, 9)), ((8, 9), (5, 6))] {
        let mut sum = received(7, one.0, one.1);
        assert!(sum.add(&received(7, other.0, other.1)));
        assert_eq!(sum.scope, FlushScope::AddressSpace { context: 7, first: 5, last: 9 });
        assert!(sum.ranges.is_everything());
    }
}

#[test]
fn flushes_of_two_spaces_stay_two() {
    let mut sum = received(7, 5, 5);
    assert!(!sum.add(&received(8, 6, 6)));
    assert_eq!(sum.scope, received(7, 5, 5).scope);
    assert_eq!(sum.ranges.ranges(), [page(5 << 20)], "untouched");
}

// ---- While others write

#[test]
fn a_request_that_is_written_while_it_is_read_is_not_believed() {
    let initiator = keep(RequestQueue::<Busy>::NEW);
    let scope = FlushScope::AddressSpace { context: 7, first: 9, last: 9 };
    let serial = &initiator.request.serial;
    let ways: [&dyn Fn(u64, u64) -> bool; 2] = [
        &|context, generation| initiator.read_flush(context, generation).is_some(),
        // One page is read in another way, too.
        &|context, generation| initiator.read_page(context, generation).is_some(),
    ];
    for read in ways {
        let mut ranges = FlushRanges::new();
        ranges.add(page(0x5000));
        initiator.describe(&FlushRequest { scope, ranges: &ranges, early: false });
        assert!(read(7, 9) && !read(7, 8) && !read(8, 9));
        // The next one was begun before it was looked at, and is not finished.
        serial.fetch_add(1, Relaxed);
        assert!(!read(7, 9));
        // The next one was begun, and may be finished, between the two looks.
        for added in [1, 2] {
            serial.fetch_add(1, Relaxed);
            serial.fetch_and(!1, Relaxed);
            let next = move || _ = serial.fetch_add(added, Relaxed);
            assert!(!meanwhile(2, next, || read(7, 9)));
        }
    }
}

#[test]
fn only_a_page_is_read_as_a_page() {
    let initiator = RequestQueue::<Busy>::NEW;
    let scope = FlushScope::AddressSpace { context: 7, first: 9, last: 9 };
    let read = |ranges: &FlushRanges, early| {
        initiator.describe(&FlushRequest { scope, ranges, early });
        initiator.read_page(7, 9)
    };
    let mut ranges = FlushRanges::new();
    ranges.add(page(0x5000));
    assert_eq!(read(&ranges, false), Some(page(0x5000)));
    assert_eq!(read(&ranges, true), None, "it is acknowledged before it is flushed");
    let (mut two, mut apart, mut tables, mut everything) = (ranges, ranges, ranges, ranges);
    two.add(page(0x6000));
    apart.add(page(0x9000));
    tables.add_change(TableChange::FreedTables);
    everything.widen();
    for other in [FlushRanges::new(), two, apart, tables, everything] {
        assert_eq!(read(&other, false), None, "{other:?}");
    }
}

#[test]
fn a_target_that_comes_late_flushes_everything_if_the_next_request_is_being_written() {
    let (initiator, target) = (keep(RequestQueue::<Busy>::NEW), RequestQueue::<Busy>::NEW);
    let ReceivedRequest { scope, ranges, .. } = received(7, 9, 9);
    initiator.describe(&FlushRequest { scope, ranges: &ranges, early: false });
    target.post(CpuId(3));
    let told = || target.request(1, |_| Some(initiator));
    assert_eq!((told().scope, told().ranges.is_everything()), (scope, false));
    initiator.request.serial.fetch_add(1, Relaxed);
    assert_eq!((told().scope, told().ranges.is_everything()), (FlushScope::Unknown, true));
}

#[test]
fn among_many_who_call_a_cpu_those_who_come_late_write_nothing() {
    let target = RequestQueue::<Busy>::NEW;
    let called = &target.posted.ipi_pending;
    assert!(target.set_ipi_pending(CpuId(1), false), "nobody has, so that it must be interrupted");
    assert_eq!(called.work(), (0, 1), "who expects to be alone does not look first");
    assert!(!target.set_ipi_pending(CpuId(2), true));
    assert_eq!(called.work(), (1, 2));
    assert!(!target.set_ipi_pending(CpuId(3), true));
    assert_eq!(called.work(), (1, 0), "several have called, and that is all that could be said");
    assert!(!target.set_ipi_pending(CpuId(3), false));
    assert_eq!(called.work(), (0, 1));
}
