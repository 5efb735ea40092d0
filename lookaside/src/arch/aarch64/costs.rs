//! What invalidations cost, where it has been published.
//!
//! Few of these numbers exist. *Phytium* is a Phytium N80 of 8 cores (FTC862, 1.8 GHz), measured by
//! a kernel module: minimum of 100 batches of 2048 pairs of `TLBI` (TomGoh/kylin-lmbench,
//! `experiments/munmap-tlbi`, 2026). *A72* is an AWS Graviton 1 (C. Lam, "ARM's Cortex A72", Chips
//! and Cheese, 2023). What is marked as an estimate was measured by nobody we know of; a kernel that
//! cares measures ([`Costs::measure`]).

use crate::costs::{Costs, OperationCosts};

const NS: u64 = 1000;

/// Stage 1.
pub(super) const TYPICAL: Costs = Costs {
    local: OperationCosts {
        // Phytium: 10.02 ns for two.
        address: 5_010,
        // Estimate: as one by address. What is lost with it is counted apart.
        tag: 5_010,
        // Estimate: DSB NSH and ISB, 20 ns each.
        wait: 40 * NS,
        // Linux, `MAX_DVM_OPS`: the entries of a table.
        ceiling: 512,
    },
    broadcast: OperationCosts {
        // Phytium: 23.23 ns for two, whether 1, 2 or 8 cores were online.
        address: 11_615,
        // Estimate: as one by address.
        tag: 11_615,
        // Estimate. On 32 CPUs that all broadcast, at most 6.3 us of every round of mprotect were
        // spent in the interconnect (A. Arcangeli, linux-arm-kernel, 23 Feb 2020, by division); on
        // Phytium it is next to nothing.
        wait: 1000 * NS,
        ceiling: 512,
    },
    // A72: 162 ns for a load that walks, less 92 ns for one that does not, with tables beyond the
    // first level of the caches. A walk that hits there is cheaper; no number is public.
    refill: 70 * NS,
    // Estimate: a quarter of the 1280 entries of a Neoverse N1.
    useful_entries: 320,
    // Estimate: software-generated interrupt, handler and answer.
    ipi: 1500 * NS,
    // Estimate: one more answer, whose cache line takes 47 ns on 64 Neoverse N1
    // (nviennot/core-to-core-latency), and one more write of the interrupt controller.
    ipi_more: 100 * NS,
    // Estimate: MSR and ISB, and a 65536th of a rollover.
    retag: 50 * NS,
};

/// Stage 2.
pub(super) const STAGE_2: Costs = Costs {
    local: OperationCosts {
        // No address can be named: all entries of all guests go.
        address: TYPICAL.local.tag,
        ..TYPICAL.local
    },
    broadcast: OperationCosts { address: TYPICAL.broadcast.tag, ..TYPICAL.broadcast },
    // Estimate: a walk in two dimensions is twice one in one. In a guest on an AMD Zen 5 it takes
    // 12 to 25 ns.
    refill: 2 * TYPICAL.refill,
    ..TYPICAL
};
