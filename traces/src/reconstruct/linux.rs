//! What Linux on x86 does to page tables in each system call, and which flushes follow from that.
//!
//! The rules, and how each was found, are in `docs/reconstruction.md`. They are those of Linux 6.18;
//! none is a matter of the machine except the ceiling.

use core::ops::Range;

use crate::{
    Call, Pages,
    reconstruct::{
        areas::{ANY, EXECUTE, View, WRITE},
        bits::{Bits, PIECE},
        frames::{Budget, Frames},
        memory::Memory,
    },
};

/// From how many pages on Linux flushes everything instead.
const CEILING: u64 = 33;
/// How many pages Linux gathers before it flushes and frees them, and goes on.
const GATHERED: u64 = 9698;
/// What one table of the second and of the third level maps, in pages.
const UPPER: [u64; 2] = [PIECE * PIECE, PIECE * PIECE * PIECE];

/// A flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flush {
    /// The first page of the span that is flushed.
    pub(super) first: u64,
    /// The last.
    pub(super) last: u64,
    /// How many pages that is for Linux.
    pub(super) counted: Pages,
    /// Whether pages are gone, and do not just allow less.
    pub(super) gone: bool,
    /// Whether page tables are gone.
    pub(super) tables: bool,
    /// Whether it is done by what gathers pages, which flushes everything if somebody else does so at
    /// the same time.
    pub(super) gathered: bool,
}

/// What a call did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// The flushes, in order.
    pub(super) flushes: Vec<Flush>,
    /// Pages that came to be there without a fault.
    pub(super) mapped: Option<(u64, u64)>,
    /// Whether it depended on what was mapped before the trace began.
    pub(super) unknown: bool,
}

impl Effect {
    /// Other CPUs may use the space: the pages of `MADV_PAGEOUT` are flushed together, and then it is everything.
    pub(super) fn defer(&mut self, call: Call, arguments: &[u64; 5]) {
        if call == Call::Madvise
            && arguments[2] == MADV_PAGEOUT
            && let [first, ..] = self.flushes[..]
            && let Some(last) = self.flushes.last().map(|flush| flush.last)
        {
            self.flushes = vec![Flush { last, counted: Pages::Everything, ..first }];
        }
    }

    /// Others gathered at the same time: what they took away was perhaps not flushed yet. So there is
    /// a flush of everything even if the call itself found nothing.
    pub(super) fn crowd(&mut self, call: Call, arguments: &[u64; 5], value: i64) {
        if value != 0 || self.flushes.iter().any(|flush| flush.gathered) {
            return;
        }
        let gone = matches!(call, Call::Munmap | Call::Madvise);
        if let Call::Munmap | Call::Madvise | Call::Mprotect | Call::PkeyMprotect = call
            && let Some(range) = subject(call, arguments)
        {
            self.flushes.push(Flush {
                first: range.start,
                last: range.end - 1,
                counted: Pages::Everything,
                gone,
                tables: false,
                gathered: true,
            });
        }
    }
}

/// Whether a page table goes when nothing is left in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// If nothing is mapped there any more.
    Unused,
    /// If the call was about all of it.
    Covered,
}

/// How many pages that is for Linux.
pub(super) fn counted(pages: u64) -> Pages {
    if pages > CEILING { Pages::Everything } else { Pages::Some(pages as u32) }
}

/// How a call takes part in the gathering of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathers {
    /// Not.
    No,
    /// Alone with its kind.
    Alone,
    /// Beside others.
    Beside,
}

/// How a call takes part in the gathering of pages.
pub(super) fn gathers(call: Call, arguments: &[u64; 5]) -> Gathers {
    match call {
        Call::Munmap | Call::Mprotect | Call::PkeyMprotect | Call::Mremap | Call::Brk => {
            Gathers::Alone
        }
        Call::Mmap if arguments[3] & MAP_FIXED != 0 => Gathers::Alone,
        Call::Madvise if ADVICE_THAT_FLUSHES.contains(&arguments[2]) => Gathers::Beside,
        _ => Gathers::No,
    }
}

const MAP_TYPE: u64 = 0xf;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_LOCKED: u64 = 0x2000;
const MAP_POPULATE: u64 = 0x8000;

const MREMAP_DONTUNMAP: u64 = 4;
const MREMAP_FIXED: u64 = 2;

