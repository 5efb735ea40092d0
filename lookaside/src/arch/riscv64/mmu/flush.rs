//! Flushes by address: fences of this hart, and requests to the firmware for the others.

use super::{
    super::{
        Extensions, Instructions,
        fence::{Changed, Planner, Reach},
        sbi::{HartMask, Request},
    },
    Riscv,
};
use crate::{
    arch::{Errata, Invalidation, Mmu as _, TableChange, Wait, errata::FENCE_OPERANDS},
    range::VaRange,
};

impl<I: Instructions> Riscv<I> {
    /// Fences on this hart.
    #[inline(always)] // As `Mmu::flush` on this type.
    #[track_caller]
    pub(super) fn fence_here(&self, errata: Errata, entries: Invalidation<'_>) {
        match entries {
            // FENCE F-RV-FLUSH (pairs with the stores to the tables, walks): walks after this see the stores,
            // this hart's own and those made visible to it by what told it to flush.
            Invalidation::All => self.instructions.sfence_vma(None, None),
            Invalidation::Tag(tag) => self.fence_all(errata, Reach::Tag(tag)),
            Invalidation::Ranges { tag, ranges, change } => {
                self.fence_ranges(errata, Reach::Tag(tag), ranges, change);
            }
            Invalidation::Kernel { ranges, change } => {
                self.fence_ranges(
                    errata,
                    Reach::Global,
                    ranges,
                    Self::kernel_depth(ranges, change),
                );
            }
        }
    }

    /// Fences on this hart, and has the firmware fence on all. The specification does not say whether "all
    /// harts" of a remote fence includes this one.
    #[inline(never)]
    #[track_caller]
    pub(super) fn fence_everywhere(&self, errata: Errata, entries: Invalidation<'_>) {
        self.publish(Wait::Now);
        self.fence_here(errata, entries);
        match entries {
            Invalidation::All => self.ask(HartMask::ALL, Request::EVERYTHING),
            Invalidation::Tag(tag) => {
                self.ask(HartMask::ALL, self.request_for_all(errata, Reach::Tag(tag)));
            }
            Invalidation::Ranges { tag, ranges, change } => {
                self.ask_for_ranges(errata, Reach::Tag(tag), ranges, change);
            }
            Invalidation::Kernel { ranges, change } => {
                let change = Self::kernel_depth(ranges, change);
                self.ask_for_ranges(errata, Reach::Global, ranges, change);
            }
        }
    }

    /// Fences the ranges on this hart; all addresses of `reach` if tables were unlinked, or if one
    /// range cannot be named.
    #[inline]
    #[track_caller]
    fn fence_ranges(&self, errata: Errata, reach: Reach, ranges: &[VaRange], change: TableChange) {
        // Most flushes are of one page, and need no plan.
        if let [page] = ranges
            && change == TableChange::LastLevel
            && let Some(address) = self.user_page(errata, page)
        {
            // As F-RV-FLUSH.
            self.instructions.sfence_vma(Some(address), reach.asid());
        } else {
            self.fence_by_plan(errata, reach, ranges, change);
        }
    }

    /// The address of a page in the lower half that one fence with operands names. `None` for anything else.
    #[inline]
    pub(super) fn user_page(&self, errata: Errata, range: &VaRange) -> Option<u64> {
        let nameable = !errata.contains(FENCE_OPERANDS) && self.user_pages.is(range);
        nameable.then_some(range.start())
    }

    #[inline(never)]
    #[track_caller]
    fn fence_by_plan(&self, errata: Errata, reach: Reach, ranges: &[VaRange], change: TableChange) {
        let planner = self.planner(errata, u64::MAX);
        let asid = planner.asid(reach);
        let addresses = ranges.iter().flat_map(|range| planner.addresses(self.changed(range)));
        match self.leaves(&planner, ranges, change) {
            None => self.fence_all(errata, reach),
            Some(leaves) if leaves > 1 && self.relies_on.contains(Extensions::SVINVAL) => {
                // As F-RV-W-INVAL.
                self.instructions.sfence_w_inval();
                addresses.for_each(|address| self.instructions.sinval_vma(Some(address), asid));
                // As F-RV-INVAL-IR.
                self.instructions.sfence_inval_ir();
            }
            // As F-RV-FLUSH.
            Some(_) => {
                addresses.for_each(|address| self.instructions.sfence_vma(Some(address), asid));
            }
        }
    }

    /// Has the firmware fence the ranges on every hart: a request for each, or one for all
    /// addresses of `reach`, as in [`Self::fence_ranges`].
    #[track_caller]
    fn ask_for_ranges(
        &self,
        errata: Errata,
        reach: Reach,
        ranges: &[VaRange],
        change: TableChange,
    ) {
        let planner = self.planner(errata, u64::MAX);
        if self.leaves(&planner, ranges, change).is_none() {
            self.ask(HartMask::ALL, self.request_for_all(errata, reach));
            return;
        }
        for range in ranges {
            // Each can be named: they were looked at above.
            let request = Request::new(&planner, self.changed(range), reach);
            self.ask(HartMask::ALL, request.unwrap_or(self.request_for_all(errata, reach)));
        }
    }

    /// How deep to fence for the kernel: no ranges at all mean everything.
    const fn kernel_depth(ranges: &[VaRange], change: TableChange) -> TableChange {
        if ranges.is_empty() { TableChange::FreedTables } else { change }
    }

    /// Fences all addresses of `reach` on this hart.
    #[track_caller]
    pub(super) fn fence_all(&self, errata: Errata, reach: Reach) {
        let asid = if errata.contains(FENCE_OPERANDS) { None } else { reach.asid() };
        // As F-RV-FLUSH.
        self.instructions.sfence_vma(None, asid);
    }

    fn request_for_all(&self, errata: Errata, reach: Reach) -> Request {
        if errata.contains(FENCE_OPERANDS) { Request::EVERYTHING } else { Request::all(reach) }
    }

    /// How many leaves the ranges have; `None` if they are not to be fenced one by one.
    pub(super) fn leaves(
        &self,
        planner: &Planner,
        ranges: &[VaRange],
        change: TableChange,
    ) -> Option<u64> {
        // The forms of SFENCE.VMA with an address leave walk-cache entries alone.
        if change == TableChange::FreedTables {
            return None;
        }
        ranges.iter().try_fold(0_u64, |sum, range| {
            Some(sum.saturating_add(planner.count(self.changed(range))?))
        })
    }

    /// What a range says, in the planner's terms. Where the machine has blocks of 64 KiB, any page
    /// that is smaller than the next level's may be part of one, unless the range says otherwise.
    fn changed(&self, range: &VaRange) -> Changed {
        let uniform = range.is_uniform();
        let plain = range.page_shift() >= 21 || uniform && range.page_shift() == 12;
        if plain || !self.relies_on.contains(Extensions::SVNAPOT) {
            Changed::Leaves(*range)
        } else {
            Changed::NapotLeaves(*range)
        }
    }
}

#[cfg(test)]
mod tests;
