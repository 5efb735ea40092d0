//! Which flushes follow from which calls and faults. The numbers are what Linux 6.18 recorded when small
//! programs did just that.

use lookaside_traces::{
    Call, Kind, Reason,
    reconstruct::{Act, Flushes, SpaceId},
};

use crate::story::{
    ABSENT_READ, ABSENT_WRITE, ANONYMOUS, BASE, COPY, FILE, FIXED, FORK, NONE, POPULATE, READ,
    SHARED, Story, THREAD, WRITE, acts,
};

const DONTNEED: u64 = 4;
const FREE: u64 = 8;
const COLD: u64 = 20;
const PAGEOUT: u64 = 21;
const POPULATE_WRITE: u64 = 23;

/// What a program does after `before`, by the flushes that it causes.
fn check(before: &Story, then: impl FnOnce(&mut Story), flushes: &[i64]) {
    let mut after = before.copy();
    then(&mut after);
    assert_eq!(after.flushes_since(before), flushes);
}

/// 64 pages of memory, of which the first were written.
fn written(pages: u64) -> Story {
    let mut story = Story::fresh();
    // Something else in the same piece keeps its page table.
    story.map(100, 1, WRITE, ANONYMOUS).map(0, 64, WRITE, ANONYMOUS);
    story.touch(0..pages, ABSENT_WRITE);
    story
}

#[test]
fn allowing_less_flushes_what_was_there() {
    let story = written(16);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 16, READ), &[16]);
    check(&story, |s| _ = s.about(Call::Mprotect, 12, 8, READ), &[4]);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 16, NONE), &[16]);
    check(&story, |s| _ = s.about(Call::Mprotect, 32, 8, READ), &[]);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 16, WRITE), &[]);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 4, READ | 4), &[4]);
}

#[test]
fn allowing_more_flushes_too_where_the_page_is_the_programs_own() {
    let mut story = written(16);
    story.about(Call::Mprotect, 0, 16, READ);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 16, WRITE), &[16]);
    // Where nothing was allowed, nothing was held.
    story.about(Call::Mprotect, 0, 16, NONE);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 16, WRITE), &[]);
}

#[test]
fn pages_of_zeros_and_of_files_change_when_they_are_written() {
    let mut story = Story::fresh();
    story.map(0, 8, WRITE, ANONYMOUS).touch(0..8, ABSENT_READ);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 8, READ), &[]);
    check(&story, |s| _ = s.touch(0..2, COPY), &[1, 1]);
    story.touch(0..2, COPY);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 8, READ), &[2]);

    let mut story = Story::fresh();
    story.map(0, 1024, WRITE, FILE).touch([20], ABSENT_READ).touch([17, 34], COPY);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 100, READ), &[18]);
}

#[test]
fn unmap_flushes_from_the_first_to_the_last_present_page() {
    let story = written(16);
    check(&story, |s| _ = s.about(Call::Munmap, 0, 64, 0), &[16]);
    check(&story, |s| _ = s.about(Call::Munmap, 20, 10, 0), &[]);
    let mut holes = story;
    holes.about(Call::Madvise, 2, 1, DONTNEED).about(Call::Madvise, 5, 2, DONTNEED);
    check(&holes, |s| _ = s.about(Call::Madvise, 2, 10, DONTNEED), &[9]);
    check(&holes, |s| _ = s.about(Call::Madvise, 5, 2, DONTNEED), &[]);
    // What failed did nothing, but for holes in what is mapped.
    let [failed, hole] = [-22, -12].map(|value| {
        move |s: &mut Story| {
            s.begin(Call::Madvise, &[BASE, 16 * 4096, DONTNEED]).end(Call::Madvise, value);
        }
    });
    check(&holes, failed, &[]);
    check(&holes, hole, &[16]);
}

#[test]
fn more_than_the_ceiling_is_everything() {
    check(&written(33), |s| _ = s.about(Call::Munmap, 0, 64, 0), &[33]);
    check(&written(34), |s| _ = s.about(Call::Munmap, 0, 64, 0), &[-1]);
}

