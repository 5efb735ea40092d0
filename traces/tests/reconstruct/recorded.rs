//! Flushes that the kernel recorded, and where their addresses come from.

use lookaside_traces::{
    Call, Kind, Pages, Reason,
    reconstruct::{Act, Flushes, Operation, Script, SpaceId, reconstruct},
};

use crate::story::{
    ABSENT_WRITE, ANONYMOUS, BASE, COPY, FORK, READ, Story, WRITE, acts, initiator, steps,
};

fn script(story: &Story) -> Script {
    story.script(Flushes::Recorded)
}

fn is_flush(act: &Act) -> bool {
    matches!(act, Act::Restrict { .. } | Act::Unmap { .. })
}

fn flushes(script: &Script) -> Vec<Act> {
    acts(script).into_iter().filter(is_flush).collect()
}

/// Sixteen pages that were written, and a neighbour that keeps the page table.
fn written() -> Story {
    let mut story = Story::fresh();
    story.map(100, 1, WRITE, ANONYMOUS).map(0, 64, WRITE, ANONYMOUS).touch(0..16, ABSENT_WRITE);
    story
}

#[test]
fn telling_others_and_doing_it_is_one_flush() {
    let mut story = written();
    story.begin(Call::Mprotect, &[BASE, 16 * 4096, READ]);
    story.flush(Reason::Send, 16).flush(Reason::LocalSpace, 16).end(Call::Mprotect, 0);
    story.begin(Call::Mprotect, &[BASE, 16 * 4096, WRITE]);
    story.flush(Reason::LocalSpace, 16).end(Call::Mprotect, 0);
    let script = script(&story);
    let one = Act::Restrict { space: SpaceId(2), first: 0, pages: 16, whole: false };
    assert_eq!(flushes(&script), [one, one]);
    assert_eq!(initiator(&script, is_flush).operation, Operation::Call(Call::Mprotect));
    assert_eq!(script.unknown.addresses, 0);
}

#[test]
fn tables_alone_count_as_who_flushes_them_counts() {
    // Others are told how many pages the tables span; the flush itself counts in steps of a table.
    let mut story = written();
    story.begin(Call::Munmap, &[BASE, 16 * 4096]);
    story.flush(Reason::Send, 1).flush(Reason::LocalSpace, 0).end(Call::Munmap, 0);
    let counted = script(&story).expected;
    let of = |pages| counted.get(&Pages::Some(pages)).copied().unwrap_or(0);
    assert_eq!((of(0), of(1)), (1, 0));
}

#[test]
fn the_addresses_are_those_that_were_there() {
    let mut story = written();
    story.about(Call::Madvise, 0, 3, 4);
    story.begin(Call::Munmap, &[BASE, 64 * 4096]).flush(Reason::LocalSpace, 13);
    story.end(Call::Munmap, 0);
    let last = flushes(&script(&story)).pop();
    let expected =
        Act::Unmap { space: SpaceId(2), first: 3, pages: 13, tables: false, whole: false };
    assert_eq!(last, Some(expected));
}

#[test]
fn pages_that_no_fault_brought_are_counted() {
    let mut story = written();
    story.begin(Call::Munmap, &[BASE, 64 * 4096]).flush(Reason::LocalSpace, 20);
    story.end(Call::Munmap, 0);
    let script = script(&story);
    assert!(matches!(flushes(&script).last(), Some(Act::Unmap { first: 0, pages: 20, .. })));
    assert_eq!(script.unknown.unseen_pages, 4);
}

#[test]
fn a_flush_of_everything_for_few_pages_says_so() {
    let mut story = written();
    story.begin(Call::Mprotect, &[BASE, 16 * 4096, READ]).flush(Reason::LocalSpace, -1);
    story.end(Call::Mprotect, 0);
    let last = flushes(&script(&story)).pop();
    assert_eq!(last, Some(Act::Restrict { space: SpaceId(2), first: 0, pages: 16, whole: true }));
}

