//! CPUs that handle an IPI late: by then they have become lazy, have caught up by themselves, or are about to
//! flush something of their own.

use crate::support::{
    Answer, Fake, Moment, Op,
    machine::{ByRecent, What, flush, park, recent, space, switch, this_cpu},
    on,
};
use lookaside::{
    AddressSpace,
    counts::{Event, Outcome},
    tags::Switched,
};

/// The CPU that looks late.
const CALLED: u32 = 1;
/// Groups of CPUs that it asks itself: more than are asked before the first of them is waited for.
const GROUPS: u32 = 17;
const CPUS: usize = 32 * GROUPS as usize + 1;

/// A space that others can use meanwhile.
fn lasting(tlb: ByRecent) -> &'static AddressSpace<Fake> {
    Box::leak(Box::new(space(tlb, 1)))
}

/// A space of which CPU 0 has flushed `what`. For that it called the other one, which ran the space, too,
/// did `act` instead of looking, and has not looked yet.
fn called(
    fake: Fake,
    what: What,
    act: fn(ByRecent, &AddressSpace<Fake>),
) -> (ByRecent, &'static AddressSpace<Fake>) {
    let tlb = recent(CPUS, fake);
    let a = lasting(tlb);
    for cpu in [0, CALLED] {
        let _ = switch(tlb, cpu, a);
    }
    tlb.platform().set_answer(Answer::WhenWaitedFor);
    tlb.platform().forget_logs();
    tlb.platform().meanwhile(Moment::Removed, move || on(CALLED, || act(tlb, a)));
    let _ = flush(tlb, 0, a, |gather| what.tell(gather));
    assert_eq!(tlb.platform().pending(), [CALLED]);
    park(tlb, 0);
    (tlb, a)
}

fn goes_lazy(tlb: ByRecent, _: &AddressSpace<Fake>) {
    this_cpu(tlb).lazy();
}

fn comes_back(tlb: ByRecent, space: &AddressSpace<Fake>) {
    let _ = this_cpu(tlb).park();
    assert_eq!(this_cpu(tlb).switch(space), Switched::Flushed);
}

/// What the late one has done to its own TLB.
fn acts(tlb: ByRecent) -> Vec<Op> {
    let log = tlb.platform().log(CALLED).into_iter();
    log.filter(|op| op.acts() && !matches!(op, Op::Interrupt(_))).collect()
}

/// The late one flushes `what` itself, of the space that one CPU of each group runs by now, and looks while it
/// waits for the first of them. What it does to its own TLB.
fn flushes(tlb: ByRecent, space: &AddressSpace<Fake>, what: What) -> Vec<Op> {
    for group in 1..=GROUPS {
        let _ = switch(tlb, 32 * group, space);
    }
    tlb.platform().forget_logs();
    let _ = flush(tlb, CALLED, space, |gather| what.tell(gather));
    acts(tlb)
}

#[test]
fn nobody_waits_for_a_cpu_that_went_lazy_after_the_request() {
    for what in What::LEAVES {
        let (tlb, _) = called(Fake::new(CPUS, 12), what, goes_lazy);
        let outcome = Outcome::Ipis;
        let flushed = (0, Event::Flushed { outcome, targets: 1, rounds: 0 });
        assert!(tlb.platform().events().contains(&flushed), "{what:?}");
    }
}

#[test]
fn a_late_ipi_after_catch_up_at_switch_in_flushes_nothing() {
    let (tlb, _) = called(Fake::new(CPUS, 12), What::Range, comes_back);
    tlb.platform().forget_logs();
    tlb.platform().deliver();
    assert_eq!(acts(tlb), []);
    assert_eq!(tlb.platform().counts[CALLED as usize].served(), (1, 0));
}

#[test]
fn a_lazy_cpu_that_parks_in_the_ipi_handler_counts_as_useful() {
    for several in [false, true] {
        let (tlb, a) = if several {
            called(Fake::new(CPUS, 12), What::Page, goes_lazy)
        } else {
            let tlb = recent(CPUS, Fake::new(CPUS, 12));
            let a = lasting(tlb);
            let _ = switch(tlb, CALLED, a);
            on(CALLED, || this_cpu(tlb).lazy());
            (tlb, a)
        };
        tlb.platform().forget_logs();
        let _ = flush(tlb, 2, a, |gather| What::Table.tell(gather));
        assert_eq!(acts(tlb), [Op::Park]);
        assert_eq!(tlb.platform().counts[CALLED as usize].served(), (1, 1), "{several}");
    }
}

#[test]
fn a_cpu_that_parks_during_its_own_flush_catches_up_on_return() {
    for (outlive, what) in [(false, What::Page), (false, What::Table), (true, What::Page)] {
        let fake = Fake::new(CPUS, 12);
        let fake = if outlive { fake.with_walks_that_outlive_tags() } else { fake };
        let (tlb, a) = called(fake, What::Page, goes_lazy);
        assert_eq!(flushes(tlb, a, what), [Op::Park], "{outlive} {what:?}");
        assert_eq!(switch(tlb, CALLED, a), Switched::Flushed);
    }
}

#[test]
fn where_walks_outlive_tags_a_cpu_that_leaves_during_its_own_flush_of_a_table_flushes_at_once() {
    let (tlb, a) =
        called(Fake::new(CPUS, 12).with_walks_that_outlive_tags(), What::Page, goes_lazy);
    let tag = on(CALLED, || this_cpu(tlb).tag().0);
    assert_eq!(flushes(tlb, a, What::Table), [Op::Park, Op::FlushTag(tag)]);
    assert_eq!(switch(tlb, CALLED, a), Switched::Kept);
}

#[test]
fn a_cpu_that_caught_up_in_the_handler_does_not_flush_again() {
    let (tlb, a) = called(Fake::new(CPUS, 12), What::Range, comes_back);
    let tag = on(CALLED, || this_cpu(tlb).tag().0);
    assert_eq!(flushes(tlb, a, What::Page), [Op::FlushTag(tag)]);
}
