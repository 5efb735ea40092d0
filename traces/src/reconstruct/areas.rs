//! The areas of an address space: what was mapped where, and what is allowed there.

use core::ops::Range;
use std::collections::BTreeMap;

/// What an area is a view of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Memory of the program's own.
    Anonymous,
    /// Memory that is shared with children.
    SharedMemory,
    /// A file, of which the program has copies where it writes.
    PrivateFile,
    /// A file.
    SharedFile,
}

/// An area, which begins at its key in [`Areas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    /// The page after the last.
    pub(super) end: u64,
    pub(super) view: View,
    /// What `mmap` and `mprotect` call `prot`.
    pub(super) allowed: u64,
    /// Whether something in it was written and so is the program's own; fork copies such areas.
    pub(super) own: bool,
    /// The file; none for memory, and where nobody saw it mapped.
    pub(super) file: Option<File>,
}

/// A file that was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// The descriptor that `mmap` was given, until it was closed.
    pub(super) descriptor: Option<u32>,
    /// Which call of `mmap` it was, of all: what forks inherit has the same number.
    pub(super) mapping: u32,
}

/// `PROT_WRITE`.
pub(super) const WRITE: u64 = 2;
/// `PROT_EXEC`.
pub(super) const EXECUTE: u64 = 4;
/// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`: without any of them a page is there and barred.
pub(super) const ANY: u64 = 7;

/// All areas that were seen to be mapped. They do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Areas(BTreeMap<u64, Area>);

impl Areas {
    /// The area of that page.
    pub(super) fn at(&self, page: u64) -> Option<(Range<u64>, Area)> {
        let (&start, &area) = self.0.range(..=page).next_back()?;
        (page < area.end).then_some((start..area.end, area))
    }

    /// Whether any area reaches into the range.
    pub(super) fn any(&self, range: &Range<u64>) -> bool {
        !range.is_empty()
            && (self.at(range.start).is_some() || self.0.range(range.clone()).next().is_some())
    }

    /// Whether an area of that kind reaches into the range.
    pub(super) fn any_view(&self, range: &Range<u64>, view: View) -> bool {
        !range.is_empty()
            && (self.at(range.start).is_some_and(|(_, area)| area.view == view)
                || self.0.range(range.clone()).any(|(_, area)| area.view == view))
    }

    /// Where the next area begins.
    pub(super) fn next(&self, page: u64) -> Option<u64> {
        self.0.range(page..).next().map(|(start, _)| *start)
    }

    /// The range is mapped anew.
    pub(super) fn set(&mut self, range: Range<u64>, view: View, allowed: u64) {
        self.set_file(range, view, allowed, None);
    }

    /// The range is mapped anew, by a descriptor if it is a file.
    pub(super) fn set_file(
        &mut self,
        range: Range<u64>,
        view: View,
        allowed: u64,
        file: Option<File>,
    ) {
        if !range.is_empty() {
            self.clear(&range);
            self.0.insert(range.start, Area { end: range.end, view, allowed, own: false, file });
        }
    }

    /// The ranges of the areas that are shared views of the file of that descriptor.
    pub(super) fn of_file(&self, descriptor: u32) -> impl Iterator<Item = Range<u64>> {
        let of = move |area: &Area| {
            area.view == View::SharedFile
                && area.file.is_some_and(|file| file.descriptor == Some(descriptor))
        };
        self.0.iter().filter(move |(_, area)| of(area)).map(|(&start, area)| start..area.end)
    }

    /// The descriptor is closed, and may become another file's.
    pub(super) fn close(&mut self, descriptor: u32) {
        for file in self.0.values_mut().filter_map(|area| area.file.as_mut()) {
            file.descriptor = file.descriptor.filter(|&of| of != descriptor);
        }
    }

    /// The parts of a range that are shared views of a file.
    pub(super) fn shared_files(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let before = self.at(range.start).map_or(range.start, |(ends, _)| ends.start);
        let areas = self.0.range(before..range.end.max(before));
        areas
            .filter(|(_, area)| area.view == View::SharedFile)
            .map(|(&start, area)| start.max(range.start)..area.end.min(range.end))
            .collect()
    }

