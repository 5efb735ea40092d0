//! What `munmap` takes away, and others with it: pages, and the tables in which nothing is left.

use core::ops::Range;

use super::{Effect, Flush, counted, together, widen};
use crate::reconstruct::{
    areas::View,
    bits::{Bits, PIECE},
    frames::Frames,
    memory::Memory,
};

/// How many pages Linux gathers before it flushes and frees them, and goes on.
const GATHERED: u64 = 9698;
/// What one table of the second and of the third level maps, in pages.
const UPPER: [u64; 2] = [PIECE * PIECE, PIECE * PIECE * PIECE];

/// Whether a page table goes when nothing is left in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    /// If nothing is mapped there any more.
    Unused,
    /// If the call was about all of it.
    Covered,
}

impl Memory {
    /// Nothing is mapped in the range any more.
    pub(super) fn unmap(&mut self, range: &Range<u64>, frames: &mut Frames, effect: &mut Effect) {
        self.zap(range, Tables::Unused, frames, effect);
        self.areas.clear(range);
    }

    /// Takes the pages of a range away, and tables that are not needed any more.
    pub(super) fn zap(
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
        // They are done before what gathers is over, which alone sees whether others gather.
        let early =
            flushes.into_iter().map(|hull| Flush { gathered: false, ..together(hull, true) });
        effect.flushes.extend(early);
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
            of: None,
        });
    }

    /// How many flushes the end of the space takes before the one with which its tables go: they follow from the same
    /// rules as those of [`Self::zap`].
    pub(in crate::reconstruct) fn flushes_before_end(&self) -> u32 {
        let (mut flushes, mut gathered, mut waits) = (0, 0, false);
        for (&number, piece) in &self.pieces {
            let range = number * PIECE..(number + 1) * PIECE;
            let shared = [View::SharedFile, View::SharedMemory]
                .into_iter()
                .any(|view| self.areas.any_view(&range, view));
            let dirty = shared && !piece.present.and(piece.writable).without(piece.own).is_empty();
            gathered += piece.present.count();
            waits |= gathered > 0;
            while gathered >= GATHERED {
                (flushes, gathered) = (flushes + 1, gathered - GATHERED);
                waits = gathered > 0;
            }
            if dirty && waits {
                (flushes, waits) = (flushes + 1, false);
            }
        }
        flushes
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
}
