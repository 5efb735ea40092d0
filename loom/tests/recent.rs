//! `PerCpuAsids`: switch-in, and acknowledgements of CPUs that run the space, against a flush.

#![cfg(loom)]

use lookaside::{counts::Outcome, platform::CpuId, tags::Residency};
use lookaside_loom::{Exploration, World, explore, on};

/// A CPU returns to a space of which it holds a page, while that page is unmapped.
#[test]
fn a_returning_cpu_gets_an_ipi_or_flushes() {
    let exploration = Exploration {
        name: "recent, returning",
        preemptions: Some(3),
        outcomes: &[Outcome::NoCpu, Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::recent(seen, 2, 2);
        on(1, || {
            world.switch(0);
            world.switch(1);
        });
        let other = world.start(1, |world| {
            world.switch(0);
            world.touch();
        });
        world.revoke(0);
        world.stop(1, other);
    });
}

/// As before, but an earlier flush has made the CPU absent.
#[test]
fn an_absent_cpu_gets_an_ipi_or_flushes() {
    let exploration = Exploration {
        name: "recent, returning from absence",
        preemptions: Some(3),
        outcomes: &[Outcome::NoCpu, Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::recent(seen, 2, 2);
        on(1, || {
            world.switch(0);
            world.switch(1);
        });
        world.flush(0);
        assert_eq!(world.spaces[0].residents().get(CpuId(1)), Residency::Absent);
        let other = world.start(1, |world| {
            world.switch(0);
            world.touch();
        });
        world.revoke(0);
        world.stop(1, other);
    });
}

/// A CPU switches to a space for the first time.
#[test]
fn a_first_switch_in_gets_an_ipi_or_walks_the_new_table() {
    let exploration = Exploration {
        name: "recent, first switch-in",
        preemptions: Some(3),
        outcomes: &[Outcome::NoCpu, Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::recent(seen, 2, 1);
        let other = world.start(1, |world| {
            world.switch(0);
            world.touch();
        });
        world.revoke(0);
        world.stop(1, other);
    });
}

/// A CPU leaves a space for another.
#[test]
fn a_cpu_that_leaves_has_finished_its_accesses() {
    let exploration = Exploration {
        name: "recent, leaving",
        preemptions: Some(3),
        outcomes: &[Outcome::NoCpu, Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::recent(seen, 2, 2);
        on(1, || world.switch(0));
        let other = world.start(1, |world| {
            world.touch();
            world.switch(1);
            world.touch();
        });
        world.revoke(0);
        world.stop(1, other);
    });
}

/// A CPU that is lazy in a space resumes; an earlier flush may have found it lazy, so that flushes of pages do not look at it.
fn resumes<const PASSED_OVER: bool>(name: &'static str) {
    let outcomes = &[Outcome::NoCpu, Outcome::Ipis];
    explore(Exploration { name, preemptions: Some(3), outcomes }, |seen| {
        let world = World::recent(seen, 2, 1);
        on(1, || {
            world.switch(0);
            world.this_cpu().lazy();
        });
        if PASSED_OVER {
            world.flush(0);
            assert_eq!(world.spaces[0].residents().get(CpuId(1)), Residency::Lazy);
        }
        let other = world.start(1, |world| {
            world.switch(0);
            world.touch();
        });
        world.revoke(0);
        world.stop(1, other);
    });
}

#[test]
fn a_cpu_that_resumes_gets_an_ipi_or_flushes() {
    resumes::<false>("recent, resuming");
}

#[test]
fn a_lazy_cpu_that_was_passed_over_gets_an_ipi_or_flushes() {
    resumes::<true>("recent, resuming after a flush");
}

/// A CPU acknowledges after it has flushed the page.
#[test]
fn an_acknowledgement_follows_all_accesses() {
    let exploration = Exploration {
        name: "recent, acknowledging",
        preemptions: Some(3),
        outcomes: &[Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::recent(seen, 2, 1);
        on(1, || world.switch(0));
        let other = world.start(1, |world| {
            world.touch();
            world.acknowledge();
            world.touch();
        });
        world.revoke(0);
        world.stop(1, other);
    });
}

/// As before, with an early acknowledgement, before the flush.
#[test]
fn an_early_acknowledgement_ends_user_accesses() {
    let exploration = Exploration {
        name: "recent, acknowledging early",
        preemptions: Some(3),
        outcomes: &[Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::recent(seen, 2, 1);
        on(1, || world.switch(0));
        let other = world.start(1, |world| {
            world.touch();
            world.acknowledge();
            world.touch();
        });
        world.revoke_early(0);
        world.stop(1, other);
    });
}
