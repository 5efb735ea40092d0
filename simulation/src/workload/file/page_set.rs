//! A set of pages, kept as ranges: of millions that are protected together it has one entry.

use core::ops::Range;
use std::collections::BTreeMap;

/// A set of pages.
#[derive(Clone, Debug, Default)]
pub(super) struct PageSet {
    /// The end of each range, by its first page. No two overlap or touch.
    ranges: BTreeMap<u64, u64>,
}

impl PageSet {
    /// Adds pages.
    pub(super) fn insert(&mut self, pages: Range<u64>) {
        if pages.is_empty() {
            return;
        }
        let Range { mut start, mut end } = pages;
        while let Some((first, last)) = self.last_up_to(end)
            && last >= start
        {
            self.ranges.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.ranges.insert(start, end);
    }

    /// Removes pages, and says whether one of them was there.
    pub(super) fn remove(&mut self, pages: Range<u64>) -> bool {
        let mut was_there = false;
        if pages.is_empty() {
            return was_there;
        }
        while let Some((first, end)) = self.last_up_to(pages.end - 1)
            && end > pages.start
        {
            was_there = true;
            self.ranges.remove(&first);
            if first < pages.start {
                self.ranges.insert(first, pages.start);
            }
            if end > pages.end {
                self.ranges.insert(pages.end, end);
            }
        }
        was_there
    }

    /// How many of these pages are in it.
    pub(super) fn count(&self, pages: Range<u64>) -> u64 {
        let mut end = pages.end;
        let mut count = 0;
        while end > pages.start
            && let Some((first, last)) = self.last_up_to(end - 1)
        {
            count += last.min(end).saturating_sub(first.max(pages.start));
            end = first;
        }
        count
    }

    /// The last range that begins at that page or before it: its first page and its end.
    fn last_up_to(&self, page: u64) -> Option<(u64, u64)> {
        self.ranges.range(..=page).next_back().map(|(&first, &end)| (first, end))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The same as with a set of single pages, for all pairs of ranges after some that are far apart.
    #[test]
    fn ranges_are_the_same_as_single_pages() {
        let all = || (0..14).flat_map(|start| (start..14).map(move |end| start..end));
        for first in all() {
            for second in all() {
                let mut set = PageSet::default();
                for pages in [2..4, 6..7, 10..12, first.clone()] {
                    set.insert(pages);
                }
                let mut single: BTreeSet<u64> =
                    [2, 3, 6, 10, 11].into_iter().chain(first.clone()).collect();
                let many = second.clone().filter(|page| single.contains(page)).count();
                assert_eq!(set.count(second.clone()), many as u64, "{first:?} {second:?}");
                let was_there = second.clone().any(|page| single.remove(&page));
                single.retain(|page| !second.contains(page));
                assert_eq!(set.remove(second.clone()), was_there, "{first:?} {second:?}");
                let left: Vec<u64> =
                    set.ranges.iter().flat_map(|(&start, &end)| start..end).collect();
                assert_eq!(left, Vec::from_iter(single), "{first:?} {second:?}");
                let ranges: Vec<_> = set.ranges.iter().collect();
                assert!(ranges.windows(2).all(|two| two[0].1 < two[1].0), "{ranges:?}");
            }
        }
    }

    #[test]
    fn millions_of_pages_are_one_range() {
        let mut set = PageSet::default();
        set.insert(0..1 << 20);
        set.insert(1 << 20..1 << 26);
        assert_eq!(set.ranges.len(), 1);
        assert!(set.remove(1000..1001) && !set.remove(1000..1001));
        assert_eq!(set.ranges.len(), 2);
    }
}