#[test]
fn a_fault_just_before_gives_the_address() {
    let mut story = written();
    story.touch([5], COPY).flush(Reason::Send, 1).flush(Reason::LocalSpace, 1);
    let script = script(&story);
    let last = flushes(&script).pop();
    assert_eq!(last, Some(Act::Restrict { space: SpaceId(2), first: 5, pages: 1, whole: false }));
    let step = steps(&script).pop().expect("there are steps");
    assert_eq!(script.initiators[step.initiator as usize].operation, Operation::Fault);
    assert_eq!(script.unknown.addresses, 0);
}

#[test]
fn a_flush_that_nothing_explains_is_counted() {
    let mut story = written();
    // Between the fault and the flush the program went on.
    story.touch([5], COPY).call(Call::Membarrier, &[]);
    story.flush(Reason::LocalSpace, 1).flush(Reason::LocalSpace, -1);
    let script = script(&story);
    assert_eq!(script.unknown.addresses, 2);
    let pages = script.spaces[2].pages as u32;
    let all = Act::Restrict { space: SpaceId(2), first: 0, pages, whole: true };
    assert_eq!(flushes(&script).last(), Some(&all));
}

#[test]
fn the_flush_before_a_child_is_the_forks() {
    let mut story = written();
    story.flush(Reason::Send, -1).flush(Reason::LocalSpace, -1).create(11, FORK);
    let script = script(&story);
    assert_eq!(flushes(&script), []);
    assert!(matches!(acts(&script).last(), Some(Act::Fork { .. })));
    assert_eq!(script.expected.values().sum::<u64>(), 1);
    assert_eq!(script.unknown.addresses, 0);
}

#[test]
fn flushes_of_a_new_program_are_in_its_space() {
    let mut story = Story::new();
    let name = story.name("new");
    story.event(Kind::Rename { task: 10, name });
    story.flush(Reason::LocalSpace, 1).flush(Reason::LocalSpace, -1);
    story.event(Kind::Execute { task: 10, old: 10 });
    let script = script(&story);
    assert!(matches!(
        flushes(&script)[..],
        [
            Act::Unmap { space: SpaceId(2), pages: 1, tables: false, .. },
            Act::Unmap { space: SpaceId(2), tables: true, whole: true, .. }
        ]
    ));
    assert_eq!(initiator(&script, is_flush).operation, Operation::Execute);
    assert_eq!(script.unknown.addresses, 0);
}

#[test]
fn flushes_of_an_ending_thread_are_part_of_its_exit() {
    let mut story = Story::new();
    story.touch([0], ABSENT_WRITE).event(Kind::Exit).flush(Reason::Send, -1);
    let script = script(&story);
    assert_eq!(flushes(&script), []);
    assert_eq!(script.unknown.addresses, 0);
}

#[test]
fn flushes_follow_from_calls_as_well_without_those_that_were_recorded() {
    let mut story = written();
    story.begin(Call::Munmap, &[BASE, 64 * 4096]).flush(Reason::LocalSpace, 16);
    story.end(Call::Munmap, 0).touch([3], ABSENT_WRITE);
    let with = story.script(Flushes::FromCalls);
    story.trace.events.retain(|event| !matches!(event.kind, Kind::Flush { .. }));
    let without = story.script(Flushes::FromCalls);
    assert_eq!(with.cpus.len(), without.cpus.len());
    assert_eq!(acts(&with), acts(&without));
    assert_eq!(without.recorded, None);
    let refused = reconstruct(&story.trace, Flushes::Recorded).expect_err("nothing is recorded");
    assert!(refused.0.contains("no recorded flushes"), "{refused}");
}

#[test]
fn a_trace_of_nothing_but_the_kernel_is_refused() {
    let mut story = Story::new();
    story.on(0, 0).switch(2).switch(0);
    for flushes in [Flushes::Recorded, Flushes::FromCalls] {
        let refused = reconstruct(&story.trace, flushes).expect_err("no program does anything");
        assert!(refused.0.contains("no events of programs"), "{refused}");
    }
}
