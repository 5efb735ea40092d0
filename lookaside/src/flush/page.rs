//! The flush of one page, which most flushes are: in registers, as long as no other CPU must act.

use core::num::NonZeroU64;

use super::{Done, initiator::Initiator};
use crate::{
    arch::{Mmu, Sharing, Wait},
    counts::Outcome,
    platform::Platform,
    range::VaRange,
    request::{FlushRanges, MissedFlush},
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
        let loaded = T::loaded_context(self, space);
        match loaded {
            Some(context) if self.is_only_resident(space) => {
                // Nothing is cheaper than to remove one page, so that no costs are compared. A CPU that comes meanwhile takes
                // over no entry of this one.
                T::flush_page(&self.for_allocator(), context.get(), generation, page);
                self.observe_flush(&Done::by(Outcome::Local));
            }
            _ => self.by_value().flush_page_elsewhere(space, page, (loaded, generation), early),
        }
    }

    /// Where other CPUs may have to act, or it takes a closer look whether this one runs the space. `loaded` is what was seen at
    /// a glance: in the last epoch others may run the space under another context id.
    #[inline(never)]
    fn flush_page_elsewhere(
        self,
        space: &AddressSpace<P>,
        page: VaRange,
        (loaded, generation): (Option<NonZeroU64>, u64),
        early: bool,
    ) {
        let Some(context) = T::context_id(self.tlb, space) else {
            return self.observe_flush(&Done::by(Outcome::NoCpu));
        };
        let runs_here = loaded == NonZeroU64::new(context);
        if runs_here && self.others_were_told((space, context), true, false) {
            if T::tracks_generations(self.tlb) {
                space.record(generation, MissedFlush::Pages(page));
            }
            T::flush_page(&self.for_allocator(), context, generation, page);
            return self.observe_flush(&Done::by(Outcome::Local));
        }
        let ranges = FlushRanges::of(page);
        let asked = (&ranges, context, generation);
        let initiator = Initiator::new(&self, space, asked, (false, early));
        let is_private = self.mmu().properties().sharing == Sharing::Private;
        let done = if is_private && initiator.runs_here() {
            initiator.act_with_others(true)
        } else {
            initiator.act()
        };
        self.observe_flush(&Self::done(space, done, early));
    }
}