#[test]
fn a_page_table_that_goes_counts_from_where_it_begins() {
    let mut story = Story::fresh();
    // Neighbours left and right, so that only one table goes.
    story.map(0, 2048, WRITE, ANONYMOUS).touch([0, 2000], ABSENT_WRITE);
    story.touch(512 + 10..512 + 12, ABSENT_WRITE);
    check(&story, |s| _ = s.about(Call::Munmap, 512, 512, 0), &[12]);
    check(&story, |s| _ = s.about(Call::Madvise, 512, 512, DONTNEED), &[12]);
    check(&story, |s| _ = s.about(Call::Munmap, 512 + 8, 8, 0), &[2]);
    check(&story, |s| _ = s.map(512, 512, WRITE, ANONYMOUS | FIXED), &[12]);
    // `madvise` of all of a table frees it; there is nothing left to flush when it is unmapped.
    story.about(Call::Madvise, 512, 512, DONTNEED);
    check(&story, |s| _ = s.about(Call::Munmap, 512, 512, 0), &[]);
}

#[test]
fn the_last_of_a_gibibyte_takes_the_tables_above_with_it() {
    let mut story = Story::fresh();
    story.map(512, 20, WRITE, ANONYMOUS).touch([522], ABSENT_WRITE);
    check(&story, |s| _ = s.about(Call::Munmap, 512, 20, 0), &[-1]);
    story.about(Call::Munmap, 512, 10, 0);
    check(&story, |s| _ = s.about(Call::Munmap, 522, 10, 0), &[-1]);
    story.about(Call::Madvise, 522, 1, DONTNEED);
    // No pages: Linux counts the span in tables.
    check(&story, |s| _ = s.about(Call::Munmap, 522, 10, 0), &[1]);
}

#[test]
fn many_pages_are_freed_and_flushed_in_batches() {
    for (pages, flushes) in [(9600, 1), (9700, 2), (20000, 3)] {
        let mut story = Story::fresh();
        story.map(0, 20480, WRITE, ANONYMOUS | POPULATE).map(20480, 1, WRITE, ANONYMOUS);
        let all = vec![-1; flushes];
        check(&story, |s| _ = s.about(Call::Munmap, 0, pages, 0), &all);
    }
}

#[test]
fn dirty_pages_of_shared_files_are_flushed_table_by_table() {
    let mut story = Story::fresh();
    story.map(0, 2048, WRITE, SHARED).map(2048, 1, WRITE, ANONYMOUS);
    story.touch([3, 600, 1100], ABSENT_WRITE);
    check(&story, |s| _ = s.about(Call::Munmap, 0, 2048, 0), &[1, 1, 1, 2]);
    // Memory that is shared with children is a file, too.
    let mut story = Story::fresh();
    story.map(0, 2048, WRITE, SHARED | 0x20).map(2048, 1, WRITE, ANONYMOUS);
    story.touch(509..535, ABSENT_WRITE);
    check(&story, |s| _ = s.about(Call::Munmap, 509, 26, 0), &[3, 23]);
    // Writing to a page that was only read needs no flush.
    let mut story = Story::fresh();
    story.map(0, 64, WRITE, SHARED).touch([3], ABSENT_READ);
    check(&story, |s| _ = s.touch([3, 4], COPY), &[]);
}

#[test]
fn advice_that_pages_are_free_is_for_the_programs_own() {
    let mut story = written(8);
    story.touch(9..20, ABSENT_READ);
    check(&story, |s| _ = s.about(Call::Madvise, 0, 64, FREE), &[8]);
    check(&story, |s| _ = s.about(Call::Madvise, 0, 64, COLD), &[8]);
    check(&story, |s| _ = s.about(Call::Madvise, 0, 64, 14), &[]);
}

