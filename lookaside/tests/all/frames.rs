//! Frames go into a gather, and come out when no CPU can reach them.

use core::{cell::Cell, panic::AssertUnwindSafe};
use std::panic::catch_unwind;

use crate::support::{
    Fake, Op,
    machine::{Machine, Strategy, epochs, pages, recent, space, switch, this_cpu},
    words,
};
use lookaside::{
    Error, Gather, KernelGather,
    flush::{Acknowledged, Batch, Flags},
};

const CPUS: usize = 130;

/// A frame that goes back to its allocator when it is dropped.
struct Tracked<'a>(&'a Cell<u32>);

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// A kernel's container that keeps pages and tables apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct Freed {
    pages: Vec<u64>,
    tables: Vec<&'static str>,
}

impl Extend<u64> for Freed {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, pages: I) {
        self.pages.extend(pages);
    }
}

impl Extend<&'static str> for Freed {
    fn extend<I: IntoIterator<Item = &'static str>>(&mut self, tables: I) {
        self.tables.extend(tables);
    }
}

#[test]
fn what_is_held_without_a_range_is_flushed_with_everything() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 1, &a);
        for table in [true, false] {
            let mut gather = Gather::holding(&a, Freed::default());
            match table {
                true => gather.hold_table(None, "last level"),
                false => gather.hold_page(8),
            }
            tlb.platform().forget_logs();
            let frames = this_cpu(tlb).flush(gather).frames;
            assert_eq!(frames.tables.len() + frames.pages.len(), 1);
            assert_ne!(tlb.platform().acts(), [], "a CPU uses it");
            let mut gather = KernelGather::holding(tlb, Freed::default());
            match table {
                true => gather.hold_table(None, "kernel"),
                false => gather.hold_page(8),
            }
            tlb.platform().forget_logs();
            let frames = this_cpu(tlb).flush_kernel(gather).frames;
            assert_eq!(frames.tables.len() + frames.pages.len(), 1);
            assert_ne!(tlb.platform().acts(), [], "every CPU uses it");
        }
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_flush_hands_back_what_was_held_and_what_was_in_the_container() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let mut gather = Gather::holding(&a, Freed { pages: vec![7], ..Freed::default() });
        gather.hold_table(pages(0x1000, 1), "last level");
        gather.hold_page(8);
        assert_eq!(gather.held().pages, [7, 8]);
        let expected = Freed { pages: vec![7, 8], tables: vec!["last level"] };
        assert_eq!(this_cpu(tlb).flush(gather).frames, expected);

        let mut gather = KernelGather::holding(tlb, Freed::default());
        gather.hold_table(pages(0x1000, 1), "kernel's");
        gather.hold_page(8);
        assert_eq!(gather.held().pages, [8]);
        let frames = this_cpu(tlb).flush_kernel(gather).frames;
        assert_eq!((&*frames.pages, &*frames.tables), (&[8][..], &["kernel's"][..]));

        let storage = words(CPUS.div_ceil(64));
        let mut batch = Batch::holding(tlb, storage, Freed::default()).unwrap();
        batch.hold_page(9);
        assert_eq!(this_cpu(tlb).flush_batch(batch).frames.pages, [9]);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_page_in_a_batch_is_flushed_everywhere_if_no_gather_says_what_mapped_it() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let everything = |revoke: bool| {
            let a = space(tlb, 1);
            let _ = switch(tlb, 0, &a);
            let mut batch =
                Batch::holding(tlb, words(CPUS.div_ceil(64)), Freed::default()).unwrap();
            let mut gather = Gather::new(&a);
            if revoke {
                gather.revoke(pages(0x1000, 1));
            }
            this_cpu(tlb).defer(gather, &mut batch);
            batch.hold_page(9);
            tlb.platform().forget_logs();
            let _ = this_cpu(tlb).flush_batch(batch);
            let full = |(_, op): &(u32, Op)| matches!(op, Op::FlushKernel(all) | Op::FlushKernelEverywhere(all) if all.is_empty());
            tlb.platform().acts().iter().any(full)
        };
        assert!(everything(false) && !everything(true));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_batch_hands_back_the_flags_that_its_gathers_found() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 1, &a);
        let written = Flags { dirty: true, ..Flags::default() };
        let lock = ();
        // A gather that is deferred, and one that is flushed at once.
        for moves in [false, true] {
            let storage = words(CPUS.div_ceil(64));
            let mut batch = Batch::new(tlb, storage).unwrap();
            for flags in [written, Flags::default()] {
                let mut gather = Gather::new(&a);
                gather.revoke(pages(0x1000, 1));
                if moves {
                    gather.move_away(pages(0x1000, 1), &lock);
                }
                gather.found(flags);
                this_cpu(tlb).defer(gather, &mut batch);
            }
            assert_eq!(this_cpu(tlb).flush_batch(batch).flags, written);
        }
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn an_early_flush_is_a_full_one_if_a_table_is_held() {
    let flushed = |hold_table: bool| {
        let tlb = recent(2, Fake::new(2, 12));
        let a = space(tlb, 1);
        let _ = (switch(tlb, 0, &a), switch(tlb, 1, &a));
        let mut gather = Gather::holding(&a, vec![]);
        gather.revoke(pages(0x1000, 1));
        if hold_table {
            gather.hold_table(pages(0x1000, 1), 1);
        } else {
            gather.hold_page(1);
        }
        tlb.platform().forget_logs();
        assert_eq!(this_cpu(tlb).flush_early(gather).frames, [1]);
        let tables = |op: &Op| matches!(op, Op::FlushTables(..) | Op::FlushTag(_));
        tlb.platform().log(1).iter().any(tables)
    };
    assert!(flushed(true) && !flushed(false), "walk caches are flushed, too");
}

