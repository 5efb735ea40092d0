//! Many spaces, one flush.

use crate::support::{
    Fake, Op,
    machine::{
        Machine, Strategy, What, epochs, flush, pages, park, recent, space, switch, this_cpu,
    },
    on, words,
};
use lookaside::{
    AddressSpace, Error, Gather,
    arch::Wait,
    counts::Outcome,
    flush::{Batch, Flushed},
};

const CPUS: usize = 200;
const FAR: u32 = 199;

fn batch<T: Strategy>(tlb: Machine<T>) -> Batch<'static, Fake> {
    // The storage need not be empty.
    let storage = words(CPUS.div_ceil(64));
    storage.iter().for_each(|word| word.store(!0, core::sync::atomic::Ordering::Relaxed));
    Batch::new(tlb, storage).unwrap()
}

fn defer<T: Strategy, F>(
    tlb: Machine<T>,
    cpu: u32,
    space: &AddressSpace<Fake>,
    batch: &mut Batch<'_, Fake, F>,
    what: What,
) {
    let mut gather = Gather::new(space);
    what.tell(&mut gather);
    on(cpu, || this_cpu(tlb).defer(gather, batch));
}

fn complete<T: Strategy, F>(tlb: Machine<T>, cpu: u32, batch: Batch<'_, Fake, F>) -> Flushed<F> {
    on(cpu, || this_cpu(tlb).flush_batch(batch))
}

#[test]
fn local_09_each_cpu_is_interrupted_once_for_all_spaces_of_a_batch() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let spaces: Vec<_> = (1..=20).map(|number| space(tlb, number)).collect();
        // Those of two CPUs, of which one runs the last; five that ran once; and the others never.
        for space in &spaces[..5] {
            let _ = switch(tlb, 3, space);
        }
        park(tlb, 3);
        let _ = switch(tlb, 70, &spaces[6]);
        let _ = switch(tlb, FAR, &spaces[7]);
        tlb.platform().forget_logs();
        let storage = words(CPUS.div_ceil(64));
        let mut batch = Batch::holding(tlb, storage, Vec::new()).unwrap();
        batch.hold_page("page");
        for space in spaces.iter().chain(&spaces) {
            defer(tlb, 0, space, &mut batch, What::Page);
        }
        let begun = tlb.platform().acts();
        assert!(!begun.iter().any(|(cpu, _)| *cpu != 0), "nobody is waited for: {begun:?}");
        assert!(!begun.iter().any(|(_, op)| matches!(op, Op::Interrupt(_))), "{begun:?}");
        let flushed = complete(tlb, 0, batch);
        assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, 2));
        let acts = tlb.platform().acts();
        for cpu in [70, FAR] {
            let done: Vec<_> = acts.iter().filter(|(at, _)| *at == cpu).collect();
            assert_eq!(done, [&(cpu, Op::FlushAll)], "once, and whatever the space");
        }
        assert_eq!(flushed.frames, ["page"]);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

#[test]
fn local_09_a_batch_that_broadcasts_waits_once() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let spaces: Vec<_> = (1..=3).map(|number| space(tlb, number)).collect();
    for (space, cpu) in spaces.iter().zip([1, 70, FAR]) {
        let _ = switch(tlb, cpu, space);
    }
    tlb.platform().forget_logs();
    let mut batch = batch(tlb);
    for space in &spaces {
        defer(tlb, 0, space, &mut batch, What::Page);
    }
    let begun: Vec<_> = tlb.platform().acts();
    let later = |(cpu, op): &(u32, Op)| {
        *cpu == 0 && matches!(op, Op::FlushRangeEverywhere(_, 0x5000, 1, Wait::Later))
    };
    assert_eq!((begun.len(), begun.iter().all(later)), (3, true), "{begun:?}");
    let _ = complete(tlb, 0, batch);
    assert_eq!(tlb.platform().acts(), [(0, Op::CompleteEverywhere)]);
    assert_eq!(tlb.platform().outcome(), (Outcome::Broadcast, 0));
}

#[test]
fn a_batch_broadcasts_nothing_that_it_would_wait_for_at_once() {
    // For three CPUs a broadcast is cheaper; unless for one, too, the batch interrupts them all the same, once.
    for (cheaper_for, outcome) in [(1, (Outcome::Ipis, 3)), (0, (Outcome::Broadcast, 0))] {
        let tlb = epochs(CPUS, Fake::new(CPUS, 16).with_broadcasts_that_wait());
        tlb.platform().set_costs(|costs| {
            (costs.ipi, costs.ipi_more) = (1_000_000, 1_000_000);
            costs.broadcast.wait = cheaper_for * costs.ipi;
            (costs.broadcast.address, costs.broadcast.tag) = (1, 1);
        });
        let a = space(tlb, 1);
        for cpu in [1, 70, FAR] {
            let _ = switch(tlb, cpu, &a);
        }
        tlb.platform().forget_logs();
        let mut batch = batch(tlb);
        for _ in 0..10 {
            defer(tlb, 0, &a, &mut batch, What::Page);
        }
        assert_eq!(tlb.platform().acts().is_empty(), cheaper_for == 1);
        let _ = complete(tlb, 0, batch);
        assert_eq!(tlb.platform().outcome(), outcome);
    }
}

