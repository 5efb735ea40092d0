//! Pinned tags: how long they last, and how they are flushed in the last epoch.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use crate::support::{
    Fake, Moment, Op,
    machine::{ByEpochs, What, epochs, epochs_with, flush, park, space, switch, this_cpu},
    on,
};
use lookaside::{
    AddressSpace, Error,
    arch::{Held, Tag, Wait},
    tags::GlobalAsidsConfig,
};

const OTHER: u32 = 1;
const CPUS: usize = 2;

fn machine(fake: Fake) -> ByEpochs {
    epochs_with(CPUS, fake, GlobalAsidsConfig { tags: 8, pins: 1, last_epoch: 3 })
}

/// A pinned space and its tag, which CPU 0 runs in the last epoch.
fn pinned(tlb: ByEpochs) -> (AddressSpace<Fake>, u16) {
    let a = space(tlb, 1);
    let tag = this_cpu(tlb).pin(&a).unwrap().0;
    while tlb.tags().epoch() < 3 {
        let _ = switch(tlb, 0, &space(tlb, 2));
    }
    let _ = switch(tlb, 0, &a);
    tlb.platform().forget_logs();
    (a, tag)
}

#[test]
fn a_tag_that_is_pinned_twice_is_nobody_elses_after_one_unpin() {
    let tlb = machine(Fake::new(CPUS, 8));
    let a = space(tlb, 1);
    let tag = this_cpu(tlb).pin(&a).unwrap();
    assert_eq!(this_cpu(tlb).pin(&a), Ok(tag));
    this_cpu(tlb).unpin(&a).unwrap();
    while tlb.tags().epoch() < 3 {
        let other = space(tlb, 2);
        let _ = switch(tlb, 0, &other);
        assert_ne!(other.cookie().tag(), tag);
    }
    assert_eq!(this_cpu(tlb).pin(&space(tlb, 3)), Err(Error::IdsExhausted));
    assert_eq!(this_cpu(tlb).unpin(&a), Ok(()));
}

#[test]
fn no_epoch_is_ended_for_a_pin_if_the_next_one_is_the_last() {
    let tlb = machine(Fake::new(CPUS, 8));
    while tlb.tags().epoch() < 2 {
        let _ = switch(tlb, 0, &space(tlb, 1));
    }
    // One tag is kept, of the register that was on its way, and one is in use.
    for _ in 2..tlb.tags().usable() {
        let _ = switch(tlb, 0, &space(tlb, 1));
    }
    assert_eq!(this_cpu(tlb).pin(&space(tlb, 2)), Err(Error::IdsExhausted));
    assert_eq!(tlb.tags().epoch(), 2);
}

#[test]
fn in_the_last_epoch_a_pinned_space_is_flushed_under_its_own_tag() {
    let tlb = machine(Fake::new(CPUS, 8));
    let (a, tag) = pinned(tlb);
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    let page = Op::FlushRangeEverywhere(tag, 0x5000, 1, Wait::Now);
    assert_eq!(tlb.platform().acts(), [(0, page)], "a device may hold it");
    let tlb = machine(Fake::new(CPUS, 8).without_broadcast());
    let (a, tag) = pinned(tlb);
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    assert_eq!(tlb.platform().acts(), [(0, Op::FlushRange(tag, 0x5000, 1))]);
}

#[test]
fn in_the_last_epoch_a_cpu_flushes_when_it_switches_back_to_a_pinned_space() {
    let tlb = machine(Fake::new(CPUS, 8).without_broadcast());
    let (a, tag) = pinned(tlb);
    let _ = switch(tlb, OTHER, &a);
    park(tlb, OTHER);
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    tlb.platform().forget_logs();
    let _ = switch(tlb, OTHER, &a);
    assert_eq!(on(OTHER, || this_cpu(tlb).tag().0), tag);
    let drops = |op: &Op| matches!(op, Op::Load { held: Held::Drop, .. });
    assert!(tlb.platform().log(OTHER).iter().any(drops));
}

