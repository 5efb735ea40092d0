//! What others do, or see, between two steps of a flush or a switch.

use crate::support::{
    COSTS, Fake, Moment, Op,
    machine::{
        Machine, Strategy, What, epochs, flush, pages, park, recent, space, switch, this_cpu,
    },
    on, words,
};
use lookaside::{
    AddressSpace, Gather, GlobalAsids,
    arch::Wait,
    counts::Outcome,
    flush::Batch,
    platform::CpuId,
    tags::{RootState, Tags},
};

const CPUS: usize = 200;

/// A space that others can use meanwhile.
fn lasting<T: Strategy>(tlb: Machine<T>) -> &'static AddressSpace<Fake> {
    Box::leak(Box::new(space(tlb, 1)))
}

/// CPU 0 begins to flush in a batch, which is not completed: what it has done by then.
fn begin<T: Strategy>(tlb: Machine<T>, space: &AddressSpace<Fake>, what: What) -> Vec<(u32, Op)> {
    let mut batch = Batch::new(tlb, words(CPUS.div_ceil(64))).unwrap();
    let mut gather = Gather::new(space);
    what.tell(&mut gather);
    this_cpu(tlb).defer(gather, &mut batch);
    tlb.platform().acts()
}

#[test]
fn a_gather_dropped_during_a_flush_is_left_to_the_next_flush() {
    fn check<T: Strategy>(tlb: Machine<T>, tell: fn(&mut Gather<'_, Fake>)) {
        let a = lasting(tlb);
        let _ = switch(tlb, 0, a);
        tlb.platform().meanwhile(Moment::Published, || {
            let mut lost = Gather::new(a);
            lost.unlink_table(pages(0x20_0000, 512));
            drop(lost);
        });
        let _ = flush(tlb, 0, a, tell);
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, a, |gather| What::Page.tell(gather));
        let full = |op: &Op| matches!(op, Op::FlushTag(_) | Op::FlushTagEverywhere(_));
        assert!(tlb.platform().log(0).iter().any(full), "everything");
    }
    // Tables, but not everywhere; and everywhere, but no tables.
    let tables = |gather: &mut Gather<'_, Fake>| What::Table.tell(gather);
    let everywhere = |gather: &mut Gather<'_, Fake>| {
        for start in [0, 1 << 30, 1 << 40, 1 << 50, !0xfff] {
            gather.revoke(pages(start, 1));
        }
        gather.revoke_mixed(pages(0, (1 << 52) - 1));
    };
    for tell in [tables, everywhere] {
        check(recent(CPUS, Fake::new(CPUS, 12)), tell);
        check(epochs(CPUS, Fake::new(CPUS, 16)), tell);
    }
}

#[test]
fn a_flush_broadcasts_if_too_many_cpus_enter_meanwhile() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    tlb.platform().set_costs(|costs| costs.ipi = 1000);
    let a = lasting(tlb);
    let _ = switch(tlb, 70, a);
    let tag = on(70, || this_cpu(tlb).tag().0);
    tlb.platform().forget_logs();
    // Once to see whether there are broadcasts, once whether they are necessary; then it looks for the targets.
    tlb.platform().meanwhile(Moment::PropertiesAsked(3), || {
        for cpu in 1..CPUS as u32 {
            let _ = switch(tlb, cpu, a);
        }
    });
    let acts = begin(tlb, a, What::Page);
    let page = Op::FlushRangeEverywhere(tag, 0x5000, 1, Wait::Later);
    assert_eq!(acts.last(), Some(&(0, page)));
}

#[test]
fn a_flush_broadcasts_if_a_cpu_may_take_over_shared_entries() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).shared());
    let a = lasting(tlb);
    let _ = switch(tlb, 0, a);
    let tag = on(0, || this_cpu(tlb).tag().0);
    tlb.platform().forget_logs();
    tlb.platform().meanwhile(Moment::Removed, || {
        let _ = switch(tlb, 70, a);
    });
    let acts = begin(tlb, a, What::Page);
    let page = Op::FlushRangeEverywhere(tag, 0x5000, 1, Wait::Later);
    assert_eq!(acts.last(), Some(&(0, page)));
}

