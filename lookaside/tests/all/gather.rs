//! What a gather collects, and that a flush never does less than it was told.

use crate::support::{
    Fake, Op,
    machine::{
        Strategy as Asids, What, epochs, flush, generations, pages, park, recent, space, switch,
        this_cpu,
    },
    on,
};
use lookaside::{
    Error, Gather, VaRange,
    arch::{Held, TableChange},
    counts::Outcome,
    flush::Flags,
    tags::FlushRanges,
};
use proptest::prelude::*;

const CPUS: usize = 70;

macro_rules! both {
    ($check:ident) => {
        $check(recent(CPUS, Fake::new(CPUS, 12)));
        $check(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
        $check(epochs(CPUS, Fake::new(CPUS, 16)));
    };
}

// ---- Nothing

#[test]
fn an_empty_gather_flushes_nothing_and_bumps_no_generation() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [0, 69] {
            let _ = switch(tlb, cpu, &a);
        }
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |_| ());
        // What was only allowed more is left to spurious faults.
        let _ = flush(tlb, 0, &a, |gather| gather.relax(pages(0x1000, 1)));
        // Nobody else is at it: what is absent was flushed by whoever made it so.
        let _ = flush(tlb, 0, &a, |gather| gather.relies_on(pages(0x1000, 1)));
        assert_eq!(a.generation(), 0);
        assert_eq!(tlb.platform().outcome(), (Outcome::NoCpu, 0));
        assert_eq!(tlb.platform().log(0), []);
        assert_eq!(tlb.platform().log(69), []);
    }
    both!(check);
}

#[test]
fn a_flush_bumps_the_generation_once_however_much_was_gathered() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        let _ = flush(tlb, 0, &a, |gather| {
            for what in What::ALL {
                what.tell(gather);
            }
        });
        assert_eq!(a.generation(), generations(tlb, 1));
        // A space that never ran is flushed nowhere; there is nothing under any tag.
        assert_eq!(tlb.platform().acts(), []);
    }
    both!(check);
}

// ---- Several at one time

#[test]
fn what_relies_alone_flushes_for_open_gathers_and_not_for_its_like() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [0, 69] {
            let _ = switch(tlb, cpu, &a);
        }
        let flushes = || {
            tlb.platform().forget_logs();
            this_cpu(tlb).flush_concurrent(&a, pages(0x7000, 1));
            tlb.platform().acts().len()
        };
        assert_eq!((flushes(), a.generation()), (0, 0), "nobody else is at it");
        let open = Gather::new(&a);
        assert_ne!(flushes(), 0, "what it has cleared may be there");
        let _ = this_cpu(tlb).flush(open);
        assert_eq!(flushes(), 0);
        let mut dropped = Gather::new(&a);
        dropped.revoke(pages(0x7000, 1));
        drop(dropped);
        assert_ne!(flushes(), 0);
        assert_eq!(flushes(), 0, "that was completed");
    }
    both!(check);
}

#[test]
fn relies_on_flushes_what_another_open_gather_has_revoked() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        for cpu in [0, 69] {
            let _ = switch(tlb, cpu, &a);
        }
        // CPU 1 has cleared an entry and is not done; CPU 0 finds it absent.
        let mut first = Gather::new(&a);
        first.revoke(pages(0x7000, 1));
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |gather| gather.relies_on(pages(0x7000, 1)));
        assert_ne!(tlb.platform().outcome().0, Outcome::NoCpu);
        let acts = tlb.platform().acts();
        assert_ne!(acts, []);
        let deep = |op: &Op| {
            matches!(op, Op::FlushTables(..) | Op::FlushTablesEverywhere(..) | Op::Interrupt(_))
        };
        assert!(acts.iter().all(|(_, op)| deep(op)), "tables may have gone as well: {acts:?}");
        let _ = on(1, || this_cpu(tlb).flush(first));
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |gather| gather.relies_on(pages(0x7000, 1)));
        assert_eq!(tlb.platform().acts(), [], "it is over");
    }
    both!(check);
}

