//! What follows from `msync`, `fsync` and their like: each dirty page of a shared view of a file is flushed by itself.

use lookaside_traces::{
    Call, Kind, Reason,
    reconstruct::{Act, Flushes, Operation, SpaceId},
};

use crate::story::{
    ABSENT_READ, ABSENT_WRITE, ANONYMOUS, BASE, COPY, FILE, FORK, POPULATE, SHARED, Story, THREAD,
    VFORK, WRITE, acts, initiator,
};

const MS_ASYNC: u64 = 1;
const MS_SYNC: u64 = 4;
const EINVAL: i64 = -22;
const ENOMEM: i64 = -12;

/// What a program does after `before`, by the flushes that it causes.
fn check(before: &Story, then: impl FnOnce(&mut Story), flushes: &[i64]) {
    let mut after = before.copy();
    then(&mut after);
    assert_eq!(after.flushes_since(before), flushes);
}

/// A view of 64 pages by the descriptor 3, in which some were written.
fn view(flags: u64, written: impl IntoIterator<Item = u64>) -> Story {
    let mut story = Story::fresh();
    // Something else in the same piece keeps its page table.
    story.map(100, 1, WRITE, ANONYMOUS);
    by(&mut story, 0, 64, flags, 3);
    story.touch(written, ABSENT_WRITE);
    story
}

fn by(story: &mut Story, page: u64, pages: u64, flags: u64, descriptor: u64) {
    let address = BASE + page * 4096;
    story.begin(Call::Mmap, &[address, pages * 4096, WRITE, flags, descriptor]);
    story.end(Call::Mmap, address as i64);
}

fn msync(story: &mut Story, page: u64, pages: u64) {
    story.about(Call::Msync, page, pages, MS_SYNC);
}

#[test]
fn each_dirty_page_is_flushed_by_itself_and_once() {
    let mut story = view(SHARED, [1, 2, 3, 40]);
    check(&story, |s| msync(s, 0, 64), &[1; 4]);
    check(&story, |s| msync(s, 2, 20), &[1; 2]);
    check(&story, |s| msync(s, 4, 20), &[]);
    check(&story, |s| _ = s.about(Call::Msync, 0, 64, MS_ASYNC), &[]);
    msync(&mut story, 0, 64);
    check(&story, |s| msync(s, 0, 64), &[]);
    // They are clean, and so a write to one is a fault, which flushes nothing.
    check(&story, |s| _ = s.touch([2], COPY), &[]);
    check(&story, |s| msync(s.touch([2], COPY), 0, 64), &[1]);
    // What was only read is clean.
    check(&story, |s| msync(s.touch([20], ABSENT_READ), 0, 64), &[]);
}

#[test]
fn only_shared_views_of_files_are_written_back() {
    for flags in [FILE, ANONYMOUS, SHARED | 0x20] {
        check(&view(flags, 0..4), |s| msync(s, 0, 64), &[]);
        check(&view(flags, 0..4), |s| _ = s.call(Call::Fsync, &[3]), &[]);
    }
}

#[test]
fn a_descriptor_stands_for_the_views_that_were_mapped_by_it() {
    let mut story = view(SHARED, [1, 2]);
    by(&mut story, 200, 16, SHARED, 4);
    story.touch([205], ABSENT_WRITE);
    for call in [Call::Fsync, Call::Fdatasync] {
        check(&story, |s| _ = s.call(call, &[3]), &[1; 2]);
        check(&story, |s| _ = s.call(call, &[4]), &[1]);
        check(&story, |s| _ = s.call(call, &[5]), &[]);
    }
    // A part of the file, if the call is to write at all.
    let range = |flags| [3, 2 * 4096, 4096, flags];
    check(&story, |s| _ = s.call(Call::SyncFileRange, &range(2)), &[1]);
    check(&story, |s| _ = s.call(Call::SyncFileRange, &range(1)), &[]);
    check(&story, |s| _ = s.call(Call::SyncFileRange, &[3, 0, 0, 2]), &[1; 2]);
    // A view that is moved is of the same file.
    let to = BASE + 300 * 4096;
    story.begin(Call::Mremap, &[BASE, 64 * 4096, 64 * 4096, 3, to]).end(Call::Mremap, to as i64);
    check(&story, |s| _ = s.call(Call::Fsync, &[3]), &[1; 2]);
}

