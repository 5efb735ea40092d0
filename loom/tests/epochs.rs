//! `GlobalAsids`: switch-in against a rollover, a flush and the lock.

#![cfg(loom)]

use lookaside::{counts::Outcome, platform::CpuId, tags::Residency};
use lookaside_loom::{Exploration, World, explore, on};

/// A CPU switches to a space while another rolls over, and then to the space that got a freed tag.
#[test]
fn a_switch_during_a_rollover_uses_no_tag_of_another_space() {
    let exploration = Exploration { name: "epochs, rollover", preemptions: Some(3), outcomes: &[] };
    explore(exploration, |seen| {
        // Three tags: all are taken.
        let world = World::epochs(seen, 2, 4);
        world.switch(0);
        on(1, || {
            world.switch(1);
            world.switch(2);
        });
        let other = world.start(1, |world| {
            world.switch(1);
            world.touch();
            world.switch(3);
            world.touch();
        });
        world.switch(3);
        world.touch();
        world.stop(1, other);
        let tags = [0, 1].map(|cpu| on(cpu, || world.this_cpu().tag()));
        assert_eq!(tags[0], tags[1], "both run one space");
    });
}

/// Two CPUs need a tag at the same time, and none is free: the lock.
#[test]
fn two_concurrent_rollovers_give_two_tags() {
    let exploration =
        Exploration { name: "epochs, two rollovers", preemptions: Some(3), outcomes: &[] };
    explore(exploration, |seen| {
        let world = World::epochs(seen, 2, 5);
        world.switch(0);
        on(1, || {
            world.switch(1);
            world.switch(2);
        });
        let other = world.start(1, |world| {
            world.switch(3);
            world.touch();
        });
        world.switch(4);
        world.touch();
        world.stop(1, other);
        let tags = [0, 1].map(|cpu| on(cpu, || world.this_cpu().tag()));
        assert_ne!(tags[0], tags[1], "they run two spaces");
    });
}

/// A CPU that has left the space returns while it is made absent.
#[test]
fn a_cpu_that_returns_while_made_absent_gets_an_ipi_or_flushes() {
    let exploration = Exploration {
        name: "epochs, returning",
        preemptions: Some(3),
        outcomes: &[Outcome::NoCpu, Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::epochs(seen, 2, 2);
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

/// An absent CPU returns while a page is unmapped of which it still has an entry.
#[test]
fn an_absent_cpu_that_returns_gets_an_ipi_or_flushes() {
    let exploration = Exploration {
        name: "epochs, returning from absence",
        preemptions: Some(3),
        outcomes: &[Outcome::NoCpu, Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::epochs(seen, 2, 2);
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

/// A CPU leaves a space for another and is made absent.
#[test]
fn a_cpu_that_leaves_and_becomes_absent_has_finished_its_accesses() {
    let exploration = Exploration {
        name: "epochs, leaving",
        preemptions: Some(3),
        outcomes: &[Outcome::NoCpu, Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::epochs(seen, 2, 2);
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
fn wakes<const PASSED_OVER: bool>(name: &'static str) {
    let outcomes = &[Outcome::NoCpu, Outcome::Ipis];
    explore(Exploration { name, preemptions: Some(3), outcomes }, |seen| {
        let world = World::epochs(seen, 2, 1);
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
fn a_lazy_cpu_that_wakes_gets_an_ipi_or_flushes() {
    wakes::<false>("epochs, waking");
}

#[test]
fn a_lazy_cpu_that_was_passed_over_gets_an_ipi_or_flushes() {
    wakes::<true>("epochs, waking after a flush");
}

/// A CPU acknowledges a request in its queue after it has flushed the page.
#[test]
fn an_acknowledgement_follows_all_accesses() {
    let exploration = Exploration {
        name: "epochs, acknowledging",
        preemptions: Some(3),
        outcomes: &[Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::epochs(seen, 2, 1);
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
