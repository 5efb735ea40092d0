//! The changes to the page tables of one space that are not flushed yet (Linux: `mmu_gather`).

use core::{fmt, mem::ManuallyDrop};

use crate::{
    arch::{Mmu, TableChange},
    counts::Outcome,
    flags::Flags,
    platform::Platform,
    range::VaRange,
    request::{FlushRanges, covering_range},
    space::{AddressSpace, Unfinished},
    word::{Ordering, Word},
};

/// Collects changes to the page tables of one space, until [`crate::CurrentCpu::flush`] flushes them from
/// every CPU.
///
/// Begin it *before* the first entry is changed. Record each change, before or after it is made, with the
/// addresses and the page size of the entries as they were. Put the frames and page tables in that become free
/// ([`Self::hold_page`], [`Self::hold_table`]); the flush hands them back ([`super::Flushed::frames`]).
///
/// `F` is the kernel's own container for them, anything that is [`Extend`]ed by its frames: a `Vec`, a list through the
/// kernel's records of frames, an array with a length. Where nothing becomes free it is `()`. It must be the only way to
/// them: what a container shares with others, no gather holds back. Nothing of it is in the frames themselves, to which a
/// CPU may write until the flush.
///
/// # Concurrent gathers
///
/// Gathers of one space may overlap in time, on one CPU or on several. An entry that is absent because
/// another gather has cleared it, and not flushed yet, may still be in a TLB. So a gather whose owner walks
/// a range and acts on entries that are absent there names the range with [`Self::relies_on`], and its
/// flush includes that range if necessary (Linux: `mm_tlb_flush_nested`). Precondition: entries are changed
/// and read under a lock of the page table, or else changed with at least `Release` and read with at least
/// `Acquire`. An entry that makes a table or a page reachable is stored with `Release` under a lock, too: page walks take
/// no lock, and must not find the entry before what it leads to.
///
/// After an early flush ([`crate::CurrentCpu::flush_early`]) a target may still hold the entries, but it
/// invalidates before it handles its next request. The first later gather that relies on anything, and is not
/// early itself, therefore flushes the range that it relies on: each acknowledgement proves that the earlier
/// invalidation is done, and CPUs that have left the space, or are lazy, flush everything when they switch
/// back. After that, all early flushes that were over before this one began are known to be complete. (A
/// broadcast, which no handler acknowledges, completes only the range that its own gather relies on.) So where
/// requests are sent, any number of early flushes is followed by at most one additional flush.
///
/// # Dropping
///
/// If a gather is dropped unflushed, no flush is lost: the container is leaked with all that is in it, and if anything was
/// recorded, the next flush of the space flushes everything. A gather in which nothing is may be dropped. Nothing
/// counts what is leaked: the kernel misses it where it counts its free frames.
#[doc(alias = "mmu_gather")]
#[doc(alias = "tlb_gather_mmu")]
#[must_use = "nothing is flushed, and what it holds is leaked, unless this is handed to `CurrentCpu::flush`"]
pub struct Gather<'g, P: Platform, F = ()> {
    pub(super) changes: Changes<'g, P>,
    pub(super) held: Held<F>,
    pub(super) flags: Flags,
}

/// `fetch_add` wraps.
const MINUS_ONE: u64 = u64::MAX;

/// What a gather has to flush.
pub(super) struct Changes<'g, P: Platform> {
    pub(super) space: &'g AddressSpace<P>,
    ranges: FlushRanges,
    /// The addresses on whose absence the owner relies, from the first to the last that was named.
    relied: VaRange,
    /// The incomplete flushes of others that this flush completes (`UnfinishedFlushes::word`), or 0.
    completes: u64,
    /// How it is flushed: the bits below.
    how: u8,
}

/// In [`Changes::how`]: `completes` only by the acknowledgements of its requests.
const BY_REQUESTS: u8 = 1;
/// In [`Changes::how`]: before a lock is released whose guard the gather borrows, so that the flush is never put off.
const BEFORE_UNLOCK: u8 = 2;
/// In [`Changes::how`]: a page is held, which some CPU may use.
const HOLDS_PAGE: u8 = 4;
/// In [`Changes::how`]: it changes nothing itself, and is not counted among the gathers of its space.
const UNCOUNTED: u8 = 8;

