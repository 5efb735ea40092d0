//! What Linux on x86 does to page tables in each system call, and which flushes follow from that.
//!
//! The rules, and how each was found, are in `docs/reconstruction.md`. They are those of Linux 6.18;
//! none is a matter of the machine except the ceiling.

use core::ops::Range;

use crate::{
    Call, Pages,
    reconstruct::{
        areas::{ANY, EXECUTE, File, View, WRITE},
        bits::{Bits, PIECE},
        frames::{Budget, Frames},
        memory::Memory,
    },
};

mod madvise;
mod mlock;
mod mremap;
mod munmap;
mod write_back;

use madvise::{ADVICE_THAT_FLUSHES, MADV_PAGEOUT};
pub(super) use write_back::Written;

/// From how many pages on Linux flushes everything instead.
const CEILING: u64 = 33;

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
    /// Whether it ends what gathers pages, and so is of everything if somebody else gathers at the same time.
    pub(super) gathered: bool,
    /// The space that has the page, where that is another one than the caller's.
    pub(super) of: Option<Other>,
}

/// Another space that has a page of the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Other {
    /// Its number.
    pub(super) space: u32,
    /// Whether the kernel says that it flushes: if another CPU than that of the call may hold the space.
    pub(super) said: bool,
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
                of: None,
            });
        }
    }
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

/// A mapping was not found; what was found was worked on nevertheless.
const ENOMEM: i64 = -12;

/// Whether a call has pages taken away that go one by one.
pub(super) fn pages_out(call: Call, arguments: &[u64; 5]) -> bool {
    match call {
        Call::Madvise => arguments[2] == MADV_PAGEOUT,
        Call::ProcessMadvise => arguments[3] == MADV_PAGEOUT,
        _ => false,
    }
}

/// The pages of a range of bytes.
pub(super) fn pages(address: u64, length: u64) -> Range<u64> {
    let end = address.saturating_add(length);
    address / 4096..end.div_ceil(4096).max(address / 4096)
}

/// The pages that a call is about, before it is known what it returns.
pub(super) fn subject(call: Call, arguments: &[u64; 5]) -> Option<Range<u64>> {
    let range = match call {
        Call::Munmap
        | Call::Mprotect
        | Call::PkeyMprotect
        | Call::Madvise
        | Call::Mremap
        | Call::Msync => pages(arguments[0], arguments[1]),
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
        let &[first, second, third, fourth, fifth] = arguments;
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
                let file = (fourth & MAP_ANONYMOUS == 0)
                    .then(|| File { descriptor: Some(fifth as u32), mapping: frames.mapping() });
                self.areas.set_file(range.clone(), view, third & ANY, file);
                self.known.add(range.clone());
                // Of what may not be accessed at all nothing is brought.
                let locked = self.locks_later && third & ANY != 0;
                if fourth & (MAP_POPULATE | MAP_LOCKED) != 0 || locked {
                    // Pages of a shared file are only read, so that the first write to each is noticed.
                    let write = third & WRITE != 0 && view != View::SharedFile;
                    self.fill(range, write, frames, budget, &mut effect);
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
                        if self.locks_later {
                            self.fill(old..end, true, frames, budget, &mut effect);
                        }
                    }
                    None => {}
                }
                self.heap_end = Some(end);
            }
            Call::Mprotect if !failed => {
                let range = pages(first, second);
                let fills = self.opens_locked(&range, third);
                self.protect(&range, third, false, &mut effect);
                self.lock_areas(fills, frames, budget, &mut effect);
            }
            Call::PkeyMprotect if !failed => {
                let keyed = fourth as u32 != u32::MAX;
                let range = pages(first, second);
                let fills = self.opens_locked(&range, third);
                self.protect(&range, third, keyed, &mut effect);
                self.lock_areas(fills, frames, budget, &mut effect);
            }
            Call::Mlock | Call::Mlock2 | Call::Mlockall | Call::Munlockall if !failed => {
                self.lock(call, arguments, frames, budget, &mut effect);
            }
            Call::Madvise if !failed || value == ENOMEM => {
                self.advise(pages(first, second), third, frames, budget, &mut effect);
            }
            Call::Close if !failed => self.areas.close(first as u32),
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

    /// The first page of what a call walks through that finds a page table there.
    pub(super) fn walks(&mut self, call: Call, arguments: &[u64; 5], value: i64) -> Option<u64> {
        let works = gathers(call, arguments) != Gathers::No && !(-4095..0).contains(&value);
        let range = subject(call, arguments).filter(|_| works)?;
        self.within(&range).next().is_some().then_some(range.start)
    }

    /// Other things are allowed in a range; a new key changes every page that is there.
    fn protect(&mut self, range: &Range<u64>, allowed: u64, keyed: bool, effect: &mut Effect) {
        let mut hull = self.missing(range, effect);
        let (mut at, end) = (range.start, range.end);
        let mut unseen = Vec::new();
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
            let mut own = false;
            for (number, bits, piece) in self.within(&(at..stop)) {
                let here = piece.present.and(bits);
                own |= !here.and(piece.own).is_empty();
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
            if view.is_none() && self.complete {
                unseen.push((at..stop, own));
            }
            at = stop;
        }
        self.areas.allow(range, allowed & ANY);
        // No call mapped it, so the kernel did when it executed the program: a segment of its file.
        for (range, own) in unseen {
            self.areas.set(range.clone(), View::PrivateFile, allowed & ANY);
            if own {
                self.areas.own(range.start);
            }
        }
        effect.flushes.extend(hull.map(|hull| together(hull, false)));
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

/// Pages that were gathered, in one flush.
fn together((first, last): (u64, u64), gone: bool) -> Flush {
    let counted = span(first, last);
    Flush { first, last, counted, gone, tables: false, gathered: true, of: None }
}

/// One page, flushed by itself.
fn alone(page: u64, gone: bool) -> Flush {
    let counted = Pages::Some(1);
    Flush { first: page, last: page, counted, gone, tables: false, gathered: false, of: None }
}

/// Everything, as if page tables were gone: what a batch took away may not have been flushed yet.
pub(super) fn everything(page: u64) -> Flush {
    Flush { counted: Pages::Everything, ..alone(page, false) }
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