#[test]
fn what_is_written_during_the_call_is_left_to_the_next() {
    let mut story = view(SHARED, [1, 2]);
    story.create(11, THREAD);
    let arguments = [BASE, 64 * 4096, MS_SYNC];
    let before = story.copy();
    story.begin(Call::Msync, &arguments).on(1, 11).touch([2], COPY).touch([9], ABSENT_WRITE);
    story.on(0, 10).end(Call::Msync, 0);
    assert_eq!(story.flushes_since(&before), [1; 2]);
    check(&story, |s| msync(s, 0, 64), &[1; 2]);
    // A second call finds nothing to do while the first is under way.
    let mut two = before.copy();
    two.begin(Call::Msync, &arguments).on(1, 11).begin(Call::Msync, &arguments);
    two.end(Call::Msync, 0).on(0, 10).end(Call::Msync, 0);
    assert_eq!(two.flushes_since(&before), [1; 2]);
}

#[test]
fn a_call_that_failed_wrote_nothing_but_around_holes() {
    let story = view(SHARED, [1, 2]);
    let fails = |value| {
        move |s: &mut Story| {
            s.begin(Call::Msync, &[BASE, 64 * 4096, MS_SYNC]).end(Call::Msync, value);
        }
    };
    check(&story, fails(ENOMEM), &[1; 2]);
    check(&story, fails(EINVAL), &[]);
    let mut failed = story.copy();
    fails(EINVAL)(&mut failed);
    check(&failed, |s| msync(s, 0, 64), &[1; 2]);
}

#[test]
fn clean_pages_of_a_file_are_unmapped_with_the_others() {
    let mut story = Story::fresh();
    story.map(0, 2048, WRITE, SHARED).map(2048, 1, WRITE, ANONYMOUS);
    story.touch([3, 600], ABSENT_WRITE);
    let unmap = |s: &mut Story| _ = s.about(Call::Munmap, 0, 1024, 0);
    // The tables by themselves: a span of two, in steps of a table.
    check(&story, unmap, &[1, 1, 1]);
    msync(&mut story, 0, 2048);
    check(&story, unmap, &[-1]);
}

#[test]
fn a_shared_file_that_is_mapped_with_its_pages_is_clean() {
    let mut story = view(SHARED | POPULATE, []);
    check(&story, |s| msync(s, 0, 64), &[]);
    check(&story, |s| msync(s.touch([7], COPY), 0, 64), &[1]);
    // Not so where the pages are asked for to be written.
    story.about(Call::Madvise, 0, 8, 23);
    check(&story, |s| msync(s, 0, 64), &[1; 8]);
}

#[test]
fn what_is_written_back_is_a_file_though_nobody_saw_it_mapped() {
    let mut story = Story::new();
    msync(&mut story, 0, 64);
    let script = story.script(Flushes::FromCalls);
    assert_eq!((script.unknown.mappings, script.expected.len()), (1, 0));
    // From here on its writes copy nothing, and it is known which pages are dirty.
    check(&story, |s| _ = s.touch([7], COPY), &[]);
    check(&story, |s| msync(s.touch([7], COPY), 0, 64), &[1]);
    check(&story, |s| _ = s.touch([80], COPY), &[1]);
}

/// A parent on CPU 0 and its child on CPU 1, which map the same file.
fn parent_and_child() -> Story {
    let mut story = view(SHARED, []);
    story.flush(Reason::LocalSpace, -1).create(11, FORK);
    story.on(1, 0).switch(11).touch([2, 3], ABSENT_WRITE);
    story.on(0, 10).touch([1, 2], ABSENT_WRITE);
    story
}