    /// The parts of areas in a range: their pages, what they are, and what is allowed.
    pub(super) fn of_range(&self, range: &Range<u64>) -> Vec<(Range<u64>, View, u64)> {
        let before = self.at(range.start).map_or(range.start, |(ends, _)| ends.start);
        let areas = self.0.range(before..range.end.max(before));
        let part = |(&start, area): (&u64, &Area)| {
            (start.max(range.start)..area.end.min(range.end), area.view, area.allowed)
        };
        areas.map(part).collect()
    }

    /// The range is not mapped any more.
    pub(super) fn clear(&mut self, range: &Range<u64>) {
        self.take(range);
    }

    /// The same, and says what was mapped there.
    pub(super) fn take(&mut self, range: &Range<u64>) -> Vec<(u64, Area)> {
        if range.is_empty() {
            return Vec::new();
        }
        self.cut(range.start);
        self.cut(range.end);
        let starts: Vec<u64> = self.0.range(range.clone()).map(|(start, _)| *start).collect();
        starts.into_iter().filter_map(|start| Some((start, self.0.remove(&start)?))).collect()
    }

    /// Something else is allowed in the range.
    pub(super) fn allow(&mut self, range: &Range<u64>, allowed: u64) {
        for (start, area) in self.take(range) {
            self.put(start, Area { allowed, ..area });
        }
    }

    /// An area that was taken is put somewhere, where nothing is.
    pub(super) fn put(&mut self, start: u64, area: Area) {
        // Neighbours that are alike become one, or protecting here and there would leave more and
        // more of them.
        if let Some((&before, last)) = self.0.range_mut(..start).next_back()
            && (last.end, last.view, last.allowed, last.own, last.file)
                == (start, area.view, area.allowed, area.own, area.file)
        {
            last.end = area.end;
            debug_assert!(before < start);
        } else {
            self.0.insert(start, area);
        }
    }

    /// Something in the area of that page is the program's own from here on.
    pub(super) fn own(&mut self, page: u64) {
        if let Some((_, area)) = self.0.range_mut(..=page).next_back()
            && page < area.end
        {
            area.own = true;
        }
    }

    /// Parts the area that reaches across that page.
    fn cut(&mut self, page: u64) {
        if let Some((_, area)) = self.0.range_mut(..page).next_back()
            && page < area.end
        {
            let rest = *area;
            area.end = page;
            self.0.insert(page, rest);
        }
    }
}

/// Ranges of pages of which is known what is there. They do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds one.
    pub(super) fn add(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.0.range(..=range.end).next_back()
            && end >= range.start
        {
            self.0.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.0.insert(range.start, range.end);
    }

    /// From the first to the last page of the range that is in none; none if all are.
    pub(super) fn missing(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let mut rest = range.clone();
        if let Some((_, &end)) = self.0.range(..=rest.start).next_back() {
            rest.start = rest.start.max(end);
        }
        if let Some((&start, &end)) = self.0.range(..rest.end).next_back()
            && end >= rest.end
        {
            rest.end = rest.end.min(start);
        }
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::{Areas, Ranges, View};

    #[test]
    fn areas_are_parted_and_joined() {
        let mut areas = Areas::default();
        areas.set(10..20, View::Anonymous, 3);
        areas.allow(&(12..14), 1);
        assert_eq!(areas.at(11).unwrap().0, 10..12);
        assert_eq!(areas.at(13).unwrap().1.allowed, 1);
        assert_eq!(areas.at(14).unwrap().0, 14..20);
        areas.allow(&(12..14), 3);
        assert_eq!(areas.at(13).unwrap().0, 10..14);
        areas.clear(&(0..12));
        assert!(areas.at(11).is_none() && areas.at(12).is_some());
        assert!(areas.any(&(0..13)) && !areas.any(&(0..12)) && !areas.any(&(20..30)));
    }

    #[test]
    fn ranges_say_what_is_missing() {
        let mut ranges = Ranges::default();
        ranges.add(10..20);
        ranges.add(30..40);
        assert_eq!(ranges.missing(&(12..18)), None);
        assert_eq!(ranges.missing(&(15..35)), Some(20..30));
        assert_eq!(ranges.missing(&(0..50)), Some(0..50));
        ranges.add(20..30);
        assert_eq!(ranges.missing(&(10..40)), None);
        assert_eq!(ranges.missing(&(5..12)), Some(5..10));
    }
}
