//! A fair lock for rare paths.

use crate::{
    platform::Platform,
    word::{Ordering, Word},
};

/// A ticket lock. It is fair, because a CPU that is overtaken by rollovers for ever would never run.
///
/// It is taken with interrupts off, by CPUs that hold no other lock of this crate. The holder takes a bounded
/// number of steps, and waits only for holders of a residency lock and for CPUs in mid-switch.
pub(super) struct Ticket<W> {
    next: W,
    serving: W,
}

impl<W: Word> Ticket<W> {
    pub(super) const NEW: Self = Self { next: W::ZERO, serving: W::ZERO };

    /// Waits for the lock.
    pub(super) fn lock<P: Platform<Word = W>>(&self, platform: &P) -> Held<'_, W> {
        // Relaxed: the load below synchronises.
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        // ORDER O-LOCK (pairs with O-UNLOCK): what earlier holders wrote is visible.
        while self.serving.load(Ordering::Acquire) != mine {
            platform.relax();
        }
        Held { lock: self, mine }
    }
}

/// The lock, held until dropped.
pub(super) struct Held<'l, W: Word> {
    lock: &'l Ticket<W>,
    mine: u64,
}

impl<W: Word> Drop for Held<'_, W> {
    fn drop(&mut self) {
        // ORDER O-UNLOCK (pairs with O-LOCK): what this holder wrote is visible to the next.
        self.lock.serving.store(self.mine.wrapping_add(1), Ordering::Release);
    }
}
