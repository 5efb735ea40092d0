//! Changes that are made and flushed in one call.

use super::{Flushed, gather::Gather, kernel::KernelGather};
use crate::{
    platform::Platform,
    range::VaRange,
    space::AddressSpace,
    tlb::{CurrentCpu, Tags},
};

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Begins to gather, has `change` change the page tables and record it, and flushes: [`Gather::holding`], then
    /// [`Self::flush`]. So the gather begins before the first change, and no flush is forgotten. Frames that become free
    /// go through `frames`.
    ///
    /// # Panics
    ///
    /// As [`Self::flush`]. If `change` panics, its gather is dropped.
    #[doc(alias = "tlb_gather_mmu")]
    #[doc(alias = "zap_page_range")]
    #[doc(alias = "pmap_remove")]
    #[inline]
    #[track_caller]
    pub fn unmap<'g, F>(
        &self,
        space: &'g AddressSpace<P>,
        frames: F,
        change: impl FnOnce(&mut Gather<'g, P, F>),
    ) -> Flushed<F> {
        let mut gather = Gather::holding(space, frames);
        change(&mut gather);
        Self::flush(self, gather)
    }

    /// As [`Self::unmap`], for kernel addresses: [`KernelGather::holding`], then [`Self::flush_kernel`].
    #[doc(alias = "vunmap")]
    #[inline]
    #[track_caller]
    pub fn unmap_kernel<F>(
        &self,
        frames: F,
        change: impl FnOnce(&mut KernelGather<F>),
    ) -> Flushed<F> {
        let mut gather = KernelGather::holding(self.tlb, frames);
        change(&mut gather);
        Self::flush_kernel(self, gather)
    }

    /// Flushes `range`, whose entries were changed; its page size is theirs, and it is [`VaRange::mixed`] if they had
    /// several. For changes by which no frame and no table becomes free: fewer permissions, cleared flags, the
    /// break of a break-before-make.
    ///
    /// Precondition: from before the first change until this returns, the caller holds a lock without which nobody reads or
    /// changes those entries. So no other gather relies on them, and a flush of one page is not counted among the gathers of
    /// the space: where no other CPU must act and tags are global, the space is only read. Without such a lock use
    /// [`Self::unmap`], which announces the change before it is made.
    ///
    /// # Panics
    ///
    /// As [`Self::flush`].
    #[doc(alias = "flush_tlb_range")]
    #[doc(alias = "pmap_invalidate_range")]
    #[track_caller]
    pub fn flush_range(&self, space: &AddressSpace<P>, range: VaRange) {
        self.must_own(space.tlb);
        if range.pages() == 1 && !space.is_unfinished() {
            self.flush_page(space, range, false);
        } else {
            self.by_value().flush_several(space, range);
        }
    }

    /// As [`Self::flush_range`], of several pages or where a gather was dropped unflushed.
    #[inline(never)]
    fn flush_several(self, space: &AddressSpace<P>, range: VaRange) {
        let _ = self.unmap(space, (), |gather| gather.revoke(range));
    }
}
