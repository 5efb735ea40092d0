//! Pages that the kernel takes away by itself: only the flush says so.

use std::collections::BTreeMap;

use lookaside_traces::{
    Call, Reason,
    reconstruct::{Act, Flushes, Operation},
};

use crate::story::{ABSENT_WRITE, ANONYMOUS, COPY, Story, WRITE, acts, initiator};

const PAGEOUT: u64 = 21;

fn is_page_out(act: &Act) -> bool {
    matches!(act, Act::PageOut { .. })
}

/// How often pages are taken away, which must not depend on the source of the other flushes.
fn page_outs(story: &Story) -> usize {
    let of = |source| acts(&story.script(source)).iter().filter(|act| is_page_out(act)).count();
    let [recorded, from_calls] = [Flushes::Recorded, Flushes::FromCalls].map(of);
    assert_eq!(recorded, from_calls);
    recorded
}

/// Sixteen pages, of which the last was written just now.
fn written() -> Story {
    let mut story = Story::fresh();
    story.map(100, 1, WRITE, ANONYMOUS).map(0, 64, WRITE, ANONYMOUS).touch(0..16, ABSENT_WRITE);
    story
}

fn batch(story: &mut Story) -> &mut Story {
    story.flush(Reason::Send, -1).flush(Reason::Local, -1)
}

#[test]
fn a_batch_is_one_flush_that_no_call_explains() {
    let mut story = written();
    batch(&mut story).flush(Reason::Send, -1).flush(Reason::Local, 0).flush(Reason::Local, -1);
    assert_eq!(page_outs(&story), 3);
    for source in [Flushes::Recorded, Flushes::FromCalls] {
        let script = story.script(source);
        assert_eq!(initiator(&script, is_page_out).operation, Operation::Fault);
        // How many there are is no evidence for the rules of calls.
        let others = match source {
            Flushes::Recorded => BTreeMap::new(),
            Flushes::FromCalls => written().script(source).expected,
        };
        assert_eq!(script.expected, others);
        assert_eq!(script.unknown.addresses, 0);
    }
}

#[test]
fn what_a_program_asks_for_is_none() {
    let mut story = written();
    story.begin(Call::Madvise, &[0, 4096, PAGEOUT]);
    batch(&mut story).end(Call::Madvise, 0);
    assert_eq!(page_outs(&story), 0);
    batch(&mut story);
    assert_eq!(page_outs(&story), 1);
}

#[test]
fn a_page_alone_counts_where_a_batch_is_seen() {
    let mut story = written();
    story.touch([16], ABSENT_WRITE).flush(Reason::LocalSpace, 1);
    assert_eq!(page_outs(&story), 0);
    // Its thread takes pages away together later, so that it did so before.
    batch(&mut story).touch([17], ABSENT_WRITE).flush(Reason::LocalSpace, 1);
    assert_eq!(page_outs(&story), 3);
    // A copy is flushed by itself, too, and a call flushes what it changes.
    story.touch([3], COPY).flush(Reason::LocalSpace, 1);
    story.begin(Call::Madvise, &[0, 4096, 4]).flush(Reason::LocalSpace, 1).end(Call::Madvise, 0);
    assert_eq!(page_outs(&story), 3);
}

#[test]
fn the_next_call_that_walks_there_flushes_everything_once() {
    const DONTNEED: u64 = 4;
    let about = |page| move |s: &mut Story| _ = s.about(Call::Madvise, page, 40, DONTNEED);
    let check = |before: &Story, then: &dyn Fn(&mut Story), flushes: &[i64]| {
        let mut after = before.copy();
        then(&mut after);
        assert_eq!(after.flushes_since(before), flushes);
    };
    let mut story = written();
    check(&story, &about(24), &[]);
    batch(&mut story);
    // Nothing is there, but a page table.
    check(&story, &about(24), &[-1]);
    check(&story, &|s| [0, 1].iter().for_each(|_| about(24)(s)), &[-1]);
    check(&story, &about(0), &[16, -1]);
    // No page table, and no call that looks for pages.
    check(&story, &about(51200), &[]);
    check(&story, &|s| _ = s.map(200, 4, WRITE, ANONYMOUS), &[]);
    // Each flush takes what is under way with it: all CPUs are asked.
    about(24)(&mut story);
    let script = story.script(Flushes::FromCalls);
    assert!(matches!(acts(&script).last(), Some(Act::Restrict { pages: 1, whole: true, .. })));
}
