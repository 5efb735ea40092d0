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
    /// The most invalidations by address that one flush makes. A flush by tag is cheaper in instructions from a few pages
    /// on, and what it loses is an expectation. The ceiling bounds what is spent for the sake of that.
    #[doc(alias = "tlb_single_page_flush_ceiling")]
    pub ceiling: u64,
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

    /// Whether to remove `pages` pages by `operations` invalidations by address on this CPU, and not everything under
    /// the tag. `mapped` entries beside those pages at least are taken to be used again; `None` if that is not known,
    /// and then the loss counts in full. Never by address beyond the [ceiling](OperationCosts::ceiling). Else:
    ///
    /// By address costs `A = operations * address`. By tag costs `T(x) = tag + refill * x`, where `x` entries are used
    /// again; the program knows `x`, nobody else. It is at least `l`, which is `mapped`, and at most `u`, which is
    /// `useful_entries - pages`. By address is chosen if `A * A <= T(l) * T(u)`.
    ///
    /// **Bound.** Whichever is chosen costs at most `c = sqrt(T(u) / T(l))` times the other. If it is by address, then
    /// `A <= sqrt(T(l) * T(u)) = c * T(l) <= c * T(x)`. If it is by tag, then
    /// `T(x) <= T(u) = c * sqrt(T(l) * T(u)) < c * A`. So any sequence of flushes costs at most `c` times what it would
    /// cost to make the better choice at each of them, with all `x` known beforehand. That is twice as soon as
    /// `T(u) <= 4 * T(l)`: if a quarter of what can be lost is known to be in use.
    ///
    /// **No rule without `x` does better.** Take `A = sqrt(T(l) * T(u))`. Of a rule that goes by address the program uses
    /// `l` entries again, of one that goes by tag it uses `u`: both cost `c` times the other choice.
    #[must_use]
    pub const fn by_address_here(&self, operations: u64, pages: u64, mapped: Option<u64>) -> bool {
        let most = self.useful_entries.saturating_sub(pages);
        let least = match mapped {
            Some(mapped) if mapped < most => mapped,
            _ => most,
        };
        let by_address = self.local.address.saturating_mul(operations) as u128;
        operations <= self.local.ceiling
            && by_address * by_address <= self.by_tag(least) as u128 * self.by_tag(most) as u128
    }

    /// The most pages of which a flush of nothing else goes by address on this CPU, if each takes one invalidation: for
    /// kernels that show at boot what follows from what they have measured.
    #[must_use]
    pub const fn most_pages_here(&self, mapped: Option<u64>) -> u64 {
        let (mut yes, mut no) =
            (0, if self.local.ceiling < 1 << 32 { self.local.ceiling + 1 } else { 1 << 32 });
        while yes + 1 < no {
            let pages = u64::midpoint(yes, no);
            if self.by_address_here(pages, pages, mapped) {
                yes = pages;
            } else {
                no = pages;
            }
        }
        yes
    }

    /// An invalidation by tag on this CPU, and the loss of so many entries.
    const fn by_tag(&self, entries: u64) -> u64 {
        self.local.tag.saturating_add(self.refill.saturating_mul(entries))
    }

    /// Whether `operations` invalidations by address, of `pages` in all, cost no more than one by tag
    /// together with the entries that are lost by it, and are within the ceiling.
    #[must_use]
    pub const fn by_address(&self, costs: OperationCosts, operations: u64, pages: u64) -> bool {
        let by_tag = costs.tag.saturating_add(self.loss_beside(pages));
        operations <= costs.ceiling && operations.saturating_mul(costs.address) <= by_tag
    }
}

#[cfg(test)]
mod tests;