#[test]
fn a_page_is_flushed_in_each_space_that_a_fork_gave_the_file() {
    let mut story = parent_and_child();
    check(&story, |s| msync(s, 0, 64), &[1; 4]);
    check(&story, |s| _ = s.call(Call::Fsync, &[3]), &[1; 4]);
    check(&story, |s| msync(s, 3, 1), &[1]);
    check(&story, |s| msync(s.on(1, 11), 0, 64), &[1; 4]);
    // In the order of pages, and the oldest space first, whoever calls.
    let mut after = story.copy();
    msync(after.on(1, 11), 0, 64);
    let acts = acts(&after.script(Flushes::FromCalls));
    let of = |act: &Act| match *act {
        Act::Restrict { space, first, .. } => Some((space.0 - 2, first)),
        _ => None,
    };
    let flushes: Vec<_> = acts.iter().filter_map(of).collect();
    assert_eq!(flushes, [(0, 1), (0, 2), (1, 2), (1, 3)]);
    msync(&mut story, 0, 64);
    check(&story, |s| msync(s.on(1, 11), 0, 64), &[]);
    check(&story, |s| msync(s.on(1, 11).touch([2], COPY), 0, 64), &[1]);
}

#[test]
fn a_space_that_ends_during_the_call_is_not_flushed_after_its_end() {
    let mut story = parent_and_child();
    story.begin(Call::Msync, &[BASE, 64 * 4096, MS_SYNC]).on(1, 11).event(Kind::Exit);
    story.on(0, 10).end(Call::Msync, 0);
    let acts = acts(&story.script(Flushes::FromCalls));
    let ends = acts.iter().any(|act| matches!(act, Act::End(SpaceId(3))));
    let flushed = |act: &&Act| matches!(act, Act::Restrict { space: SpaceId(3), .. });
    assert!(ends && !acts.iter().any(|act| flushed(&act)), "{acts:?}");
    assert_eq!(acts.iter().filter(|act| matches!(act, Act::Restrict { .. })).count(), 2);
}

#[test]
fn what_was_flushed_in_a_space_before_it_ended_during_the_call_is_kept() {
    let acts_with = |source: Flushes, told: &[Reason]| {
        let mut story = parent_and_child();
        story.begin(Call::Msync, &[BASE, 64 * 4096, MS_SYNC]);
        // In order: page 1 of the parent, page 2 of both, page 3 of the child.
        told.iter().for_each(|&reason| _ = story.flush(reason, 1));
        story.on(1, 11).event(Kind::Exit);
        story.on(0, 10).end(Call::Msync, 0);
        acts(&story.script(source))
    };
    let of_child = |acts: &[Act]| -> Vec<u32> {
        let first = |act: &Act| match *act {
            Act::Restrict { space: SpaceId(3), first, .. } => Some(first),
            _ => None,
        };
        acts.iter().filter_map(first).collect()
    };
    let of_end = |acts: &[Act]| {
        let whole = |act: &&Act| matches!(act, Act::Unmap { space: SpaceId(3), .. });
        acts.iter().filter(whole).count()
    };
    let [local, told] = [Reason::LocalSpace, Reason::Send];
    for source in [Flushes::FromCalls, Flushes::Recorded] {
        let some = acts_with(source, &[local, local, told]);
        assert_eq!(of_child(&some), [2], "{source:?}: {some:?}");
        // Page 3 is still dirty when the child ends, which is a flush of its own.
        assert_eq!(of_end(&some), 1, "{source:?}: {some:?}");
        let all = acts_with(source, &[local, local, told, told]);
        assert_eq!(of_child(&all), [2, 3], "{source:?}: {all:?}");
        assert_eq!(of_end(&all), 0, "{source:?}: {all:?}");
        let none = acts_with(source, &[local, local]);
        assert_eq!(of_child(&none), [0_u32; 0], "{source:?}: {none:?}");
    }
}

#[test]
fn what_both_map_after_the_fork_is_not_the_same_file() {
    let mut story = Story::fresh();
    story.create(11, FORK).on(1, 0).switch(11);
    by(&mut story, 0, 64, SHARED, 3);
    story.touch([2], ABSENT_WRITE).on(0, 10);
    by(&mut story, 0, 64, SHARED, 3);
    check(&story, |s| msync(s.touch([1], ABSENT_WRITE), 0, 64), &[1]);
    // The child's is as dirty as it was.
    check(&story, |s| msync(s.on(1, 11), 0, 64), &[1]);
}