const MADV_DONTNEED: u64 = 4;
const MADV_FREE: u64 = 8;
const MADV_REMOVE: u64 = 9;
const MADV_COLD: u64 = 20;
const MADV_PAGEOUT: u64 = 21;
const MADV_POPULATE_READ: u64 = 22;
const MADV_POPULATE_WRITE: u64 = 23;
const MADV_DONTNEED_LOCKED: u64 = 24;
const MADV_GUARD_INSTALL: u64 = 102;
const ADVICE_THAT_FLUSHES: [u64; 7] = [
    MADV_DONTNEED,
    MADV_FREE,
    MADV_REMOVE,
    MADV_COLD,
    MADV_PAGEOUT,
    MADV_DONTNEED_LOCKED,
    MADV_GUARD_INSTALL,
];

/// A mapping was not found; what was found was worked on nevertheless.
const ENOMEM: i64 = -12;

/// The pages of a range of bytes.
pub(super) fn pages(address: u64, length: u64) -> Range<u64> {
    let end = address.saturating_add(length);
    address / 4096..end.div_ceil(4096).max(address / 4096)
}

/// The pages that a call is about, before it is known what it returns.
pub(super) fn subject(call: Call, arguments: &[u64; 5]) -> Option<Range<u64>> {
    let range = match call {
        Call::Munmap | Call::Mprotect | Call::PkeyMprotect | Call::Madvise | Call::Mremap => {
            pages(arguments[0], arguments[1])
        }
        Call::Mmap if arguments[3] & MAP_FIXED != 0 => pages(arguments[0], arguments[1]),
        _ => return None,
    };
    (!range.is_empty()).then_some(range)
}

impl Memory {
    /// Does what a call does that returned `value`.
    pub(super) fn call(
        &mut self,
        call: Call,
        arguments: &[u64; 5],
        value: i64,
        frames: &mut Frames,
        budget: &mut Budget,
    ) -> Effect {
        let mut effect = Effect::default();
        let &[first, second, third, fourth, _] = arguments;
        let failed = (-4095..0).contains(&value);
        match call {
            Call::Mmap if !failed => {
                let range = pages(value as u64, second);
                if fourth & MAP_FIXED != 0 {
                    self.unmap(&range, frames, &mut effect);
                } else {
                    // Nothing was there, whatever was guessed.
                    for (_, bits, piece) in self.within(&range) {
                        piece.drop_pages(bits, frames);
                    }
                }
                let view = match (fourth & MAP_TYPE, fourth & MAP_ANONYMOUS != 0) {
                    (MAP_PRIVATE, true) => View::Anonymous,
                    (MAP_PRIVATE, false) => View::PrivateFile,
                    (_, true) => View::SharedMemory,
                    (_, false) => View::SharedFile,
                };
                self.areas.set(range.clone(), view, third & ANY);
                self.known.add(range.clone());
                if fourth & (MAP_POPULATE | MAP_LOCKED) != 0 {
                    self.fill(range, third & WRITE != 0, frames, budget, &mut effect);
                }
            }
            Call::Munmap if !failed => {
                self.unmap(&pages(first, second), frames, &mut effect);
            }
            Call::Brk if !failed => {
                let end = (value as u64).div_ceil(4096);
                match self.heap_end {
                    Some(old) if end < old => self.unmap(&(end..old), frames, &mut effect),
                    Some(old) => {
                        self.areas.set(old..end, View::Anonymous, WRITE | 1);
                        self.known.add(old..end);
                    }
                    None => {}
                }
                self.heap_end = Some(end);
            }
            Call::Mprotect if !failed => {
                self.protect(&pages(first, second), third, false, &mut effect);
            }
            Call::PkeyMprotect if !failed => {
                let keyed = fourth as u32 != u32::MAX;
                self.protect(&pages(first, second), third, keyed, &mut effect);
            }
            Call::Madvise if !failed || value == ENOMEM => {
                self.advise(pages(first, second), third, frames, budget, &mut effect);
            }
            Call::Mremap if !failed => {
                let (old, new) = (pages(first, second), pages(value as u64, third));
                self.remap(old, new, fourth, frames, budget, &mut effect);
            }
            _ => {}
        }
        effect
    }

    fn fill(
        &mut self,
        range: Range<u64>,
        write: bool,
        frames: &mut Frames,
        budget: &mut Budget,
        effect: &mut Effect,
    ) {
        let Some(copied) = self.populate(&range, write, frames, budget) else {
            effect.unknown = true;
            return;
        };
        effect.flushes.extend(copied.into_iter().map(|page| alone(page, false)));
        if !range.is_empty() {
            effect.mapped = Some((range.start, range.end - 1));
        }
    }

