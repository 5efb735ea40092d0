//! What is in one address space, as far as can be known: which pages are there, and what hardware lets
//! a program do with them.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::{
    fault,
    reconstruct::{
        areas::{ANY, Areas, Ranges, View, WRITE},
        bits::{Bits, PIECE},
        frames::{Budget, Frames, NO_FRAME},
    },
};

/// How many pages the kernel maps around a page of a file that is read: 64 KiB, aligned.
pub(super) const AROUND: u64 = 16;

/// What one page table maps.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    /// Pages that are there.
    pub(super) present: Bits,
    /// Those of them that may be written.
    pub(super) writable: Bits,
    /// Those that are the program's own memory, written at least once.
    pub(super) own: Bits,
    /// Those that are there, and nothing is allowed (`PROT_NONE`).
    pub(super) barred: Bits,
    /// The frames of those that a fork shared; [`NO_FRAME`] for the others.
    pub(super) frames: Option<Box<[u32; PIECE as usize]>>,
    /// Whether something in it is mapped that no system call mapped: the program itself, its stack.
    pub(super) strange: bool,
}

impl Piece {
    /// Whether a fork shared that page and nobody wrote since.
    pub(super) fn shared(&self, page: u64) -> bool {
        self.frames.as_ref().is_some_and(|frames| frames[page as usize] != NO_FRAME)
    }

    /// Whether it is the last who shares that page, and so keeps it and needs no copy.
    fn is_last(&self, page: u64, frames: &Frames) -> bool {
        !self.own.and(Bits::one(page)).is_empty()
            && self.frames.as_ref().is_some_and(|mine| frames.alone(mine[page as usize]))
    }

    /// Forgets the frames of these pages.
    fn release(&mut self, pages: Bits, frames: &mut Frames) {
        if let Some(mine) = &mut self.frames {
            for page in pages.iter() {
                frames.release(core::mem::replace(&mut mine[page as usize], NO_FRAME));
            }
        }
    }

    /// Forgets these pages.
    pub(super) fn drop_pages(&mut self, pages: Bits, frames: &mut Frames) {
        self.release(pages, frames);
        for set in [&mut self.present, &mut self.writable, &mut self.own, &mut self.barred] {
            *set = set.without(pages);
        }
    }
}

/// What is in one address space.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// By number: the address divided by 2 MiB. A piece is here as long as it has a page table.
    pub(super) pieces: BTreeMap<u64, Piece>,
    pub(super) areas: Areas,
    /// Where it is known what is there. All of it since a program was executed, if `complete`.
    pub(super) known: Ranges,
    pub(super) complete: bool,
    /// Where the heap ends, as a page, once a call of `brk` told.
    pub(super) heap_end: Option<u64>,
    /// Whether pages of mappings to come are there at once (`mlockall` with `MCL_FUTURE`). A fork does not inherit it.
    pub(super) locks_later: bool,
}

/// What a page fault came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// These pages are there now.
    Mapped { first: u64, last: u64 },
    /// The page is a copy now, or another copy, and was flushed.
    Copied,
    /// The page may be written now, and was not flushed.
    Allowed,
    /// The page tables stay as they are: the program gets a signal.
    Nothing,
}

impl Memory {
    /// A space of which all is known: a program was just executed.
    pub(super) fn fresh() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// The pieces that a range reaches into, with those of their pages that are in it.
    pub(super) fn within(
        &mut self,
        range: &Range<u64>,
    ) -> impl Iterator<Item = (u64, Bits, &mut Piece)> {
        let Range { start, end } = range.clone();
        let last = if start < end { (end - 1) / PIECE } else { start / PIECE };
        self.pieces.range_mut(start / PIECE..=last).map(move |(&number, piece)| {
            let low = number * PIECE;
            let from = start.clamp(low, low + PIECE) - low;
            let to = end.clamp(low, low + PIECE) - low;
            (number, Bits::between(from, to), piece)
        })
    }

    /// Whether something is known to be at that page.
    pub(super) fn has(&self, page: u64) -> bool {
        let piece = self.pieces.get(&(page / PIECE));
        piece.is_some_and(|piece| !piece.present.and(Bits::one(page % PIECE)).is_empty())
    }

    /// Whether the page may be one that this space and others had before a fork: nothing is known of
    /// it, and no system call mapped it since.
    pub(super) fn may_share(&self, page: u64) -> bool {
        let private = |view| matches!(view, View::Anonymous);
        !self.has(page) && self.areas.at(page).is_none_or(|(_, area)| private(area.view))
    }

    /// One more space has the page in this frame, and may not write to it.
    pub(super) fn share(&mut self, page: u64, frame: u32) {
        let piece = self.pieces.entry(page / PIECE).or_default();
        let one = Bits::one(page % PIECE);
        piece.present = piece.present.or(one);
        piece.own = piece.own.or(one);
        let frames = piece.frames.get_or_insert_with(|| Box::new([NO_FRAME; PIECE as usize]));
        frames[(page % PIECE) as usize] = frame;
    }

    /// The first page that is there at all.
    pub(super) fn first_page(&self) -> Option<u64> {
        self.pieces
            .iter()
            .find_map(|(number, piece)| Some(number * PIECE + piece.present.ends()?.0))
    }