#[test]
fn a_move_flushes_each_tables_part_whole() {
    let story = written(10);
    let to = |page: u64, length: u64| {
        let address = BASE + (1 << 40) + page * 4096;
        move |s: &mut Story| {
            s.begin(Call::Mremap, &[BASE, 16 * 4096, length * 4096, 3, address]);
            s.end(Call::Mremap, address as i64);
        }
    };
    check(&story, to(0, 16), &[16]);
    // The target begins a new table after 6 pages; the other 4 that are there are in the second part.
    check(&story, to(506, 16), &[6, 10]);
    // Shrinking on the way unmaps first.
    check(&story, to(0, 5), &[5, 5]);
    let grown = |s: &mut Story| {
        let arguments = [BASE, 16 * 4096, 32 * 4096, 1];
        s.begin(Call::Mremap, &arguments).end(Call::Mremap, BASE as i64);
    };
    check(&story, grown, &[]);
    // What was moved is there: without a fault it can be unmapped with a flush.
    let mut moved = story;
    moved.map((1 << 28) + 100, 1, WRITE, ANONYMOUS);
    to(0, 16)(&mut moved);
    check(&moved, |s| _ = s.about(Call::Munmap, 1 << 28, 16, 0), &[10]);
}

#[test]
fn a_heap_that_shrinks_is_unmapped() {
    let mut story = Story::fresh();
    let brk = |s: &mut Story, page: u64| {
        let end = BASE + page * 4096;
        s.begin(Call::Brk, &[end]).end(Call::Brk, end as i64);
    };
    brk(&mut story, 10);
    brk(&mut story, 30);
    story.touch(10..25, ABSENT_WRITE);
    check(&story, |s| brk(s, 20), &[5]);
    check(&story, |s| brk(s, 40), &[]);
}

#[test]
fn pages_that_are_there_from_the_beginning_need_no_fault() {
    let mut story = Story::fresh();
    story.map(100, 1, WRITE, ANONYMOUS).map(0, 64, WRITE, ANONYMOUS | POPULATE);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 20, READ), &[20]);
    story.map(200, 16, WRITE, ANONYMOUS).about(Call::Madvise, 200, 10, 23);
    check(&story, |s| _ = s.about(Call::Munmap, 200, 16, 0), &[10]);
}

#[test]
fn pages_that_cannot_be_written_are_copied_one_by_one_where_all_are_to_be() {
    let populate = |s: &mut Story| _ = s.about(Call::Madvise, 0, 8, POPULATE_WRITE);
    let ones = |count| vec![1; count];
    let mut story = written(4);
    check(&story, populate, &[]);
    story.touch(4..8, ABSENT_READ);
    check(&story, populate, &ones(4));
    story.about(Call::Madvise, 0, 8, POPULATE_WRITE);
    check(&story, populate, &[]);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 8, READ), &[8]);
    for (view, copies) in [(FILE, 8), (SHARED, 0)] {
        let mut story = Story::fresh();
        story.map(100, 1, WRITE, ANONYMOUS).map(0, 8, WRITE, view).touch([0], ABSENT_READ);
        check(&story, populate, &ones(copies));
    }
    // The child copies what the parent has as well; the parent is then the last.
    let mut story = written(8);
    story.create(11, FORK).on(1, 11);
    check(&story, populate, &ones(8));
    populate(&mut story);
    check(&story, |s| populate(s.on(0, 10)), &[]);
}

#[test]
fn the_page_of_zeros_is_not_made_cold() {
    let cold = |s: &mut Story| _ = s.about(Call::Madvise, 0, 8, COLD);
    let mut story = Story::fresh();
    story.map(100, 1, WRITE, ANONYMOUS).map(0, 8, WRITE, ANONYMOUS).touch(0..8, ABSENT_READ);
    check(&story, cold, &[]);
    check(&story, |s| cold(s.touch(2..4, COPY)), &[1, 1, 2]);
    let mut story = Story::fresh();
    story.map(100, 1, WRITE, ANONYMOUS).map(0, 8, READ, FILE).touch([0], ABSENT_READ);
    check(&story, cold, &[8]);
}

