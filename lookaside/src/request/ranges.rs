//! What a flush removes from TLBs: a few ranges of addresses, or everything.

use core::fmt;

use super::mapped::Mapped;
use crate::{
    arch::{Errata, Invalidation, Mmu, Scope, TableChange, Tag, Wait},
    costs::Costs,
    platform::Platform,
    range::VaRange,
};

/// How many ranges are kept apart. Most flushes have one or two, and a gather lives on the kernel's stack.
pub(crate) const MAX_RANGES: usize = 4;

/// A set of addresses whose translations must be flushed. It may only grow: what does not fit widens it.
#[derive(Clone, Copy)]
pub struct FlushRanges {
    ranges: [VaRange; MAX_RANGES],
    /// The number of ranges, and the flags below: one comparison finds the one page of most flushes.
    state: u64,
}

/// In [`FlushRanges::state`]: the number of ranges.
const COUNT: u64 = 0xff;
/// A table was freed.
const FREED_TABLES: u64 = 1 << 8;
/// The ranges do not say all.
const EVERYTHING: u64 = 1 << 9;

impl FlushRanges {
    /// Nothing.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self { ranges: [VaRange::NONE; MAX_RANGES], state: 0 }
    }

    /// One range.
    #[must_use]
    #[inline]
    pub const fn of(range: VaRange) -> Self {
        let mut ranges = [VaRange::NONE; MAX_RANGES];
        ranges[0] = range;
        Self { ranges, state: 1 }
    }

    /// Everything, walk caches too.
    #[must_use]
    pub const fn everything() -> Self {
        Self { state: EVERYTHING | FREED_TABLES, ..Self::new() }
    }

    /// Whether nothing must be flushed.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.state & (COUNT | EVERYTHING) == 0
    }

    /// Whether everything must be flushed.
    #[must_use]
    #[inline]
    pub const fn is_everything(&self) -> bool {
        self.state & EVERYTHING != 0
    }

    /// Whether walk caches must be flushed, too.
    #[must_use]
    #[inline]
    pub const fn change(&self) -> TableChange {
        if self.state & FREED_TABLES == 0 {
            TableChange::LastLevel
        } else {
            TableChange::FreedTables
        }
    }

    #[inline]
    const fn count(&self) -> usize {
        (self.state & COUNT) as usize
    }

    /// The ranges; meaningless if everything must be flushed.
    #[must_use]
    #[inline]
    pub fn ranges(&self) -> &[VaRange] {
        &self.ranges[..self.count()]
    }

    /// Adds addresses.
    #[inline]
    pub fn add(&mut self, more: VaRange) {
        if self.state & COUNT == 0 {
            self.ranges[0] = more;
            self.state += 1;
        } else {
            self.add_to_others(more);
        }
    }

    #[inline(never)]
    fn add_to_others(&mut self, more: VaRange) {
        let mut more = more;
        loop {
            let touching = self.ranges().iter().position(|old| can_merge(old, &more));
            let index = match touching {
                Some(index) => index,
                None if self.count() < MAX_RANGES => break,
                // Too much is always right: the newcomer becomes one with its nearest neighbour.
                None => self.nearest(&more),
            };
            let Some(sum) = covering_range(&self.ranges[index], &more) else {
                return self.widen();
            };
            // The sum may touch another one.
            more = sum;
            self.remove(index);
        }
        self.ranges[self.count()] = more;
        self.state += 1;
    }

    /// Adds another set.
    pub fn merge(&mut self, other: &Self) {
        self.add_change(other.change());
        self.state |= other.state & EVERYTHING;
        for &range in other.ranges() {
            self.add(range);
        }
    }

    /// Has walk caches forget, too, if `change` says so.
    pub fn add_change(&mut self, change: TableChange) {
        if change == TableChange::FreedTables {
            self.state |= FREED_TABLES;
        }
    }

    /// Makes it everything.
    pub fn widen(&mut self) {
        self.state |= EVERYTHING;
    }

    /// Makes it everything, if a page is `held` and nobody has said what mapped it.
    pub(crate) fn widen_if_unknown(&mut self, held: bool) {
        if held && self.is_empty() {
            self.merge(&Self::everything());
        }
    }

    /// Makes it everything, if as kernel addresses it takes more than `ceiling` invalidations by address.
    pub(crate) fn widen_above<M: Mmu>(&mut self, ceiling: u64, mmu: &M, scope: Scope) {
        let operations = |range| mmu.kernel_operations(range, self.change(), scope);
        let sum = self.ranges().iter().map(operations).try_fold(0_u64, |sum, more| {
            let sum = sum.saturating_add(more?);
            (sum <= ceiling).then_some(sum)
        });
        if sum.is_none() {
            self.widen();
        }
    }

    /// The record of this flush for CPUs that miss it.
    #[inline]
    pub(crate) fn missed(&self) -> MissedFlush {
        match self.ranges() {
            [only] if self.state == 1 => MissedFlush::Pages(*only),
            _ => MissedFlush::Everything,
        }
    }

    /// Whether it is one page, which is removed by address on any machine.
    #[inline]
    pub(crate) fn is_one_page(&self) -> bool {
        self.state == 1 && self.ranges[0].pages() == 1
    }

    /// The page, if one page is all.
    #[inline]
    pub(crate) fn only_page(&self) -> Option<VaRange> {
        self.is_one_page().then_some(self.ranges[0])
    }

    /// The range of last-level entries, if one is all.
    #[inline]
    pub(crate) fn only_range(&self) -> Option<VaRange> {
        (self.state == 1).then_some(self.ranges[0])
    }

    /// How many invalidations by address this takes, or `None` if those by tag are cheaper, as far as is known: this CPU
    /// has `mapped` so many pages under the tag.
    #[inline]
    pub(crate) fn operations<M: Mmu>(
        &self,
        mmu: &M,
        costs: &Costs,
        scope: Scope,
        mapped: Option<u64>,
    ) -> Option<u64> {
        if self.is_one_page() {
            mmu.operations(&self.ranges[0], TableChange::LastLevel, scope)
        } else {
            self.operations_for_several(mmu, costs, scope, mapped)
        }
    }

    #[inline(never)]
    fn operations_for_several<M: Mmu>(
        &self,
        mmu: &M,
        costs: &Costs,
        scope: Scope,
        mapped: Option<u64>,
    ) -> Option<u64> {
        if self.is_everything() {
            return None;
        }
        let mut sum = 0_u64;
        for range in self.ranges() {
            sum = sum.saturating_add(mmu.operations(range, self.change(), scope)?);
        }
        let pages = self.pages();
        let by_address = match scope {
            Scope::Local => {
                costs.by_address_here(sum, pages, mapped.map(|mapped| mapped.saturating_sub(pages)))
            }
            // All CPUs would lose what they hold. So the loss counts in full.
            Scope::Broadcast => costs.by_address(costs.broadcast, sum, pages),
        };
        by_address.then_some(sum)
    }

    /// How many pages go.
    pub(crate) fn pages(&self) -> u64 {
        if self.is_everything() {
            return u64::MAX;
        }
        let pages = self.ranges().iter().map(|range| range.pages());
        pages.fold(0, u64::saturating_add)
    }

    /// Removes it on this CPU, under `tag`. `mapped` is what it has mapped under the tag, where that is known. One page alone needs
    /// no such choice ([`crate::tlb::AllocatorCpu::invalidate_page`]).
    #[inline(never)]
    pub(crate) fn flush_several<P: Platform>(
        &self,
        platform: &P,
        errata: Errata,
        tag: Tag,
        mapped: Option<&Mapped>,
    ) {
        let mmu = platform.mmu();
        let pages = mapped.map(Mapped::pages);
        let entries = self.cheapest(mmu, platform.costs(), tag, Scope::Local, pages);
        mmu.flush(errata, entries, Scope::Local);
        if let (Some(mapped), Some(pages)) = (mapped, pages) {
            let all = matches!(entries, Invalidation::Tag(_));
            mapped.set(if all { 0 } else { pages.saturating_sub(self.pages()) });
        }
    }

    /// Removes it on every CPU, under `tag`.
    pub(crate) fn flush_broadcast<P: Platform>(
        &self,
        platform: &P,
        errata: Errata,
        tag: Tag,
        wait: Wait,
    ) {
        let mmu = platform.mmu();
        let entries = self.cheapest(mmu, platform.costs(), tag, Scope::Broadcast, None);
        match wait {
            Wait::Now => mmu.flush(errata, entries, Scope::Broadcast),
            Wait::Later => mmu.begin_broadcast(errata, entries),
        }
    }

    /// The ranges under `tag`, or all of the tag where that is cheaper.
    fn cheapest<M: Mmu>(
        &self,
        mmu: &M,
        costs: &Costs,
        tag: Tag,
        scope: Scope,
        mapped: Option<u64>,
    ) -> Invalidation<'_> {
        if self.is_one_page() {
            // A page that no operand can name takes the tag with it (`Mmu::flush`).
            return Invalidation::ranges(tag, &self.ranges[..1], TableChange::LastLevel);
        }
        match self.operations_for_several(mmu, costs, scope, mapped) {
            Some(_) => Invalidation::ranges(tag, self.ranges(), self.change()),
            None => Invalidation::Tag(tag),
        }
    }

    /// The ranges as kernel addresses, of which none means everything.
    pub(crate) fn kernel_ranges(&self) -> &[VaRange] {
        if self.is_everything() { &[] } else { self.ranges() }
    }

    /// Removes it on this CPU, as kernel addresses.
    pub(crate) fn flush_kernel<M: Mmu>(&self, mmu: &M, errata: Errata) {
        let entries = Invalidation::kernel(self.kernel_ranges(), self.change());
        mmu.flush(errata, entries, Scope::Local);
    }

    fn nearest(&self, to: &VaRange) -> usize {
        let distance = |index: &usize| gap(&self.ranges[*index], to);
        (0..self.count()).min_by_key(distance).unwrap_or(0)
    }

    fn remove(&mut self, index: usize) {
        self.state -= 1;
        self.ranges[index] = self.ranges[self.count()];
    }
}

