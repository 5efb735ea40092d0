//! What the kernel counted itself, with the traps that its events set.

use lookaside_traces::{
    KernelCounts, Kind, Pages, Purpose, Reason,
    reconstruct::{Act, Flushes, Script},
};

use crate::story::{ABSENT_WRITE, FORK, Story, steps};

fn script(story: &Story) -> Script {
    story.script(Flushes::FromCalls)
}

fn recorded(story: &Story) -> KernelCounts {
    script(story).recorded.expect("flushes were recorded")
}

/// A story in which a program did something, so that it is a good trace.
fn story() -> Story {
    let mut story = Story::new();
    story.touch([0], ABSENT_WRITE);
    story
}

/// A switch, and what the kernel says of the TLB while it still takes itself for the thread before.
fn switch(story: &mut Story, from: u32, to: u32, pages: i64) {
    story.on(0, from).switch(to).on(0, from).flush(Reason::Switch, pages).on(0, to);
}

#[test]
fn switches_hit_and_miss() {
    let mut story = story();
    switch(&mut story, 10, 20, -1);
    switch(&mut story, 20, 10, 0);
    switch(&mut story, 10, 20, 0);
    let counts = recorded(&story);
    assert_eq!((counts.hits, counts.misses, counts.patching), (2, 1, 0));
    assert_eq!(counts.flushes[&(Reason::Switch, Pages::Some(0))], 2);
}

#[test]
fn in_an_interrupt_a_lazy_cpu_drops_the_space() {
    // The mark says so; or, in dialects without marks, that the CPU serves others.
    for mark in [Some(true), None] {
        let mut story = story();
        story.switch(0).interrupt(mark).event(Kind::Interrupt).flush(Reason::Switch, 0);
        story.event(Kind::Resume).interrupt(mark.map(|_| false));
        let counts = recorded(&story);
        assert_eq!((counts.hits, counts.dropped, counts.patching), (0, 1, 0));
        assert!(counts.flushes.is_empty());
    }
}

#[test]
fn text_is_patched_through_a_space_of_its_own() {
    let mut story = story();
    for _ in 0..5 {
        story.flush(Reason::Switch, -1).flush(Reason::Switch, 0);
    }
    // Also right after a switch of which nothing was said, for the space stayed the same.
    story.switch(11).flush(Reason::Switch, -1).flush(Reason::Switch, 0);
    let counts = recorded(&story);
    assert_eq!((counts.hits, counts.misses, counts.patching), (0, 0, 12));
    assert!(counts.flushes.is_empty());
}

#[test]
fn a_new_program_is_no_patch() {
    let mut story = story();
    story.flush(Reason::Switch, -1).execute("new");
    let counts = recorded(&story);
    assert_eq!((counts.misses, counts.patching), (0, 0));
    assert_eq!(counts.flushes[&(Reason::Switch, Pages::Everything)], 1);
}

/// Thread 10 asks CPU 1 to flush; there it comes to `then`.
fn asked(story: &mut Story, request: u64, then: impl FnOnce(&mut Story)) {
    story.on(0, 10).flush(Reason::Send, 3);
    story.event(Kind::Ask { target: 1, request, flush: true });
    story.event(Kind::Send { target: 1, purpose: Purpose::Functions });
    story.on(1, 20).interrupt(Some(true)).event(Kind::Interrupt);
    story.event(Kind::Serve { request, flush: true });
    then(story);
    story.event(Kind::Served { request, flush: true }).event(Kind::Resume);
    story.interrupt(Some(false));
}

#[test]
fn requests_are_counted_with_what_became_of_them() {
    let mut story = story();
    asked(&mut story, 7, |s| _ = s.flush(Reason::Remote, 3));
    asked(&mut story, 7, |s| _ = s.flush(Reason::Remote, -1));
    asked(&mut story, 7, |s| _ = s.flush(Reason::Switch, 0));
    asked(&mut story, 8, |s| _ = s.flush(Reason::WrongSpace, 0));
    asked(&mut story, 9, |_| ());
    // The initiator serves itself, and functions that flush nothing do not count.
    story.on(0, 10).event(Kind::Serve { request: 0, flush: true }).flush(Reason::LocalSpace, 3);
    story.event(Kind::Served { request: 0, flush: true });
    story.event(Kind::Ask { target: 1, request: 3, flush: false });
    let script = script(&story);
    let counts = script.recorded.expect("flushes were recorded");
    assert_eq!((counts.sends, counts.fates, counts.dropped), (5, [2, 1, 1, 1], 1));
    assert_eq!(script.unknown.senders, 0);
}

#[test]
fn a_request_of_which_the_sender_was_not_seen_is_counted() {
    let mut story = story();
    story.on(1, 20).event(Kind::Serve { request: 5, flush: true }).flush(Reason::Remote, 1);
    story.event(Kind::Served { request: 5, flush: true });
    // Somebody asked for something, so requests are recorded.
    story.on(0, 10).event(Kind::Ask { target: 1, request: 6, flush: true });
    assert_eq!(script(&story).unknown.senders, 1);
}