#[test]
fn flushed_converts_into_acknowledged_with_its_frames() {
    let tlb = recent(1, Fake::new(1, 12));
    let a = space(tlb, 1);
    let mut gather = Gather::holding(&a, vec![]);
    gather.revoke(pages(0x1000, 1));
    gather.hold_page("page");
    assert_eq!(Acknowledged::from(this_cpu(tlb).flush(gather)).frames, ["page"]);
}

#[test]
fn a_dropped_gather_leaks_its_held_frames_and_frees_none() {
    let tlb = recent(1, Fake::new(1, 12));
    let (a, freed) = (space(tlb, 1), Cell::new(0));
    let mut gather = Gather::holding(&a, vec![Tracked(&freed)]);
    gather.hold_page(Tracked(&freed));
    drop(gather);
    let mut gather = KernelGather::holding(tlb, vec![]);
    gather.hold_table(None, Tracked(&freed));
    drop(gather);
    let mut batch = Batch::holding(tlb, words(1), vec![]).unwrap();
    batch.hold_page(Tracked(&freed));
    drop(batch);
    assert_eq!(freed.get(), 0);
}

#[test]
fn an_early_return_before_the_flush_leaks_held_frames() {
    let tlb = recent(1, Fake::new(1, 12));
    let (a, freed) = (space(tlb, 1), Cell::new(0));
    let unmap = |second: Result<(), Error>| {
        let mut gather = Gather::holding(&a, vec![]);
        gather.revoke(pages(0x1000, 1));
        gather.hold_page(Tracked(&freed));
        second?;
        drop(this_cpu(tlb).flush(gather));
        Ok(())
    };
    assert_eq!(unmap(Err(Error::EmptyRange)), Err(Error::EmptyRange));
    assert_eq!(freed.get(), 0);
    assert_eq!(unmap(Ok(())), Ok(()));
    assert_eq!(freed.get(), 1, "and once, if it is flushed");
}

#[test]
fn flushing_through_another_tlb_leaks_held_frames() {
    let (one, other) = (recent(1, Fake::new(1, 12)), recent(1, Fake::new(1, 12)));
    let (a, freed) = (space(one, 1), Cell::new(0));
    let mut gather = Gather::holding(&a, vec![]);
    gather.hold_page(Tracked(&freed));
    assert!(catch_unwind(AssertUnwindSafe(|| this_cpu(other).flush(gather))).is_err());
    let mut gather = KernelGather::holding(one, vec![]);
    gather.hold_page(Tracked(&freed));
    assert!(catch_unwind(AssertUnwindSafe(|| this_cpu(other).flush_kernel(gather))).is_err());
    let mut batch = Batch::holding(one, words(1), vec![]).unwrap();
    batch.hold_page(Tracked(&freed));
    assert!(catch_unwind(AssertUnwindSafe(|| this_cpu(other).flush_batch(batch))).is_err());
    assert_eq!(freed.get(), 0);
}

#[test]
fn debug_output_does_not_show_held_frames() {
    let tlb = recent(1, Fake::new(1, 12));
    let a = space(tlb, 1);
    let (mut user, mut kernel) = (Gather::holding(&a, vec![]), KernelGather::holding(tlb, vec![]));
    user.hold_page("frame 9");
    kernel.hold_table(None, "frame 9");
    let batch = Batch::holding(tlb, words(1), vec!["frame 9"]).unwrap();
    let shown = format!("{user:?} {kernel:?} {batch:?}");
    assert!(["Gather", "KernelGather", "Batch"].iter().all(|name| shown.contains(name)), "{shown}");
    assert!(!shown.contains("frame 9"), "{shown}");
}