    fn advise(
        &mut self,
        range: Range<u64>,
        advice: u64,
        frames: &mut Frames,
        budget: &mut Budget,
        effect: &mut Effect,
    ) {
        match advice {
            MADV_DONTNEED | MADV_DONTNEED_LOCKED | MADV_REMOVE | MADV_GUARD_INSTALL => {
                self.zap(&range, Tables::Covered, frames, effect);
            }
            // Whether a page was used since it was last freed or cold, no event says: it is taken for
            // used.
            MADV_FREE | MADV_COLD => {
                let mut hull = self.missing(&range, effect);
                for (number, own, others) in self.not_of_zeros(&range) {
                    let pages = if advice == MADV_FREE { own } else { own.or(others) };
                    widen(&mut hull, number, pages);
                }
                if let Some((first, last)) = hull {
                    effect.flushes.push(Flush {
                        first,
                        last,
                        counted: span(first, last),
                        gone: false,
                        tables: false,
                        gathered: true,
                    });
                }
            }
            // The program's own memory can go to swap alone, and no event shows that there is any.
            MADV_PAGEOUT => {
                self.missing(&range, effect);
                for (number, _, pages) in self.not_of_zeros(&range) {
                    let goes = pages.iter().map(|page| alone(number * PIECE + page, true));
                    effect.flushes.extend(goes);
                    if let Some(piece) = self.pieces.get_mut(&number) {
                        piece.drop_pages(pages, frames);
                    }
                }
            }
            MADV_POPULATE_READ | MADV_POPULATE_WRITE => {
                self.fill(range, advice == MADV_POPULATE_WRITE, frames, budget, effect);
            }
            _ => {}
        }
    }

    /// The pages of a range that are there, by piece: those of the program's own, and those of files and of shared
    /// memory. The page of zeros is neither: `MADV_COLD` and `MADV_PAGEOUT` leave it alone.
    fn not_of_zeros(&mut self, range: &Range<u64>) -> Vec<(u64, Bits, Bits)> {
        let mut found: Vec<(u64, Bits, Bits)> = self
            .within(range)
            .map(|(number, bits, piece)| {
                let here = piece.present.and(bits);
                (number, here.and(piece.own), here.without(piece.own))
            })
            .collect();
        for (number, _, others) in &mut found {
            for page in others.iter() {
                let area = self.areas.at(*number * PIECE + page);
                if area.is_some_and(|(_, area)| area.view == View::Anonymous) {
                    *others = others.without(Bits::one(page));
                }
            }
        }
        found
    }

