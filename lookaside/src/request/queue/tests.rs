use core::sync::atomic::AtomicU64;

use super::*;
use crate::tests::{Busy, keep};
use crate::{
    range::VaRange,
    request::{FlushRanges, FlushRequest, FlushScope, described::Outstanding, ranges::MAX_RANGES},
};

#[test]
fn a_target_reads_what_was_requested() {
    let boxes = [RequestQueue::<AtomicU64>::NEW, RequestQueue::NEW];
    let mut ranges = FlushRanges::new();
    for page in 0..MAX_RANGES as u64 {
        ranges.add(VaRange::new(page << 20, 4096, 12).unwrap());
    }
    let scope = FlushScope::AddressSpace { context: 7, first: 9, last: 9 };
    boxes[0].own_request.describe(&FlushRequest { scope, ranges: &ranges, early: true });
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

/// The only initiator whose IPI is pending.
#[test]
fn nobody_leaves_a_root_for_a_cpu_that_has_stopped() {
    let initiator = RequestQueue::<AtomicU64>::NEW;
    initiator.own_request.set_leaving(Some(0x1000));
    assert_eq!(initiator.own_request.leaving(), Some(0x1000));
    initiator.go_down();
    assert_eq!(initiator.own_request.leaving(), None, "the table may be another space's");
}

#[test]
fn a_cpu_that_comes_up_has_taken_no_number_of_the_ring() {
    let queue = RequestQueue::<AtomicU64>::NEW;
    queue.own_request.set_own_broadcast(1);
    queue.come_up(0);
    assert_eq!(
        queue.own_request.own_broadcast(),
        0,
        "number 1 may be of another `Tlb`, and of another CPU"
    );
}

#[test]
fn a_target_that_comes_late_flushes_everything_if_the_next_request_is_being_written() {
    let (initiator, target) = (keep(RequestQueue::<Busy>::NEW), RequestQueue::<Busy>::NEW);
    let ReceivedRequest { scope, ranges, .. } = received(7, 9, 9);
    initiator.own_request.describe(&FlushRequest { scope, ranges: &ranges, early: false });
    target.post(CpuId(3));
    let told = || target.request(1, |_| Some(initiator));
    assert_eq!((told().scope, told().ranges.is_everything()), (scope, false));
    initiator.own_request.add_outstanding(Outstanding::DESCRIBED);
    initiator.own_request.describe(&FlushRequest { scope, ranges: &ranges, early: false });
    assert_eq!((told().scope, told().ranges.is_everything()), (FlushScope::Unknown, true));
}