#[test]
fn what_has_a_file_is_paged_out() {
    let out = |s: &mut Story| _ = s.about(Call::Madvise, 0, 8, PAGEOUT);
    // The program's own would go to swap, of which nothing is known.
    check(&written(8), out, &[]);
    for view in [FILE, SHARED] {
        let mut story = Story::fresh();
        story.map(100, 1, WRITE, ANONYMOUS).map(0, 8, READ, view).touch([0], ABSENT_READ);
        check(&story, out, &[1; 8]);
        check(&story, |s| out(s.about(Call::Madvise, 0, 8, PAGEOUT)), &[1; 8]);
        // Where others may run in the space, they are flushed together.
        story.create(11, THREAD);
        check(&story, out, &[-1]);
    }
}

#[test]
fn files_are_mapped_around_a_fault() {
    let mut story = Story::fresh();
    story.map(100, 1, WRITE, ANONYMOUS).map(2, 40, READ, FILE).touch([20], ABSENT_READ);
    assert!(matches!(
        acts(&story.script(Flushes::FromCalls)).last(),
        Some(Act::Map { first: 16, pages: 16, .. })
    ));
    check(&story, |s| _ = s.about(Call::Munmap, 2, 40, 0), &[16]);
    // The window begins no earlier than what is mapped, and keeps its size.
    story.touch([5], ABSENT_READ);
    check(&story, |s| _ = s.about(Call::Munmap, 2, 14, 0), &[14]);
    // A write brings one page.
    let mut story = Story::fresh();
    story.map(100, 1, WRITE, ANONYMOUS).map(2, 40, WRITE, FILE).touch([20], ABSENT_WRITE);
    check(&story, |s| _ = s.about(Call::Munmap, 2, 40, 0), &[1]);
}

#[test]
fn after_a_fork_the_first_writer_copies_and_the_last_keeps() {
    let mut story = written(4);
    check(&story, |s| _ = s.create(11, FORK), &[-1]);
    story.create(11, FORK);
    check(&story, |s| _ = s.on(1, 11).touch(0..2, COPY).on(0, 10).touch(0..2, COPY), &[1, 1]);
    check(&story, |s| _ = s.touch(2..4, COPY).on(1, 11).touch(2..4, COPY), &[1, 1]);
    check(&story, |s| _ = s.on(1, 11).event(Kind::Exit).on(0, 10).touch(0..4, COPY), &[]);
    // They may not be written, so forbidding it changes nothing; nor does allowing it.
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 16, READ), &[]);
    story.about(Call::Mprotect, 0, 16, READ);
    check(&story, |s| _ = s.about(Call::Mprotect, 0, 16, WRITE), &[]);
}

#[test]
fn a_child_that_ends_or_executes_shares_its_pages_until_it_has_freed_them() {
    let unmapped = Kind::Unmapped { space: 1 };
    let child = |executes: bool, leaves: fn(&mut Story)| {
        let mut story = written(4);
        story.create(11, FORK).on(1, 11);
        leaves(&mut story);
        let freed = |mut story: Story| {
            story.on(1, 11).event(unmapped);
            if executes {
                story.execute("seq");
            }
            story
        };
        let mut parent_writes = story.copy();
        parent_writes.on(0, 10).touch(0..2, COPY);
        let before = freed(story);
        assert_eq!(freed(parent_writes).flushes_since(&before), [1, 1]);
        check(&before, |s| _ = s.on(0, 10).touch(0..2, COPY), &[]);
    };
    child(true, |story| _ = story.flush(Reason::Switch, -1));
    child(false, |story| _ = story.event(Kind::Exit));
}

#[test]
fn forks_share_pages_of_which_nothing_is_known() {
    let mut story = Story::new();
    story.create(11, FORK);
    check(&story, |s| _ = s.touch([7], COPY).on(1, 11).touch([7], COPY), &[1]);
    check(&story, |s| _ = s.on(1, 11).event(Kind::Exit).on(0, 10).touch([7], COPY), &[1]);
}

