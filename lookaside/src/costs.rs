//! Costs of TLB maintenance on a machine, by which flushes are chosen.

/// Costs in picoseconds. Every decision between several sound ways to flush compares sums of these; no
/// threshold is a constant in the code.
///
/// [`crate::arch::Properties::typical_costs`] has a table for each architecture, with sources. A kernel that
/// measures its machine when it boots returns its own from [`crate::Platform::costs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Invalidations that act on the CPU which executes them.
    pub local: OperationCosts,
    /// Invalidations that act on every CPU.
    pub broadcast: OperationCosts,
    /// One miss: a walk that brings an entry back.
    pub refill: u64,
    /// How many entries a running space is expected to use again unless they are removed. Zero where an
    /// invalidation by address removes everything, as on Intel in guests whose host uses smaller pages: a
    /// kernel finds out by timing an access to another page after such an invalidation.
    pub useful_entries: u64,
    /// An IPI to one CPU, until its handler is known to have run.
    pub ipi: u64,
    /// Each further CPU that gets an IPI at the same time.
    pub ipi_more: u64,
    /// To give a space another tag: two loads of the root register, and its share of the rollover that the
    /// used-up tag brings nearer.
    pub retag: u64,
}

/// What one kind of invalidation costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationCosts {
    /// One invalidation by address or by range of addresses.
    pub address: u64,
    /// One invalidation of everything under a tag.
    pub tag: u64,
    /// The barriers, needed once however many invalidations there are: the one that waits for all of
    /// them, and those that must come before the first.
    pub wait: u64,
}

impl Costs {
    /// The cost of losing all entries under a tag.
    #[must_use]
    pub const fn loss(&self) -> u64 {
        self.loss_beside(0)
    }

    /// The cost of losing all entries under a tag if `pages` of them have to be removed anyway: those are no
    /// loss. How many of them were cached is not known; so all count, as far as there are useful entries.
    #[must_use]
    pub const fn loss_beside(&self, pages: u64) -> u64 {
        self.refill.saturating_mul(self.useful_entries.saturating_sub(pages))
    }

    /// Whether `operations` invalidations by address, of `pages` in all, cost no more than one by tag
    /// together with the entries that are lost by it.
    #[must_use]
    pub const fn by_address(&self, costs: OperationCosts, operations: u64, pages: u64) -> bool {
        let by_tag = costs.tag.saturating_add(self.loss_beside(pages));
        operations.saturating_mul(costs.address) <= by_tag
    }
}
