//! What has changed in a space since it was last flushed.

use core::fmt;

use super::ranges::{FlushRanges, hull};
use crate::{
    arch::TableChange,
    flags::Flags,
    platform::{Ordering, Platform, Word},
    range::{FlushRange, VaRange},
    space::{AddressSpace, Unfinished, UnfinishedFlushes},
};

/// Collects what changes in the page tables of one space, until [`crate::CurrentCpu::flush`] takes it
/// back from every CPU.
///
/// Begin it *before* the first entry is changed. Tell it of each change, before or after, with the
/// addresses and page size of the entries as they were. Then flush it: the [`super::Flushed`] that
/// comes back is what frames and tables are released against.
///
/// # Several at one time
///
/// Gathers of one space may overlap in time, on one CPU or on several. Who finds an entry absent
/// that somebody else has cleared and not flushed must not believe that it is gone from every TLB:
/// so whoever walks a range and acts on what is absent there names it with [`Self::relies_on`], and
/// the flush takes care of it. For this to work the entries must be changed and read under a lock of
/// the page table, or else changed with at least `Release` and read with at least `Acquire`.
///
/// An early flush ([`crate::CurrentCpu::flush_early`]) is over when its targets have acknowledged, and one
/// that relies on what it took away must not be reported complete before they have invalidated it.
/// Nobody is told when they have. But each of them does so before it does anything else that it is
/// asked, with interrupts off; so the first gather that relies on anything after an early flush, and
/// is not early itself, flushes the range that it relies on. Whoever runs the space is then asked once
/// more, and has invalidated when it answers; and whoever does not run it any more, or is lazy, pays
/// for everything on its way back. After that all early flushes are known to be complete that were
/// over before it began, and those that come later rely on nothing but the absence. So an early flush
/// costs its own initiator nothing, gathers that rely on nothing cost what they did, and of many early
/// flushes in a row at most one is followed by a flush more.
///
/// # Dropping
///
/// A gather that is dropped unflushed loses nothing: what it gathered is owed, frames cannot be
/// released for want of a proof, and the next flush of the space flushes everything.
#[must_use = "nothing is flushed, and no frame can be released, until this is handed to `CurrentCpu::flush`"]
pub struct Gather<'g, P: Platform> {
    space: &'g AddressSpace<'g, P>,
    serial: u64,
    ranges: FlushRanges,
    relied: Relied,
    /// What others have left that is complete when this is flushed.
    completes: Option<UnfinishedFlushes>,
    bits: Flags,
}

/// What a gather's owner takes for absent.
enum Relied {
    Nothing,
    /// Addresses from the first to the last that was named.
    On(FlushRange),
    OnEverything,
}

impl<'g, P: Platform> Gather<'g, P> {
    /// Begins to gather changes of `space`.
    #[inline]
    pub fn new(space: &'g AddressSpace<'g, P>) -> Self {
        // ORDER O-BEGUN (pairs with O-OTHERS): before the first entry is changed. Whoever sees the
        // change sees that it is not flushed yet.
        let serial = space.begun.fetch_add(1, Ordering::AcqRel) + 1;
        Self {
            space,
            serial,
            ranges: FlushRanges::new(),
            relied: Relied::Nothing,
            completes: None,
            bits: Flags::default(),
        }
    }

    /// Entries of the page size of `range` were removed, or changed so that what they said before
    /// must not be used any more: another frame, less permission, another memory type.
    #[inline]
    pub fn revoke(&mut self, range: VaRange) {
        self.ranges.add(FlushRange::uniform(range));
    }

    /// As [`Self::revoke`], where the entries had several sizes. `range` is in the smallest of them.
    pub fn revoke_mixed(&mut self, range: VaRange) {
        self.ranges.add(FlushRange { range, uniform: false });
    }

    /// A page table was unlinked that mapped `range`, which is in the page size of its smallest
    /// entries; the entries in it are revoked with it.
    pub fn unlink_table(&mut self, range: VaRange) {
        self.revoke_mixed(range);
        self.ranges.add_change(TableChange::FreedTables);
    }

    /// Everything in the space was revoked, and tables may have been unlinked.
    pub fn revoke_everything(&mut self) {
        self.ranges.merge(&FlushRanges::everything());
    }

    /// Entries in `range` came to allow more than before, and nothing less; or they were absent and
    /// are not any more. This costs nothing: a CPU that has not noticed takes a fault that is
    /// spurious ([`crate::CurrentCpu::spurious_fault`]).
    pub fn relax(&mut self, range: VaRange) {
        let _ = range;
    }

    /// The entries of `range` moved to other addresses, as `mremap` has it; `guard` is whatever
    /// keeps others from the page tables at both ends.
    ///
    /// The gather must be flushed before `guard` is let go: as soon as another CPU can find the pages at their
    /// new addresses and unmap them there, it would free them while the old addresses still reach them
    /// (CVE-2018-18281). Code that lets go of it first does not compile, unless it forgets the gather
    /// ([`core::mem::forget`]), which is as wrong as not to tell it of the move.
    pub fn move_away<G: ?Sized>(&mut self, range: VaRange, guard: &'g G) {
        let _ = guard;
        self.revoke_mixed(range);
    }