#[test]
fn a_batch_that_sends_ipis_reports_them_on_any_cpu_that_completes_it() {
    let tlb = recent(CPUS, Fake::new(CPUS, 12));
    let a = space(tlb, 1);
    for cpu in [70, FAR] {
        let _ = switch(tlb, cpu, &a);
    }
    let mut batch = batch(tlb);
    defer(tlb, 0, &a, &mut batch, What::Page);
    let _ = complete(tlb, FAR, batch);
    assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, 1));
}

#[test]
fn a_batch_that_has_broadcast_on_another_cpu_broadcasts_everything() {
    for (begins, waits) in [
        (&[0][..], &[Op::CompleteEverywhere][..]),
        (&[1], &[Op::FlushAllEverywhere]),
        (&[0, 1], &[Op::FlushAllEverywhere]),
        (&[1, 0], &[Op::FlushAllEverywhere]),
        (&[], &[]),
    ] {
        let tlb = epochs(3, Fake::new(3, 16));
        let a = space(tlb, 1);
        let _ = switch(tlb, 2, &a);
        let mut batch = batch(tlb);
        for &cpu in begins {
            defer(tlb, cpu, &a, &mut batch, What::Page);
        }
        tlb.platform().forget_logs();
        let _ = complete(tlb, 0, batch);
        assert_eq!(tlb.platform().log(0), waits, "begun on {begins:?}");
    }
}

#[test]
fn local_09_a_batch_publishes_its_changes_before_it_looks_who_runs_the_space() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 1, &a);
        tlb.platform().forget_logs();
        let mut batch = batch(tlb);
        defer(tlb, 0, &a, &mut batch, What::Page);
        assert_eq!(tlb.platform().log(0).first(), Some(&Op::Publish(Wait::Later)));
        let _ = complete(tlb, 0, batch);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn local_09_a_batch_of_spaces_that_nobody_runs_executes_nothing() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let spaces: Vec<_> = (1..=3).map(|number| space(tlb, number)).collect();
        for (space, cpu) in spaces.iter().zip([1, 70, FAR]) {
            let _ = switch(tlb, cpu, space);
            park(tlb, cpu);
        }
        tlb.platform().forget_logs();
        let mut batch = batch(tlb);
        for space in &spaces {
            defer(tlb, 0, space, &mut batch, What::Range);
        }
        let _ = complete(tlb, 0, batch);
        assert_eq!(tlb.platform().acts(), []);
        assert_eq!(tlb.platform().outcome(), (Outcome::NoCpu, 0));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn local_09_whoever_relies_on_a_space_of_a_batch_flushes_everything_in_it_once() {
    fn check<T: Strategy>(tlb: Machine<T>, finish: bool) {
        let a = space(tlb, 1);
        for cpu in [1, FAR] {
            let _ = switch(tlb, cpu, &a);
        }
        let mut batch = batch(tlb);
        defer(tlb, 0, &a, &mut batch, What::Page);
        if finish {
            let _ = complete(tlb, 0, batch);
        } else {
            drop(batch);
        }
        tlb.platform().forget_logs();
        // CPU 1 unmaps another page, and might believe that the first one is gone.
        let page_and_more = |gather: &mut Gather<'_, Fake>| {
            gather.revoke(pages(0x9000, 1));
            gather.relies_on(pages(0x5000, 1));
        };
        let full = |(_, op): &(u32, Op)| matches!(op, Op::FlushTag(_) | Op::FlushTagEverywhere(_));
        let _ = flush(tlb, 1, &a, page_and_more);
        assert!(tlb.platform().acts().iter().any(full));
        let _ = flush(tlb, 1, &a, page_and_more);
        assert!(!tlb.platform().acts().iter().any(full), "it is known to be gone");
    }
    for finish in [true, false] {
        check(recent(CPUS, Fake::new(CPUS, 12)), finish);
        check(epochs(CPUS, Fake::new(CPUS, 16)), finish);
        check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()), finish);
    }
}