#[test]
fn a_gather_that_is_dropped_is_made_up_for_by_the_next_flush() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 69, &a);
        park(tlb, 69);
        let _ = switch(tlb, 0, &a);
        let mut lost = Gather::new(&a);
        lost.revoke(pages(0x7000, 1));
        drop(lost);
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |gather| gather.revoke(pages(0x9000, 1)));
        let full = |op: &Op| matches!(op, Op::FlushTag(_) | Op::FlushTagEverywhere(_));
        assert!(tlb.platform().log(0).iter().any(full), "everything");
        // That was enough.
        let _ = flush(tlb, 0, &a, |gather| gather.revoke(pages(0x9000, 1)));
        assert!(!tlb.platform().log(0).iter().any(full), "a page is a page again");
        // And who had left pays for the lost one when it comes back.
        let _ = switch(tlb, 69, &a);
        let drops = |op: &Op| matches!(op, Op::Load { held: Held::Drop, .. });
        assert!(tlb.platform().log(69).iter().any(drops));
    }
    both!(check);
}

#[test]
fn a_gather_that_is_dropped_empty_is_as_if_it_had_never_been() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        drop(Gather::new(&a));
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |gather| gather.revoke(pages(0x9000, 1)));
        assert_eq!(a.generation(), generations(tlb, 1));
        let page = |op: &Op| matches!(op, Op::FlushRange(_, 0x9000, 1));
        assert!(tlb.platform().log(0).iter().any(page));
    }
    both!(check);
}

#[test]
fn relies_on_flushes_pages_that_are_smaller_than_its_owner_has_looked_at() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        // Another CPU has cleared entries of a table, and the table; this one finds no block.
        let mut first = Gather::new(&a);
        first.unlink_table(pages(0x20_1000, 2));
        tlb.platform().forget_logs();
        let block = VaRange::new(0x20_0000, 1 << 14, 14).unwrap();
        let _ = flush(tlb, 0, &a, |gather| gather.relies_on(block));
        let tables = |op: &Op| match *op {
            Op::FlushTables(_, start, pages) | Op::FlushTablesEverywhere(_, start, pages, _) => {
                Some((start, pages))
            }
            _ => None,
        };
        let acts = tlb.platform().acts();
        assert!(acts.iter().any(|(_, op)| tables(op) == Some((0x20_0000, 4))), "{acts:?}");
        assert_eq!(tlb.platform().mmu.uniform(), Some(false));
        drop(first);
    }
    both!(check);
}

#[test]
fn an_empty_gather_completes_no_dropped_one_unless_it_relies_on_absent_entries() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>, company: bool) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        let mut lost = Gather::new(&a);
        lost.revoke(pages(0x7000, 1));
        drop(lost);
        let other = company.then(|| Gather::new(&a));
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |_| ());
        assert_eq!(tlb.platform().outcome(), (Outcome::NoCpu, 0));
        assert_eq!(tlb.platform().log(0), []);
        let _ = flush(tlb, 0, &a, |gather| gather.relies_on(pages(0x1000, 1)));
        let full = |op: &Op| matches!(op, Op::FlushTag(_) | Op::FlushTagEverywhere(_));
        assert!(tlb.platform().log(0).iter().any(full), "everything");
        drop(other);
    }
    for company in [false, true] {
        check(recent(CPUS, Fake::new(CPUS, 12)), company);
        check(epochs(CPUS, Fake::new(CPUS, 16)), company);
    }
}

#[test]
fn accessed_and_dirty_flags_come_back_from_the_flush() {
    let tlb = recent(1, Fake::new(1, 12));
    let a = space(tlb, 1);
    let (accessed, dirty) =
        (Flags { accessed: true, dirty: false }, Flags { accessed: false, dirty: true });
    let flushed = flush(tlb, 0, &a, |gather| {
        gather.found(accessed);
        gather.found(dirty);
    });
    assert_eq!(flushed.flags, accessed | dirty);
    let none = flush(tlb, 0, &a, |gather| gather.found(Flags::default()));
    assert_eq!(none.flags, Flags::default());
}

