//! `madvise`: which advice flushes, and what.

use core::ops::Range;

use super::{Effect, alone, munmap::Tables, together, widen};
use crate::reconstruct::{
    areas::View,
    bits::{Bits, PIECE},
    frames::{Budget, Frames},
    memory::Memory,
};

const MADV_DONTNEED: u64 = 4;
const MADV_FREE: u64 = 8;
const MADV_REMOVE: u64 = 9;
const MADV_COLD: u64 = 20;
pub(super) const MADV_PAGEOUT: u64 = 21;
const MADV_POPULATE_READ: u64 = 22;
const MADV_POPULATE_WRITE: u64 = 23;
const MADV_DONTNEED_LOCKED: u64 = 24;
const MADV_GUARD_INSTALL: u64 = 102;
pub(super) const ADVICE_THAT_FLUSHES: [u64; 7] = [
    MADV_DONTNEED,
    MADV_FREE,
    MADV_REMOVE,
    MADV_COLD,
    MADV_PAGEOUT,
    MADV_DONTNEED_LOCKED,
    MADV_GUARD_INSTALL,
];

impl Memory {
    pub(super) fn advise(
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
                effect.flushes.extend(hull.map(|hull| together(hull, false)));
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
}
