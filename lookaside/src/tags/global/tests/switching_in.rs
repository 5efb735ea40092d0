//! How a CPU finds the tag of a space while tags are reserved, rollovers happen and other CPUs come first.

use std::rc::Rc;

use super::*;
use crate::{arch::errata, residency::Residency, tests::meanwhile};

/// The result if `cpu` claims a tag in `epoch`.
fn assign_asid(tlb: Machine, cpu: u32, space: &AddressSpace<Paper>, epoch: u64) -> Option<Cookie> {
    let claimed = on(cpu, || {
        tlb.tags().assign_asid(&this_cpu(tlb).for_allocator(), space, epoch, true, None)
    });
    claimed.ok().map(|(cookie, _)| cookie)
}

/// Loads and writes of a CPU's `reserved` word.
fn asked(tlb: Machine, cpu: u32) -> (u64, u64) {
    tlb.cpus()[cpu as usize].tags.reserved.work()
}

// ---- Reserved tags

#[test]
fn reserved_words_are_read_only_if_the_tag_is_in_use() {
    let tlb = private();
    let (stays, a) = (lasting(tlb), left(tlb));
    let _ = switch(tlb, 2, stays);
    // CPU 1 runs nothing: the reserved word has `Tag::RESERVED`.
    turn(tlb);
    asked(tlb, 2);
    assert_eq!(switch(tlb, 1, &space(tlb)), Switched::Fresh);
    assert_eq!(asked(tlb, 2), (0, 0), "it never had a tag");
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
    assert_eq!(asked(tlb, 2), (0, 0), "nobody keeps its tag");
    assert_eq!(switch(tlb, 0, stays), Switched::Kept);
    assert_eq!(asked(tlb, 2), (1, 0));
}

#[test]
fn assign_asid_passed_by_a_rollover_reads_no_reserved_word() {
    for access in 1..=4 {
        let tlb = private();
        let a = lasting(tlb);
        let _ = switch(tlb, 2, a);
        turn(tlb);
        let next = move || {
            turn(tlb);
            asked(tlb, 2);
        };
        assert_eq!(meanwhile(access, next, || assign_asid(tlb, 1, a, 2)), None);
        assert_eq!(asked(tlb, 2), (0, 0), "passed before access {access}");
    }
}

#[test]
fn a_tag_that_was_kept_is_taken_over_at_the_first_look() {
    let tlb = private();
    let a = lasting(tlb);
    let _ = switch(tlb, 2, a);
    turn(tlb);
    a.cookie.work();
    assert_eq!(assign_asid(tlb, 1, a, 2), Some(a.cookie()));
    // One look before the residency lock and one under it; the last load is this test's.
    assert_eq!(a.cookie.work(), (3, 1));
}

#[test]
fn a_search_during_the_next_rollover_takes_no_reserved_tag_for_a_free_one() {
    let mut given_up = 0;
    for access in 1..=60 {
        let tlb = private();
        let (a, b) = (lasting(tlb), lasting(tlb));
        let _ = (switch(tlb, 1, a), turn(tlb));
        // CPU 2 has adopted the epoch, and has tags of it.
        let mut ends = space(tlb);
        let _ = (switch(tlb, 2, &ends), switch(tlb, 2, b));
        let _ = on(2, || this_cpu(tlb).release(&mut ends));
        // CPU 1 still names `a`, under the tag that is reserved for it.
        stop_on_the_way(tlb, 1, b);
        let (was, given) = (a.cookie().tag(), Rc::new(Cell::new(None)));
        let result = Rc::clone(&given);
        let search = move || result.set(Some(assign_asid(tlb, 2, a, 2)));
        meanwhile(access, search, || turn(tlb));
        match given.get() {
            Some(Some(cookie)) => assert_eq!(cookie.tag(), was, "before access {access}"),
            Some(None) => given_up += 1,
            None => {}
        }
    }
    assert!(given_up > 0);
}

// ---- Errata

#[test]
fn errata_of_loads_alone_keep_a_cpu_from_the_short_load() {
    let tlb = private();
    for (errata, _) in errata::SEQUENCES.into_iter().chain(errata::ADVICE) {
        tlb.cpus()[1].set_errata(errata);
        let _ = on(1, || this_cpu(tlb).park());
        let slow = [errata::ICACHE_AFTER_LOAD, errata::TAG_AND_ROOT_APART].contains(&errata);
        let mode = tlb.cpus()[1].tags.active.mode.get();
        assert_eq!(mode == LOADS_SLOWLY, slow, "{errata:?}");
    }
}

// ---- Rollovers meanwhile

#[test]
fn a_cookie_does_not_go_back_to_an_epoch_that_is_over() {
    let tlb = private();
    let a = lasting(tlb);
    let tag = on(2, || this_cpu(tlb).pin(a)).unwrap();
    let later = move || {
        turn(tlb);
        let _ = switch(tlb, 0, a);
    };
    // CPU 1 claims a tag of the first epoch.
    assert_eq!(meanwhile(1, later, || assign_asid(tlb, 1, a, 1)), None);
    assert_eq!(a.cookie(), Cookie::new(2, tag));
}

#[test]
fn assign_asid_losing_a_race_adopts_the_winners_cookie() {
    for access in 1..=4 {
        let tlb = private();
        let a = lasting(tlb);
        let pinned = on(2, || this_cpu(tlb).pin(a)).unwrap();
        turn(tlb);
        let other = move || {
            this_cpu(tlb).unpin(a).unwrap();
            assert_eq!(switch(tlb, 0, a), Switched::Fresh);
            assert_ne!(a.cookie().tag(), pinned);
        };
        let claimed = meanwhile(access, other, || assign_asid(tlb, 1, a, 2));
        // It may also fail, and try again with the lock.
        assert!(claimed.is_none_or(|cookie| cookie == a.cookie()), "before access {access}");
    }
}

#[test]
fn no_epoch_is_adopted_before_its_map_has_the_reserved_tags() {
    for access in 1..=60 {
        let tlb = private();
        let a = lasting(tlb);
        let _ = switch(tlb, 2, a);
        turn(tlb);
        // The tag of `a` is reserved for it, and the next rollover comes to it after CPU 1.
        let _ = switch(tlb, 2, lasting(tlb));
        let comes = move || _ = waits(|| switch(tlb, 1, a));
        meanwhile(access, comes, || turn(tlb));
        let tag = on(1, || this_cpu(tlb).tag());
        let map = tlb.tags().in_use[0].get();
        assert!(map >> tag.0 & 1 != 0, "tag {} before access {access}", tag.0);
    }
}

#[test]
fn a_cpu_under_last_tag_stays_present_if_an_old_tag_is_given() {
    for access in 1..=60 {
        let tlb = machine(Sharing::Private, 3, GlobalAsidsConfig { last_epoch: 2, ..FEW });
        let (a, mut ends) = (lasting(tlb), space(tlb));
        // A tag in the `asid_cache`.
        let _ = switch(tlb, 1, &ends);
        let _ = on(1, || this_cpu(tlb).park());
        let _ = on(1, || this_cpu(tlb).release(&mut ends));
        let last = move || {
            _ = waits(|| {
                turn(tlb);
                switch(tlb, 0, a)
            });
        };
        let _ = meanwhile(access, last, || switch(tlb, 1, a));
        for cpu in 0..2 {
            let residency = a.residents().get(CpuId(cpu));
            let runs = on(cpu, || this_cpu(tlb).tag()) == LAST_TAG;
            assert!(!runs || residency == Residency::Present, "CPU {cpu}, access {access}");
        }
    }
}