#[test]
fn moved_and_unshared_mappings_are_revoked_under_their_lock() {
    let tlb = recent(1, Fake::new(1, 12));
    let a = space(tlb, 1);
    let _ = switch(tlb, 0, &a);
    tlb.platform().set_costs(|costs| costs.useful_entries = 1 << 20);
    tlb.platform().forget_logs();
    let guard = std::sync::Mutex::new(());
    {
        let lock = guard.lock().unwrap();
        let mut gather = Gather::new(&a);
        gather.move_away(pages(0x4000, 2), &lock);
        let _ = this_cpu(tlb).flush(gather);
        drop(lock);
    }
    // Whole tables may have moved.
    assert_eq!(tlb.platform().acts(), [(0, Op::FlushTables(2, 0x4000, 2))]);
    let lock = guard.lock().unwrap();
    let mut gather = Gather::new(&a);
    gather.unshare_table(pages(0x20_0000, 512), &lock);
    let _ = this_cpu(tlb).flush(gather);
    drop(lock);
    assert_eq!(tlb.platform().acts(), [(0, Op::FlushTables(2, 0x20_0000, 512))]);
}

#[test]
fn a_flush_that_comes_before_an_unlock_is_neither_put_off_nor_early() {
    type Tell = for<'g> fn(&mut Gather<'g, Fake>, &'g ());
    let told: [(Tell, bool); 3] = [
        (|gather, guard| gather.move_away(pages(0x4000, 1), guard), true),
        (|gather, guard| gather.unshare_table(pages(0x20_0000, 512), guard), true),
        (|gather, _| gather.revoke(pages(0x4000, 1)), false),
    ];
    for (tell, at_once) in told {
        let tlb = epochs(2, Fake::new(2, 16).without_broadcast());
        let a = space(tlb, 1);
        let _ = switch(tlb, 1, &a);
        let begun = |early: bool| {
            let mut gather = Gather::new(&a);
            tell(&mut gather, &());
            tlb.platform().forget_logs();
            if early {
                let _ = on(0, || this_cpu(tlb).flush_early(gather));
                // The next gather that relies on anything has nothing to complete.
                tlb.platform().forget_logs();
                let _ = flush(tlb, 0, &a, |gather| gather.relies_on(pages(0x9000, 1)));
                return tlb.platform().acts().is_empty();
            }
            let mut batch = lookaside::flush::Batch::new(tlb, crate::support::words(1)).unwrap();
            on(0, || this_cpu(tlb).defer(gather, &mut batch));
            let flushed = tlb.platform().acts().iter().any(|(cpu, op)| *cpu == 1 && op.acts());
            let _ = on(0, || this_cpu(tlb).flush_batch(batch));
            flushed
        };
        assert_eq!(begun(true), at_once);
        assert_eq!(begun(false), at_once);
    }
}

// ---- Addresses

/// Whether `ranges` removes what `range` names.
fn covers(ranges: &FlushRanges, range: &VaRange) -> bool {
    // The ranges of a set do not overlap, so that what is covered by several of them is covered
    // by neighbours: walk from one to the next.
    let mut from = range.start();
    loop {
        let found = ranges.ranges().iter().find(|have| {
            let fine = have.page_shift() <= range.page_shift();
            // A hint on the size must be right for every entry that is meant.
            let hint =
                !have.is_uniform() || range.is_uniform() && have.page_shift() == range.page_shift();
            fine && hint && have.start() <= from && from <= have.last()
        });
        match found {
            None => return false,
            Some(have) if have.last() >= range.last() => return true,
            Some(have) => from = have.last() + 1,
        }
    }
}

fn removes(ranges: &FlushRanges, range: &VaRange) -> bool {
    ranges.is_everything() || covers(ranges, range)
}

fn range(start: u64, pages: u64, shift: u32, uniform: bool) -> VaRange {
    let range = VaRange::new(start, pages << shift, shift).unwrap();
    if uniform { range } else { range.mixed() }
}

