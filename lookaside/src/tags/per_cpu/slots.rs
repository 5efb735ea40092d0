//! The slots of one CPU: which spaces it may hold entries of, and up to which generation it has flushed each.

use core::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering as Local},
};

use super::{EMPTY_SLOT, Replacement};
use crate::{
    arch::{FOREIGN_TAG, Held, Tag},
    word::{Ordering, Word},
};

/// The slots. Written only by this CPU; read by initiators that wait for it.
pub(super) struct Slots<W, const SLOTS: usize> {
    /// Which space each slot holds, in the form of `active`.
    pub(super) id: [W; SLOTS],
    pub(super) flushed_up_to: [W; SLOTS],
    /// The slot of the space that the register names.
    pub(super) current: W,
    /// The generation of that space.
    pub(super) generation: AtomicPtr<W>,
    pub(super) replacement: W,
    /// Slots whose entries under the tag of a separate user table are still to be flushed.
    pub(super) user_needs_flush: W,
}

/// The tag of a slot. Tags 0 and 1 are those of the reserved root and of foreign roots.
pub(super) const fn tag_of(slot: usize) -> Tag {
    Tag(FOREIGN_TAG.0 + 1 + slot as u16)
}

impl<W: Word, const SLOTS: usize> Slots<W, SLOTS> {
    /// No space in any of them.
    #[expect(clippy::declare_interior_mutable_const, reason = "each use is to be a CPU of its own")]
    pub(super) const EMPTY: Self = Self {
        id: [const { W::ZERO }; SLOTS],
        flushed_up_to: [const { W::ZERO }; SLOTS],
        current: W::ZERO,
        generation: AtomicPtr::new(ptr::null_mut()),
        replacement: W::ZERO,
        user_needs_flush: W::ZERO,
    };

    /// The slot that holds a space.
    #[inline]
    pub(super) fn holding(&self, who: u64) -> Option<usize> {
        // Relaxed: this CPU's own words.
        self.id.iter().position(|slot| slot.load(Ordering::Relaxed) == who)
    }

    /// Whether any of them holds a space.
    pub(super) fn hold_any(&self) -> bool {
        // Relaxed: this CPU's own words.
        self.id.iter().any(|slot| slot.load(Ordering::Relaxed) != EMPTY_SLOT)
    }

    /// As the owner: empties all slots but `present`, so that the next load of each of their tags drops what is held there.
    pub(super) fn empty_all_but(&self, present: Option<usize>) {
        for (slot, id) in self.id.iter().enumerate() {
            // Relaxed: this CPU's own word. An initiator that reads it meanwhile took the slot for the one of a space that this
            // CPU runs; it does not count an empty one as flushed, and looks again.
            if Some(slot) != present && id.load(Ordering::Relaxed) != EMPTY_SLOT {
                id.store(EMPTY_SLOT, Ordering::Relaxed);
            }
        }
    }

    /// Tells the replacement policy that a space was found in `slot`.
    #[inline]
    pub(super) fn hit<R: Replacement>(&self, slot: usize) {
        if !R::NOTES_HITS {
            return;
        }
        let word = self.replacement.get();
        let after = R::hit(word, slot);
        if after != word {
            self.replacement.set(after);
        }
    }

    /// The slot to be given to a space that no slot holds: an empty one if there is one.
    pub(super) fn victim<R: Replacement>(&self) -> usize {
        if let Some(slot) = self.holding(EMPTY_SLOT) {
            self.hit::<R>(slot);
            return slot;
        }
        let current = self.current();
        let (slot, after) = R::victim(self.replacement.get(), SLOTS, current);
        self.replacement.set(after);
        slot
    }

    /// The present generation of the space that the register names, up to which this CPU must flush.
    ///
    /// # Safety
    ///
    /// The register does name a space.
    pub(super) unsafe fn current_generation(&self) -> u64 {
        // SAFETY: this CPU runs the space, which stays where it is as long as a CPU does: that is a
        // promise of `Platform`.
        let generation = unsafe { &*self.generation.load(Local::Relaxed) }; // Relaxed: this CPU's own.
        generation.load(Ordering::SeqCst) // As F-CLEAR-PENDING.
    }

    /// Records that this CPU holds, under the tag of `slot`, nothing of `who` that was revoked
    /// up to `generation`, and nothing of any other space.
    pub(super) fn record(&self, slot: usize, who: u64, generation: u64) {
        // Relaxed: this CPU's own word.
        if self.id[slot].load(Ordering::Relaxed) == who {
            self.set_flushed_up_to(slot, generation);
        } else {
            self.give(slot, who, generation);
        }
    }

    /// As [`Self::record`], of a slot that held another space, or may have.
    #[inline]
    pub(super) fn give(&self, slot: usize, who: u64, generation: u64) {
        // As O-CAUGHT-UP: an initiator never sees a generation beside another space's identifier.
        self.flushed_up_to[slot].store(0, Ordering::Release);
        self.id[slot].store(who, Ordering::Release);
        self.set_flushed_up_to(slot, generation);
    }

    /// As the owner: the slot of the space that the register names.
    #[inline]
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed) as usize // Relaxed: this CPU's own word.
    }

    /// As the owner: notes the slot of the space that the register names, before [`super::PerCpuAsids`] says which one that is.
    /// Without tags it is always the first.
    #[inline]
    pub(super) fn set_current(&self, slot: usize) {
        self.current.store(slot as u64, Ordering::Relaxed); // Relaxed: O-SWITCHED follows.
    }

    /// As the owner: the generation up to which the space of a slot was flushed.
    #[inline]
    pub(super) fn flushed_up_to(&self, slot: usize) -> u64 {
        self.flushed_up_to[slot].load(Ordering::Relaxed) // Relaxed: this CPU's own word.
    }

    /// As the owner: records that the space of a slot was flushed up to `generation`.
    #[inline]
    pub(super) fn set_flushed_up_to(&self, slot: usize, generation: u64) {
        // ORDER O-CAUGHT-UP (pairs with O-CAUGHT-UP-READ): the flush is complete, and all that this CPU did
        // through the old translations is visible.
        self.flushed_up_to[slot].store(generation, Ordering::Release);
    }

    /// Records, for the exit to user mode ([`crate::arch::x86_64::UserFlush::AtExit`]), that the entries under the tag of the user's table are still to be flushed, where that table
    /// has a tag of its own: the load of the root drops only those under the kernel's tag.
    pub(super) fn user_needs_flush(&self, slot: usize) {
        self.user_needs_flush.set(self.user_needs_flush.get() | 1 << slot);
    }

    /// What the load of the user's root must do with the entries under its tag. A flush that is pending
    /// counts as done from here on.
    pub(super) fn take_user_flush(&self) -> Held {
        let (pending, slot) = (self.user_needs_flush.get(), 1 << self.current());
        let held = if pending & slot == 0 { Held::Keep } else { Held::Drop };
        self.user_needs_flush.set(pending & !slot);
        held
    }
}
