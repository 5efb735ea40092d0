//! The areas of a process: its mappings as the program requested them.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Range;

use lookaside_kernel_abi::Refused;

use crate::arch::{PAGE, Protection, USER};

/// What is mapped from one address to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) end: usize,
    pub(crate) protection: Protection,
}

/// The most areas of a process.
const MOST: usize = 512;

/// All areas of a process, by their first address.
#[derive(Clone, Default)]
pub(crate) struct Areas(BTreeMap<usize, Area>);

impl Areas {
    pub(crate) const NONE: Self = Self(BTreeMap::new());

    pub(crate) fn insert(&mut self, start: usize, area: Area) {
        self.0.insert(start, area);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Area)> {
        self.0.iter().map(|(&start, &area)| (start, area))
    }

    /// Whether there may be more: the kernel's own memory is not a program's to use up.
    pub(crate) fn check_room(&self) -> Result<(), Refused> {
        if self.0.len() < MOST { Ok(()) } else { Err(Refused::Full) }
    }

    /// Whether `range` may be cut out of the areas, which can make more of them.
    pub(crate) fn check_cut(&self, range: &Range<usize>) -> Result<(), Refused> {
        let cuts = |at: usize| self.area(at).is_some() && !self.0.contains_key(&at);
        if cuts(range.start) || cuts(range.end) { self.check_room() } else { Ok(()) }
    }

    /// The area that an address is in.
    pub(crate) fn area(&self, address: usize) -> Option<Area> {
        let (_, area) = self.0.range(..=address).next_back()?;
        (address < area.end).then_some(*area)
    }

    pub(crate) fn is_free(&self, range: &Range<usize>) -> bool {
        let before = self.0.range(..range.end).next_back();
        before.is_none_or(|(_, area)| area.end <= range.start)
    }

    /// Whether all of `range` is mapped.
    pub(crate) fn is_full(&self, range: &Range<usize>) -> bool {
        let mut address = range.start;
        while address < range.end {
            match self.area(address) {
                Some(area) => address = area.end,
                None => return false,
            }
        }
        true
    }

    /// Makes areas begin and end where `range` does.
    pub(crate) fn cut(&mut self, range: &Range<usize>) {
        for at in [range.start, range.end] {
            if let Some((_, area)) = self.0.range_mut(..at).next_back()
                && at < area.end
            {
                let rest = *area;
                area.end = at;
                self.0.insert(at, rest);
            }
        }
    }

    /// Removes the areas in `range` from the list.
    pub(crate) fn remove(&mut self, range: &Range<usize>) -> Vec<(usize, Area)> {
        self.cut(range);
        let starts: Vec<usize> = self.0.range(range.clone()).map(|(start, _)| *start).collect();
        starts.into_iter().filter_map(|start| Some((start, self.0.remove(&start)?))).collect()
    }

    /// A free range of addresses.
    pub(crate) fn room(&self, bytes: usize, align: usize) -> Result<usize, Refused> {
        let mut start = (USER.start + USER.len() / 4).next_multiple_of(align);
        for (&from, area) in &self.0 {
            if area.end > start && from < start.saturating_add(bytes) {
                start = area.end.next_multiple_of(align);
            }
        }
        user(start, bytes).map(|range| range.start).map_err(|_| Refused::Full)
    }
}

/// Whole pages of user addresses.
pub(crate) fn user(start: usize, bytes: usize) -> Result<Range<usize>, Refused> {
    let end = start.checked_add(bytes).ok_or(Refused::Invalid)?;
    let whole = start.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) && bytes > 0;
    if whole && start >= USER.start && end <= USER.end {
        Ok(start..end)
    } else {
        Err(Refused::Invalid)
    }
}