impl<'g, P: Platform> Gather<'g, P> {
    /// Begins to gather changes of `space`, where no frame becomes free.
    #[inline]
    pub fn new(space: &'g AddressSpace<P>) -> Self {
        Self::holding(space, ())
    }
}

impl<'g, P: Platform, F> Gather<'g, P, F> {
    /// Begins to gather changes of `space`. `frames` holds the frames and tables that become free; what is in it
    /// already is held, too.
    #[inline]
    pub fn holding(space: &'g AddressSpace<P>, frames: F) -> Self {
        // ORDER O-BEGUN (pairs with O-OTHERS): before the first entry is changed. A CPU that sees the
        // change sees that it is not flushed yet.
        space.gathers.fetch_add(1, Ordering::AcqRel);
        let (ranges, relied) = (FlushRanges::new(), VaRange::NONE);
        let changes = Changes { space, ranges, relied, completes: 0, how: 0 };
        Self { changes, held: Held::new(frames), flags: Flags::NONE }
    }

    /// Entries of the page size of `range` were removed, or changed so that their former contents must not
    /// be used any more: another frame, fewer permissions, another memory type.
    #[inline]
    pub fn revoke(&mut self, range: VaRange) {
        self.changes.ranges.add(range);
    }

    /// As [`Self::revoke`], where the entries had several sizes. `range` is in the smallest of them.
    pub fn revoke_mixed(&mut self, range: VaRange) {
        self.changes.ranges.add(range.mixed());
    }

    /// A page table was unlinked that mapped `range`, which is in the page size of its smallest entries, or an entry that refers
    /// to such a table allows less than before; all entries in `range` are revoked with it.
    pub fn unlink_table(&mut self, range: VaRange) {
        self.revoke_mixed(range);
        self.changes.ranges.add_change(TableChange::FreedTables);
    }

    /// Everything in the space was revoked, and tables may have been unlinked.
    pub fn revoke_everything(&mut self) {
        self.changes.ranges.merge(&FlushRanges::everything());
    }

    /// Entries in `range` allow more than before, and nothing less; or they were absent and are present now.
    /// Nothing is flushed for this: a CPU that holds the former entry takes a spurious fault
    /// ([`crate::CurrentCpu::spurious_fault`]).
    pub fn relax(&mut self, range: VaRange) {
        let _ = range;
    }

    /// The entries of `range`, which is in the page size of the smallest, were moved to other addresses, as by `mremap`:
    /// one by one, or with the page tables that they are in. `guard` is the lock guard of the page tables at both ends; where
    /// they are in two spaces, this gather is of the space that the entries leave, and `guard` that of the lock which is released first.
    ///
    /// The gather must be flushed before `guard` is released: once another CPU can find the pages at their
    /// new addresses and unmap them there, it would free them while the old addresses still reach them
    /// (CVE-2018-18281). Code that flushes after it has released the guard does not compile. A gather that is dropped, or
    /// forgotten ([`core::mem::forget`]), is not flushed at all, which is as wrong as not recording the move. For the same
    /// reason such a gather is flushed
    /// at once by [`crate::CurrentCpu::defer`], and waits for the invalidations in [`crate::CurrentCpu::flush_early`].
    pub fn move_away<G: ?Sized>(&mut self, range: VaRange, guard: &'g G) {
        let _ = guard;
        self.changes.how |= BEFORE_UNLOCK;
        // A table that maps other addresses now is as one that was freed: a walk cache would lead from here to what is
        // mapped, and unmapped, there.
        self.unlink_table(range);
    }

    /// A page table that other spaces may share was detached from `range`, as in [`Self::unlink_table`]; `guard` keeps its owners from
    /// freeing what it maps.
    ///
    /// As with [`Self::move_away`], the flush comes before `guard` is released (CVE-2021-4002).
    pub fn unshare_table<G: ?Sized>(&mut self, range: VaRange, guard: &'g G) {
        let _ = guard;
        self.changes.how |= BEFORE_UNLOCK;
        self.unlink_table(range);
    }

    /// The caller has walked `range`, and also acts on entries that it found absent there, under the table's lock where they
    /// may have been contiguous (see [`Entries::get`](crate::contig::Entries::get)). If another gather
    /// may have cleared them and has not completed its flush, the flush of this one includes the range. The page size
    /// of `range` does not matter: what was there before may have been smaller.
    #[doc(alias = "mm_tlb_flush_nested")]
    pub fn relies_on(&mut self, range: VaRange) {
        let (relied, more) = (&mut self.changes.relied, range.mixed());
        *relied = match *relied {
            VaRange::NONE => more,
            VaRange::ALL => VaRange::ALL,
            before => covering_range(&before, &more).unwrap_or(VaRange::ALL),
        };
    }

