//! Which thread uses which space, from when to when, and how its pages are numbered.

use lookaside_traces::{
    Call, Kind, Reason,
    reconstruct::{Act, Flushes, Operation, Script, SpaceId, Step},
};

use crate::story::{
    ABSENT_WRITE, ANONYMOUS, BASE, COPY, FORK, POPULATE, SHARED, Story, THREAD, VFORK, WRITE, acts,
    initiator, steps,
};

fn script(story: &Story) -> Script {
    story.script(Flushes::FromCalls)
}

/// The spaces that CPUs turned to, in order; none for the kernel's threads and the idle loop.
fn runs(script: &Script) -> Vec<Option<u32>> {
    let run = |act| match act {
        Act::Run(space) => Some(Some(space.0)),
        Act::Idle => Some(None),
        _ => None,
    };
    acts(script).into_iter().filter_map(run).collect()
}

#[test]
fn each_process_has_a_space_and_the_kernel_has_none() {
    let mut story = Story::new();
    story.touch([0], ABSENT_WRITE).switch(20).switch(2).switch(0).switch(10);
    let script = script(&story);
    assert_eq!(runs(&script), [Some(0), Some(1), None, None, Some(0)]);
    assert_eq!(script.spaces[0].name, "old");
    assert_eq!(script.unknown.tasks, 0);
}

#[test]
fn threads_share_and_children_do_not() {
    let mut story = Story::new();
    story.create(11, THREAD).switch(11).create(12, FORK).switch(12);
    let script = script(&story);
    assert_eq!(runs(&script), [Some(0), Some(0), Some(2)]);
    assert_eq!(script.spaces[0].threads, 2);
    let fork = acts(&script).into_iter().find(|act| matches!(act, Act::Fork { .. }));
    assert_eq!(fork, Some(Act::Fork { parent: SpaceId(0), child: SpaceId(2) }));
    assert_eq!(
        initiator(&script, |act| matches!(act, Act::Fork { .. })).operation,
        Operation::Fork
    );
}

#[test]
fn a_child_of_vfork_shares_until_it_executes_or_ends() {
    let mut story = Story::new();
    story.create(11, VFORK).switch(11).touch([0], ABSENT_WRITE).execute("child").switch(10);
    story.create(12, VFORK).switch(12).event(Kind::Exit).switch(10).touch([1], ABSENT_WRITE);
    let script = script(&story);
    assert_eq!(
        runs(&script),
        [Some(0), Some(0), Some(2), Some(0), Some(0), None, Some(0)],
        "{:?}",
        steps(&script)
    );
    assert!(!acts(&script).iter().any(|act| matches!(act, Act::End(_))));
}

#[test]
fn the_new_space_is_there_from_where_the_thread_is_renamed() {
    let mut story = Story::new();
    let name = story.name("new");
    story.event(Kind::Rename { task: 10, name });
    // The parent of a vfork goes on, the child comes back, and the kernel writes to its stack.
    story.switch(20).switch(10).touch([3], 2);
    story.event(Kind::Execute { task: 10, old: 10 });
    let script = script(&story);
    assert_eq!(runs(&script), [Some(2), Some(1), Some(2)]);
    assert!(acts(&script).iter().any(|act| matches!(act, Act::Map { space: SpaceId(2), .. })));
    assert!(acts(&script).contains(&Act::End(SpaceId(0))));
    assert_eq!(script.spaces[2].name, "new");
}

#[test]
fn the_new_space_is_there_from_where_the_kernel_says_so() {
    let mut story = Story::new();
    let name = story.name("new");
    // The child of a vfork turns to its space, and its parent goes on before it has its name.
    story.create(11, VFORK).switch(11).flush(Reason::Switch, -1);
    story.switch(10).on(0, 11).flush(Reason::Switch, 0).on(0, 10);
    story.switch(11).on(0, 10).flush(Reason::Switch, 0).on(0, 11);
    story.event(Kind::Rename { task: 11, name }).event(Kind::Execute { task: 11, old: 11 });
    let script = script(&story);
    assert_eq!(runs(&script), [Some(0), Some(0), Some(2), Some(0), Some(2)]);
    let counts = script.recorded.expect("flushes were recorded");
    assert_eq!((counts.hits, counts.misses, counts.patching), (2, 0, 0));
}

#[test]
fn renaming_alone_is_no_new_space() {
    let mut story = Story::new();
    let name = story.name("renamed");
    story.event(Kind::Rename { task: 10, name }).touch([0], ABSENT_WRITE).execute("new");
    let script = script(&story);
    assert_eq!(runs(&script), [Some(0), Some(2)]);
    assert_eq!(script.spaces[0].name, "renamed");
}

