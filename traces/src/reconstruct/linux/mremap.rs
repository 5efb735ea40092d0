//! `mremap`: pages are moved, and each table's part of either place is flushed by itself.

use core::ops::Range;

use super::{Effect, Flush, span};
use crate::reconstruct::{
    bits::{Bits, PIECE},
    frames::{Budget, Frames},
    memory::Memory,
};

const MREMAP_DONTUNMAP: u64 = 4;
const MREMAP_FIXED: u64 = 2;

impl Memory {
    #[allow(clippy::too_many_arguments, reason = "the call has as many")]
    pub(super) fn remap(
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
            self.areas.set_file(new.clone(), area.view, area.allowed, area.file);
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
}

/// Part of a move. It is flushed as if tables were freed: `mremap` uses `flush_tlb_range`, which on x86 asks all CPUs
/// of the mask, as moving a page by its table leaves upper levels behind.
fn moved(first: u64, last: u64) -> Flush {
    let counted = span(first, last);
    Flush { first, last, counted, gone: true, tables: true, gathered: false, of: None }
}
