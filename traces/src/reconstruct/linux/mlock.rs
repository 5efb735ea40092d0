//! `mlock` and its like: every page of the range is there when the call returns. Where the program may write to memory of
//! its own, each page can be written, so what was shared, or is a file's, is copied and flushed by itself.

use core::ops::Range;

use super::{Effect, pages};
use crate::{
    Call,
    reconstruct::{
        areas::{ANY, View, WRITE},
        frames::{Budget, Frames},
        memory::Memory,
    },
};

const MLOCK_ONFAULT: u64 = 1;
const MCL_CURRENT: u64 = 1;
const MCL_FUTURE: u64 = 2;
const MCL_ONFAULT: u64 = 4;

impl Memory {
    /// Does what a call does that locks pages, and that succeeded.
    pub(super) fn lock(
        &mut self,
        call: Call,
        arguments: &[u64; 5],
        frames: &mut Frames,
        budget: &mut Budget,
        effect: &mut Effect,
    ) {
        let &[first, second, third, ..] = arguments;
        let range = match call {
            Call::Mlock => pages(first, second),
            Call::Mlock2 if third & MLOCK_ONFAULT == 0 => pages(first, second),
            Call::Mlockall => {
                let fills = first & MCL_ONFAULT == 0;
                self.locks_later = fills && first & MCL_FUTURE != 0;
                if !fills || first & MCL_CURRENT == 0 {
                    return;
                }
                // What the kernel mapped when it executed the program is in no call: it is left out.
                0..u64::MAX
            }
            Call::Munlockall => {
                self.locks_later = false;
                return;
            }
            _ => return,
        };
        let areas = self.areas.of_range(&range);
        self.lock_areas(areas, frames, budget, effect);
    }

    /// The parts of a range that may not be written, and now may be, where all that is mapped is locked: Linux brings their
    /// pages then.
    pub(super) fn opens_locked(&self, range: &Range<u64>, allowed: u64) -> Vec<Part> {
        if !self.locks_later || allowed & WRITE == 0 {
            return Vec::new();
        }
        let mut parts = self.areas.of_range(range);
        parts.retain(|(_, view, before)| before & WRITE == 0 && !is_shared(*view));
        parts.iter_mut().for_each(|(.., before)| *before = allowed);
        parts
    }

    /// Brings the pages of these areas.
    pub(super) fn lock_areas(
        &mut self,
        areas: Vec<Part>,
        frames: &mut Frames,
        budget: &mut Budget,
        effect: &mut Effect,
    ) {
        for (range, view, allowed) in areas {
            if allowed & ANY != 0 {
                let write = allowed & WRITE != 0 && !is_shared(view);
                self.fill(range, write, frames, budget, effect);
            }
        }
    }
}

/// A part of an area: its pages, what they are, and what is allowed.
pub(super) type Part = (Range<u64>, View, u64);

/// Shared pages are only read when they are locked.
fn is_shared(view: View) -> bool {
    matches!(view, View::SharedFile | View::SharedMemory)
}
