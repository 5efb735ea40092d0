//! What invalidations cost, where it has been published.
//!
//! *Zen 5* was measured from user space in one virtual machine of two CPUs, by slopes and steps of
//! `mprotect`; *Skylake* is a laptop of 2017 with a guest (A. Lutomirski, "x86/mm: Try to preserve
//! old TLB entries using PCID", 24 Jul 2017); *Haswell* is a desktop without a hypervisor (N. Amit,
//! "x86: Flush remote TLBs concurrently and async", 30 May 2019); *Milan* is a server with 72 CPUs
//! (R. van Riel, "x86/mm: enable broadcast TLB invalidation", 23 Feb 2025). What is marked as an
//! estimate was measured by nobody we know of; a kernel that cares measures ([`Costs::measure`]).

use crate::costs::{Costs, OperationCosts};

const NS: u64 = 1000;

pub(super) const TYPICAL: Costs = Costs {
    local: OperationCosts {
        // Zen 5: 36 to 40 ns for INVLPG. On Haswell 216 cycles with the call around it (D. Hansen,
        // linux-mm, 9 Jun 2015). For INVPCID there is no number.
        address: 38 * NS,
        // Zen 5: 85 to 150 ns for a write of CR3 that flushes.
        tag: 110 * NS,
        // The instructions wait by themselves.
        wait: 0,
        // Linux, `tlb_single_page_flush_ceiling`: D. Hansen, "x86/mm: set TLB flush tunable to sane value (33)", 2014. The
        // cost of these 33 is at most as much as that of the same flush under Linux, whatever is used again.
        ceiling: 33,
    },
    broadcast: OperationCosts {
        // Estimate: to issue an INVLPGB.
        address: 50 * NS,
        // Estimate: as one by address.
        tag: 50 * NS,
        // Milan: a round with four threads, which broadcasts, takes 3.88 us and one with a single
        // thread, which does not, 3.17 us. Less the estimate above.
        wait: 660 * NS,
        // Of so many pages Linux broadcasts everything here, too. One `INVLPGB` takes 7 of them (CPUID of an EPYC 9655).
        ceiling: 33_u64.div_ceil(7),
    },
    // Skylake, in the guest: 512 pages that two processes touch in turn cost 6.1 us with a flush
    // in between and 1.34 us where neither is needed.
    refill: 9_300,
    // Estimate: a quarter of the 1536 entries of Skylake's second level.
    useful_entries: 384,
    // Haswell: madvise takes 1436 ns with one target and 661 ns alone.
    ipi: 775 * NS,
    // Haswell: the same with three targets takes 1571 ns.
    ipi_more: 67 * NS,
    // Zen 5: as `tag`. Nothing is used up, because each CPU has tags of its own.
    retag: 110 * NS,
};