fn some_range() -> impl Strategy<Value = VaRange> {
    // Close together, far apart, and at both ends of the address space.
    let base = prop_oneof![
        Just(0),
        Just(0x7fff_0000_0000_u64),
        Just(0xffff_8000_0000_0000),
        Just(0_u64.wrapping_sub(1 << 34)),
    ];
    let shift = prop_oneof![4 => Just(12_u32), 2 => Just(21), 1 => Just(16), 1 => Just(30)];
    (base, shift, 0_u64..16, 1_u64..40, any::<bool>(), any::<bool>()).prop_map(
        |(base, shift, first, pages, uniform, top)| {
            let room = ((1_u128 << 64) - u128::from(base)) >> shift;
            let pages = pages.min(room as u64);
            let first = if top { room as u64 - pages } else { first.min(room as u64 - pages) };
            range(base + (first << shift), pages, shift, uniform)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn flag_07_whatever_is_gathered_is_covered(
        parts in proptest::collection::vec(some_range(), 1..24),
        others in proptest::collection::vec(some_range(), 0..24),
    ) {
        let (mut ranges, mut second) = (FlushRanges::new(), FlushRanges::new());
        for part in &parts {
            ranges.add(*part);
            prop_assert!(ranges.ranges().len() <= 6);
        }
        for part in &parts {
            prop_assert!(removes(&ranges, part), "{part:x?} is not in {ranges:x?}");
        }
        for other in &others {
            second.add(*other);
        }
        second.add_change(TableChange::FreedTables);
        ranges.merge(&second);
        for part in parts.iter().chain(&others) {
            prop_assert!(removes(&ranges, part), "{part:x?} is not in {ranges:x?}");
        }
        prop_assert_eq!(ranges.change(), TableChange::FreedTables);
    }

    #[test]
    fn ranges_of_a_set_do_not_overlap(
        parts in proptest::collection::vec(some_range(), 1..24),
    ) {
        let mut ranges = FlushRanges::new();
        parts.iter().for_each(|part| ranges.add(*part));
        let mut ranges: Vec<_> =
            ranges.ranges().iter().map(|s| (s.start(), s.last())).collect();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            prop_assert!(pair[0].1 < pair[1].0, "{ranges:x?}");
        }
    }
}

#[test]
fn neighbours_of_one_size_become_one_range_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
        let mut ranges = FlushRanges::new();
        for index in order {
            ranges.add(pages(0x4000 + index * 0x1000, 1));
        }
        assert_eq!(ranges.ranges(), [pages(0x4000, 3)], "{order:?}");
    }
    // Of two sizes they stay apart, so that each keeps its hint.
    let mut ranges = FlushRanges::new();
    ranges.add(range(0x20_0000, 1, 21, true));
    ranges.add(range(0x40_0000, 1, 12, true));
    assert_eq!(ranges.ranges().len(), 2);
    // Overlapping, they are one, of the smaller size and without a hint.
    ranges.add(range(0x3f_f000, 1, 12, true));
    assert!(ranges.ranges().iter().any(|have| {
        !have.is_uniform() && have.page_shift() == 12 && have.start() == 0x20_0000
    }));
}

#[test]
fn the_top_of_the_address_space_is_an_address_like_any_other() {
    let top = pages(!0xfff, 1);
    let mut ranges = FlushRanges::new();
    ranges.add(top);
    ranges.add(pages(!0x1fff, 1));
    assert_eq!(ranges.ranges(), [pages(!0x1fff, 2)]);
    // From the first page to the last: that is no range, it is everything.
    for page in 0..6 {
        ranges.add(pages(page << 20, 1));
    }
    assert!(ranges.is_everything() || ranges.ranges().len() <= 6);
    assert!(removes(&ranges, &top));
    assert!(removes(&ranges, &pages(0, 1)));
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |gather| gather.revoke(pages(!0xfff, 1)));
        let log = tlb.platform().log(0);
        assert!(log.iter().any(|op| matches!(op, Op::FlushRange(_, start, 1) if *start == !0xfff)));
    }
    both!(check);
}

#[test]
fn ranges_that_are_none_are_refused_with_the_reason() {
    let refused = |start, bytes, shift| VaRange::new(start, bytes, shift).unwrap_err();
    assert_eq!(refused(0, 0, 12), Error::EmptyRange);
    assert_eq!(refused(0, 4096, 11), Error::PageSize { shift: 11 });
    assert_eq!(refused(0, 4096, 49), Error::PageSize { shift: 49 });
    let unaligned = Error::UnalignedRange { start: 5, bytes: 4096, page_shift: 12 };
    assert_eq!(refused(5, 4096, 12), unaligned);
    let over = Error::RangeOverflow { start: !0xfff, bytes: 0x2000 };
    assert_eq!(refused(!0xfff, 0x2000, 12), over);
}

#[test]
fn many_pages_that_lie_far_apart_are_swept_as_few_ranges_or_by_tag() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |gather| {
            // Not in order, some of them twice.
            for page in [40, 3, 17, 3, 25, 1, 9, 60, 33, 40_u64] {
                gather.revoke(pages(page << 30, 1));
            }
        });
        let log = tlb.platform().log(0);
        assert!(log.iter().any(|op| matches!(op, Op::FlushTag(_))), "{log:?}");
    }
    both!(check);
}

