//! A fair lock for rare paths.

use super::{GlobalAsids, HasGlobalAsids};
use crate::{
    platform::Platform,
    tlb::Tlb,
    word::{Ordering, Word},
};

/// A ticket lock. It is fair, because a CPU that is overtaken by rollovers for ever would never run.
///
/// Each ticket is waited for at a word of its own, its *grant*, so that a release concerns one waiter and not all of
/// them: after a rollover every CPU wants the lock (T. E. Anderson, "The performance of spin lock alternatives for
/// shared-memory multiprocessors", IEEE TPDS 1(1), 1990).
///
/// It is taken with interrupts off, by CPUs that hold no other lock of this crate. The holder takes a bounded
/// number of steps, and waits only for holders of a residency lock, for CPUs in mid-switch, and for invalidations by
/// broadcast, which hardware or the firmware of other CPUs completes whatever these execute.
pub(super) struct Ticket<W> {
    next: W,
}

impl<W: Word> Ticket<W> {
    pub(super) const NEW: Self = Self { next: W::ZERO };

    /// Waits for the lock. The grants of as many tickets in a row as there are CPUs are different words, which begin
    /// with zero and say which ticket's turn has come.
    fn lock<'l, P: Platform<Word = W>>(
        &self,
        platform: &P,
        grant: impl Fn(u64) -> &'l W,
    ) -> Held<'l, W> {
        // Relaxed: the load below synchronises.
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        let granted = grant(mine);
        // ORDER O-LOCK (pairs with O-UNLOCK): what earlier holders wrote is visible.
        while granted.load(Ordering::Acquire) != mine {
            platform.relax();
        }
        let next = mine.wrapping_add(1);
        Held { grant: grant(next), next }
    }
}

impl<P: Platform> GlobalAsids<'_, P> {
    /// Waits for the lock of rollovers, windows of tags and pins.
    pub(super) fn lock<'t, T: HasGlobalAsids<P>>(
        &self,
        tlb: &'t Tlb<'_, P, T>,
    ) -> Held<'t, P::Word> {
        let cpus = tlb.cpus;
        self.turn.lock.lock(&tlb.platform, |ticket| {
            &T::global_cpu(&cpus[(ticket % cpus.len() as u64) as usize]).grant
        })
    }
}

/// The lock, held until dropped.
pub(super) struct Held<'l, W: Word> {
    /// The grant of the next ticket.
    grant: &'l W,
    next: u64,
}

impl<W: Word> Drop for Held<'_, W> {
    fn drop(&mut self) {
        // ORDER O-UNLOCK (pairs with O-LOCK): what this holder wrote is visible to the next.
        self.grant.store(self.next, Ordering::Release);
    }
}