#[test]
fn a_thread_that_executes_takes_the_number_of_the_first() {
    let mut story = Story::new();
    story.create(11, THREAD).event(Kind::Exit).switch(11);
    let name = story.name("new");
    // The event is from the first thread's number already.
    story.on(0, 10).event(Kind::Rename { task: 10, name });
    story.event(Kind::Execute { task: 10, old: 11 }).touch([0], ABSENT_WRITE);
    let script = script(&story);
    assert_eq!(runs(&script), [Some(0), None, Some(0), Some(2)]);
    assert!(acts(&script).contains(&Act::End(SpaceId(0))));
}

#[test]
fn a_space_ends_with_its_last_thread() {
    let mut story = Story::new();
    story.create(11, THREAD).event(Kind::Exit).switch(11).event(Kind::Exit).switch(0);
    let script = script(&story);
    assert_eq!(
        acts(&script),
        [
            Act::Run(SpaceId(0)),
            Act::Idle,
            Act::Run(SpaceId(0)),
            Act::Idle,
            Act::End(SpaceId(0)),
            Act::Idle,
        ]
    );
    assert_eq!(initiator(&script, |act| matches!(act, Act::End(_))).operation, Operation::Exit);
}

#[test]
fn whether_a_page_from_before_the_trace_is_copied_is_not_known() {
    let unknown = |story: &Story| script(story).unknown.mappings;
    let mut story = Story::new();
    assert_eq!(unknown(story.touch([0], COPY)), 1);
    // Now it is the program's own.
    assert_eq!(unknown(story.touch([0], COPY)), 1);
    assert_eq!(unknown(Story::fresh().touch([0], COPY)), 0);
}

#[test]
fn a_space_ends_when_its_pages_are_freed() {
    // Between its last thread's end and that, others may have had the CPU: it then has another space.
    let mut story = Story::new();
    let unmapped = Kind::Unmapped { space: 1 };
    story.event(Kind::Exit).switch(20).flush(Reason::Switch, -1).switch(10);
    let early = story.script(Flushes::FromCalls);
    story.flush(Reason::Send, -1).event(unmapped);
    let late = story.script(Flushes::FromCalls);
    let end = |script: &Script| {
        let is_end = |act: &Act| matches!(act, Act::End(_));
        acts(script).iter().position(is_end).map(|place| (place, acts(script).len()))
    };
    assert_eq!((end(&early), end(&late)), (Some((2, 5)), Some((4, 5))));
}

/// When a space is flushed at its end while its page tables stay, and when it ends, in events since the end of its thread.
fn end(story: &Story) -> (Vec<u64>, u64) {
    let script = script(story);
    let exit = story.trace.events.iter().find(|event| matches!(event.kind, Kind::Exit)).unwrap();
    let began = exit.time - story.trace.events[0].time;
    let when = |step: &Step| (step.time - began) / 1000;
    let all = steps(&script);
    let of = |step: &&Step| script.initiators[step.initiator as usize].operation == Operation::Exit;
    let parts =
        all.iter().filter(of).filter(|step| matches!(step.act, Act::Unmap { tables: false, .. }));
    let end = all.iter().filter(of).find(|step| matches!(step.act, Act::End(_))).unwrap();
    (parts.map(when).collect(), when(end))
}

#[test]
fn the_end_of_a_large_space_is_flushed_in_batches_and_then_with_its_tables() {
    let unmapped = Kind::Unmapped { space: 1 };
    let story = || {
        let mut story = Story::fresh();
        story.map(0, 20000, WRITE, ANONYMOUS | POPULATE).event(Kind::Exit);
        story
    };
    let recorded = |sends: u64| {
        let mut story = story();
        (0..sends).for_each(|_| _ = story.flush(Reason::Send, -1));
        // With the last it leaves the space.
        end(story.flush(Reason::Switch, -1).event(unmapped))
    };
    assert_eq!(recorded(3), (vec![1, 2], 3));
    assert_eq!(recorded(1), (vec![1, 3], 3), "how many there are does not follow from the record");
    // Nobody else is told: it leaves the space at the first.
    assert_eq!(recorded(0), (vec![1, 2], 2));
    assert_eq!(end(&story()), (vec![0, 0], 0));
    // Dirty pages of shared memory: one for each of their tables.
    let mut shared = Story::fresh();
    shared.map(0, 2048, WRITE, SHARED).touch([3, 600, 1100], ABSENT_WRITE).event(Kind::Exit);
    assert_eq!(end(&shared), (vec![0, 0, 0], 0));
    let mut small = Story::fresh();
    small.map(0, 2048, WRITE, ANONYMOUS).touch([3, 600, 1100], ABSENT_WRITE).event(Kind::Exit);
    assert_eq!(end(&small), (vec![], 0));
}

