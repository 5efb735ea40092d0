//! The patches in which the modelled kernels differ, and the kernels as sets of them.

/// A published change to how Linux keeps the TLBs of x86 coherent. Each is a switch: a kernel has it or has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Patch {
    /// More than 33 pages are flushed as everything. D. Hansen, "x86/mm: Set TLB flush tunable to sane value (33)",
    /// 2014. Without it each page is flushed by an instruction of its own, however many there are.
    Ceiling,
    /// Pages that reclaim takes away one by one are flushed together: everything on each CPU that ran the space, if there
    /// is another. M. Gorman, "mm: send one IPI per CPU to TLB flush all entries after unmapping pages", 2015.
    Batches,
    /// A space has a generation that each flush raises, and a CPU knows which one it has reached: it flushes everything
    /// if it missed more than the request, and nothing if it has reached the request. A. Lutomirski, "x86/mm: Track the
    /// TLB's tlb_gen and update the flushing algorithm", 2017. A kernel without it flushes whenever it is requested.
    Generations,
    /// Each CPU keeps the translations of the six spaces that it ran last, each under a PCID. A. Lutomirski, "x86/mm:
    /// Try to preserve old TLB entries using PCID", 2017. Without it every switch flushes (also with `nopcid`).
    Pcids,
    /// A CPU that goes idle leaves the space's mask, and catches up by generation when it comes back. A. Lutomirski,
    /// "x86/mm: Rework lazy TLB mode and TLB freshness tracking", 2017. Without it the first flush interrupts the CPU,
    /// which then leaves the space.
    IdleLeaves,
    /// A CPU that goes idle stays in the mask and says that it is lazy; it is interrupted only if page tables were freed.
    /// R. van Riel, "x86/mm/tlb: Make lazy TLB mode lazier", 2018. In place of [`Self::IdleLeaves`].
    LazySkipped,
    /// The flushes under way are counted in each space. "mm: migrate: prevent racy access to tlb_flush_pending", 2017.
    Counted,
    /// The initiator flushes while the other CPUs do; without it, it flushes first. N. Amit, "x86/mm/tlb: Flush remote
    /// and local TLBs concurrently": proposed 2019, merged 2021.
    Concurrent,
    /// What a CPU says of its laziness is in a cache line apart from what it writes at each flush. N. Amit, "x86/mm/tlb:
    /// Privatize cpu_tlbstate": proposed 2019, merged 2021.
    LazyApart,
    /// The request is in the record of the call; without it the record points to a line of the initiator. N. Amit, "smp:
    /// Enable data inlining for inter-processor function call", RFC v2 of 2019; not merged.
    Inlined,
    /// A target acknowledges before it flushes. N. Amit, "x86/mm/tlb: Use async and inline messages for flushing", RFC v2
    /// of 2019; not merged.
    EarlyAck,
    /// A CPU that leaves the idle loop executes the calls in its queue, and does not wait for their interrupt.
    /// P. Zijlstra, "smp: Optimize send_call_function_single_ipi()", 2020.
    IdleCalls,
    /// A change that only adds permissions is not flushed. N. Amit, "mm/mprotect: do not flush when not required
    /// architecturally", 2022.
    PromotionsKept,
    /// A CPU that has reached the requested generation does not read that of the space. N. Amit, "x86/mm/tlb: Avoid
    /// reading mm_tlb_gen when possible", 2022.
    ReachedSkipped,
    /// A CPU stays in the mask of a space that it leaves. R. van Riel, "x86/mm/tlb: Update mm_cpumask lazily", 2024, and
    /// "x86/mm/tlb: Only trim the mm_cpumask once a second", 2024: the initiator skips CPUs that have another space
    /// loaded, except once a second, when each such CPU leaves the mask.
    MaskKept,
    /// A space that enough CPUs run is flushed by `INVLPGB`. R. van Riel, "x86/mm: enable broadcast TLB invalidation for
    /// multi-threaded processes", 2025.
    Broadcast,
    /// In a guest of KVM a CPU that the host does not run is not interrupted; the host flushes before it runs it again.
    /// W. Li, "KVM: X86: Add Paravirt TLB Flush", 2017.
    HostFlushes,
}

/// The patches that a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patches(u32);

impl Patches {
    const NONE: Self = Self(0);

    /// These and more.
    const fn and(mut self, more: &[Patch]) -> Self {
        let mut i = 0;
        while i < more.len() {
            self.0 |= 1 << more[i] as u32;
            i += 1;
        }
        self
    }

