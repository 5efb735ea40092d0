//! Which of several sound ways a flush takes, and what is spared by it.

use crate::support::{
    COSTS, Fake, Moment, Op,
    machine::{
        ByRecent, Machine, Strategy, What, epochs, epochs_with, flush, park, recent, space, start,
        switch, this_cpu,
    },
    on,
};
use lookaside::{
    AddressSpace, PerCpuAsids,
    arch::Held,
    arch::Wait,
    counts::Outcome,
    platform::CpuId,
    tags::{GlobalAsidsConfig, Residency, Switched},
};

const CPUS: usize = 200;
const OTHER: u32 = 70;
const THIRD: u32 = 199;

/// `cpu` flushes `what` of `space`: what was done, and how it ended.
fn story<T: Strategy>(
    tlb: Machine<T>,
    cpu: u32,
    space: &AddressSpace<Fake>,
    what: What,
) -> (Vec<(u32, Op)>, (Outcome, u32)) {
    tlb.platform().forget_logs();
    let _ = flush(tlb, cpu, space, |gather| what.tell(gather));
    let outcome = tlb.platform().outcome();
    (tlb.platform().acts(), outcome)
}

fn tag<T: Strategy>(tlb: Machine<T>, cpu: u32) -> u16 {
    on(cpu, || this_cpu(tlb).tag().0)
}

/// CPU 0 has tags in its ASID cache, and runs the space that this returns.
fn with_cached_tags<T: Strategy>(tlb: Machine<T>) -> AddressSpace<Fake> {
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = switch(tlb, 0, &b);
    let _ = switch(tlb, 0, &a);
    a
}

/// A fresh tag costs nothing, and nothing is lost with the old one.
fn cheap_tags<T: Strategy>(tlb: Machine<T>) {
    tlb.platform().set_costs(|costs| (costs.retag, costs.useful_entries) = (0, 0));
}

// ---- By address, by tag, or by a fresh tag

#[test]
fn one_page_is_removed_by_address_whatever_that_costs() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = with_cached_tags(tlb);
        tlb.platform().set_costs(|costs| costs.local.address = 1 << 40);
        let page = (vec![(0, Op::FlushRange(tag(tlb, 0), 0x5000, 1))], (Outcome::Local, 0));
        assert_eq!(story(tlb, 0, &a, What::Page), page);
        assert_eq!(story(tlb, 0, &a, What::Range).0, [(0, Op::FlushTag(tag(tlb, 0)))]);
        cheap_tags(tlb);
        assert_eq!(story(tlb, 0, &a, What::Page), page);
        let more = if T::has_global_tags(tlb) { Outcome::Retagged } else { Outcome::Local };
        assert_eq!(story(tlb, 0, &a, What::Range).1, (more, 0));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn where_walks_outlive_tags_a_fresh_tag_will_do_for_pages_and_not_for_tables() {
    for outlive in [false, true] {
        let fake = Fake::new(CPUS, 16);
        let fake = if outlive { fake.with_walks_that_outlive_tags() } else { fake };
        let tlb = epochs(CPUS, fake);
        let a = with_cached_tags(tlb);
        cheap_tags(tlb);
        assert_eq!(story(tlb, 0, &a, What::Range).1, (Outcome::Retagged, 0), "{outlive}");
        let table = story(tlb, 0, &a, What::Table).1;
        assert_eq!(table.0 == Outcome::Retagged, !outlive, "{table:?}");
    }
}

#[test]
fn only_a_freed_table_targets_cpus_with_entries_under_an_older_tag() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).with_walks_that_outlive_tags());
    let a = with_cached_tags(tlb);
    cheap_tags(tlb);
    assert_eq!(story(tlb, 0, &a, What::Range).1, (Outcome::Retagged, 0));
    tlb.platform().set_costs(|costs| *costs = COSTS);
    let _ = switch(tlb, OTHER, &a);
    let page = Op::FlushRangeEverywhere(tag(tlb, 0), 0x5000, 1, Wait::Now);
    assert_eq!(story(tlb, 0, &a, What::Page), (vec![(0, page)], (Outcome::Broadcast, 0)));
    let flush_every_tag = vec![(0, Op::FlushAllEverywhere)];
    assert_eq!(story(tlb, 0, &a, What::Table), (flush_every_tag, (Outcome::Broadcast, 0)));
}

