//! What is recorded of a tag while a CPU parks, is met by a rollover in mid-switch, or retags the space.

use super::*;
use crate::{request::MAX_DISTINCT, tests::meanwhile};

fn sized(cpus: usize, tags: u32) -> Machine {
    machine(Sharing::Private, cpus, GlobalAsidsConfig { tags, ..Default::default() })
}

// ---- Parking

#[test]
fn parking_in_the_current_epoch_takes_no_lock() {
    let tlb = sized(1, 16);
    let a = space(tlb);
    let _ = switch(tlb, 0, &a);
    let lock = tlb.tags().lock(tlb);
    let _ = on(0, || this_cpu(tlb).park());
    drop(lock);
    assert!(tlb.cpus()[0].tag() == Tag::RESERVED);
}

#[test]
fn a_cpu_parking_during_a_rollover_has_no_root_loaded() {
    let tlb = sized(2, 5);
    let mut a = space(tlb);
    let _ = switch(tlb, 1, &a);
    let turn = move || {
        while tlb.tags().epoch() == 1 {
            let _ = switch(tlb, 0, &space(tlb));
        }
    };
    // It has read which epoch it has adopted.
    let _ = meanwhile(2, turn, || on(1, || this_cpu(tlb).park()));
    assert_eq!(tlb.tags().epoch(), 2);
    let _ = on(0, || this_cpu(tlb).release(&mut a));
}

// ---- The tag that a register names

#[test]
fn root_state_of_a_flush_pending_cpu_waits_for_the_new_epoch() {
    let tlb = sized(2, 16);
    let (a, b) = (space(tlb), space(tlb));
    let _ = switch(tlb, 1, &a);
    let _ = switch(tlb, 0, &b);
    let (was, goes_to) = (a.cookie(), b.cookie());
    // It is in mid-switch.
    assert!(on(1, || GlobalAsids::adopt_epoch(&this_cpu(tlb).for_allocator(), was, goes_to)));
    let passed = &tlb.cpus()[1].tags;
    passed.active.cookie.set(Cookie::flush_pending(2).bits());
    AWAITED.set(Some(Box::new(move || {
        passed.reserved.set(goes_to.bits());
        tlb.tags().epoch.set(2);
    })));
    assert_eq!(Asids::root_state(tlb, CpuId(1), goes_to.bits()), RootState::Loaded);
}

#[test]
fn root_state_after_adoption_does_not_read_the_epoch() {
    let tlb = sized(2, 16);
    let a = space(tlb);
    let _ = switch(tlb, 1, &a);
    let epoch = &tlb.tags().epoch;
    epoch.work();
    assert_eq!(Asids::root_state(tlb, CpuId(1), a.cookie().bits()), RootState::Loaded);
    assert_eq!(epoch.work(), (0, 0));
}

// ---- Release

/// CPU 1 has more requests than it can tell apart, one of them by CPU 0.
fn overflow(tlb: Machine) {
    for _ in 0..=MAX_DISTINCT {
        tlb.cpus()[1].queue.post(CpuId(0));
    }
    on(1, || this_cpu(tlb).handle_ipi());
}

#[test]
fn a_cpu_that_cannot_read_a_request_leaves_a_space_that_is_released() {
    let tlb = sized(2, 16);
    let (a, b) = (space(tlb), tlb.space(Root::new(8192), residents(tlb)).unwrap());
    for (next, parks) in [(&a, true), (&b, false)] {
        let _ = switch(tlb, 1, next);
        on(0, || this_cpu(tlb).set_leaving(Some(a.root().table)));
        overflow(tlb);
        assert_eq!(tlb.cpus()[1].tag() == Tag::RESERVED, parks);
    }
}

#[test]
fn a_space_with_the_tables_of_one_that_was_released_is_not_left() {
    let tlb = sized(2, 16);
    let mut a = space(tlb);
    let _ = switch(tlb, 1, &a);
    AWAITED.set(Some(Box::new(move || on(1, || this_cpu(tlb).handle_ipi()))));
    let _ = on(0, || this_cpu(tlb).release(&mut a));
    assert_eq!(tlb.cpus()[1].tag(), Tag::RESERVED);
    let b = space(tlb);
    assert_eq!(b.root(), a.root());
    let _ = switch(tlb, 1, &b);
    overflow(tlb);
    assert_ne!(tlb.cpus()[1].tag(), Tag::RESERVED);
}

// ---- Fresh tags

#[test]
fn a_fresh_tag_writes_nothing_about_cpus_that_hold_nothing() {
    let tlb = sized(70, 256);
    let (a, mut b) = (space(tlb), space(tlb));
    let residents = a.residents().words;
    let _ = switch(tlb, 69, &a);
    let _ = on(69, || this_cpu(tlb).park());
    let _ = switch(tlb, 0, &b);
    let _ = switch(tlb, 0, &a);
    // CPU 0 has a tag in its `asid_cache`.
    assert_eq!(on(0, || this_cpu(tlb).release(&mut b)), Released::AtOnce);
    for word in residents {
        word.work();
    }
    let before = a.cookie();
    assert!(on(0, || tlb.tags().retag(&this_cpu(tlb).for_allocator(), &a, before.bits())));
    assert_ne!(a.cookie(), before);
    let writes = [0, 1, 2].map(|word: usize| residents[word].work().1);
    assert!(writes[0] > 0 && writes[1] == 0 && writes[2] > 0, "{writes:?}");
}

#[test]
fn a_space_of_a_former_epoch_is_not_retagged_in_place_of_the_one_that_has_its_tag_now() {
    let tlb = sized(2, 16);
    let (a, mut b, c) = (space(tlb), space(tlb), space(tlb));
    for next in [&a, &b, &c] {
        let _ = switch(tlb, 0, next);
    }
    // CPU 0 has a tag of this epoch in its `asid_cache`, and `a` runs nowhere.
    assert_eq!(on(0, || this_cpu(tlb).release(&mut b)), Released::AtOnce);
    turn(tlb);
    let d = tlb.space(Root::new(8192), residents(tlb)).unwrap();
    let _ = switch(tlb, 1, &d);
    let _ = switch(tlb, 0, &d);
    assert_eq!(a.cookie().tag(), d.cookie().tag());
    let retagged =
        on(0, || tlb.tags().retag(&this_cpu(tlb).for_allocator(), &a, a.cookie().bits()));
    assert!(!retagged && tlb.cpus()[0].loaded() == (d.root(), d.cookie().tag()));
}

// ---- Stopping

#[test]
fn a_space_in_which_a_cpu_has_stopped_can_be_released_whichever_epoch_has_passed_it() {
    for epochs in 0..=2 {
        let tlb = private();
        let mut a = space(tlb);
        let _ = switch(tlb, 1, &a);
        (0..epochs).for_each(|_| turn(tlb));
        tlb.stopped(&(), CpuId(1)).unwrap();
        let _ = on(0, || this_cpu(tlb).release(&mut a));
        on(1, || tlb.online(&(), &()).unwrap());
        assert_ne!(switch(tlb, 1, &a), Switched::Unchanged);
    }
}

#[test]
fn a_stopped_cpu_comes_online_with_nmi_uaccess_enabled() {
    let tlb = private();
    on(1, || this_cpu(tlb).nmi_uaccess_disable());
    tlb.stopped(&(), CpuId(1)).unwrap();
    on(1, || tlb.online(&(), &()).unwrap());
    assert!(!tlb.cpus()[1].nmi_uaccess_disabled());
}
