//! The flush of one page, which most flushes are: in registers, as long as no other CPU must act.

use super::{Done, gather::Gather, initiator::Initiator, pending::PendingFlush};
use crate::{
    arch::{Mmu, Sharing},
    counts::Outcome,
    platform::Platform,
    range::VaRange,
    request::FlushRanges,
    space::AddressSpace,
    tlb::{CurrentCpu, Tags, Tlb},
};

impl<P: Platform, T: Tags<P>> Tlb<'_, P, T> {
    /// [`CurrentCpu::flush_range`] on `this_cpu`; but where other CPUs must act, the flush is begun as by [`Self::begin_flush`], and
    /// put into `pending`, for [`PendingFlush::wait`]. A pending flush does not borrow the guard of `this_cpu`. Most flushes of one page
    /// are complete when this returns; then `pending` is not written.
    ///
    /// Precondition: that of [`CurrentCpu::flush_range`], until the wait is over.
    ///
    /// # Panics
    ///
    /// As [`CurrentCpu::flush`], and if `this_cpu` is of another [`Tlb`].
    #[doc(alias = "flush_tlb_range")]
    #[inline(always)] // As `CurrentCpu::flush_page`.
    #[track_caller]
    pub fn begin_flush_range<'g, 't>(
        &'t self,
        this_cpu: &CurrentCpu<'_, P, T>,
        space: &'g AddressSpace<P>,
        range: VaRange,
        pending: &mut Option<PendingFlush<'g, 't, P, T>>,
    ) {
        this_cpu.must_own(self.id);
        this_cpu.must_own(space.tlb);
        if range.pages() != 1 || space.is_unfinished() {
            self.begin_range(space, range, None, pending);
        } else if let Err(generation) = this_cpu.flush_page_alone(space, range) {
            self.begin_range(space, range, Some(generation), pending);
        }
    }

    /// Begins the flush of a range, whose generation may have been announced.
    #[inline(never)]
    fn begin_range<'g, 't>(
        &'t self,
        space: &'g AddressSpace<P>,
        range: VaRange,
        announced: Option<u64>,
        pending: &mut Option<PendingFlush<'g, 't, P, T>>,
    ) {
        let mut gather = Gather::new(space);
        gather.revoke(range);
        *pending = Some(CurrentCpu::executing(self).begin_gathered(gather, announced));
    }
}

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Removes a page, and no table, from every CPU. The page tables were changed before. Its targets need only
    /// acknowledge if it is `early`.
    #[inline(always)] // Each of its two callers is called, and most flushes end here.
    pub(super) fn flush_page(&self, space: &AddressSpace<P>, page: VaRange, early: bool) {
        if let Err(generation) = self.flush_page_alone(space, page) {
            self.by_value().flush_page_elsewhere(space, page, generation, early);
        }
    }

    /// Announces the flush of a page, and does it if no other CPU uses pages of the space before it has flushed; else the generation
    /// is returned.
    #[inline(always)] // As above.
    fn flush_page_alone(&self, space: &AddressSpace<P>, page: VaRange) -> Result<(), u64> {
        let generation = self.announce(space);
        match T::loaded_context(self, space) {
            Some(context) if self.is_only_user(space) => {
                // Nothing is cheaper than to remove one page, so that no costs are compared. A CPU that comes meanwhile takes
                // over no entry of this one.
                T::flush_page(&self.for_allocator(), context.get(), generation, page);
                self.observe_flush(&Done::by(Outcome::Local));
                Ok(())
            }
            _ => Err(generation),
        }
    }

    /// Where other CPUs may have to act, or it takes a closer look whether this one runs the space.
    #[inline(never)]
    fn flush_page_elsewhere(
        self,
        space: &AddressSpace<P>,
        page: VaRange,
        generation: u64,
        early: bool,
    ) {
        let Some(context) = T::context_id(self.tlb, space) else {
            return self.observe_flush(&Done::by(Outcome::NoCpu));
        };
        let ranges = FlushRanges::of(page);
        let asked = (&ranges, context, generation);
        let initiator = Initiator::new(&self, space, asked, (false, early));
        let is_private = self.mmu().properties().sharing == Sharing::Private;
        let done = if is_private && initiator.runs_here {
            initiator.act_with_others()
        } else {
            initiator.act()
        };
        self.observe_flush(&Self::done(space, done, early));
    }
}
