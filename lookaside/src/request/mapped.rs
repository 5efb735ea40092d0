//! How much one CPU has mapped under a tag since it last lost everything under it: entries that a flush of the whole tag
//! would lose, and that the program is about to use, because it faulted for them.

use core::sync::atomic::{AtomicU32, Ordering};

/// A count of pages that only its CPU reads and writes, with interrupts off. Pages that are flushed one by one are still
/// counted: to uncount them would cost such a flush more than the count is worth. Nothing but the choice between two
/// sound flushes depends on it.
pub(crate) struct Mapped(AtomicU32);

impl Mapped {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// How many pages.
    pub(crate) fn pages(&self) -> u64 {
        self.0.load(Ordering::Relaxed).into() // Relaxed: this CPU's own.
    }

    /// The CPU has mapped more.
    pub(crate) fn add(&self, pages: u64) {
        self.set(self.pages().saturating_add(pages));
    }

    /// So many are left.
    #[inline]
    pub(crate) fn set(&self, pages: u64) {
        // Relaxed: this CPU's own.
        self.0.store(u32::try_from(pages).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}
