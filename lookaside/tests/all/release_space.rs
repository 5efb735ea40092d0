//! The end of a space that CPUs still have loaded: each of them parks, and the tables come back.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use crate::support::{
    Fake, Op,
    machine::{
        Machine, Strategy, What, epochs, epochs_with, flush, park, recent, space, switch, this_cpu,
    },
    on,
};
use lookaside::{
    AddressSpace,
    arch::{Root, Tag},
    tags::{Cookie, GlobalAsidsConfig, Switched},
};

const OTHER: u32 = 1;
const THIRD: u32 = 2;
const CPUS: usize = 3;

macro_rules! on_both {
    ($check:ident, $($fake:tt)*) => {
        $check(recent(CPUS, $($fake)*));
        $check(epochs(CPUS, $($fake)*));
    };
}

#[test]
fn a_cpu_that_runs_the_space_or_is_lazy_in_it_parks() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        for lazy in [false, true] {
            let (mut a, b) = (space(tlb, 1), space(tlb, 2));
            let _ = switch(tlb, OTHER, &a);
            let _ = switch(tlb, THIRD, &a);
            let _ = switch(tlb, THIRD, &b);
            if lazy {
                on(OTHER, || this_cpu(tlb).lazy());
            }
            tlb.platform().forget_logs();
            let _ = on(0, || this_cpu(tlb).release(&mut a));
            assert_eq!(tlb.platform().log(0)[0], Op::Interrupt(vec![OTHER]), "the third has left");
            assert_eq!(on(OTHER, || this_cpu(tlb).tag()), Tag::RESERVED);
            assert_eq!(a.residents().iter().count(), 0);
            assert_eq!(a.into_tables(), Root::new(4096));
            assert_eq!(switch(tlb, THIRD, &b), Switched::Unchanged, "another space");
            park(tlb, THIRD);
        }
    }
    on_both!(check, Fake::new(CPUS, 16));
}

#[test]
fn the_cpu_that_releases_its_own_space_parks() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let mut a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        tlb.platform().forget_logs();
        let _ = on(0, || this_cpu(tlb).release(&mut a));
        assert!(tlb.platform().log(0).contains(&Op::Park));
    }
    on_both!(check, Fake::new(CPUS, 16));
}

#[test]
fn a_space_that_is_used_again_after_its_release_has_no_entries() {
    fn switch_again<T: Strategy>(tlb: Machine<T>) -> Switched {
        let mut a = space(tlb, 1);
        let _ = switch(tlb, OTHER, &a);
        let _ = on(0, || this_cpu(tlb).release(&mut a));
        assert_eq!(a.cookie(), Cookie::NONE);
        switch(tlb, OTHER, &a)
    }
    assert_eq!(switch_again(recent(CPUS, Fake::new(CPUS, 16))), Switched::Flushed);
    let global = epochs(CPUS, Fake::new(CPUS, 16).without_broadcast());
    assert_eq!(switch_again(global), Switched::Fresh);
}

#[test]
fn a_cpu_that_calls_firmware_from_the_space_parks_when_that_returns() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let mut a = space(tlb, 1);
        let _ = switch(tlb, OTHER, &a);
        on(OTHER, || {
            tlb.platform().forget_logs();
            let firmware = || on(0, || _ = this_cpu(tlb).release(&mut a));
            this_cpu(tlb).with_root(&Root::new(0xffff_0000), firmware).unwrap();
        });
        let parks = |op: &&Op| **op == Op::Park;
        let log = tlb.platform().log(OTHER);
        assert_eq!(log.iter().filter(parks).count(), 1, "{log:?}");
        assert!(log.ends_with(&[Op::Park, Op::FlushTag(1)]), "{log:?}");
    }
    on_both!(check, Fake::new(CPUS, 16));
}

#[test]
fn where_walks_outlive_tags_every_cpu_forgets_the_tables() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let (mut a, b) = (space(tlb, 1), space(tlb, 2));
        for space in [&a, &b] {
            let _ = switch(tlb, OTHER, space);
        }
        tlb.platform().forget_logs();
        let _ = on(0, || this_cpu(tlb).release(&mut a));
        let forgets = |op: &Op| matches!(op, Op::FlushTag(_) | Op::FlushTagEverywhere(_));
        assert!(tlb.platform().acts().iter().any(|(_, op)| forgets(op)));
    }
    on_both!(check, Fake::new(CPUS, 16).with_walks_that_outlive_tags());
}

#[test]
fn a_released_space_gives_its_tables_back_whatever_was_flushed_and_pinned() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let (mut a, b) = (space(tlb, 1), space(tlb, 2));
        let _ = (switch(tlb, OTHER, &a), switch(tlb, OTHER, &b));
        // A CPU that has left is made absent, and may hold entries.
        let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
        let _ = on(0, || this_cpu(tlb).release(&mut a));
        assert_eq!(a.into_tables(), Root::new(4096));
    }
    on_both!(check, Fake::new(CPUS, 16));
    check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let mut a = space(tlb, 1);
    let _ = this_cpu(tlb).pin(&a).unwrap();
    this_cpu(tlb).unpin(&a).unwrap();
    let _ = this_cpu(tlb).release(&mut a);
    assert_eq!(a.into_tables(), Root::new(4096));
    // In the last epoch no space has a tag of its own.
    let config = GlobalAsidsConfig { tags: 8, last_epoch: 2, ..Default::default() };
    let tlb = epochs_with(CPUS, Fake::new(CPUS, 16).without_broadcast(), config);
    while tlb.tags().epoch() < 2 {
        let _ = switch(tlb, 0, &space(tlb, 2));
    }
    check(tlb);
}

#[test]
fn the_tables_of_a_space_that_was_not_released_are_leaked() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, OTHER, &a);
        let taken = catch_unwind(AssertUnwindSafe(|| a.into_tables()));
        assert!(taken.is_err());
        park(tlb, OTHER);
        assert_eq!(space(tlb, 3).into_tables(), Root::new(3 * 4096), "one that never ran");
    }
    on_both!(check, Fake::new(CPUS, 16));
}

#[test]
fn the_tables_of_a_space_that_a_device_walks_or_that_has_a_tag_are_leaked() {
    fn machine() -> crate::support::machine::ByEpochs {
        let config = GlobalAsidsConfig { tags: 8, pins: 1, ..Default::default() };
        epochs_with(CPUS, Fake::new(CPUS, 16).with_walks_that_outlive_tags(), config)
    }
    let taken = |space: AddressSpace<Fake>| catch_unwind(AssertUnwindSafe(|| space.into_tables()));
    let tlb = machine();
    let pinned = space(tlb, 1);
    let _ = on(0, || this_cpu(tlb).pin(&pinned)).unwrap();
    assert!(taken(pinned).is_err(), "no CPU has run it");
    let tlb = machine();
    let absent = space(tlb, 1);
    let _ = switch(tlb, OTHER, &absent);
    park(tlb, OTHER);
    let _ = flush(tlb, 0, &absent, |gather| gather.revoke_everything());
    assert!(absent.residents().iter().next().is_none(), "its walk caches may hold tables");
    assert!(taken(absent).is_err());
}
