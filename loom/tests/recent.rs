//! `PerCpuAsids`: the ways into a space and the answers of those who run it, against a flush.

#![cfg(loom)]

use lookaside::{CpuId, Outcome, Residency};
use lookaside_loom::{Exploration, World, explore, on};

/// A CPU comes back to a space of which it holds a page, while that is taken away.
#[test]
fn who_comes_back_is_called_or_pays() {
    let exploration = Exploration {
        name: "recent, coming back",
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

/// As before, but the CPU was told once that it has to pay, and is absent.
#[test]
fn who_was_absent_is_called_or_pays() {
    let exploration = Exploration {
        name: "recent, coming back from absence",
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

/// A CPU comes to a space for the first time.
#[test]
fn who_comes_first_is_called_or_walks_the_new_table() {
    let exploration = Exploration {
        name: "recent, coming first",
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
fn who_leaves_has_done_what_it_did() {
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

/// A CPU that rests in a space resumes.
#[test]
fn who_resumes_is_called_or_pays() {
    let exploration = Exploration {
        name: "recent, resuming",
        preemptions: Some(3),
        outcomes: &[Outcome::NoCpu, Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::recent(seen, 2, 1);
        on(1, || {
            world.switch(0);
            world.this_cpu().lazy();
        });
        let other = world.start(1, |world| {
            world.switch(0);
            world.touch();
        });
        world.revoke(0);
        world.stop(1, other);
    });
}

/// A CPU answers that it has dropped a page.
#[test]
fn who_answers_has_done_what_it_did() {
    let exploration =
        Exploration { name: "recent, answering", preemptions: Some(3), outcomes: &[Outcome::Ipis] };
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

/// As before, where the answer comes before the page is dropped.
#[test]
fn who_answers_early_has_stopped() {
    let exploration = Exploration {
        name: "recent, answering early",
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