#[test]
fn after_a_batch_completes_a_revoke_flushes_only_its_page() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [1, FAR] {
            let _ = switch(tlb, cpu, &a);
        }
        let mut batch = batch(tlb);
        defer(tlb, 0, &a, &mut batch, What::Page);
        // The target of the one that is complete is the CPU that completes the other.
        let _ = complete(tlb, FAR, batch);
        assert!(on(1, || tlb.nmi_uaccess_okay(&a)) && on(FAR, || tlb.nmi_uaccess_okay(&a)));
        tlb.platform().forget_logs();
        let _ = flush(tlb, 1, &a, |gather| gather.revoke(pages(0x9000, 1)));
        let page = |(_, op): &(u32, Op)| {
            matches!(op, Op::FlushRange(_, 0x9000, 1) | Op::FlushRangeEverywhere(_, 0x9000, 1, _))
        };
        let acts = tlb.platform().acts();
        assert!(acts.iter().all(|act| page(act) || matches!(act.1, Op::Interrupt(_))), "{acts:?}");
        assert!(acts.iter().any(page), "{acts:?}");
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

#[test]
fn a_cpu_that_goes_down_before_the_batch_is_complete_is_not_waited_for() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [70, FAR] {
            let _ = switch(tlb, cpu, &a);
        }
        let mut batch = batch(tlb);
        defer(tlb, 0, &a, &mut batch, What::Page);
        on(FAR, || this_cpu(tlb).offline());
        tlb.platform().forget_logs();
        let _ = complete(tlb, 0, batch);
        let acts = tlb.platform().acts();
        assert!(acts.contains(&(70, Op::FlushAll)));
        assert!(!acts.contains(&(FAR, Op::FlushAll)), "it holds nothing that it will use");
        assert_eq!(tlb.platform().stuck_waits(), []);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

#[test]
fn a_thread_that_moved_between_beginning_and_completing_flushes_where_it_is() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [70, FAR] {
            let _ = switch(tlb, cpu, &a);
        }
        let mut batch = batch(tlb);
        defer(tlb, 70, &a, &mut batch, What::Page);
        tlb.platform().forget_logs();
        let _ = complete(tlb, FAR, batch);
        assert!(tlb.platform().acts().contains(&(FAR, Op::FlushAll)));
        assert_eq!(tlb.platform().outcome(), (Outcome::Local, 0), "the other did its part");
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

#[test]
fn a_gather_that_is_deferred_empty_is_as_if_it_had_never_been() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [0, FAR] {
            let _ = switch(tlb, cpu, &a);
        }
        tlb.platform().forget_logs();
        let mut batch = batch(tlb);
        on(0, || this_cpu(tlb).defer(Gather::new(&a), &mut batch));
        assert_eq!((tlb.platform().log(0), a.generation()), (vec![], 0));
        let _ = complete(tlb, 0, batch);
        assert_eq!(tlb.platform().outcome(), (Outcome::NoCpu, 0));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_deferred_local_flush_leaves_nothing_for_the_next_one() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 1, &a);
        let mut batch = batch(tlb);
        // This CPU alone runs it, and does its part when the flush begins.
        defer(tlb, 1, &a, &mut batch, What::Page);
        tlb.platform().forget_logs();
        let _ = flush(tlb, 1, &a, |gather| gather.revoke(pages(0x9000, 1)));
        let page = |op: &Op| matches!(op, Op::FlushRange(_, 0x9000, 1));
        assert!(tlb.platform().log(1).iter().any(page), "a page is a page");
        let _ = complete(tlb, 1, batch);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

/// An invalidation by address costs 20, one of everything and its loss 50.
fn costly(fake: Fake) -> Fake {
    fake.set_costs(|costs| (costs.refill, costs.useful_entries) = (1, 30));
    fake
}

#[test]
fn a_batch_of_many_pages_flushes_everything_on_this_cpu_once() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 1, &a);
        for finishes in [1, 0] {
            let mut batch = batch(tlb);
            tlb.platform().forget_logs();
            for _ in 0..5 {
                defer(tlb, 1, &a, &mut batch, What::Page);
            }
            let by_page = |(cpu, op): &(u32, Op)| *cpu == 1 && matches!(op, Op::FlushRange(..));
            let begun = tlb.platform().acts();
            assert_eq!((begun.len(), begun.iter().all(by_page)), (2, true), "{begun:?}");
            tlb.platform().forget_logs();
            let _ = complete(tlb, finishes, batch);
            let acts = tlb.platform().acts();
            assert_eq!(acts.iter().filter(|act| **act == (1, Op::FlushAll)).count(), 1, "{acts:?}");
            let outcome = if finishes == 1 { (Outcome::Local, 0) } else { (Outcome::Ipis, 1) };
            assert_eq!(tlb.platform().outcome(), outcome, "where the thread is now");
        }
    }
    check(recent(3, costly(Fake::new(3, 16).without_broadcast())));
    check(epochs(3, costly(Fake::new(3, 16).without_broadcast())));
}