impl fmt::Debug for FlushRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlushRanges")
            .field("ranges", &self.ranges())
            .field("change", &self.change())
            .field("everything", &self.is_everything())
            .finish()
    }
}

impl Default for FlushRanges {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether two ranges overlap, or are neighbours of one page size.
fn can_merge(a: &VaRange, b: &VaRange) -> bool {
    let (low, high) = if a.start() <= b.start() { (a, b) } else { (b, a) };
    let same = a.page_shift() == b.page_shift() && a.is_uniform() == b.is_uniform();
    match low.last().checked_add(1) {
        None => true,
        Some(end) => high.start() < end || (high.start() == end && same),
    }
}

/// How many bytes lie between two ranges that do not join.
const fn gap(a: &VaRange, b: &VaRange) -> u64 {
    if a.start() <= b.start() { b.start() - a.last() } else { a.start() - b.last() }
}

/// The addresses from the first to the last of two ranges, unless that is every address.
pub(crate) fn covering_range(a: &VaRange, b: &VaRange) -> Option<VaRange> {
    let start = a.start().min(b.start());
    let last = a.last().max(b.last());
    let shift = a.page_shift().min(b.page_shift());
    let same = a.page_shift() == b.page_shift() && a.is_uniform() && b.is_uniform();
    // Hints are for what is known: between two ranges that only lie near each other, other sizes
    // may have changed.
    let uniform = same && can_merge(a, b);
    // Both ends are those of pages at least as large as the smaller ones, so that only the number
    // of bytes can be too large.
    let range = VaRange::new(start, (last - start).checked_add(1)?, shift).ok()?;
    Some(if uniform { range } else { range.mixed() })
}

/// What a CPU must flush that has missed a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissedFlush {
    /// Last-level entries for these addresses.
    Pages(VaRange),
    /// Everything: larger changes, larger pages only, and whenever a page table was freed.
    Everything,
}