    /// These without one.
    const fn without(self, patch: Patch) -> Self {
        Self(self.0 & !(1 << patch as u32))
    }

    pub(super) const fn has(self, patch: Patch) -> bool {
        self.0 & 1 << patch as u32 != 0
    }

    /// 2014, while the limit of ranged flushes was looked for.
    pub(super) const PAGE_BY_PAGE: Self = Self::NONE;
    /// July 2017, at commit a4eb8b993554.
    pub(super) const CR3_FLUSH: Self = Self::PAGE_BY_PAGE.and(&[Patch::Ceiling, Patch::Batches]);
    /// "PCID and improved laziness", version 5, July 2017.
    pub(super) const PCID_2017: Self =
        Self::CR3_FLUSH.and(&[Patch::Generations, Patch::Pcids, Patch::IdleLeaves]);
    /// The same with `nopcid`.
    pub(super) const PCID_2017_OFF: Self = Self::PCID_2017.without(Patch::Pcids);
    /// May 2019, before Amit's series.
    pub(super) const LINUX_2019: Self =
        Self::PCID_2017.without(Patch::IdleLeaves).and(&[Patch::LazySkipped, Patch::Counted]);
    /// Amit's RFC v1 of 2019.
    pub(super) const CONCURRENT: Self = Self::LINUX_2019.and(&[Patch::Concurrent]);
    /// Amit's RFC v2 of 2019, of which these are what its author puts the gain down to.
    pub(super) const EARLY_ACK: Self =
        Self::CONCURRENT.and(&[Patch::LazyApart, Patch::Inlined, Patch::EarlyAck]);
    /// Linux 5.17.
    pub(super) const PROMOTIONS_FLUSHED: Self =
        Self::CONCURRENT.and(&[Patch::LazyApart, Patch::IdleCalls]);
    /// The same with "mm/mprotect: avoid unnecessary TLB flushes", March 2022.
    pub(super) const LINUX_2022: Self = Self::PROMOTIONS_FLUSHED.and(&[Patch::PromotionsKept]);
    /// Linux 6.14.
    pub(super) const LINUX_2025: Self =
        Self::LINUX_2022.and(&[Patch::ReachedSkipped, Patch::MaskKept]);
    /// The same on AMD CPUs with `INVLPGB`.
    pub(super) const BROADCAST: Self = Self::LINUX_2025.and(&[Patch::Broadcast]);
    /// The same in a guest of KVM.
    pub(super) const GUEST: Self = Self::LINUX_2025.and(&[Patch::HostFlushes]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn differ_in(before: Patches, after: Patches, patches: &[Patch]) {
        assert_eq!(Patches(before.0 ^ after.0), Patches::NONE.and(patches));
    }

    #[test]
    fn kernels_that_are_compared_differ_in_the_patch_alone() {
        differ_in(Patches::LINUX_2019, Patches::CONCURRENT, &[Patch::Concurrent]);
        let second = [Patch::LazyApart, Patch::Inlined, Patch::EarlyAck];
        differ_in(Patches::CONCURRENT, Patches::EARLY_ACK, &second);
        differ_in(Patches::PROMOTIONS_FLUSHED, Patches::LINUX_2022, &[Patch::PromotionsKept]);
        differ_in(Patches::LINUX_2025, Patches::BROADCAST, &[Patch::Broadcast]);
        differ_in(Patches::LINUX_2025, Patches::GUEST, &[Patch::HostFlushes]);
        differ_in(Patches::PCID_2017_OFF, Patches::PCID_2017, &[Patch::Pcids]);
        let pcids = [Patch::Generations, Patch::Pcids, Patch::IdleLeaves];
        differ_in(Patches::CR3_FLUSH, Patches::PCID_2017, &pcids);
        let first = [Patch::Ceiling, Patch::Batches];
        differ_in(Patches::PAGE_BY_PAGE, Patches::CR3_FLUSH, &first);
    }

    #[test]
    fn what_goes_idle_leaves_the_mask_or_is_skipped_as_lazy() {
        let all = [Patches::LINUX_2019, Patches::EARLY_ACK, Patches::LINUX_2025, Patches::GUEST];
        for patches in all {
            assert!(patches.has(Patch::LazySkipped) && !patches.has(Patch::IdleLeaves));
            assert!(patches.has(Patch::Generations), "a lazy CPU catches up by generation");
        }
    }
}
