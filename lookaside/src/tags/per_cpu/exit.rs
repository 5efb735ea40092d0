//! Flushes of the user's tag that are left to the exit to user mode
//! ([`crate::arch::x86_64::UserFlush::AtExit`]).

use super::Slots;
use crate::{arch::Held, word::Word};

impl<W: Word, const SLOTS: usize> Slots<W, SLOTS> {
    /// Records that the entries under the tag of the user's table are still to be flushed, where that table
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