#[test]
fn requests_without_a_sender_in_the_trace_are_not_counted() {
    let mut story = story();
    asked(&mut story, 7, |s| _ = s.flush(Reason::Remote, 3));
    let serve = |request| Kind::Serve { request, flush: true };
    story.on(1, 20).interrupt(Some(true)).event(serve(5)).flush(Reason::WrongSpace, 0);
    story.interrupt(Some(false)).touch([0], ABSENT_WRITE);
    let script = script(&story);
    let counts = script.recorded.expect("flushes were recorded");
    assert_eq!(counts.fates, [1, 0, 0, 0]);
    assert!(!counts.flushes.contains_key(&(Reason::WrongSpace, Pages::Some(0))));
    assert_eq!(script.unknown.senders, 1);
}

#[test]
fn switches_to_programs_that_were_not_recorded_are_not_counted() {
    let mut story = Story::new();
    story.touch([0], ABSENT_WRITE).execute("command").create(11, 0);
    switch(&mut story, 10, 20, -1);
    switch(&mut story, 20, 11, -1);
    switch(&mut story, 11, 10, 0);
    let counted = |story: &Story| {
        let script = script(story);
        let all = script.recorded.clone().expect("flushes were recorded");
        let runs = steps(&script).into_iter().filter(|step| matches!(step.act, Act::Run(_)));
        let counted: Vec<_> = runs.map(|step| step.counted).collect();
        ([all.hits, all.misses, all.strange], counted)
    };
    assert_eq!(counted(&story), ([1, 2, 0], vec![true; 5]));
    // Of a recording of one command, the flushes of others are not in the trace.
    story.trace.origin.root = Some(10);
    let (counts, runs) = counted(&story);
    assert_eq!((counts, runs), ([1, 1, 1], vec![true, true, false, true, true]));
}

#[test]
fn without_requests_interrupts_are_counted() {
    let mut story = story();
    for purpose in [Purpose::Functions, Purpose::WakeUp, Purpose::Reschedule, Purpose::Other] {
        story.on(0, 10).flush(Reason::Send, 1).event(Kind::Send { target: 1, purpose });
        story.on(1, 20).event(Kind::Interrupt);
        if purpose == Purpose::Functions {
            story.flush(Reason::Remote, 1);
        }
        story.event(Kind::Resume);
    }
    let functions = Purpose::Functions;
    story.on(0, 10).event(Kind::SendMany { targets: 0b1010, purpose: functions });
    let script = script(&story);
    let counts = script.recorded.expect("flushes were recorded");
    assert_eq!((counts.sends, counts.fates), (3, [1, 0, 0, 0]));
    assert_eq!(script.unknown.senders, 0);
    story.on(1, 20).flush(Reason::Remote, 1);
    assert_eq!(self::script(&story).unknown.senders, 1);
}

/// A recording of a command, thread 20, beside which another program runs.
fn command() -> Story {
    let mut story = Story::new();
    story.trace.origin.root = Some(20);
    story
}

#[test]
fn programs_that_were_not_recorded_flush_nothing() {
    let act = |script: &Script, is: fn(&Act) -> bool| {
        script.cpus.iter().flatten().filter(|step| is(&step.act)).count()
    };
    let forks = |script: &Script| act(script, |act| matches!(act, Act::Fork { .. }));
    let ends = |script: &Script| act(script, |act| matches!(act, Act::End(_)));
    let unmaps = |script: &Script| act(script, |act| matches!(act, Act::Unmap { .. }));
    // Another program forks, its child executes and ends: the recorder keeps these events, to know who runs
    // where, and no flush.
    let other = |story: &mut Story| {
        story.on(0, 10).create(30, FORK);
        story.on(1, 30).execute("other");
        story.event(Kind::Exit).switch(0);
    };
    let mut story = command();
    other(&mut story);
    story.on(0, 20).execute("command");
    story.touch([0], ABSENT_WRITE);
    let alone = script(&story);
    assert_eq!(
        (forks(&alone), ends(&alone)),
        (0, 0),
        "nor is it recorded what the command was before"
    );
    assert_eq!(unmaps(&alone), 2, "those of its own execution");
    assert_eq!(alone.expected.values().sum::<u64>(), 2);
    // What the command does after that counts.
    story.on(0, 20).create(40, FORK);
    story.on(1, 40).execute("child");
    story.event(Kind::Exit).switch(0);
    let both = script(&story);
    assert_eq!((forks(&both), ends(&both), unmaps(&both)), (1, 2, 4));
    assert_eq!(both.expected.values().sum::<u64>(), 5);
    for script in [&alone, &both] {
        let of = |process: &str| -> Vec<bool> {
            let all = script.initiators.iter().filter(|one| one.process == process);
            all.map(|one| one.recorded).collect()
        };
        assert!(of("command").iter().all(|&recorded| recorded));
        let flushes = script.cpus.iter().flatten().filter(|step| {
            !matches!(step.act, Act::Run(_) | Act::Idle)
                && !script.initiators[step.initiator as usize].recorded
        });
        assert_eq!(flushes.count(), 0);
    }
}

#[test]
fn a_command_beside_everything_else_is_a_whole_system() {
    // `lab record --all`: another program's calls are there, so that all of it is.
    let mut story = command();
    story.on(0, 10).call(lookaside_traces::Call::Munmap, &[0x1000, 0x1000]);
    story.create(30, FORK);
    let script = script(&story);
    assert!(script.initiators.iter().all(|one| one.recorded));
    assert_eq!(script.expected.values().sum::<u64>(), 2, "the call and the fork of another");
}
