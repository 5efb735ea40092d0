//! Tags that are released before a rollover.

use std::collections::BTreeSet;

use crate::support::{
    Fake, Op,
    machine::{ByEpochs, What, epochs, epochs_with, flush, park, space, switch, this_cpu},
};
use lookaside::{
    counts::Outcome,
    platform::CpuId,
    tags::{GlobalAsidsConfig, Released, Residency},
};

const OTHER: u32 = 1;
const CPUS: usize = 2;

fn few_tags() -> ByEpochs {
    epochs_with(CPUS, Fake::new(CPUS, 8), GlobalAsidsConfig { tags: 5, ..Default::default() })
}

/// `cpu` uses up the tags of this epoch.
fn turn(tlb: ByEpochs, cpu: u32) {
    let epoch = tlb.tags().epoch();
    while tlb.tags().epoch() == epoch {
        let _ = switch(tlb, cpu, &space(tlb, 100));
    }
}

#[test]
fn releasing_a_space_that_no_cpu_holds_flushes_nothing() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).with_walks_that_outlive_tags());
    let mut a = space(tlb, 1);
    let _ = switch(tlb, OTHER, &a);
    park(tlb, OTHER);
    // Nothing is held that would be a loss; so everyone forgets everything for a table.
    tlb.platform().set_costs(|costs| costs.useful_entries = 0);
    let _ = flush(tlb, 0, &a, |gather| What::Table.tell(gather));
    assert_eq!(tlb.platform().outcome(), (Outcome::Broadcast, 0));
    assert_eq!(a.residents().get(CpuId(OTHER)), Residency::Absent);
    tlb.platform().forget_logs();
    assert_eq!(this_cpu(tlb).release(&mut a), Released::AtOnce);
    assert_eq!(tlb.platform().acts(), []);
}

#[test]
fn where_entries_are_shared_what_only_this_cpu_ran_is_flushed_everywhere() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 8).shared());
    let mut a = space(tlb, 1);
    let _ = switch(tlb, 0, &a);
    park(tlb, 0);
    let tag = a.cookie().tag().0;
    tlb.platform().forget_logs();
    assert_eq!(this_cpu(tlb).release(&mut a), Released::AtOnce);
    assert_eq!(tlb.platform().acts(), [(0, Op::FlushTagEverywhere(tag))]);
}

#[test]
fn tags_that_are_back_at_once_are_those_that_are_given_next() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 8));
    let mut spaces: Vec<_> = (1..40).map(|number| space(tlb, number)).collect();
    for space in &spaces {
        let _ = switch(tlb, 0, space);
    }
    park(tlb, 0);
    let mut back = BTreeSet::new();
    for space in &mut spaces {
        let tag = space.cookie().tag();
        if this_cpu(tlb).release(space) == Released::AtOnce {
            back.insert(tag);
        }
    }
    assert!(back.len() < spaces.len(), "an ASID cache has room for some of them only");
    let next = spaces.iter().take(back.len()).map(|space| {
        let _ = switch(tlb, 0, space);
        space.cookie().tag()
    });
    assert_eq!(next.collect::<BTreeSet<_>>(), back);
}

#[test]
fn of_many_tags_one_comes_back_by_the_rollover_unless_tables_must_be_forgotten() {
    for (bits, outlive) in [(9, false), (10, false), (9, true), (10, true)] {
        let fake = Fake::new(CPUS, bits);
        let fake = if outlive { fake.with_walks_that_outlive_tags() } else { fake };
        let tlb = epochs(CPUS, fake);
        let (mut here, mut both) = (space(tlb, 1), space(tlb, 2));
        for space in [&here, &both] {
            let _ = switch(tlb, 0, space);
        }
        let _ = switch(tlb, OTHER, &both);
        for cpu in [0, OTHER] {
            park(tlb, cpu);
        }
        let tags = [here.cookie().tag().0, both.cookie().tag().0];
        tlb.platform().forget_logs();
        let released = [&mut here, &mut both].map(|space| this_cpu(tlb).release(space));
        let (when, flushed) = if bits < 10 || outlive {
            let [here, both] = tags;
            (Released::AtOnce, vec![(0, Op::FlushTag(here)), (0, Op::FlushTagEverywhere(both))])
        } else {
            (Released::Later, vec![])
        };
        assert_eq!(released, [when; 2], "{bits} bits, walks outlive tags: {outlive}");
        assert_eq!(tlb.platform().acts(), flushed, "{bits} bits, walks outlive tags: {outlive}");
    }
}

#[test]
fn a_tag_of_an_epoch_that_another_cpu_has_ended_does_not_come_back_at_once() {
    let tlb = few_tags();
    let mut a = space(tlb, 1);
    let _ = switch(tlb, 0, &a);
    park(tlb, 0);
    turn(tlb, OTHER);
    assert_eq!(this_cpu(tlb).release(&mut a), Released::Later);
}

#[test]
fn a_cpu_reserving_a_reused_tag_does_not_run_its_former_owner() {
    let tlb = few_tags();
    let mut a = space(tlb, 1);
    let _ = switch(tlb, OTHER, &a);
    loop {
        let b = space(tlb, 2);
        let _ = switch(tlb, OTHER, &b);
        if b.cookie().tag() == a.cookie().tag() {
            break;
        }
    }
    turn(tlb, 0);
    assert_eq!(this_cpu(tlb).release(&mut a), Released::Later);
}

#[test]
fn an_nmi_leaves_a_space_alone_that_was_released_where_it_ran() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let mut a = space(tlb, 1);
    let _ = switch(tlb, 0, &a);
    park(tlb, 0);
    let _ = this_cpu(tlb).release(&mut a);
    assert!(!tlb.nmi_uaccess_okay(&a));
}