#[test]
fn by_page_or_by_tag_is_a_question_of_costs() {
    // Where nothing is known of what a CPU has mapped; `mapped.rs` has the rest.
    let tlb = epochs(1, Fake::new(1, 16));
    let a = space(tlb, 1);
    let _ = switch(tlb, 0, &a);
    // A page costs 20; a tag costs 20, and for each of the 100 entries that it holds beside these pages
    // the 30 that it takes to bring it back.
    for (count, by_page) in [(1, true), (60, true), (61, false), (200, false)] {
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |gather| gather.revoke(pages(0, count)));
        let ranged = tlb.platform().log(0).iter().any(|op| matches!(op, Op::FlushRange(..)));
        assert_eq!(ranged, by_page, "{count} pages");
    }
}

#[test]
fn relies_on_after_early_flushes_waits_for_invalidation_once() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 1, &a);
        let early = |tell: fn(&mut Gather<'_, Fake>)| {
            let mut gather = Gather::new(&a);
            tell(&mut gather);
            let _ = on(0, || this_cpu(tlb).flush_early(gather));
            tlb.platform().outcome()
        };
        let full = |tell: fn(&mut Gather<'_, Fake>)| {
            let _ = flush(tlb, 0, &a, tell);
            tlb.platform().outcome()
        };
        let relies = |gather: &mut Gather<'_, Fake>| gather.relies_on(pages(0x5000, 1));
        let asked = (Outcome::Ipis, 1);
        let nobody = (Outcome::NoCpu, 0);
        assert_eq!(full(relies), nobody, "nothing went");
        for _ in 0..2 {
            assert_eq!(early(|gather| gather.revoke(pages(0x5000, 1))), asked);
            assert_eq!(early(|gather| gather.revoke(pages(0x7000, 1))), asked);
            assert_eq!(early(relies), nobody, "an acknowledgement is enough for another one");
            tlb.platform().forget_logs();
            assert_eq!(full(relies), asked, "it is not for a proof of invalidation");
            let page = |op: &Op| matches!(op, Op::FlushRange(_, 0x5000, 1));
            assert!(tlb.platform().log(1).iter().any(page), "by page");
            assert_eq!(full(relies), nobody, "both are known to be complete");
        }
        // Who unlinks a table waits, whatever it is called.
        assert_eq!(early(|gather| gather.unlink_table(pages(0x5000, 1))), asked);
        assert_eq!(full(relies), nobody);
        // What it relies on is complete, too.
        assert_eq!(early(|gather| gather.revoke(pages(0x5000, 1))), asked);
        let table = early(|gather| {
            gather.relies_on(pages(0x5000, 1));
            gather.unlink_table(pages(0x20_0000, 512));
        });
        assert_eq!((table, full(relies)), (asked, nobody));
        // Where nobody was asked, nothing lingers.
        park(tlb, 1);
        assert_ne!(early(|gather| gather.revoke(pages(0x5000, 1))), asked);
        assert_eq!(full(relies), nobody);
    }
    check(recent(2, Fake::new(2, 12)));
    check(epochs(2, Fake::new(2, 16).without_broadcast()));
}

#[test]
fn a_flush_of_one_page_is_of_what_a_dropped_gather_has_left_too() {
    fn check<T: Asids>(tlb: crate::support::machine::Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        let mut gather = Gather::new(&a);
        gather.revoke(pages(0x9000, 1));
        drop(gather);
        tlb.platform().forget_logs();
        this_cpu(tlb).flush_range(&a, pages(0x5000, 1));
        let acts = tlb.platform().acts();
        let everything = |(_, op): &(u32, Op)| matches!(op, Op::FlushTag(_) | Op::FlushAll);
        assert!(acts.iter().any(everything), "nobody knows what was revoked there: {acts:?}");
        // That is done with.
        tlb.platform().forget_logs();
        this_cpu(tlb).flush_range(&a, pages(0x5000, 1));
        let acts = tlb.platform().acts();
        assert!(!acts.iter().any(everything) && acts.len() == 1, "{acts:?}");
    }
    both!(check);
}
