//! What invalidations cost: estimates.
//!
//! No measurement of RISC-V hardware is public that we know of, so that every number here is an
//! estimate, and was not measured. A kernel that cares measures ([`Costs::measure`]).

use crate::costs::{Costs, OperationCosts};

const NS: u64 = 1000;

pub(super) const TYPICAL: Costs = Costs {
    local: OperationCosts {
        // Estimate: SFENCE.VMA drains the pipeline and the store buffer.
        address: 30 * NS,
        // Estimate: as one by address.
        tag: 30 * NS,
        // Estimate: FENCE rw,rw.
        wait: 10 * NS,
        // Linux, `tlb_flush_all_threshold`.
        ceiling: 64,
    },
    broadcast: OperationCosts {
        // Estimate: the fence of this hart, while the others execute theirs.
        address: 30 * NS,
        // Estimate: as one by address.
        tag: 30 * NS,
        // Estimate: a call of the firmware, which interrupts every hart and waits for it. Once for
        // each range, which is not more often than once for most flushes.
        wait: 5000 * NS,
        ceiling: 64,
    },
    // Estimate: three loads that hit the caches, and refills of the pipeline.
    refill: 30 * NS,
    // Estimate: a quarter of a second level of 512 entries.
    useful_entries: 128,
    // Estimate: interrupt through the supervisor's own controller, handler and answer.
    ipi: 2000 * NS,
    // Estimate: one more message and one more cache line.
    ipi_more: 200 * NS,
    // Estimate: a write of satp, a fence of the tag, and a share of a rollover.
    retag: 80 * NS,
};
