use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::tests::{Busy, keep, meanwhile};

fn page(start: u64) -> VaRange {
    VaRange::new(start, 4096, 12).unwrap()
}

fn only(target: &PendingIpi<Busy>) -> OneInitiator {
    match target.initiators() {
        Initiators::One(only) => only,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_target_of_an_inline_page_knows_whether_it_has_missed_that_one() {
    let target = PendingIpi::<Busy>::NEW;
    assert_eq!(target.post_page(CpuId(1), (7, 9), page(0x5000)), Ok(()));
    let told = only(&target);
    assert_eq!(told.described_by(), None);
    assert_eq!(target.inline_page(7, 9), Some(page(0x5000)));
    assert_eq!((target.inline_page(7, 8), target.inline_page(8, 9)), (None, None));
    assert!(target.clear_from(told));
    assert_eq!(target.initiators(), Initiators::None);
    // A request that was described is not taken for the page.
    assert!(target.set(CpuId(1), false));
    assert_eq!(only(&target).described_by(), Some(CpuId(1)));
}

#[test]
fn a_second_initiator_posts_nothing_and_leaves_the_inline_request() {
    let target = PendingIpi::<Busy>::NEW;
    assert_eq!(target.post_page(CpuId(1), (7, 9), page(0x5000)), Ok(()));
    let told = only(&target);
    assert_eq!(target.post_page(CpuId(2), (7, 10), page(0x6000)), Err(false));
    assert_eq!(target.inline_page(7, 9), Some(page(0x5000)));
    assert_eq!(target.initiators(), Initiators::Several);
    assert!(!target.clear_from(told), "the second one would be lost");
    target.clear();
    assert_eq!(target.initiators(), Initiators::None);
}

#[test]
fn a_range_is_posted_only_where_nobody_else_has_claimed_the_word() {
    let target = PendingIpi::<Busy>::NEW;
    assert!(target.post_range(CpuId(1), 7, page(0x5000)));
    assert!(!target.post_range(CpuId(2), 8, page(0x6000)));
    assert!(target.is_pending_from(CpuId(1)) && !target.is_pending_from(CpuId(2)));
    assert_eq!(target.inline_range(), (7, page(0x5000)));
    assert!(target.clear_from(only(&target)));
    assert!(!target.is_pending_from(CpuId(1)));
    assert!(target.post_range(CpuId(2), 8, page(0x6000)));
    assert_eq!(target.inline_range(), (8, page(0x6000)));
}

#[test]
fn while_a_page_is_written_nobody_else_writes_one() {
    let target = keep(PendingIpi::<Busy>::NEW);
    let second = move || {
        assert_eq!(target.initiators(), Initiators::None, "its IPI comes later");
        // Three more come, and the owner handles what it can, in between.
        for cpu in [2, 3] {
            assert_eq!(target.post_page(CpuId(cpu), (7, 10), page(0x6000)), Err(false));
        }
        assert_eq!(target.initiators(), Initiators::Several);
        target.clear();
        assert_eq!(target.initiators(), Initiators::None);
        assert_eq!(
            target.post_page(CpuId(4), (7, 11), page(0x7000)),
            Err(false),
            "it is still claimed"
        );
        target.clear();
        // Nor does a CPU that goes down and comes up.
        target.come_up();
        assert_eq!(
            target.post_page(CpuId(5), (7, 12), page(0x8000)),
            Err(false),
            "it is still claimed"
        );
        target.clear();
    };
    // The words: pending, which is claimed, the context, and then this.
    let told = meanwhile(3, second, || target.post_page(CpuId(1), (7, 9), page(0x5000)));
    assert_eq!(told, Ok(()));
    assert_eq!(target.inline_page(7, 9), Some(page(0x5000)));
    assert!(target.clear_from(only(target)));
}

#[test]
fn a_cpu_that_comes_up_has_no_ipi_pending() {
    for several in [false, true] {
        let target = PendingIpi::<AtomicU64>::NEW;
        assert_eq!(target.post_page(CpuId(1), (7, 9), page(0x5000)), Ok(()));
        if several {
            assert!(!target.set(CpuId(2), false));
        }
        target.come_up();
        assert_eq!(target.initiators(), Initiators::None);
        assert!(target.set(CpuId(2), false), "its IPI was lost");
    }
}

#[test]
fn what_a_cpu_has_claimed_that_stops_is_handled_all_the_same() {
    let target = PendingIpi::<AtomicU64>::NEW;
    assert!(!target.end_claim_of(CpuId(1)), "nothing is pending");
    target.word.store(named(CpuId(1)) | CLAIMED, Relaxed);
    assert!(target.end_claim_of(CpuId(2)), "an IPI too many does no harm");
    assert_eq!(target.initiators(), Initiators::None, "the one that has claimed it goes on");
    assert!(target.end_claim_of(CpuId(1)));
    assert!(!target.set(CpuId(3), false), "the IPI is sent for both");
    assert_eq!(target.initiators(), Initiators::Several);
    target.clear();
    assert!(target.set(CpuId(3), false));
}

#[test]
fn of_many_initiators_that_send_one_ipi_the_later_write_nothing() {
    let target = PendingIpi::<Busy>::NEW;
    let called = &target.word;
    assert!(target.set(CpuId(1), false), "nobody has, so that it must be interrupted");
    assert_eq!(called.work(), (0, 1), "who expects to be alone does not look first");
    assert!(!target.set(CpuId(2), true));
    assert_eq!(called.work(), (1, 2));
    assert!(!target.set(CpuId(3), true));
    assert_eq!(called.work(), (1, 0), "several have called, and that is all that could be said");
    assert!(!target.set(CpuId(3), false));
    assert_eq!(called.work(), (0, 1));
}