#[test]
fn what_the_process_of_a_command_was_before_has_no_end_in_the_trace() {
    let mut story = Story::new();
    story.trace.origin.root = Some(10);
    let ends = |story: &Story| {
        acts(&script(story)).iter().filter(|act| matches!(act, Act::End(_))).count()
    };
    assert_eq!(ends(story.execute("command")), 0);
    assert_eq!(ends(story.execute("its next program")), 1);
}

#[test]
fn spaces_that_nobody_saw_begin_are_older_than_the_trace() {
    let mut story = Story::new();
    story.create(11, FORK).switch(11).execute("new").switch(99);
    let older: Vec<bool> = script(&story).spaces.iter().map(|space| space.older).collect();
    // Those of threads 10 and 20, of the child and of its program, and of a thread without a creator.
    assert_eq!(older, [true, true, false, false, true]);
}

#[test]
fn of_a_program_that_was_not_recorded_only_this_is_known_that_a_cpu_leaves_its_space() {
    let mut story = Story::new();
    story.trace.origin.root = Some(20);
    let ends = |story: &Story| {
        let script = script(story);
        let others = steps(&script).into_iter().filter(|step| matches!(step.act, Act::End(_)));
        others.map(|step| script.initiators[step.initiator as usize].recorded).collect::<Vec<_>>()
    };
    story.event(Kind::Exit);
    assert_eq!(ends(&story), []);
    // What a switch says comes under the name of the thread that was left.
    assert_eq!(ends(story.copy().switch(20).on(0, 10).flush(Reason::Switch, 0)), []);
    assert_eq!(ends(story.flush(Reason::Switch, 0).switch(20)), [false]);
}

#[test]
fn a_thread_that_ends_runs_no_program_any_more() {
    let mut story = Story::new();
    story.event(Kind::Exit).switch(20).switch(10).switch(20);
    assert_eq!(runs(&script(&story)), [Some(0), None, Some(1), None, Some(1)]);
}

#[test]
fn numbers_of_threads_are_used_again() {
    let mut story = Story::new();
    story.create(30, FORK).switch(30).event(Kind::Exit).switch(10);
    story.create(30, FORK).switch(30).switch(10);
    // The end of this one was not seen.
    story.create(30, THREAD).switch(30);
    let script = script(&story);
    let runs = runs(&script);
    assert_eq!(runs[runs.len() - 3..], [Some(3), Some(0), Some(0)]);
    let ends = acts(&script).into_iter().filter(|act| matches!(act, Act::End(_)));
    assert!(ends.eq([Act::End(SpaceId(2)), Act::End(SpaceId(3))]));
}

#[test]
fn threads_without_a_known_creator_are_counted() {
    let mut story = Story::new();
    let (program, kernel) = (story.name("stranger"), story.name("kworker/0:1"));
    story.event(Kind::Switch { next: 50, name: program, runnable: true }).on(0, 50);
    story.touch([0], ABSENT_WRITE);
    story.event(Kind::Switch { next: 51, name: kernel, runnable: true }).on(0, 51);
    let script = script(&story);
    assert_eq!(runs(&script), [Some(0), Some(2), None]);
    assert_eq!(script.unknown.tasks, 2);
    assert_eq!(script.spaces[2].name, "stranger");
}

#[test]
fn a_switch_that_is_missing_is_noticed() {
    let mut story = Story::new();
    story.touch([0], ABSENT_WRITE).on(0, 20).touch([0], ABSENT_WRITE);
    let script = script(&story);
    assert_eq!(runs(&script), [Some(0), Some(1)]);
    assert_eq!((script.unknown.switches, script.unknown.gaps), (1, 0));
}