#[test]
fn a_write_where_none_is_allowed_ends_in_a_signal() {
    let mut story = written(4);
    story.about(Call::Mprotect, 0, 4, READ);
    check(&story, |s| _ = s.touch([1], COPY), &[]);
}

#[test]
fn a_fault_on_an_absent_page_needs_no_flush() {
    let story = written(0);
    check(&story, |s| _ = s.touch([1], ABSENT_READ).touch([2], ABSENT_WRITE), &[]);
    check(&story, |s| _ = s.touch([3], 5), &[]);
}

#[test]
fn a_program_that_executes_moves_its_stack() {
    let story = Story::fresh();
    check(&story, |s| _ = s.execute("again"), &[1, -1]);
}

#[test]
fn concurrent_gathers_flush_everything() {
    let mut story = written(16);
    story.create(11, THREAD).on(1, 11).begin(Call::Madvise, &[BASE + 40 * 4096, 4096, DONTNEED]);
    story.on(0, 10);
    let mut after = story.copy();
    after.about(Call::Mprotect, 0, 16, READ);
    assert_eq!(after.flushes_since(&story), [-1]);
    let script = after.script(Flushes::FromCalls);
    assert!(matches!(
        acts(&script).last(),
        Some(Act::Restrict { first: 0, pages: 16, whole: true, .. })
    ));
    // However many they are: for it goes to the CPUs that it would go to if tables had been freed.
    let mut many = written(64);
    for (beside, whole) in [(true, true), (false, false)] {
        if beside {
            many.create(11, THREAD).on(1, 11);
            many.begin(Call::Madvise, &[BASE + 100 * 4096, 4096, DONTNEED]).on(0, 10);
        } else {
            many.on(1, 11).end(Call::Madvise, 0).on(0, 10).touch(0..64, ABSENT_WRITE);
        }
        many.about(Call::Madvise, 0, 64, DONTNEED);
        let script = many.script(Flushes::FromCalls);
        let unmap = Act::Unmap { space: SpaceId(2), first: 0, pages: 64, tables: false, whole };
        assert_eq!(acts(&script).last(), Some(&unmap));
    }
    // Even if there is nothing.
    check(&story, |s| _ = s.about(Call::Mprotect, 20, 4, READ), &[-1]);
    check(&story, |s| _ = s.call(Call::Membarrier, &[]), &[]);
    // Not once the other is back.
    let mut alone = story.copy();
    alone.on(1, 11).end(Call::Madvise, 0).on(0, 10);
    check(&alone, |s| _ = s.about(Call::Mprotect, 0, 16, READ), &[16]);
    // Nor does a fault gather, nor a thread of another space.
    check(
        &story,
        |s| _ = s.map(50, 1, WRITE, ANONYMOUS).touch([50], ABSENT_READ).touch([50], COPY),
        &[1],
    );
    let mut other = written(16);
    other.on(1, 20).begin(Call::Madvise, &[BASE, 4096, DONTNEED]).on(0, 10);
    check(&other, |s| _ = s.about(Call::Mprotect, 0, 16, READ), &[16]);
}

#[test]
fn written_pages_of_shared_memory_are_flushed_before_it_is_known_that_others_gather() {
    for kind in [SHARED, SHARED | ANONYMOUS] {
        let mut story = written(16);
        story.map(20, 4, WRITE, kind).touch(20..24, ABSENT_WRITE).map(30, 4, WRITE, kind);
        story
            .create(11, THREAD)
            .on(1, 11)
            .begin(Call::Madvise, &[BASE + 80 * 4096, 4096, DONTNEED]);
        story.on(0, 10);
        check(&story, |s| _ = s.about(Call::Munmap, 20, 4, 0), &[4, -1]);
        check(&story, |s| _ = s.about(Call::Munmap, 30, 4, 0), &[-1]);
    }
}

