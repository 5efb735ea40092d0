//! Costs of TLB maintenance on a machine, by which flushes are chosen.

use crate::{
    arch::{Errata, Mmu, Scope, TableChange, Tag},
    range::VaRange,
};

/// Costs in picoseconds. Every decision between several sound ways to flush compares sums of these; no
/// threshold is a constant in the code.
///
/// [`crate::arch::Mmu::typical_costs`] has a table for each architecture, with sources. A kernel that
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

/// The pages that are invalidated at once to measure the cost of one: each is a range of its own, so that no
/// range instruction covers several.
const PAGES: [VaRange; 16] = {
    let page = match VaRange::new(0, 1 << 12, 12) {
        Ok(page) => page,
        Err(_) => panic!("a page is a range"),
    };
    let mut pages = [page; 16];
    let mut i = 0;
    while i < pages.len() {
        if let Ok(range) = VaRange::new((2 * i as u64 + 1) << 12, 1 << 12, 12) {
            pages[i] = range;
        }
        i += 1;
    }
    pages
};

impl Costs {
    /// The [typical](Mmu::typical_costs) costs, with those of [`Self::local`] measured on this CPU.
    ///
    /// `clock` returns a time in picoseconds, of whatever origin; the time of a call of it is subtracted.
    /// Everything is done `rounds` times and the shortest time counts, since whatever else happens on a
    /// machine makes things slower and never faster.
    ///
    /// Call it with interrupts off on a CPU that is parked. It removes entries of [`Tag::RESERVED`], which
    /// has none for user addresses, so that it costs nothing but time. On x86-64 the root register of a
    /// parked CPU has the PCID that is flushed: `INVLPG` is measured.
    ///
    /// One CPU cannot measure the costs of others: those of IPIs, of broadcasts, and of a miss when all CPUs
    /// miss, remain the typical ones.
    #[must_use]
    pub fn measure<M: Mmu>(
        mmu: &M,
        errata: Errata,
        rounds: u32,
        mut clock: impl FnMut() -> u64,
    ) -> Self {
        let typical = mmu.typical_costs();
        let overhead = least(rounds, &mut clock, || ());
        let mut time = |act: &dyn Fn()| least(rounds, &mut clock, act).saturating_sub(overhead);
        let flush = |pages: &[VaRange]| {
            mmu.flush_ranges(errata, Tag::RESERVED, pages, TableChange::LastLevel);
        };
        let one = time(&|| flush(&PAGES[..1]));
        let many = time(&|| flush(&PAGES));
        let tag = time(&|| mmu.flush_tag(errata, Tag::RESERVED));

        let operations = |pages: &[VaRange]| {
            let each = |page| mmu.operations(page, TableChange::LastLevel, Scope::Local);
            pages.iter().map(each).sum::<Option<u64>>()
        };
        let local = match (operations(&PAGES[..1]), operations(&PAGES)) {
            (Some(first), Some(all)) if all > first => {
                let address = many.saturating_sub(one) / (all - first);
                let wait = one.saturating_sub(first.saturating_mul(address));
                OperationCosts { address, tag: tag.saturating_sub(wait), wait }
            }
            // Whatever the range is, the whole tag is flushed.
            _ => OperationCosts { address: tag, tag, wait: 0 },
        };
        Self { local, ..typical }
    }

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

/// The shortest of `rounds` times, one at least, that `act` takes between two readings of the clock.
fn least(rounds: u32, clock: &mut impl FnMut() -> u64, act: impl Fn()) -> u64 {
    let mut time = || {
        let before = clock();
        act();
        clock().saturating_sub(before)
    };
    (1..rounds).fold(time(), |least, _| least.min(time()))
}
