//! `GlobalAsids`: the ways into a space against a turnover, a flush and the lock.

#![cfg(loom)]

use lookaside::{CpuId, Outcome, Residency};
use lookaside_loom::{Exploration, World, explore, on};

/// A CPU enters a space while another turns the epoch, and then the space that got a freed tag.
#[test]
fn who_enters_while_the_epoch_turns_uses_no_tag_that_was_given_away() {
    let exploration = Exploration { name: "epochs, turning", preemptions: Some(3), outcomes: &[] };
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

/// Two CPUs want a tag at the same time, and none is left: the lock.
#[test]
fn two_who_turn_the_epoch_take_turns() {
    let exploration =
        Exploration { name: "epochs, two turning", preemptions: Some(3), outcomes: &[] };
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

/// A CPU that rests comes back while it is made absent.
#[test]
fn who_is_sent_away_and_comes_back_is_called_or_pays() {
    let exploration = Exploration {
        name: "epochs, coming back",
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

/// A CPU that is absent comes back while a page goes that it has held all the while.
#[test]
fn who_was_absent_and_comes_back_is_called_or_pays() {
    let exploration = Exploration {
        name: "epochs, coming back from absence",
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
fn who_leaves_and_is_sent_away_has_done_what_it_did() {
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

/// A CPU that rests lazily in a space resumes.
#[test]
fn who_wakes_is_called_or_pays() {
    let exploration = Exploration {
        name: "epochs, waking",
        preemptions: Some(3),
        outcomes: &[Outcome::NoCpu, Outcome::Ipis],
    };
    explore(exploration, |seen| {
        let world = World::epochs(seen, 2, 1);
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

/// A CPU answers a request in its box that it has dropped a page.
#[test]
fn who_answers_has_done_what_it_did() {
    let exploration =
        Exploration { name: "epochs, answering", preemptions: Some(3), outcomes: &[Outcome::Ipis] };
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