#[test]
fn a_cpu_runs_a_space_alone_only_if_no_other_switches_in_before_the_end() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).shared());
    let a = lasting(tlb);
    let _ = switch(tlb, 0, a);
    tlb.platform().meanwhile(Moment::Removed, || {
        let _ = switch(tlb, 70, a);
    });
    let _ = flush(tlb, 0, a, |gather| What::Page.tell(gather));
    assert_eq!(tlb.platform().outcome(), (Outcome::Broadcast, 0));
}

#[test]
fn a_flush_local_on_recheck_broadcasts_if_a_cpu_enters_later() {
    let fake = Fake::new(CPUS, 16).shared().with_walks_that_outlive_tags();
    let tlb = epochs(CPUS, fake);
    let (a, b) = (lasting(tlb), space(tlb, 2));
    // The space had another tag before, under which tables may be held.
    let _ = switch(tlb, 0, &b);
    let _ = switch(tlb, 0, a);
    tlb.platform().set_costs(|costs| (costs.retag, costs.useful_entries) = (0, 0));
    let _ = flush(tlb, 0, a, |gather| What::Range.tell(gather));
    assert_eq!(tlb.platform().outcome(), (Outcome::Retagged, 0));
    tlb.platform().set_costs(|costs| *costs = COSTS);
    // And a device had it, which may hold something under the new one.
    let tag = this_cpu(tlb).pin(a).unwrap().0;
    this_cpu(tlb).unpin(a).unwrap();
    tlb.platform().forget_logs();
    tlb.platform().meanwhile(Moment::PropertiesAsked(1), || {
        // Another CPU has all of that forgotten. Only then does a third one come in.
        let _ = flush(tlb, 5, a, |gather| What::Table.tell(gather));
        tlb.platform().meanwhile(Moment::Removed, || {
            let _ = switch(tlb, 70, a);
        });
    });
    let _ = flush(tlb, 0, a, |gather| What::Page.tell(gather));
    let acts = tlb.platform().acts();
    assert!(acts.contains(&(5, Op::FlushAllEverywhere)), "{acts:?}");
    assert!(acts.contains(&(0, Op::FlushRange(tag, 0x5000, 1))), "alone: {acts:?}");
    let page = Op::FlushRangeEverywhere(tag, 0x5000, 1, Wait::Now);
    assert_eq!(acts.last(), Some(&(0, page)));
    assert_eq!(tlb.platform().outcome(), (Outcome::Broadcast, 0));
}

#[test]
fn what_a_cpu_settles_before_its_root_is_loaded_is_that_it_runs_the_space() {
    fn check(reached_before: bool, leave: fn(Machine<GlobalAsids<'static, Fake>>)) {
        let tlb = epochs(CPUS, Fake::new(CPUS, 16));
        let (a, other) = (lasting(tlb), space(tlb, 2));
        if reached_before {
            let _ = switch(tlb, 0, a);
        } else {
            let _ = switch(tlb, 70, a);
        }
        let _ = switch(tlb, 0, &other);
        leave(tlb);
        let (settled, has_settled) = std::sync::mpsc::channel();
        tlb.platform().meanwhile(Moment::Settled, move || {
            settled.send(()).unwrap();
            let context = GlobalAsids::context_id(tlb, a).unwrap();
            let seen = GlobalAsids::root_state(tlb, CpuId(0), context);
            assert_eq!(seen, RootState::Loaded, "before walks of the space can begin");
        });
        let _ = switch(tlb, 0, a);
        assert!(has_settled.try_recv().is_ok(), "it settles");
    }
    // Present; absent, with a tag that another CPU has given to the space; from the reserved root.
    check(true, |_| ());
    check(false, |_| ());
    check(true, |tlb| park(tlb, 0));
}
