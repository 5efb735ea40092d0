//! New mappings: entries that were absent and are present now. They revoke nothing, so that no other CPU has to act
//! for a user address.

use super::kernel::KernelGather;
use crate::{
    arch::{Mmu, Wait},
    platform::Platform,
    range::VaRange,
    space::AddressSpace,
    tlb::{CurrentCpu, Tags},
};

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Makes new entries of a space usable on this CPU: a page fault handler calls it after it has mapped a page, and
    /// `mmap` after it has mapped some in advance. `range` had no valid entries before; what was revoked there is
    /// flushed. A gather that was dropped is not: an error path flushes before it releases the lock, or a gather that relies
    /// on `range` comes before the entries are written ([`crate::Gather::relies_on`]).
    ///
    /// Where a TLB may remember that nothing was mapped ([`crate::arch::Properties::caches_absent`]), this CPU forgets that, if it runs the
    /// space. Another CPU takes a spurious fault at most ([`Self::spurious_fault`]), and so may this one on Arm64, if its
    /// kernel accesses the page before it has returned from an exception, or executed an `ISB`.
    ///
    /// With [`crate::PerCpuAsids`] it also tells what this CPU would lose by a flush of the whole tag: a kernel that does
    /// not call it on such hardware loses nothing but better choices ([`crate::platform::Costs::by_address_here`]).
    ///
    /// # Panics
    ///
    /// If the space is of another [`crate::Tlb`].
    #[doc(alias = "update_mmu_cache")]
    #[doc(alias = "pmap_enter")]
    #[track_caller]
    pub fn map(&self, space: &AddressSpace<P>, range: VaRange) {
        self.must_own(space.tlb);
        self.mmu().publish(Wait::Now);
        T::mapped(&self.for_allocator(), space, range.pages());
        if self.mmu().properties().caches_absent {
            self.flush_here(space, range);
        }
    }

    /// Makes new entries at kernel addresses usable: by this CPU when it returns, and by each CPU that learns of them from
    /// this one. `range` had no valid entries before; what was revoked there is flushed.
    ///
    /// Where a TLB may remember that nothing was mapped, this is [`Self::flush_kernel`], with what it says of locks: a
    /// kernel's access must not fault.
    ///
    /// On Arm64 another CPU may have begun a walk for an access early, and faults once, unless it has taken an exception
    /// or executed an `ISB` since: its handler of kernel faults looks at the entry, and retries if that is valid (Linux
    /// 42f91093b043).
    #[doc(alias = "flush_cache_vmap")]
    #[doc(alias = "pmap_qenter")]
    pub fn map_kernel(&self, range: VaRange) {
        if self.mmu().properties().caches_absent {
            let mut gather = KernelGather::new(self.tlb);
            gather.revoke_mixed(range);
            let _ = self.flush_kernel(gather);
        } else {
            // Not `publish`: on Arm64 a walk for the next access of this CPU comes after the stores only together with an
            // `ISB` (F-ARM-SETTLE-SYNC).
            self.mmu().settle();
        }
    }
}