#[test]
fn any_event_of_a_thread_shows_that_it_runs() {
    let shows: [fn(&mut Story); 6] = [
        |story| _ = story.touch([0], ABSENT_WRITE),
        |story| _ = story.flush(Reason::LocalSpace, 1),
        |story| _ = story.event(Kind::Ask { target: 1, request: 7, flush: true }),
        // It is interrupted.
        |story| _ = story.interrupt(Some(true)).event(Kind::Serve { request: 7, flush: true }),
        |story| _ = story.flush(Reason::Remote, 1),
        |story| _ = story.switch_from(2, false),
    ];
    for (number, show) in shows.into_iter().enumerate() {
        let mut story = Story::new();
        // The idle loop is not seen to turn to it again.
        story.touch([0], ABSENT_WRITE).switch_from(0, false).on(0, 10);
        show(&mut story);
        let script = script(&story);
        assert_eq!(runs(&script)[..3], [Some(0), None, Some(0)], "{number}");
        let run = steps(&script).into_iter().filter(|step| matches!(step.act, Act::Run(_)));
        assert_eq!(run.map(|step| step.counted).collect::<Vec<_>>(), [true, false], "{number}");
        assert_eq!(script.unknown.switches, 1, "{number}");
    }
    // What is said of a switch comes after it, under the name of the thread that was left.
    let mut story = Story::new();
    story.touch([0], ABSENT_WRITE).switch(20).on(0, 10).flush(Reason::Switch, -1);
    assert_eq!(script(&story).unknown.switches, 0);
}

#[test]
fn a_thread_seen_after_a_sleep_continues_its_call_from_there() {
    let mut story = Story::fresh();
    story.map(0, 8, WRITE, ANONYMOUS).touch(0..8, ABSENT_WRITE);
    story.begin(Call::Munmap, &[BASE, 8 * 4096]).switch_from(0, false);
    // It is back, which nobody said, and is interrupted in its work.
    story.on(0, 10).interrupt(Some(true)).event(Kind::Serve { request: 7, flush: true });
    story.interrupt(Some(false)).end(Call::Munmap, 0);
    let script = script(&story);
    let [.., idle, back, unmap] = steps(&script)[..] else { panic!("three steps at the end") };
    assert!(matches!((idle.act, back.act), (Act::Idle, Act::Run(_))));
    assert!(matches!(unmap.act, Act::Unmap { .. }));
    assert!(unmap.time > back.time, "it does not flush before it sleeps");
}

#[test]
fn a_call_in_which_events_were_lost_has_no_effect() {
    for lost in [false, true] {
        let mut story = Story::fresh();
        story.map(0, 8, WRITE, ANONYMOUS).touch(0..8, ABSENT_WRITE);
        story.begin(Call::Munmap, &[BASE, 8 * 4096]);
        if lost {
            story.event(Kind::Lost { events: 3 });
        }
        story.end(Call::Munmap, 0);
        let script = script(&story);
        let unmaps = steps(&script).iter().any(|step| {
            let by_call = script.initiators[step.initiator as usize].operation
                == Operation::Call(Call::Munmap);
            by_call && matches!(step.act, Act::Unmap { .. })
        });
        assert_eq!((unmaps, script.unknown.gaps), (!lost, u64::from(lost)));
    }
}

#[test]
fn pages_are_numbered_without_gaps_and_apart() {
    let mut story = Story::new();
    story.touch([5, 512 * 9 + 7, 512 * 10], ABSENT_WRITE);
    let script = script(&story);
    let maps: Vec<u32> = acts(&script)
        .into_iter()
        .filter_map(|act| match act {
            Act::Map { first, .. } => Some(first),
            _ => None,
        })
        .collect();
    // Eight unused pieces lie between the first two: one stands for them.
    assert_eq!(maps, [5, 2 * 512 + 7, 3 * 512]);
    assert_eq!(script.spaces[0].pages, 4 * 512);
}

#[test]
fn parents_and_children_number_alike() {
    let mut story = Story::new();
    story.touch([512 * 4 + 1], ABSENT_WRITE).create(11, FORK).switch(11);
    story.touch([512 * 4 + 1], 7).touch([3], ABSENT_WRITE).execute("new");
    story.touch([512 * 4 + 1], ABSENT_WRITE);
    let script = script(&story);
    let first = |space: u32| {
        acts(&script).into_iter().find_map(|act| match act {
            Act::Map { space: SpaceId(s), first, .. }
            | Act::Restrict { space: SpaceId(s), first, .. }
                if s == space =>
            {
                Some(first)
            }
            _ => None,
        })
    };
    assert_eq!(first(0), Some(2 * 512 + 1));
    assert_eq!(first(2), first(0));
    // A new program has numbers of its own; its stack is far above.
    assert_eq!(first(3), Some(1));
    assert_eq!(script.spaces[0].pages, script.spaces[2].pages);
}