#[test]
fn a_thread_that_moves_to_a_target_of_its_batch_flushes_nothing_there_before_the_end() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 1, &a);
        let mut batch = batch(tlb);
        tlb.platform().forget_logs();
        defer(tlb, 0, &a, &mut batch, What::Page);
        defer(tlb, 1, &a, &mut batch, What::Page);
        assert_eq!(tlb.platform().acts(), []);
        let _ = complete(tlb, 1, batch);
        assert_eq!(tlb.platform().acts(), [(1, Op::FlushAll)]);
    }
    check(recent(3, costly(Fake::new(3, 16).without_broadcast())));
    check(epochs(3, costly(Fake::new(3, 16).without_broadcast())));
}

#[test]
fn what_a_batch_has_put_off_on_this_cpu_is_not_complete() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 1, &a);
        let mut batch = batch(tlb);
        for _ in 0..3 {
            defer(tlb, 1, &a, &mut batch, What::Page);
        }
        tlb.platform().forget_logs();
        let _ = flush(tlb, 1, &a, |gather| gather.relies_on(pages(0x9000, 1)));
        let log = tlb.platform().log(1);
        assert!(log.iter().any(|op| matches!(op, Op::FlushTag(_) | Op::FlushAll)), "{log:?}");
        let _ = complete(tlb, 1, batch);
    }
    check(recent(3, costly(Fake::new(3, 16).without_broadcast())));
    check(epochs(3, costly(Fake::new(3, 16).without_broadcast())));
}

#[test]
fn a_batch_puts_nothing_off_that_another_cpu_may_take_over() {
    let tlb = epochs(3, costly(Fake::new(3, 16).shared()));
    let a = space(tlb, 1);
    let _ = switch(tlb, 1, &a);
    tlb.platform().forget_logs();
    let mut batch = batch(tlb);
    for _ in 0..5 {
        defer(tlb, 1, &a, &mut batch, What::Page);
    }
    let acts = tlb.platform().acts();
    let by_page = |(cpu, op): &(u32, Op)| *cpu == 1 && matches!(op, Op::FlushRange(..));
    assert_eq!((acts.len(), acts.iter().all(by_page)), (5, true), "{acts:?}");
    let _ = complete(tlb, 1, batch);
}

#[test]
fn a_pinned_space_is_broadcast_in_a_batch_too() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let a = space(tlb, 1);
    let tag = this_cpu(tlb).pin(&a).unwrap().0;
    tlb.platform().forget_logs();
    let mut batch = batch(tlb);
    defer(tlb, 0, &a, &mut batch, What::Page);
    let page = Op::FlushRangeEverywhere(tag, 0x5000, 1, Wait::Later);
    assert_eq!(tlb.platform().acts(), [(0, page)], "no CPU runs it, a device may");
    let _ = complete(tlb, 0, batch);
    assert_eq!(tlb.platform().outcome(), (Outcome::Broadcast, 0));
}

#[test]
fn a_pinned_space_is_broadcast_in_a_batch_that_would_have_to_wait() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).with_broadcasts_that_wait());
    // IPIs are cheaper, and reach no device.
    tlb.platform().set_costs(|costs| costs.broadcast.wait = 1_000_000_000);
    let a = space(tlb, 1);
    let _ = on(0, || this_cpu(tlb).pin(&a)).unwrap();
    let _ = switch(tlb, 1, &a);
    let mut batch = batch(tlb);
    defer(tlb, 0, &a, &mut batch, What::Page);
    let _ = complete(tlb, 0, batch);
    assert_eq!(tlb.platform().outcome(), (Outcome::Broadcast, 0));
}

#[test]
fn a_batch_broadcasts_what_cpus_may_hold_that_do_not_run_the_space() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).shared().with_broadcasts_that_wait());
    // As above: a CPU that ran the space may have given its entries to another.
    tlb.platform().set_costs(|costs| costs.broadcast.wait = 1_000_000_000);
    let a = space(tlb, 1);
    for cpu in [1, 2] {
        let _ = switch(tlb, cpu, &a);
    }
    park(tlb, 1);
    let mut batch = batch(tlb);
    defer(tlb, 0, &a, &mut batch, What::Page);
    let _ = complete(tlb, 0, batch);
    assert_eq!(tlb.platform().outcome(), (Outcome::Broadcast, 0));
}

#[test]
fn a_batch_without_room_for_every_cpu_is_refused() {
    let tlb = recent(CPUS, Fake::new(CPUS, 12));
    let short = Batch::new(tlb, words(3)).map(drop);
    assert_eq!(short, Err(Error::Storage { needed: 4, given: 3 }));
}
