//! What translation upkeep costs on a machine: the numbers that decisions are made by.

/// Costs in picoseconds. Every decision between several sound ways to flush is a comparison of sums
/// of these; none is a constant in the code.
///
/// [`crate::arch::Mmu::typical_costs`] has a table for each architecture, with sources. A kernel that
/// measures its machine when it boots returns its own from [`crate::Platform::costs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Invalidations that act on the CPU which executes them.
    pub here: OperationCosts,
    /// Invalidations that act on every CPU.
    pub everywhere: OperationCosts,
    /// One miss: a walk that brings an entry back.
    pub refill: u64,
    /// How many entries a space that runs is expected to find again, had they not been removed.
    pub useful_entries: u64,
    /// To interrupt one CPU and learn that its handler has run.
    pub interrupt: u64,
    /// Each further CPU that is interrupted at the same time.
    pub interrupt_more: u64,
    /// To give a space another tag: the load of the root, and its share of the turnover that the
    /// used-up tag brings nearer.
    pub fresh_tag: u64,
}

/// What one kind of invalidation costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationCosts {
    /// One invalidation by address or by range of addresses.
    pub address: u64,
    /// One invalidation of everything under a tag.
    pub tag: u64,
    /// The barrier that waits for all of them.
    pub wait: u64,
}

impl Costs {
    /// What it costs to lose everything that is held under a tag.
    #[must_use]
    pub const fn loss(&self) -> u64 {
        self.refill.saturating_mul(self.useful_entries)
    }

    /// Whether `operations` invalidations by address cost less than one by tag and what is lost
    /// with it.
    #[must_use]
    pub const fn by_address(&self, costs: OperationCosts, operations: u64) -> bool {
        operations.saturating_mul(costs.address) <= costs.tag.saturating_add(self.loss())
    }
}