#[test]
fn a_freed_table_targets_cpus_with_entries_under_the_tag_before_the_rollover() {
    let config = GlobalAsidsConfig { tags: 6, ..Default::default() };
    let tlb = epochs_with(2, Fake::new(2, 16).with_walks_that_outlive_tags(), config);
    let a = space(tlb, 1);
    let _ = switch(tlb, 1, &a);
    let _ = switch(tlb, 1, &space(tlb, 2));
    let before = a.cookie();
    for number in 3.. {
        if switch(tlb, 0, &space(tlb, number)) == Switched::RolledOver {
            break;
        }
    }
    assert_eq!(switch(tlb, 0, &a), Switched::Fresh);
    assert!(a.cookie().epoch() > before.epoch());
    let flush_every_tag = vec![(0, Op::FlushAllEverywhere)];
    assert_eq!(story(tlb, 0, &a, What::Table), (flush_every_tag, (Outcome::Broadcast, 0)));
}

#[test]
fn a_device_that_walks_for_a_pinned_space_is_flushed_at_its_release_whatever_came_before() {
    let config = GlobalAsidsConfig { tags: 8, pins: 1, ..Default::default() };
    let tlb = epochs_with(2, Fake::new(2, 16).with_walks_that_outlive_tags(), config);
    let mut a = space(tlb, 1);
    let _ = switch(tlb, 1, &a);
    let _ = switch(tlb, 1, &space(tlb, 2));
    for number in 3.. {
        if switch(tlb, 0, &space(tlb, number)) == Switched::RolledOver {
            break;
        }
    }
    // It leaves its former tag, and is pinned under another.
    let tag = on(0, || this_cpu(tlb).pin(&a)).unwrap().0;
    assert_eq!(story(tlb, 0, &a, What::Table).0, [(0, Op::FlushAllEverywhere)]);
    on(0, || this_cpu(tlb).unpin(&a)).unwrap();
    tlb.platform().forget_logs();
    let _ = on(0, || this_cpu(tlb).release(&mut a));
    let acts = tlb.platform().acts();
    assert!(acts.contains(&(0, Op::FlushTagEverywhere(tag))), "{acts:?}");
}

// ---- By interrupt or by broadcast

#[test]
fn a_tag_that_means_another_space_elsewhere_is_never_broadcast() {
    let tlb: ByRecent = start(CPUS, Fake::new(CPUS, 12), PerCpuAsids::new());
    let a = space(tlb, 1);
    for cpu in [0, 1, 2, OTHER, THIRD] {
        let _ = switch(tlb, cpu, &a);
    }
    for what in What::ALL {
        assert_eq!(story(tlb, 0, &a, what).1, (Outcome::Ipis, 4), "{what:?}");
    }
}

#[test]
fn a_freed_table_is_broadcast_for_resting_cpus_although_ipis_cost_less() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).with_walks_that_outlive_tags());
    tlb.platform().set_costs(|costs| (costs.ipi, costs.ipi_more) = (1, 1));
    let a = space(tlb, 1);
    for cpu in [0, OTHER, THIRD] {
        let _ = switch(tlb, cpu, &a);
    }
    // Nobody is absent who holds something.
    park(tlb, THIRD);
    assert_eq!(story(tlb, 0, &a, What::Table).1, (Outcome::Broadcast, 0));
}

// ---- When everyone leaves

#[test]
fn a_running_cpu_stays_present_through_a_table_broadcast() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).with_walks_that_outlive_tags());
    let a = space(tlb, 1);
    for cpu in [0, OTHER] {
        let _ = switch(tlb, cpu, &a);
    }
    // Nothing is held that would be a loss; so it would be worth it to have everyone leave.
    tlb.platform().set_costs(|costs| costs.useful_entries = 0);
    assert_eq!(story(tlb, 0, &a, What::Table).1, (Outcome::Broadcast, 0));
    assert_eq!(a.residents().get(CpuId(OTHER)), Residency::Present);
}

#[test]
fn nobody_is_made_to_leave_a_pinned_space() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).with_walks_that_outlive_tags());
    let a = space(tlb, 1);
    let tag = this_cpu(tlb).pin(&a).unwrap().0;
    let _ = switch(tlb, OTHER, &a);
    park(tlb, OTHER);
    // One broadcast costs more than all that is held, and that more than the pages of a table.
    tlb.platform().set_costs(|costs| {
        (costs.broadcast.wait, costs.useful_entries) = (1 << 40, 10_000);
    });
    let table = Op::FlushTablesEverywhere(tag, 0x20_0000, 512, Wait::Now);
    for _ in 0..2 {
        let acts = vec![(0, table.clone())];
        assert_eq!(story(tlb, 0, &a, What::Table), (acts, (Outcome::Broadcast, 0)));
        assert_ne!(a.residents().get(CpuId(OTHER)), Residency::Absent);
    }
}