impl MissedFlush {
    /// The same, or everything where that is cheaper for a CPU that has `mapped` so much under the tag, as it is
    /// for a requested flush ([`FlushRanges::flush_several`]); and what is left of that is noted.
    pub(crate) fn cheapest<P: Platform>(self, platform: &P, mapped: &Mapped) -> Self {
        let Self::Pages(range) = self else { return self };
        let mut ranges = FlushRanges::new();
        ranges.add(range);
        let (mmu, costs, pages) = (platform.mmu(), platform.costs(), mapped.pages());
        match ranges.operations(mmu, costs, Scope::Local, Some(pages)) {
            Some(_) => {
                mapped.set(pages.saturating_sub(range.pages()));
                self
            }
            None => Self::Everything,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    fn page(number: u64) -> VaRange {
        VaRange::new(number << 12, 1 << 12, 12).unwrap()
    }

    fn ranges(each: &[VaRange]) -> FlushRanges {
        let mut ranges = FlushRanges::new();
        each.iter().for_each(|&range| ranges.add(range));
        ranges
    }

    /// The first page and the pages of each range.
    fn pages(ranges: &FlushRanges) -> Vec<(u64, u64)> {
        let each = ranges.ranges().iter();
        each.map(|range| (range.start() >> 12, range.pages())).collect()
    }

    #[test]
    fn distant_pages_stay_separate_ranges_in_any_order() {
        for order in [[3, 50, 900], [900, 50, 3], [50, 900, 3]] {
            let ranges = ranges(&order.map(page));
            assert_eq!(pages(&ranges), order.map(|number| (number, 1)));
            assert_eq!(ranges.pages(), 3);
        }
    }

    #[test]
    fn neighbours_of_one_page_size_become_one_in_whichever_order_they_come() {
        for order in [[5, 6, 7], [7, 6, 5], [5, 7, 6]] {
            let ranges = ranges(&order.map(page));
            assert_eq!(pages(&ranges), [(5, 3)]);
            assert!(ranges.ranges()[0].is_uniform());
        }
    }

    #[test]
    fn a_neighbour_of_unknown_sizes_does_not_take_the_hint_away() {
        let mixed = page(6).mixed();
        for order in [[page(5), mixed], [mixed, page(5)]] {
            assert_eq!(ranges(&order).ranges(), order);
        }
    }

    #[test]
    fn ranges_that_are_only_near_merge_without_a_level_hint() {
        let ranges = ranges(&[0, 100, 200, 300, 302].map(page));
        assert_eq!(ranges.ranges().len(), MAX_RANGES);
        let last = ranges.ranges()[MAX_RANGES - 1];
        assert_eq!((last.start(), last.pages()), (300 << 12, 3));
        assert!(!last.is_uniform(), "the page between may have had any size");
    }

    #[test]
    fn a_missed_flush_names_pages_only_if_they_are_all_there_is() {
        let one = ranges(&[page(7)]);
        assert_eq!(one.missed(), MissedFlush::Pages(page(7)));
        let mixed = page(7).mixed();
        assert_eq!(
            ranges(&[mixed]).missed(),
            MissedFlush::Pages(mixed),
            "and of which sizes they were"
        );
        let (mut tables, mut everything) = (one, one);
        tables.add_change(TableChange::FreedTables);
        everything.widen();
        let two = ranges(&[page(7), page(9)]);
        for more in [tables, everything, two, FlushRanges::everything()] {
            assert_eq!(more.missed(), MissedFlush::Everything, "{more:?}");
        }
    }

    #[test]
    fn one_page_is_one_only_if_nothing_else_goes() {
        let one = ranges(&[page(7)]);
        assert!(one.is_one_page());
        let (mut tables, mut everything) = (one, one);
        tables.add_change(TableChange::FreedTables);
        everything.widen();
        let (two, apart) = (ranges(&[page(7), page(8)]), ranges(&[page(7), page(9)]));
        for other in [tables, everything, two, apart, FlushRanges::new(), FlushRanges::everything()]
        {
            assert!(!other.is_one_page(), "{other:?}");
        }
    }

    #[test]
    fn everything_is_more_pages_than_can_be_counted() {
        let mut widened = ranges(&[page(7)]);
        widened.widen();
        assert_eq!([widened.pages(), FlushRanges::everything().pages()], [u64::MAX; 2]);
    }
}
