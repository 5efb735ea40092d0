//! Faults that only mean that a CPU has not noticed yet.

use crate::{
    arch::{Mmu, Sharing, Wait},
    platform::Platform,
    range::VaRange,
    request::FlushRanges,
    space::AddressSpace,
    tlb::{CurrentCpu, RootState, Tags},
};

/// What an access wanted, or what an entry allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// To read. An entry whose accessed flag must be set by software first does not allow it.
    pub read: bool,
    /// To write.
    pub write: bool,
    /// To execute.
    pub execute: bool,
}

impl Permissions {
    /// Whether all that `wanted` asks for is allowed.
    #[must_use]
    pub const fn allow(self, wanted: Self) -> bool {
        (self.read || !wanted.read)
            && (self.write || !wanted.write)
            && (self.execute || !wanted.execute)
    }
}

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Whether the fault that this CPU has just taken was spurious: the entry, as the kernel reads it
    /// now, allows what the access wanted, and only this CPU had not noticed. If so, it has now, and
    /// the access can be made again; if not, the kernel handles the fault.
    ///
    /// Changes that only allow more are not flushed ([`crate::Gather::relax`]), so such faults are
    /// normal. `page` is the page that was touched, at the size of its entry.
    ///
    /// # Panics
    ///
    /// If the space is of another [`crate::Tlb`].
    #[track_caller]
    pub fn spurious_fault(
        &self,
        space: &AddressSpace<P>,
        page: VaRange,
        wanted: Permissions,
        allowed: Permissions,
    ) -> bool {
        self.must_own(space.tlb);
        if !allowed.allow(wanted) {
            return false;
        }
        self.count_spurious_fault();
        if !self.mmu().properties().faults_forget {
            self.flush_here(space, page);
        }
        true
    }

    /// Removes what this CPU holds for `range`, if it runs the space. Other CPUs are not concerned: nothing was
    /// revoked.
    pub(super) fn flush_here(&self, space: &AddressSpace<P>, range: VaRange) {
        let runs =
            |context: &u64| T::root_state(self.tlb, self.id(), *context) != RootState::NotLoaded;
        if T::context_id(self.tlb, space).filter(runs).is_none() {
            return;
        }
        let (tag, ranges) = (self.tag(), FlushRanges::of(range.mixed()));
        match self.mmu().properties().sharing {
            Sharing::Private => self.for_allocator().flush_ranges(tag, &ranges, None),
            // What another CPU holds may have made a fault, and may make it again.
            Sharing::Shared => {
                ranges.flush_broadcast(&self.tlb.platform, self.errata(), tag, Wait::Now);
            }
        }
    }
}