    /// Other things are allowed in a range; a new key changes every page that is there.
    fn protect(&mut self, range: &Range<u64>, allowed: u64, keyed: bool, effect: &mut Effect) {
        let mut hull = self.missing(range, effect);
        let (mut at, end) = (range.start, range.end);
        while at < end {
            // From area to area, for what changes depends on what was allowed.
            let area = self.areas.at(at);
            let stop = match &area {
                Some((ends, _)) => ends.end.min(end),
                None => self.areas.next(at).map_or(end, |next| next.min(end)),
            };
            let (view, before) = match area {
                Some((_, area)) => (Some(area.view), Some(area.allowed)),
                None => (None, None),
            };
            let other = before.is_some_and(|before| (before ^ allowed) & EXECUTE != 0);
            for (number, bits, piece) in self.within(&(at..stop)) {
                let here = piece.present.and(bits);
                let live = here.without(piece.barred);
                let mut changed = Bits::default();
                if Self::bars(allowed) {
                    changed = live;
                    piece.barred = piece.barred.or(here);
                    piece.writable = piece.writable.without(here);
                } else {
                    if allowed & WRITE == 0 {
                        changed = live.and(piece.writable);
                        piece.writable = piece.writable.without(here);
                    } else {
                        // Pages that a fork shared, and those of files, stay as they are until
                        // somebody writes. For the program's own the bit is set at once.
                        let mut own = here.and(piece.own);
                        if piece.frames.is_some() {
                            for page in own.iter() {
                                if piece.shared(page) {
                                    own = own.without(Bits::one(page));
                                }
                            }
                        }
                        if view == Some(View::SharedMemory) {
                            own = here;
                        }
                        changed = changed.or(live.and(own).without(piece.writable));
                        piece.writable = piece.writable.or(own);
                    }
                    piece.barred = piece.barred.without(here);
                    if other || keyed {
                        changed = live;
                    }
                }
                widen(&mut hull, number, changed);
            }
            at = stop;
        }
        self.areas.allow(range, allowed & ANY);
        if let Some((first, last)) = hull {
            effect.flushes.push(Flush {
                first,
                last,
                counted: span(first, last),
                gone: false,
                tables: false,
                gathered: true,
            });
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the call has as many")]
    fn remap(
        &mut self,
        mut old: Range<u64>,
        new: Range<u64>,
        flags: u64,
        frames: &mut Frames,
        budget: &mut Budget,
        effect: &mut Effect,
    ) {
        let (had, has) = (old.end - old.start, new.end - new.start);
        let moved = new.start != old.start;
        if flags & MREMAP_FIXED != 0 && moved {
            self.unmap(&new, frames, effect);
        }
        if has < had {
            self.unmap(&(old.start + has..old.end), frames, effect);
            old.end = old.start + has;
        }
        let area = self.areas.at(old.start).map(|(_, area)| area);
        if moved {
            self.shift(&old, new.start, frames, budget, effect);
        }
        if moved && flags & MREMAP_DONTUNMAP == 0 {
            self.unmap(&old, frames, effect);
        }
        if let Some(area) = area {
            self.areas.set(new.clone(), area.view, area.allowed);
            if area.own {
                self.areas.own(new.start);
            }
        }
        self.known.add(new);
    }

    /// Moves pages from one place to another. Each table's part of either place is flushed by itself,
    /// whole, if anything was there.
    fn shift(
        &mut self,
        old: &Range<u64>,
        new: u64,
        frames: &mut Frames,
        budget: &mut Budget,
        effect: &mut Effect,
    ) {
        let unknown = self.missing(old, effect);
        let next = |page: u64| (page / PIECE + 1).saturating_mul(PIECE);
        let mut at = old.start;
        let numbers: Vec<u64> = self.within(old).map(|(number, ..)| number).collect();
        for number in numbers {
            at = at.max(number * PIECE);
            while at < old.end && at / PIECE == number {
                let to = new + (at - old.start);
                let length = (next(at) - at).min(next(to) - to).min(old.end - at);
                let Some(piece) = self.pieces.get_mut(&number) else { break };
                let bits = Bits::between(at % PIECE, at % PIECE + length);
                let here = piece.present.and(bits);
                let sets = [here, piece.writable, piece.own, piece.barred].map(|set| set.and(here));
                // Frames go along: for the few pages that have one it is as if they were copied.
                piece.drop_pages(here, frames);
                if !here.is_empty() {
                    if length == PIECE && to.is_multiple_of(PIECE) {
                        // The table itself is moved.
                        self.pieces.remove(&number);
                    }
                    if budget.take(1) {
                        let target = self.pieces.entry(to / PIECE).or_default();
                        for page in here.iter() {
                            let one = Bits::one(page);
                            let there = Bits::one((to + number * PIECE + page - at) % PIECE);
                            let has = |set: Bits| !set.and(one).is_empty();
                            target.present = target.present.or(there);
                            if has(sets[1]) {
                                target.writable = target.writable.or(there);
                            }
                            if has(sets[2]) {
                                target.own = target.own.or(there);
                            }
                            if has(sets[3]) {
                                target.barred = target.barred.or(there);
                            }
                        }
                    }
                    let last = at + length - 1;
                    effect.flushes.push(moved(at, last));
                }
                at += length;
            }
        }
        if effect.flushes.is_empty()
            && let Some((first, last)) = unknown
        {
            effect.flushes.push(moved(first, last));
        }
    }

    /// Nothing is mapped in the range any more.
    fn unmap(&mut self, range: &Range<u64>, frames: &mut Frames, effect: &mut Effect) {
        self.zap(range, Tables::Unused, frames, effect);
        self.areas.clear(range);
    }

    /// Takes the pages of a range away, and tables that are not needed any more.
    fn zap(
        &mut self,
        range: &Range<u64>,
        tables: Tables,
        frames: &mut Frames,
        effect: &mut Effect,
    ) {
        if range.is_empty() {
            return;
        }
        let mut hull = self.missing(range, effect);
        self.known.add(range.clone());
        let shared = [View::SharedFile, View::SharedMemory]
            .into_iter()
            .any(|view| self.areas.any_view(range, view));
        let mut gathered = 0;
        let mut flushes = Vec::new();
        for (number, bits, piece) in self.within(range) {
            let mut here = piece.present.and(bits);
            // A dirty page of a shared file must not be written to after it was counted as clean:
            // there is a flush for each table. Shared memory is such a file. A page of it that was
            // read first can be written without an event, and is taken for written.
            let dirty = shared && !here.and(piece.writable).without(piece.own).is_empty();
            piece.drop_pages(here, frames);
            while gathered + here.count() >= GATHERED {
                let taken = GATHERED - gathered;
                let part = here
                    .iter()
                    .take(taken as usize)
                    .fold(Bits::default(), |part, page| part.or(Bits::one(page)));
                here = here.without(part);
                widen(&mut hull, number, part);
                flushes.extend(hull.take());
                gathered = 0;
            }
            gathered += here.count();
            widen(&mut hull, number, here);
            if dirty {
                flushes.extend(hull.take());
            }
        }
        effect.flushes.extend(flushes.into_iter().map(|(first, last)| Flush {
            first,
            last,
            counted: span(first, last),
            gone: true,
            tables: false,
            gathered: true,
        }));
        let freed = self.free_tables(range, tables);
        let (last_flush, stride) = match (hull, freed) {
            (None, None) => return,
            (Some(hull), None) => (hull, 1),
            (Some((a, b)), Some((c, d))) => ((a.min(c), b.max(d)), 1),
            // Without pages Linux counts in steps of a table.
            (None, Some(freed)) => (freed, PIECE),
        };
        let (first, last) = last_flush;
        effect.flushes.push(Flush {
            first,
            last,
            counted: counted((last - first + 1) / stride),
            gone: true,
            tables: freed.is_some(),
            gathered: true,
        });
    }

    /// Frees the tables of a range in which nothing is left, and says from which page to which page
    /// Linux counts them: each by its first page.
    fn free_tables(&mut self, range: &Range<u64>, tables: Tables) -> Option<(u64, u64)> {
        let empty: Vec<(u64, bool)> = self
            .within(range)
            .filter(|(_, _, piece)| piece.present.is_empty())
            .map(|(number, bits, piece)| (number, bits.count() == PIECE || !piece.strange))
            .collect();
        let mut hull = None;
        for (number, sure) in empty {
            let low = number * PIECE;
            let covered = range.start <= low && low + PIECE <= range.end;
            let free = covered
                || (tables == Tables::Unused
                    && sure
                    && self.complete
                    && !self.areas.any(&(low..range.start.max(low)))
                    && !self.areas.any(&(range.end.min(low + PIECE)..low + PIECE)));
            if !free {
                continue;
            }
            self.pieces.remove(&number);
            widen(&mut hull, number, Bits::one(0));
            if tables == Tables::Unused && self.complete {
                for size in UPPER {
                    let start = low - low % size;
                    let used = self.pieces.range(start / PIECE..(start + size) / PIECE).next();
                    if used.is_none()
                        && !self.areas.any(&(start..range.start.max(start)))
                        && !self.areas.any(&(range.end.min(start + size)..start + size))
                    {
                        widen(&mut hull, start / PIECE, Bits::one(0));
                    }
                }
            }
        }
        hull
    }

    /// The span of a range of which nothing is known; its pages are taken for present.
    fn missing(&self, range: &Range<u64>, effect: &mut Effect) -> Option<(u64, u64)> {
        if self.complete {
            return None;
        }
        let Range { start, end } = self.known.missing(range)?;
        effect.unknown = true;
        Some((start, end - 1))
    }
}

/// Part of a move. It is flushed as if tables were freed: `mremap` uses `flush_tlb_range`, which on x86 asks all CPUs
/// of the mask, as moving a page by its table leaves upper levels behind.
fn moved(first: u64, last: u64) -> Flush {
    let counted = span(first, last);
    Flush { first, last, counted, gone: true, tables: true, gathered: false }
}

/// One page, flushed by itself.
fn alone(page: u64, gone: bool) -> Flush {
    let counted = Pages::Some(1);
    Flush { first: page, last: page, counted, gone, tables: false, gathered: false }
}

fn span(first: u64, last: u64) -> Pages {
    counted(last - first + 1)
}

/// Makes a span reach over pages of a piece.
fn widen(hull: &mut Option<(u64, u64)>, piece: u64, pages: Bits) {
    if let Some((first, last)) = pages.ends() {
        let (first, last) = (piece * PIECE + first, piece * PIECE + last);
        *hull = Some(match *hull {
            Some((from, to)) => (from.min(first), to.max(last)),
            None => (first, last),
        });
    }
}