    /// Holds a page back until the flush. What mapped it is recorded by [`Self::revoke`] or its kind, before the flush; if
    /// nothing is recorded, everything is flushed.
    #[inline]
    pub fn hold_page<T>(&mut self, page: T)
    where
        F: Extend<T>,
    {
        self.changes.how |= HOLDS_PAGE;
        self.held.add(page);
    }

    /// [`Self::unlink_table`] of what `table` mapped, and holds the table back until the flush. `range` is `None` where that is not
    /// known: then everything is flushed.
    #[inline]
    pub fn hold_table<T>(&mut self, range: impl Into<Option<VaRange>>, table: T)
    where
        F: Extend<T>,
    {
        match range.into() {
            Some(range) => self.unlink_table(range),
            None => self.revoke_everything(),
        }
        self.held.add(table);
    }

    /// The container, to ask how much room is left in it: a gather whose container is full is flushed, and another one begun.
    /// A container that gives frames out through a shared reference holds nothing back.
    #[must_use]
    #[inline]
    pub fn held(&self) -> &F {
        self.held.get()
    }

    /// Adds the accessed and dirty flags of entries that were cleared. They come back when the flush is complete
    /// ([`super::Flushed::flags`]): until then a page may still be written through a stale translation, and must not
    /// be taken for clean.
    pub fn found(&mut self, flags: Flags) {
        self.flags |= flags;
    }

    /// The space.
    #[must_use]
    #[inline]
    pub const fn space(&self) -> &'g AddressSpace<P> {
        self.changes.space
    }
}

impl<'g, P: Platform> Changes<'g, P> {
    /// Of a caller that only relies on the absence of entries in `range`. It is not to be dropped.
    pub(super) fn relying(space: &'g AddressSpace<P>, range: VaRange) -> ManuallyDrop<Self> {
        let (ranges, relied) = (FlushRanges::new(), range.mixed());
        ManuallyDrop::new(Self { space, ranges, relied, completes: 0, how: UNCOUNTED })
    }

    /// Whether a page table is freed.
    #[inline]
    pub(super) fn frees_tables(&self) -> bool {
        self.ranges.change() == TableChange::FreedTables
    }

    /// Whether the targets of an early flush need only acknowledge. What is flushed before an unlock has unlinked tables.
    #[inline]
    pub(super) fn may_be_early(&self) -> bool {
        !self.frees_tables()
    }

    /// Whether the flush may be put off ([`crate::CurrentCpu::defer`]).
    pub(super) const fn may_be_deferred(&self) -> bool {
        self.how & BEFORE_UNLOCK == 0
    }

    /// The page, if one is all that this gather has to flush: it relies on nothing, and no gather was dropped.
    #[inline]
    pub(super) fn only_page(&self) -> Option<VaRange> {
        let is_all = self.relied.is_none() && !self.space.is_unfinished();
        if is_all { self.ranges.only_page() } else { None }
    }

    /// What this gather has to flush: what its owner has recorded and, added to that by this call, what
    /// other gathers have not completed. `early`: its targets need only acknowledge.
    pub(super) fn ranges(&mut self, mmu: &impl Mmu, early: bool) -> &FlushRanges {
        self.ranges.widen_if_unknown(self.how & HOLDS_PAGE != 0);
        let relies = !self.relied.is_none();
        if relies || self.ranges.is_everything() || self.space.is_unfinished() {
            self.add_ranges_of_others(mmu, early);
        }
        &self.ranges
    }