#[test]
fn in_the_last_epoch_a_space_keeps_its_tag_after_the_last_unpin_until_it_is_released() {
    let tlb = machine(Fake::new(CPUS, 8).without_broadcast());
    let (mut a, tag) = pinned(tlb);
    let _ = switch(tlb, OTHER, &a);
    let unpin = |a: &AddressSpace<Fake>| this_cpu(tlb).unpin(a);
    assert_eq!(unpin(&a), Ok(()));
    tlb.platform().forget_logs();
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    assert_eq!(tlb.platform().log(OTHER), [Op::FlushRange(tag, 0x5000, 1)]);
    // It can be pinned again, under the same tag.
    assert_eq!((unpin(&a), this_cpu(tlb).pin(&a)), (Err(Error::NotPinned), Ok(Tag(tag))));
    assert!(
        catch_unwind(AssertUnwindSafe(|| this_cpu(tlb).release(&mut a))).is_err(),
        "it is pinned"
    );
    assert_eq!(unpin(&a), Ok(()));
    let _ = this_cpu(tlb).release(&mut a);
    assert_eq!(on(OTHER, || this_cpu(tlb).tag()), Tag::RESERVED);
    // As a space that never ran: it has no tag of its own in the last epoch.
    assert_eq!(this_cpu(tlb).pin(&a), Err(Error::IdsExhausted));
    let _ = switch(tlb, 0, &a);
    assert_eq!(on(0, || this_cpu(tlb).tag()), Tag(1), "the shared one");
}

#[test]
fn the_last_unpin_flushes_what_the_device_holds() {
    let tlb = machine(Fake::new(CPUS, 8));
    let a = space(tlb, 1);
    let tag = this_cpu(tlb).pin(&a).unwrap().0;
    let _ = this_cpu(tlb).pin(&a);
    tlb.platform().forget_logs();
    this_cpu(tlb).unpin(&a).unwrap();
    assert_eq!(tlb.platform().acts(), []);
    this_cpu(tlb).unpin(&a).unwrap();
    assert_eq!(tlb.platform().acts(), [(0, Op::FlushTagEverywhere(tag))]);
}

#[test]
fn the_last_unpin_flushes_the_tag_that_the_device_had_though_the_space_gets_another() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let a: &'static _ = Box::leak(Box::new(space(tlb, 1)));
    let tag = this_cpu(tlb).pin(a).unwrap().0;
    // This CPU has tags in its ASID cache.
    let _ = (switch(tlb, OTHER, &space(tlb, 2)), switch(tlb, OTHER, a));
    tlb.platform().set_costs(|costs| costs.retag = 0);
    // As soon as the pin is gone, the other CPU gives the space another tag.
    tlb.platform().meanwhile(Moment::PropertiesAsked(1), move || {
        let _ = flush(tlb, OTHER, a, |gather| What::AddressSpace.tell(gather));
    });
    tlb.platform().forget_logs();
    this_cpu(tlb).unpin(a).unwrap();
    assert_ne!(on(OTHER, || this_cpu(tlb).tag()), Tag(tag));
    let broadcasts = tlb.platform().acts().into_iter().filter(|(cpu, _)| *cpu == 0);
    assert_eq!(broadcasts.collect::<Vec<_>>(), [(0, Op::FlushTagEverywhere(tag))]);
}

#[test]
fn pinning_a_space_does_not_mark_the_cpu_present() {
    let tlb = machine(Fake::new(CPUS, 8).with_first_loads_that_drop());
    let a = space(tlb, 1);
    let _ = this_cpu(tlb).pin(&a).unwrap();
    assert_eq!(a.residents().iter().count(), 0);
    for cpu in [0, OTHER] {
        tlb.platform().forget_logs();
        let _ = switch(tlb, cpu, &a);
        let drops = |op: &Op| matches!(op, Op::Load { held: Held::Drop, .. });
        assert!(tlb.platform().log(cpu).iter().any(drops), "CPU {cpu} runs it for the first time");
    }
}