    /// A page table that other spaces may share was detached from `range`; `guard` is whatever keeps
    /// its owners from freeing what it maps.
    ///
    /// As with [`Self::move_away`], the flush comes before `guard` is let go (CVE-2021-4002).
    pub fn unshare_table<G: ?Sized>(&mut self, range: VaRange, guard: &'g G) {
        let _ = guard;
        self.unlink_table(range);
    }

    /// The caller has walked `range`, and acts on what it found absent there as well. If others have
    /// not finished flushing meanwhile, this range is flushed for them.
    pub fn relies_on(&mut self, range: VaRange) {
        let more = FlushRange { range, uniform: false };
        self.relied = match &self.relied {
            Relied::Nothing => Relied::On(more),
            Relied::On(before) => hull(before, &more).map_or(Relied::OnEverything, Relied::On),
            Relied::OnEverything => Relied::OnEverything,
        };
    }

    /// Adds what was found noted in entries that were cleared. It is handed out again when the
    /// flush is complete: until then a page may still be written to through a stale translation, and
    /// must not be taken for clean.
    pub fn found(&mut self, bits: Flags) {
        self.bits |= bits;
    }

    /// The space.
    #[must_use]
    #[inline]
    pub const fn space(&self) -> &'g AddressSpace<'g, P> {
        self.space
    }

    #[inline]
    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }

    #[inline]
    pub(crate) const fn bits(&self) -> Flags {
        self.bits
    }

    /// What has to go for this gather to be flushed: what the owner has told and, from then on part
    /// of it, what others have not finished. `early` says that its targets need only acknowledge.
    #[inline]
    pub(crate) fn ranges(&mut self, early: bool) -> &FlushRanges {
        let relies = !matches!(self.relied, Relied::Nothing);
        if relies || self.ranges.is_everything() || self.space.is_unfinished() {
            self.add_ranges_of_others(early);
        }
        &self.ranges
    }

    /// Adds what others have not flushed, or not finished flushing.
    #[cold]
    fn add_ranges_of_others(&mut self, early: bool) {
        let relies = !matches!(self.relied, Relied::Nothing);
        if relies && self.has_concurrent_flushes() {
            self.add_relied_ranges();
            self.ranges.add_change(TableChange::FreedTables); // The others may have unlinked tables there.
        }
        // After the look at who is over, and before this CPU asks anybody.
        let Some(unfinished) = self.space.unfinished_flushes() else { return };
        match unfinished.worst {
            // Who is early itself may believe in what was acknowledged.
            Unfinished::Acknowledged if early => return,
            // Pages only: who unlinks a table waits for the invalidations.
            Unfinished::Acknowledged if relies => self.add_relied_ranges(),
            Unfinished::Deferred if relies => self.ranges.merge(&FlushRanges::everything()),
            Unfinished::Dropped if relies || !self.ranges.is_empty() => {
                self.ranges.merge(&FlushRanges::everything());
            }
            _ if self.ranges.is_everything()
                && self.ranges.change() == TableChange::FreedTables => {}
            _ => return,
        }
        self.completes = Some(unfinished);
    }

    /// Adds the addresses on whose absence the owner relies.
    fn add_relied_ranges(&mut self) {
        match self.relied {
            Relied::On(range) => self.ranges.add(range),
            Relied::OnEverything => self.ranges.widen(),
            Relied::Nothing => {}
        }
    }

    /// Notes, after the flush, what of others is complete with it.
    #[inline]
    pub(crate) fn complete_others(&self) {
        if let Some(unfinished) = self.completes {
            self.space.complete(unfinished);
        }
    }

    /// Whether another gather of the space was begun and is not over.
    fn has_concurrent_flushes(&self) -> bool {
        // ORDER O-OTHERS (pairs with O-BEGUN, O-OVER): a gather whose change the caller has seen is
        // seen here to be under way; one that is seen to be over is flushed.
        let over = self.space.over.load(Ordering::Acquire);
        self.space.begun.load(Ordering::Acquire) > over + 1
    }

    /// Ends the gather: it is flushed, or there was nothing to flush.
    #[inline]
    pub(crate) fn end(self) {
        // ORDER O-OVER (pairs with O-OTHERS): the flush is complete.
        self.space.over.fetch_add(1, Ordering::Release);
        core::mem::forget(self);
    }
}

impl<P: Platform> Drop for Gather<'_, P> {
    fn drop(&mut self) {
        if !self.ranges.is_empty() {
            // What runs now is told by the next flush; what does not pays on its way in.
            let _ = self.space.bump_generation();
            self.space.mark_unfinished(Unfinished::Dropped);
        }
        self.space.over.fetch_add(1, Ordering::Release); // As O-OVER: or it is seen to be unfinished.
    }
}

impl<P: Platform> fmt::Debug for Gather<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather")
            .field("space", &self.space)
            .field("serial", &self.serial)
            .field("ranges", &self.ranges)
            .field("bits", &self.bits)
            .finish_non_exhaustive()
    }
}