#[test]
fn whether_others_gather_is_seen_when_the_call_flushes_and_not_when_it_returns() {
    let advise = [BASE + 40 * 4096, 4096, DONTNEED];
    let unmap = [BASE, 16 * 4096];
    let mut story = written(16);
    story.create(11, THREAD);
    let during = |s: &mut Story| {
        s.on(1, 11).begin(Call::Madvise, &advise).on(0, 10).begin(Call::Munmap, &unmap);
        s.flush(Reason::LocalSpace, -1);
        s.on(1, 11).end(Call::Madvise, 0).on(0, 10).end(Call::Munmap, 0);
    };
    // The other one found nothing, and flushes all the same.
    check(&story, during, &[-1, -1]);
    let after = |s: &mut Story| {
        s.begin(Call::Munmap, &unmap).flush(Reason::LocalSpace, 16);
        s.on(1, 11).begin(Call::Madvise, &advise).on(0, 10).end(Call::Munmap, 0);
    };
    check(&story, after, &[16]);
}

#[test]
fn what_a_call_forbids_is_not_copied_even_where_no_call_mapped_it() {
    let mut story = Story::fresh();
    story.touch([20], ABSENT_WRITE);
    check(&story, |s| _ = s.about(Call::Mprotect, 20, 1, READ), &[1]);
    story.about(Call::Mprotect, 20, 1, READ);
    // The kernel writes for the program, in vain: the call fails.
    check(&story, |s| _ = s.touch([20], 3), &[]);
    check(&story, |s| _ = s.touch([20], 3).about(Call::Mprotect, 20, 1, WRITE), &[1]);
    // Nor does it bring what is not there.
    story.about(Call::Mprotect, 24, 1, READ);
    check(&story, |s| _ = s.touch([24], 2).about(Call::Mprotect, 24, 1, WRITE), &[]);
    // Forked, it is the child's too.
    story.about(Call::Mprotect, 20, 1, WRITE).create(20, FORK);
    check(&story, |s| _ = s.touch([20], COPY), &[1]);
}

#[test]
fn a_thread_that_waits_for_its_turn_gathers_nothing() {
    let protect = [BASE + 40 * 4096, 4096, READ];
    for (runnable, flushes) in [(true, -1), (false, 16)] {
        let mut story = written(16);
        story.create(11, THREAD).on(1, 11).begin(Call::Mprotect, &protect);
        story.switch_from(0, runnable).on(0, 10);
        check(&story, |s| _ = s.about(Call::Madvise, 0, 16, DONTNEED), &[flushes]);
        // Woken, it has its turn.
        story.on(1, 0).switch(11).on(0, 10);
        check(&story, |s| _ = s.about(Call::Madvise, 0, 16, DONTNEED), &[-1]);
        // Two that must be alone are never in the middle together.
        check(&story, |s| _ = s.about(Call::Mprotect, 0, 16, READ), &[16]);
    }
}

#[test]
fn pages_from_before_the_trace_are_taken_for_present() {
    let story = Story::new();
    let mut after = story.copy();
    after.about(Call::Munmap, 0, 8, 0);
    let script = after.script(Flushes::FromCalls);
    assert_eq!(script.unknown.mappings, 1);
    assert_eq!(script.expected.len(), 1);
    assert!(matches!(acts(&script).last(), Some(Act::Unmap { pages: 8, .. })));
    // But it is known what was mapped since.
    let mut story = Story::new();
    story.map(0, 8, WRITE, ANONYMOUS).touch([3], ABSENT_WRITE);
    story.about(Call::Madvise, 0, 8, DONTNEED).about(Call::Munmap, 0, 8, 0);
    let script = story.script(Flushes::FromCalls);
    assert_eq!(script.unknown.mappings, 0);
    assert!(matches!(acts(&script).last(), Some(Act::Unmap { pages: 1, .. })));
}