#[test]
fn a_cpu_on_a_newer_tag_is_not_removed_by_a_flush_of_the_old() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).shared());
    let a: &'static _ = Box::leak(Box::new(with_cached_tags(tlb)));
    let before = tag(tlb, 0);
    cheap_tags(tlb);
    tlb.platform().meanwhile(Moment::PropertiesAsked(1), move || {
        let _ = flush(tlb, 0, a, |gather| What::Range.tell(gather));
        assert_eq!(tlb.platform().outcome(), (Outcome::Retagged, 0));
        tlb.platform().set_costs(|costs| costs.retag = 1 << 40);
    });
    let (acts, outcome) = story(tlb, 5, a, What::Page);
    assert_eq!(outcome, (Outcome::Broadcast, 0));
    let page = Op::FlushRangeEverywhere(before, 0x5000, 1, Wait::Now);
    assert_eq!(acts.last(), Some(&(5, page)));
    assert_ne!(tag(tlb, 0), before);
    assert_eq!(a.residents().get(CpuId(0)), Residency::Present);
    assert_ne!(story(tlb, 5, a, What::Page).1.0, Outcome::NoCpu, "it runs the space");
}

// ---- Who goes, and who comes

#[test]
fn a_lazy_cpu_becomes_absent_once_seen_to_have_left() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let residency = || a.residents().get(CpuId(OTHER));
        let _ = switch(tlb, OTHER, &a);
        on(OTHER, || this_cpu(tlb).lazy());
        for _ in 0..2 {
            let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
            assert_eq!(residency(), Residency::Lazy, "its register names the space");
        }
        park(tlb, OTHER);
        assert_eq!(residency(), Residency::Lazy, "nobody has looked");
        let _ = flush(tlb, 0, &a, |gather| What::Table.tell(gather));
        assert_eq!(residency(), Residency::Absent);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_flush_of_pages_looks_no_second_time_at_a_cpu_that_is_lazy() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        let _ = switch(tlb, OTHER, &a);
        on(OTHER, || this_cpu(tlb).lazy());
        let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
        for what in [What::Page, What::Range] {
            let _ = flush(tlb, 0, &a, |gather| what.tell(gather));
            assert_eq!(tlb.platform().outcome(), (Outcome::Local, 0));
            assert_eq!(a.residents().get(CpuId(OTHER)), Residency::Lazy);
        }
        // It makes itself present before it flushes, and is told of the next page.
        assert_eq!(switch(tlb, OTHER, &a), Switched::CaughtUp);
        assert_eq!(a.residents().get(CpuId(OTHER)), Residency::Present);
        let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
        assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, 1));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

#[test]
fn first_switch_in_drops_entries_only_if_absent_cpus_hold_some() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let a = space(tlb, 1);
    let held = |cpu| {
        tlb.platform().forget_logs();
        let _ = switch(tlb, cpu, &a);
        let load = |op: &Op| match op {
            Op::Load { held, .. } => Some(*held),
            _ => None,
        };
        tlb.platform().log(cpu).iter().find_map(load)
    };
    assert_eq!([held(OTHER), held(1)], [Some(Held::Keep); 2]);
    on(OTHER, || this_cpu(tlb).lazy());
    park(tlb, 1);
    let _ = switch(tlb, 1, &space(tlb, 2));
    on(1, || this_cpu(tlb).lazy());
    let _ = switch(tlb, 1, &a);
    on(1, || this_cpu(tlb).lazy());
    // Both are told of it when they come back, and neither is absent.
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    assert_eq!(held(THIRD), Some(Held::Keep));
    park(tlb, THIRD);
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    assert_eq!(a.residents().get(CpuId(THIRD)), Residency::Absent);
    assert_eq!(held(2), Some(Held::Drop), "nobody knows any more who holds something");
}

#[test]
fn switching_from_a_lazy_space_to_another_loads_its_root() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let (a, b) = (space(tlb, 1), space(tlb, 2));
        let _ = switch(tlb, 0, &b);
        let of_b = tag(tlb, 0);
        let _ = switch(tlb, 0, &a);
        on(0, || this_cpu(tlb).lazy());
        assert_eq!(switch(tlb, 0, &b), Switched::Kept);
        assert_eq!(tag(tlb, 0), of_b);
        assert!(this_cpu(tlb).register_is_ours());
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
    check(epochs(CPUS, Fake::new(CPUS, 16).shared()));
}

#[test]
fn a_switch_between_known_spaces_waits_once_for_what_was_begun() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let (a, b) = (space(tlb, 1), space(tlb, 2));
        for space in [&a, &b] {
            let _ = switch(tlb, 0, space);
        }
        for space in [&a, &b] {
            tlb.platform().forget_logs();
            assert_eq!(switch(tlb, 0, space), Switched::Kept);
            assert_eq!(tlb.platform().mmu.count(|op| *op == Op::Settle), 1);
        }
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}