#[test]
fn the_initiator_is_the_process() {
    let mut story = Story::fresh();
    story.map(0, 8, WRITE, ANONYMOUS).create(11, THREAD);
    let name = story.name("worker");
    story.event(Kind::Rename { task: 11, name }).switch(11).touch(0..2, ABSENT_WRITE);
    story.about(Call::Munmap, 0, 8, 0);
    let script = script(&story);
    let map = initiator(&script, |act| matches!(act, Act::Map { .. }));
    assert_eq!((map.process.as_str(), map.operation), ("new", Operation::Fault));
    let found = steps(&script).into_iter().rfind(|step| matches!(step.act, Act::Unmap { .. }));
    let unmap = found.expect("it was unmapped");
    assert_eq!(unmap.task, 11);
    assert_eq!(
        script.initiators[unmap.initiator as usize].operation,
        Operation::Call(Call::Munmap)
    );
}

#[test]
fn the_function_is_the_one_that_was_told_before_the_call() {
    let mut story = Story::fresh();
    story.map(0, 8, WRITE, ANONYMOUS).touch(0..2, ABSENT_WRITE);
    let function = story.name("shrink");
    story.event(Kind::Caller { function });
    for page in [0, 4] {
        story.begin(Call::Munmap, &[BASE + page * 4096, 4 * 4096]);
        story.flush(Reason::LocalSpace, 4).end(Call::Munmap, 0);
    }
    for flushes in [Flushes::FromCalls, Flushes::Recorded] {
        let script = story.script(flushes);
        let function = |step: &Step| script.initiators[step.initiator as usize].function.clone();
        let of_call = |step: &&Step| {
            let initiator = &script.initiators[step.initiator as usize];
            initiator.operation == Operation::Call(Call::Munmap)
        };
        let functions: Vec<_> = steps(&script).iter().filter(of_call).map(function).collect();
        assert_eq!(functions, [Some("shrink".to_owned()), None], "{flushes:?}");
    }
}

/// On which CPU and when the only flush is, in microseconds since the call began.
fn flushed(story: &Story, call: u64) -> (usize, f64) {
    let script = script(story);
    let gone = |act: &Act| matches!(act, Act::Unmap { .. });
    let found = (0..).zip(&script.cpus).flat_map(|(cpu, steps)| {
        assert!(steps.is_sorted_by_key(|step| step.time));
        let on_cpu = steps.iter().map(move |step| (cpu, step));
        on_cpu.filter(|(_, step)| gone(&step.act)).collect::<Vec<_>>()
    });
    let (cpu, step) = found.last().expect("a flush");
    (cpu, (step.time as f64 - call as f64) / 1000.0)
}

#[test]
fn a_call_flushes_when_the_kernel_says_so() {
    let mut story = Story::fresh();
    story.map(0, 4, WRITE, ANONYMOUS).touch([0, 1], ABSENT_WRITE).switch(10);
    let start = story.trace.events[0].time;
    story.begin(Call::Munmap, &[BASE, 4 * 4096]);
    let call = story.trace.events.last().expect("the call").time - start;
    // Others are told, and what the thread does itself later is the same flush.
    story.flush(Reason::Send, 2).on(1, 20).touch([7, 8, 9], ABSENT_WRITE);
    story.on(0, 10).flush(Reason::LocalSpace, 2).on(1, 20).touch([10], ABSENT_WRITE);
    story.on(0, 10).end(Call::Munmap, 0);
    assert_eq!(flushed(&story, call), (0, 1.0), "and not at 3.5, halfway");
}

#[test]
fn a_call_flushes_halfway_through_its_work() {
    let mut story = Story::fresh();
    story.map(0, 4, WRITE, ANONYMOUS).touch([0, 1], ABSENT_WRITE).switch(10);
    let start = story.trace.events[0].time;
    let begun = |story: &mut Story| {
        story.begin(Call::Munmap, &[BASE, 4 * 4096]);
        story.trace.events.last().expect("the call").time - start
    };
    let mut plain = story.copy();
    let call = begun(&mut plain);
    plain.on(1, 20).touch([7], ABSENT_WRITE).on(0, 10).end(Call::Munmap, 0);
    assert_eq!(flushed(&plain, call), (0, 1.0), "between 0 and 2");

    let mut sleeping = story.copy();
    let call = begun(&mut sleeping);
    sleeping.switch_from(2, false).on(1, 2).switch(10).end(Call::Munmap, 0);
    assert_eq!(
        flushed(&sleeping, call),
        (1, 2.5),
        "after its sleep, where it woke: between 2 and 3"
    );

    let mut stopped = story.copy();
    let call = begun(&mut stopped);
    stopped.switch(2).switch(0).switch(10).end(Call::Munmap, 0);
    assert_eq!(flushed(&stopped, call), (0, 0.5), "before it lost the CPU: between 0 and 1");
}
