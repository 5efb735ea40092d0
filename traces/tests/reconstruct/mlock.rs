//! What follows from `mlock` and its like: pages are there without faults, and what a write would copy is copied at once.

use lookaside_traces::Call;

use crate::story::{
    ABSENT_READ, ABSENT_WRITE, ANONYMOUS, BASE, FILE, FORK, NONE, READ, SHARED, Story, WRITE,
};

const CURRENT: u64 = 1;
const FUTURE: u64 = 2;
const ONFAULT: u64 = 4;

/// What a program does after `before`, by the flushes that it causes.
#[track_caller]
fn check(before: &Story, then: impl FnOnce(&mut Story), flushes: &[i64]) {
    let mut after = before.copy();
    then(&mut after);
    assert_eq!(after.flushes_since(before), flushes);
}

/// 16 pages of a view, of which the first eight were read.
fn read(prot: u64, view: u64) -> Story {
    let mut story = Story::fresh();
    // Something else in the same piece keeps its page table.
    story.map(100, 1, WRITE, ANONYMOUS).map(0, 16, prot, view);
    story.touch(if view == ANONYMOUS { 0..8 } else { 0..1 }, ABSENT_READ);
    story
}

fn unmap(story: &mut Story) {
    story.about(Call::Munmap, 0, 64, 0);
}

#[test]
fn locked_pages_are_there_and_those_that_could_not_be_written_are_copied_one_by_one() {
    let lock = |s: &mut Story| _ = s.about(Call::Mlock, 0, 16, 0);
    // Pages of zeros are copied, those that are missing just come; of a file all were there to be read.
    check(&read(WRITE, ANONYMOUS), lock, &[1; 8]);
    check(&read(WRITE, FILE), lock, &[1; 16]);
    for (prot, view) in [(READ, ANONYMOUS), (READ, FILE), (WRITE, SHARED)] {
        check(&read(prot, view), lock, &[]);
    }
    let mut story = read(WRITE, ANONYMOUS);
    lock(&mut story);
    check(&story, lock, &[]);
    // All sixteen are there: a fork shares them, and the child that locks them, too, copies each.
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 16, READ), &[16]);
    story.create(11, FORK).on(1, 11);
    check(&story, lock, &[1; 16]);
}

#[test]
fn pages_that_are_locked_when_they_are_touched_are_not_brought() {
    check(&read(WRITE, ANONYMOUS), |s| _ = s.about(Call::Mlock2, 0, 16, 1), &[]);
    check(&read(WRITE, ANONYMOUS), |s| _ = s.about(Call::Mlock2, 0, 16, 0), &[1; 8]);
    for flags in [CURRENT | ONFAULT, CURRENT | FUTURE | ONFAULT, FUTURE] {
        check(&read(WRITE, ANONYMOUS), |s| _ = s.call(Call::Mlockall, &[flags]), &[]);
    }
    check(
        &read(WRITE, ANONYMOUS),
        |s| _ = s.begin(Call::Mlock, &[BASE, 65536]).end(Call::Mlock, -12),
        &[],
    );
}

#[test]
fn all_areas_are_locked_at_once_and_mappings_to_come() {
    let mut story = read(WRITE, ANONYMOUS);
    story.map(200, 4, NONE, ANONYMOUS);
    check(&story, |s| _ = s.call(Call::Mlockall, &[CURRENT]), &[1; 8]);
    story.call(Call::Mlockall, &[CURRENT | FUTURE]);
    // Twenty pages are there without a fault.
    check(&story, |s| unmap(s.map(20, 20, WRITE, ANONYMOUS)), &[-1]);
    check(&story, |s| _ = s.map(20, 20, WRITE, ANONYMOUS).about(Call::Munmap, 20, 20, 0), &[20]);
    // What may not be accessed has no pages, and gets them when it may be written.
    let zap = |s: &mut Story| _ = s.about(Call::Munmap, 200, 4, 0);
    check(&story, zap, &[]);
    check(&story, |s| zap(s.about(Call::Mprotect, 200, 4, WRITE)), &[4]);
    let mut free = story.copy();
    free.call(Call::Munlockall, &[]);
    check(&free, |s| zap(s.about(Call::Mprotect, 200, 4, WRITE)), &[]);
    check(&free, |s| _ = s.map(20, 20, WRITE, ANONYMOUS).about(Call::Munmap, 20, 20, 0), &[]);
    // A child does not inherit it.
    story.create(11, FORK).on(1, 11);
    check(&story, |s| _ = s.map(20, 20, WRITE, ANONYMOUS).about(Call::Munmap, 20, 20, 0), &[]);
}

#[test]
fn a_heap_that_is_locked_has_its_new_pages_at_once() {
    let brk = |s: &mut Story, page: u64| {
        s.begin(Call::Brk, &[BASE + page * 4096]).end(Call::Brk, (BASE + page * 4096) as i64);
    };
    let mut story = Story::fresh();
    story.map(100, 1, WRITE, ANONYMOUS);
    brk(&mut story, 4);
    brk(&mut story, 8);
    story.touch(4..8, ABSENT_WRITE);
    let shrink = |s: &mut Story| {
        brk(s, 20);
        brk(s, 8);
    };
    check(&story, shrink, &[]);
    check(&story, |s| shrink(s.call(Call::Mlockall, &[FUTURE])), &[12]);
}
