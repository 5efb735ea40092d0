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
    let read = |context, generation| initiator.read_flush(context, generation).is_some();
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

/// The only initiator whose IPI is pending.
fn only(target: &RequestQueue<Busy>) -> OneInitiator {
    match target.ipi_pending() {
        IpiPending::From(only) => only,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_target_is_told_a_page_and_knows_whether_it_is_the_one_that_it_has_missed() {
    let target = RequestQueue::<Busy>::NEW;
    assert!(target.tell_page(CpuId(1), (7, 9), page(0x5000)));
    let told = only(&target);
    assert_eq!(told.described_by(), None);
    assert_eq!(target.told_page(7, 9), Some(page(0x5000)));
    assert_eq!((target.told_page(7, 8), target.told_page(8, 9)), (None, None));
    assert!(target.clear_pending_from(told));
    assert_eq!(target.ipi_pending(), IpiPending::No);
    // A request that was described is not taken for the page.
    assert!(target.set_ipi_pending(CpuId(1), false));
    assert_eq!(only(&target).described_by(), Some(CpuId(1)));
}

#[test]
fn a_second_initiator_tells_nothing_and_leaves_what_was_told() {
    let target = RequestQueue::<Busy>::NEW;
    assert!(target.tell_page(CpuId(1), (7, 9), page(0x5000)));
    let told = only(&target);
    assert!(!target.tell_page(CpuId(2), (7, 10), page(0x6000)));
    assert_eq!(target.told_page(7, 9), Some(page(0x5000)));
    assert_eq!(target.ipi_pending(), IpiPending::FromSeveral);
    assert!(!target.clear_pending_from(told), "the second one would be lost");
    target.clear_pending();
    assert_eq!(target.ipi_pending(), IpiPending::No);
}

#[test]
fn while_a_page_is_written_nobody_else_writes_one() {
    let target = keep(RequestQueue::<Busy>::NEW);
    let second = move || {
        assert_eq!(target.ipi_pending(), IpiPending::No, "its IPI comes later");
        // Three more come, and the owner handles what it can, in between.
        for cpu in [2, 3] {
            assert!(!target.tell_page(CpuId(cpu), (7, 10), page(0x6000)));
        }
        assert_eq!(target.ipi_pending(), IpiPending::FromSeveral);
        target.clear_pending();
        assert_eq!(target.ipi_pending(), IpiPending::No);
        assert!(!target.tell_page(CpuId(4), (7, 11), page(0x7000)), "it is still claimed");
        target.clear_pending();
        // Nor does a CPU that goes down and comes up.
        target.come_up(0);
        assert!(!target.tell_page(CpuId(5), (7, 12), page(0x8000)), "it is still claimed");
        target.clear_pending();
    };
    // The words: pending, which is claimed, the context, and then this.
    assert!(meanwhile(3, second, || target.tell_page(CpuId(1), (7, 9), page(0x5000))));
    assert_eq!(target.told_page(7, 9), Some(page(0x5000)));
    assert!(target.clear_pending_from(only(target)));
}

#[test]
fn a_cpu_that_comes_up_has_no_ipi_pending() {
    for several in [false, true] {
        let target = RequestQueue::<AtomicU64>::NEW;
        assert!(target.tell_page(CpuId(1), (7, 9), page(0x5000)));
        if several {
            assert!(!target.set_ipi_pending(CpuId(2), false));
        }
        target.go_down();
        target.come_up(0);
        assert_eq!(target.ipi_pending(), IpiPending::No);
        assert!(target.set_ipi_pending(CpuId(2), false), "its IPI was lost");
    }
}

#[test]
fn nobody_leaves_a_root_for_a_cpu_that_has_stopped() {
    let initiator = RequestQueue::<AtomicU64>::NEW;
    initiator.set_leaving(Some(0x1000));
    assert_eq!(initiator.leaving(), Some(0x1000));
    initiator.go_down();
    assert_eq!(initiator.leaving(), None, "the table may be another space's");
}

#[test]
fn what_a_cpu_has_claimed_that_stops_is_handled_all_the_same() {
    let target = RequestQueue::<AtomicU64>::NEW;
    assert!(!target.end_claim_of(CpuId(1)), "nothing is pending");
    target.posted.ipi_pending.store(named(CpuId(1)) | CLAIMED, Relaxed);
    assert!(target.end_claim_of(CpuId(2)), "an IPI too many does no harm");
    assert_eq!(target.ipi_pending(), IpiPending::No, "the one that has claimed it goes on");
    assert!(target.end_claim_of(CpuId(1)));
    assert!(!target.set_ipi_pending(CpuId(3), false), "the IPI is sent for both");
    assert_eq!(target.ipi_pending(), IpiPending::FromSeveral);
    target.clear_pending();
    assert!(target.set_ipi_pending(CpuId(3), false));
}

#[test]
fn a_cpu_that_comes_up_has_taken_no_number_of_the_ring() {
    let queue = RequestQueue::<AtomicU64>::NEW;
    queue.set_own_broadcast(1);
    queue.come_up(0);
    assert_eq!(queue.own_broadcast(), 0, "number 1 may be of another `Tlb`, and of another CPU");
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