    /// Adds what other gathers have not flushed, or not completed.
    #[cold]
    fn add_ranges_of_others(&mut self, mmu: &impl Mmu, early: bool) {
        let relies = !self.relied.is_none();
        if relies && self.has_concurrent_flushes() {
            self.add_relied_ranges(mmu);
            self.ranges.add_change(TableChange::FreedTables); // The others may have unlinked tables there.
        }
        // After `has_concurrent_flushes`, and before this CPU sends any request.
        let Some(unfinished) = self.space.unfinished_flushes() else { return };
        match unfinished.worst {
            // For a flush that is early itself, acknowledgements are enough.
            Unfinished::Acknowledged if early => return,
            // Pages only: a flush that frees tables waits for the invalidations.
            Unfinished::Acknowledged if relies => {
                self.add_relied_ranges(mmu);
                if !self.ranges.is_everything() {
                    self.how |= BY_REQUESTS;
                }
            }
            Unfinished::Deferred if relies => self.ranges.merge(&FlushRanges::everything()),
            Unfinished::Dropped if relies || !self.ranges.is_empty() => {
                self.ranges.merge(&FlushRanges::everything());
            }
            _ if self.ranges.is_everything()
                && self.ranges.change() == TableChange::FreedTables => {}
            _ => return,
        }
        self.completes = unfinished.word;
    }

    /// Adds the addresses on whose absence the owner relies.
    fn add_relied_ranges(&mut self, mmu: &impl Mmu) {
        match self.relied {
            VaRange::NONE => {}
            VaRange::ALL => self.ranges.widen(),
            range => self.ranges.add(range.in_pages(mmu.properties().page_shift)),
        }
    }

    /// The flush was done as `outcome` says. A broadcast removes what this gather relies on, but a target of an early
    /// flush may be between its acknowledgement and its invalidation of other addresses all the same: only if it
    /// acknowledges another request has it done that.
    #[inline]
    pub(super) fn flushed_by(&mut self, outcome: Outcome) {
        if self.how & BY_REQUESTS != 0 && outcome == Outcome::Broadcast {
            self.completes = 0;
        }
    }

    /// Records, after the flush, which flushes of others are complete with it.
    #[inline]
    pub(super) fn complete_others(&self) {
        if self.completes != 0 {
            self.space.complete(self.completes);
        }
    }

    /// Whether another gather is not over, or was left incomplete.
    #[inline]
    pub(super) fn may_meet_others(&self) -> bool {
        self.has_concurrent_flushes() || self.space.unfinished_flushes().is_some()
    }

    /// Whether another gather of the space was begun and is not over.
    fn has_concurrent_flushes(&self) -> bool {
        // ORDER O-OTHERS (pairs with O-BEGUN, O-OVER): a gather whose change the caller has seen is
        // seen here to be under way; one that is seen to be over is flushed.
        let own = if self.how & UNCOUNTED == 0 { 1 } else { 0 };
        self.space.gathers.load(Ordering::Acquire) > own
    }

    /// Ends the gather: it is flushed, or there was nothing to flush.
    #[inline]
    pub(super) fn end(self) {
        // ORDER O-OVER (pairs with O-OTHERS): the flush is complete.
        self.space.gathers.fetch_add(MINUS_ONE, Ordering::Release);
        core::mem::forget(self);
    }
}

impl<P: Platform> Drop for Changes<'_, P> {
    fn drop(&mut self) {
        self.ranges.widen_if_unknown(self.how & HOLDS_PAGE != 0);
        if !self.ranges.is_empty() {
            // CPUs that run the space are reached by its next flush, and with tags of each CPU's own the others flush on
            // switch-in; with one tag on all CPUs the next flush reaches them as well.
            let _ = self.space.bump_generation();
            self.space.mark_unfinished(Unfinished::Dropped);
        }
        self.space.gathers.fetch_add(MINUS_ONE, Ordering::Release); // As O-OVER: or it is seen to be unfinished.
    }
}

/// Without the frames.
impl<P: Platform, F> fmt::Debug for Gather<'_, P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather")
            .field("space", &self.changes.space)
            .field("ranges", &self.changes.ranges)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

/// A kernel's container of frames that CPUs may still reach. Frames go in; they come out when they are flushed, and
/// are leaked if the container is dropped before.
pub(super) struct Held<F>(ManuallyDrop<F>);

impl<F> Held<F> {
    #[inline]
    pub(super) const fn new(frames: F) -> Self {
        Self(ManuallyDrop::new(frames))
    }

    #[inline]
    pub(super) fn add<T>(&mut self, item: T)
    where
        F: Extend<T>,
    {
        self.0.extend(Some(item));
    }

    #[inline]
    pub(super) fn get(&self) -> &F {
        &self.0
    }

    /// The frames, after the flush.
    #[inline]
    pub(super) fn into_frames(self) -> F {
        ManuallyDrop::into_inner(self.0)
    }
}

/// Without the frames: nothing reaches them before they are flushed.
impl<F> fmt::Debug for Held<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}