    /// A page fault. Its address is in `page`, what hardware says about it in `code`.
    pub(super) fn fault(&mut self, page: u64, code: u64, frames: &mut Frames) -> Outcome {
        let area = self.areas.at(page);
        let write = code & fault::WRITE != 0;
        // It is a signal for the program, or an error for the call in which the kernel wrote for it.
        let needs = if write { WRITE } else { ANY };
        if area.as_ref().is_some_and(|(_, area)| area.allowed & needs == 0) {
            return Outcome::Nothing;
        }
        let bit = page % PIECE;
        let piece = self.pieces.entry(page / PIECE).or_default();
        piece.strange |= area.is_none();
        let view = area.as_ref().map(|(_, area)| area.view);
        if code & fault::PRESENT != 0 {
            if !write {
                return Outcome::Nothing;
            }
            let one = Bits::one(bit);
            piece.present = piece.present.or(one);
            piece.writable = piece.writable.or(one);
            if matches!(view, Some(View::SharedFile | View::SharedMemory)) {
                return Outcome::Allowed;
            }
            let last = piece.is_last(bit, frames);
            piece.release(one, frames);
            piece.own = piece.own.or(one);
            self.areas.own(page);
            return if last { Outcome::Allowed } else { Outcome::Copied };
        }
        let mut bits = Bits::one(bit);
        piece.release(bits, frames);
        if write {
            piece.writable = piece.writable.or(bits);
            if !matches!(view, Some(View::SharedFile | View::SharedMemory)) {
                piece.own = piece.own.or(bits);
            }
        } else if matches!(view, Some(View::PrivateFile | View::SharedFile))
            || (view.is_none() && self.complete)
        {
            let ends = area.as_ref().map_or(0..u64::MAX, |(ends, _)| ends.clone());
            bits = around(page, &ends).without(piece.present).or(bits);
        } else if view == Some(View::SharedMemory) {
            piece.writable = piece.writable.or(bits);
        }
        piece.present = piece.present.or(bits);
        piece.barred = piece.barred.without(bits);
        if write && !matches!(view, Some(View::SharedFile | View::SharedMemory)) {
            self.areas.own(page);
        }
        let low = page - bit;
        let (first, last) = bits.ends().unwrap_or((bit, bit));
        Outcome::Mapped { first: low + first, last: low + last }
    }

    /// All pages of a range are there from here on, as with `MAP_POPULATE`, and can be written at once with `write`: pages
    /// that were there and could not are copied, and these are the answer. None if there are too many to believe.
    pub(super) fn populate(
        &mut self,
        range: &Range<u64>,
        write: bool,
        frames: &mut Frames,
        budget: &mut Budget,
    ) -> Option<Vec<u64>> {
        let mut copied = Vec::new();
        if range.is_empty() {
            return Some(copied);
        }
        let (first, last) = (range.start / PIECE, (range.end - 1) / PIECE);
        if !budget.take(last - first + 1) {
            return None;
        }
        for number in first..=last {
            self.pieces.entry(number).or_default();
        }
        let view = self.areas.at(range.start).map(|(_, area)| area.view);
        for (number, bits, piece) in self.within(range) {
            if write && !matches!(view, Some(View::SharedFile | View::SharedMemory)) {
                let locked = piece.present.and(bits).without(piece.writable);
                let copies = locked.iter().filter(|&page| !piece.is_last(page, frames));
                copied.extend(copies.map(|page| number * PIECE + page));
                piece.release(locked, frames);
                piece.own = piece.own.or(bits);
            }
            piece.present = piece.present.or(bits);
            if write {
                piece.writable = piece.writable.or(bits);
            }
        }
        if write {
            self.areas.own(range.start);
        }
        budget.take(copied.len() as u64).then_some(copied)
    }

    /// What a child has after a fork; the pages that both have may not be written any more. None if
    /// that is too much to remember.
    pub(super) fn fork(&mut self, frames: &mut Frames, budget: &mut Budget) -> Option<Self> {
        // A piece with frames takes eight times the room of one without.
        if !budget.take(self.pieces.len() as u64 * 8) {
            return None;
        }
        let mut child = Self {
            pieces: BTreeMap::new(),
            areas: self.areas.clone(),
            known: self.known.clone(),
            complete: self.complete,
            heap_end: self.heap_end,
            locks_later: false,
        };
        for (&number, piece) in &mut self.pieces {
            let mut copied = piece.own;
            for page in piece.present.without(piece.own).iter() {
                // Areas of which nothing was written are left to be faulted in again.
                let area = self.areas.at(number * PIECE + page);
                let private = |view| matches!(view, View::PrivateFile | View::Anonymous);
                if area.is_none_or(|(_, area)| area.own && private(area.view)) {
                    copied = copied.or(Bits::one(page));
                }
            }
            if copied.is_empty() {
                continue;
            }
            if !piece.own.is_empty() {
                let mine = piece.frames.get_or_insert_with(|| Box::new([NO_FRAME; PIECE as usize]));
                for page in piece.own.iter() {
                    mine[page as usize] = frames.share(mine[page as usize]);
                }
            }
            piece.writable = piece.writable.without(piece.own);
            child.pieces.insert(
                number,
                Piece {
                    present: copied,
                    writable: Bits::default(),
                    own: piece.own,
                    barred: piece.barred.and(copied),
                    frames: piece.frames.clone(),
                    strange: piece.strange,
                },
            );
        }
        Some(child)
    }

    /// Nobody uses the space any more.
    pub(super) fn end(&mut self, frames: &mut Frames) {
        for piece in self.pieces.values_mut() {
            piece.release(piece.own, frames);
        }
        *self = Self::default();
    }

    /// Whether hardware may be told to allow no less than that: nothing of what is barred.
    pub(super) fn bars(allowed: u64) -> bool {
        allowed & ANY == 0
    }
}

/// Which pages the kernel maps with that one of a file, in the piece of the page: those of the aligned
/// window that are in the area and in the same page table. The window begins where the area begins, if
/// that is later.
fn around(page: u64, area: &Range<u64>) -> Bits {
    let low = page - page % PIECE;
    let from = (page - page % AROUND).max(area.start);
    let to = (from + AROUND).min(area.end).min(low + PIECE);
    Bits::between(from - low, to - low)
}
