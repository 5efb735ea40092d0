//! What `msync`, `fsync` and their like write back: the dirty pages of shared views of a file. Each is made clean and
//! write-protected, and flushed by itself.

use core::ops::Range;

use super::{Effect, Flush, Other, alone, pages};
use crate::{
    Call,
    reconstruct::{
        areas::{File, View, WRITE},
        bits::{Bits, PIECE},
        memory::Memory,
        tasks::State,
    },
};

const MS_SYNC: u64 = 4;
const SYNC_FILE_RANGE_WRITE: u64 = 2;

/// Part of the range is not mapped: what is mapped was written back nevertheless.
const ENOMEM: i64 = -12;
/// The disk failed, after pages were made clean.
const EIO: i64 = -5;

/// The pages that a call writes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::reconstruct) struct Written {
    /// Those of the space that called.
    own: Vec<u64>,
    /// Those of others, by space.
    others: Vec<(Other, Vec<u64>)>,
    /// The spaces among them that have ended during the call: their pages here were flushed before that.
    ended: Vec<u32>,
    /// Where they may be, with the file.
    ranges: Vec<(Range<u64>, File)>,
    /// Whether it was about what was mapped before the trace began, so that others may have been dirty.
    unknown: bool,
}

impl Memory {
    /// A call begins that writes back. Linux notes which pages are dirty when it begins to write, and leaves those alone
    /// that are written to later: they are made clean here and now, so that a later write is one of the next call.
    pub(in crate::reconstruct) fn write_back(
        &mut self,
        call: Call,
        arguments: &[u64; 5],
    ) -> Written {
        let &[first, second, third, fourth, _] = arguments;
        let mut written = Written::default();
        let file = first as u32;
        let ranges: Vec<Range<u64>> = match call {
            Call::Msync if third & MS_SYNC != 0 && first.is_multiple_of(4096) => {
                let range = pages(first, second);
                written.unknown = self.learn(&range);
                self.areas.shared_files(&range)
            }
            Call::Fsync | Call::Fdatasync => self.areas.of_file(file).collect(),
            // Where in the file a view begins no event says: it is taken for the beginning of the file.
            Call::SyncFileRange if fourth & SYNC_FILE_RANGE_WRITE != 0 => {
                let part = match third {
                    0 => second / 4096..u64::MAX,
                    length => pages(second, length),
                };
                let of_view = |view: Range<u64>| {
                    let at = |page: u64| view.start.saturating_add(page).min(view.end);
                    at(part.start)..at(part.end)
                };
                self.areas.of_file(file).map(of_view).collect()
            }
            _ => Vec::new(),
        };
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            let file = self.areas.at(range.start).and_then(|(_, area)| area.file);
            written.own.extend(self.clean(&range));
            written.ranges.extend(file.map(|file| (range, file)));
        }
        written
    }

    /// Makes the dirty pages of a range clean, and says which these were.
    fn clean(&mut self, range: &Range<u64>) -> Vec<u64> {
        let mut cleaned = Vec::new();
        for (number, bits, piece) in self.within(range) {
            let dirty = piece.present.and(piece.writable).and(bits);
            cleaned.extend(dirty.iter().map(|page| number * PIECE + page));
            piece.writable = piece.writable.without(dirty);
        }
        cleaned
    }

    /// The pages may be written again without a fault, if they are still there.
    pub(in crate::reconstruct) fn dirty(&mut self, pages: &[u64]) {
        for page in pages {
            if let Some(piece) = self.pieces.get_mut(&(page / PIECE)) {
                let one = Bits::one(page % PIECE).and(piece.present);
                piece.writable = piece.writable.or(one);
            }
        }
    }

    /// What is written back is a shared view of a file, also where nobody saw it mapped. Says whether there is such a
    /// part in the range.
    fn learn(&mut self, range: &Range<u64>) -> bool {
        if self.complete || range.is_empty() {
            return false;
        }
        let Some(missing) = self.known.missing(range) else { return false };
        let (mut at, mut found) = (missing.start, false);
        while at < missing.end {
            match self.areas.at(at) {
                Some((ends, _)) => at = ends.end,
                None => {
                    let end = self.areas.next(at).map_or(missing.end, |next| next.min(missing.end));
                    self.areas.set(at..end, View::SharedFile, WRITE | 1);
                    (at, found) = (end, true);
                }
            }
        }
        found
    }
}

impl Written {
    /// Whether pages of other spaces are among them.
    pub(in crate::reconstruct) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// A space that a fork made has the file at the same place: what is dirty there is written back as well.
    pub(in crate::reconstruct) fn add(&mut self, other: Other, memory: &mut Memory) {
        let mut pages = Vec::new();
        for (range, file) in &self.ranges {
            for part in memory.areas.shared_files(range) {
                let of = memory.areas.at(part.start).and_then(|(_, area)| area.file);
                if of.is_some_and(|of| of.mapping == file.mapping) {
                    pages.extend(memory.clean(&part));
                }
            }
        }
        if !pages.is_empty() {
            self.others.push((other, pages));
        }
    }

    /// All pages in the order in which they are flushed: each in one space after the other, the oldest first.
    fn in_order(&self, caller: u32) -> Vec<(u64, u32, Option<Other>)> {
        let own = self.own.iter().map(|&page| (page, caller, None));
        let others = self.others.iter().flat_map(|&(other, ref pages)| {
            pages.iter().map(move |&page| (page, other.space, Some(other)))
        });
        let mut all: Vec<_> = own.chain(others).collect();
        all.sort_by_key(|&(page, space, _)| (page, space));
        all
    }

    /// Another space ends during the call of `caller`, of which the kernel has said `said` flushes by then: what comes after
    /// these in the order of pages was not flushed in that space. Says which pages are still dirty in it.
    pub(in crate::reconstruct) fn space_ends(
        &mut self,
        caller: u32,
        space: u32,
        said: usize,
    ) -> Vec<u64> {
        if self.others.iter().all(|(other, _)| other.space != space) {
            return Vec::new();
        }
        let order = self.in_order(caller);
        let is_said = |of: &Option<Other>| of.is_none_or(|other| other.said);
        let told = order.iter().enumerate().filter(|(_, (.., of))| is_said(of));
        let done = said
            .checked_sub(1)
            .map_or(0, |last| told.map(|(place, _)| place + 1).nth(last).unwrap_or(order.len()));
        let after = order[done..].iter().filter(|(_, of, _)| *of == space);
        let left: Vec<u64> = after.map(|&(page, ..)| page).collect();
        for (other, pages) in &mut self.others {
            if other.space == space {
                pages.retain(|page| !left.contains(page));
            }
        }
        self.ended.push(space);
        left
    }

    /// The call of `caller` is over, and returned `value`.
    pub(in crate::reconstruct) fn finish(
        self,
        caller: u32,
        value: i64,
        spaces: &mut [State],
        effect: &mut Effect,
    ) {
        if value < 0 && value != ENOMEM && value != EIO {
            // It did nothing.
            spaces[caller as usize].memory.dirty(&self.own);
            for (other, pages) in self.others {
                spaces[other.space as usize].memory.dirty(&pages);
            }
            return;
        }
        effect.unknown |= self.unknown;
        let mut all = self.in_order(caller);
        // A space that has ended meanwhile has nothing to flush from then on, and no step of it may follow.
        all.retain(|(_, space, of)| {
            of.is_none() || spaces[*space as usize].users > 0 || self.ended.contains(space)
        });
        let flush = |(page, _, of)| Flush { of, ..alone(page, false) };
        effect.flushes.extend(all.into_iter().map(flush));
    }
}