#[test]
fn of_another_space_the_kernel_says_nothing_where_no_other_cpu_holds_it() {
    let mut story = view(SHARED, []);
    // Both run on CPU 0 alone.
    story.create(11, FORK).switch(11).touch([2, 3], ABSENT_WRITE);
    story.switch(10).touch([1], ABSENT_WRITE);
    check(&story, |s| msync(s, 0, 64), &[1]);
    // But the space has missed something: the flush is a step all the same.
    let steps = |story: &Story| {
        let acts = acts(&story.script(Flushes::FromCalls));
        acts.iter().filter(|act| matches!(act, Act::Restrict { .. })).count()
    };
    let before = steps(&story);
    msync(&mut story, 0, 64);
    assert_eq!(steps(&story) - before, 3);
}

#[test]
fn telling_others_of_another_space_is_a_flush_by_itself() {
    // The parent has never been on another CPU: whoever is told is told of the child.
    let mut story = parent_and_child();
    let before = story.copy();
    story.begin(Call::Msync, &[BASE, 64 * 4096, MS_SYNC]);
    story.flush(Reason::LocalSpace, 1).flush(Reason::LocalSpace, 1);
    story.flush(Reason::Send, 1).flush(Reason::Send, 1).end(Call::Msync, 0);
    let ones = |story: &Story| story.script(Flushes::Recorded).expected.values().sum::<u64>();
    assert_eq!(ones(&story) - ones(&before), 4);
    let mut mixed = before.copy();
    mixed.begin(Call::Msync, &[BASE, 64 * 4096, MS_SYNC]);
    mixed.flush(Reason::Send, 1).flush(Reason::LocalSpace, 1).end(Call::Msync, 0);
    assert_eq!(ones(&mixed) - ones(&before), 2);
    // If its own space may be held elsewhere, it is one flush.
    let mut held = before.copy();
    held.create(12, THREAD).on(1, 0).switch(12).switch(0).on(0, 10);
    let before = ones(&held);
    held.begin(Call::Msync, &[BASE, 64 * 4096, MS_SYNC]);
    held.flush(Reason::Send, 1).flush(Reason::LocalSpace, 1).end(Call::Msync, 0);
    assert_eq!(ones(&held) - before, 1);
}

#[test]
fn recorded_flushes_get_the_pages_that_are_written_back() {
    let mut story = view(SHARED, [5, 9]);
    story.begin(Call::Msync, &[BASE, 64 * 4096, MS_SYNC]);
    story.flush(Reason::LocalSpace, 1).flush(Reason::Send, 1).flush(Reason::LocalSpace, 1);
    story.end(Call::Msync, 0);
    let script = story.script(Flushes::Recorded);
    let is_flush = |act: &Act| matches!(act, Act::Restrict { .. });
    let flushes: Vec<Act> = acts(&script).into_iter().filter(is_flush).collect();
    let one = |first| Act::Restrict { space: SpaceId(2), first, pages: 1, whole: false };
    assert_eq!(flushes, [one(5), one(9)]);
    assert_eq!(initiator(&script, is_flush).operation, Operation::Call(Call::Msync));
    assert_eq!(script.unknown.addresses, 0);
}

#[test]
fn a_descriptor_that_was_closed_is_another_files() {
    let fsync = |s: &mut Story| _ = s.call(Call::Fsync, &[3]);
    let close = |s: &mut Story, descriptor| _ = s.call(Call::Close, &[descriptor]);
    let mut story = view(SHARED, [1, 2]);
    close(&mut story, 4);
    check(&story, fsync, &[1; 2]);
    // Its own thread, and not a child that borrows the space.
    let mut borrowed = story.copy();
    borrowed.create(20, VFORK).on(0, 20);
    close(&mut borrowed, 3);
    borrowed.on(0, 10);
    check(&borrowed, fsync, &[1; 2]);
    story.create(11, THREAD).on(0, 11);
    close(&mut story, 3);
    story.on(0, 10);
    check(&story, fsync, &[]);
    // The view remains, and so does what `msync` writes back, here and in what a fork made.
    check(&story, |s| msync(s, 0, 64), &[1; 2]);
}
