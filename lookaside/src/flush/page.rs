//! The flush of one page, which most flushes are: in registers, as long as no other CPU must act.

use super::{Done, initiator::Initiator};
use crate::{
    arch::{Mmu, Sharing, Wait},
    counts::Outcome,
    platform::Platform,
    range::VaRange,
    request::FlushRanges,
    space::AddressSpace,
    tlb::{CurrentCpu, Tags},
};

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Removes a page, and no table, from every CPU. The page tables were changed before. Its targets need only
    /// acknowledge if it is `early`.
    #[inline(always)] // Each of its two callers is called, and most flushes end here.
    pub(super) fn flush_page(&self, space: &AddressSpace<P>, page: VaRange, early: bool) {
        // First: every walk that starts from now on sees the new tables.
        self.mmu().publish(Wait::Now);
        let generation = space.announce_flush(T::tracks_generations(self.tlb));
        let Some(context) = T::context_id(self.tlb, space) else {
            return self.observe_flush(&Done::by(Outcome::NoCpu));
        };
        let runs_here = T::is_loaded(self, context);
        if !runs_here || !self.is_only_resident(space) {
            return self.by_value().flush_page_elsewhere(
                space,
                page,
                (context, generation),
                runs_here,
                early,
            );
        }
        if self.mmu().properties().sharing == Sharing::Shared {
            return self.by_value().flush_shared_page(space, page, (context, generation), early);
        }
        // Nothing is cheaper than to remove one page, so that no costs are compared. A CPU that comes meanwhile takes
        // over no entry of this one.
        T::flush_page(&self.for_allocator(), context, generation, page);
        self.observe_flush(&Done::by(Outcome::Local));
    }

    /// Where other CPUs may have to act, or this one has not loaded the root of the space.
    #[inline(never)]
    fn flush_page_elsewhere(
        self,
        space: &AddressSpace<P>,
        page: VaRange,
        (context, generation): (u64, u64),
        runs_here: bool,
        early: bool,
    ) {
        let ranges = FlushRanges::of(page);
        let asked = (&ranges, context, generation);
        let initiator = Initiator::new(&self, space, asked, (false, early));
        let done = if !runs_here && self.holds_alone(space, false, false) {
            Done::by(Outcome::NoCpu)
        } else {
            initiator.act_with_others(runs_here)
        };
        self.observe_flush(&Self::done(space, done, early));
    }

    /// Where CPUs use each other's entries, and no other one was resident: one that was before may hold entries all the same, and
    /// one that has come while this one removed the entry may have taken it over.
    #[cold]
    fn flush_shared_page(
        self,
        space: &AddressSpace<P>,
        page: VaRange,
        (context, generation): (u64, u64),
        early: bool,
    ) {
        let ranges = FlushRanges::of(page);
        let asked = (&ranges, context, generation);
        let initiator = Initiator::new(&self, space, asked, (false, early));
        let done = if space.absent_may_hold_entries() {
            initiator.act_with_others(true)
        } else if initiator.flush_local() {
            Done::by(Outcome::Local)
        } else {
            initiator.broadcast_to_newcomers()
        };
        self.observe_flush(&Self::done(space, done, early));
    }
}
