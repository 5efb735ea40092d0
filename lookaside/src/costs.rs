//! What translation upkeep costs on a machine: the numbers that decisions are made by.

use crate::{
    arch::{Errata, Mmu, Scope, TableChange, Tag},
    range::{FlushRange, VaRange},
};

/// Costs in picoseconds. Every decision between several sound ways to flush is a comparison of sums
/// of these; none is a constant in the code.
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
    /// How many entries a space that runs is expected to find again, had they not been removed. None
    /// where an invalidation by address removes everything, as it does in Intel's guests of which the
    /// host has smaller pages: a kernel finds out by timing the use of another page after one.
    pub useful_entries: u64,
    /// To interrupt one CPU and learn that its handler has run.
    pub ipi: u64,
    /// Each further CPU that is interrupted at the same time.
    pub ipi_more: u64,
    /// To give a space another tag: two loads of the root register, and its share of the turnover that
    /// the used-up tag brings nearer.
    pub retag: u64,
}

/// What one kind of invalidation costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationCosts {
    /// One invalidation by address or by range of addresses.
    pub address: u64,
    /// One invalidation of everything under a tag.
    pub tag: u64,
    /// The barriers, paid once however many invalidations there are: the one that waits for all of
    /// them, and what must stand before the first.
    pub wait: u64,
}

/// What is invalidated at once to find out what one page costs: each a stretch of its own, so that no
/// range instruction takes them together.
const PAGES: [FlushRange; 16] = {
    let page = match VaRange::new(0, 1 << 12, 12) {
        Ok(page) => FlushRange::uniform(page),
        Err(_) => panic!("a page is a range"),
    };
    let mut pages = [page; 16];
    let mut i = 0;
    while i < pages.len() {
        if let Ok(range) = VaRange::new((2 * i as u64 + 1) << 12, 1 << 12, 12) {
            pages[i] = FlushRange::uniform(range);
        }
        i += 1;
    }
    pages
};

impl Costs {
    /// The [typical](Mmu::typical_costs) costs, with those of [`Self::local`] as this CPU takes them.
    ///
    /// `clock` returns a time in picoseconds, of whatever origin; the clock's own time is taken off.
    /// Everything is done `rounds` times and the quickest counts, since whatever else happens on a
    /// machine makes things slower and never faster.
    ///
    /// Call it with interrupts off on a CPU that is parked. What it removes are entries of
    /// [`Tag::RESERVED`], which has none for user addresses, so that it costs nobody anything but
    /// time. On x86-64 a parked CPU names the PCID that is flushed: what is measured is `INVLPG`.
    ///
    /// Costs of other CPUs cannot be found out by one: interrupts, broadcasts, and what a miss costs
    /// when all miss, stay what they were.
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
        let flush = |pages: &[FlushRange]| {
            mmu.flush_ranges(errata, Tag::RESERVED, pages, TableChange::LastLevel);
        };
        let one = time(&|| flush(&PAGES[..1]));
        let many = time(&|| flush(&PAGES));
        let tag = time(&|| mmu.flush_tag(errata, Tag::RESERVED));

        let operations = |pages: &[FlushRange]| {
            let each = |page| mmu.operations(page, TableChange::LastLevel, Scope::Local);
            pages.iter().map(each).sum::<Option<u64>>()
        };
        let local = match (operations(&PAGES[..1]), operations(&PAGES)) {
            (Some(first), Some(all)) if all > first => {
                let address = many.saturating_sub(one) / (all - first);
                let wait = one.saturating_sub(first.saturating_mul(address));
                OperationCosts { address, tag: tag.saturating_sub(wait), wait }
            }
            // Whatever is asked for, the whole tag goes.
            _ => OperationCosts { address: tag, tag, wait: 0 },
        };
        Self { local, ..typical }
    }

    /// What it costs to lose everything that is held under a tag.
    #[must_use]
    pub const fn loss(&self) -> u64 {
        self.loss_beside(0)
    }

    /// What is lost with a tag beside `pages` that have to go: had they been spared, nobody could find
    /// them again. How many of them were held is not known; so all count, as far as there are useful
    /// entries.
    #[must_use]
    pub const fn loss_beside(&self, pages: u64) -> u64 {
        self.refill.saturating_mul(self.useful_entries.saturating_sub(pages))
    }

    /// Whether `operations` invalidations by address, of `pages` in all, cost no more than one by tag
    /// and what is lost with it.
    #[must_use]
    pub const fn by_address(&self, costs: OperationCosts, operations: u64, pages: u64) -> bool {
        let by_tag = costs.tag.saturating_add(self.loss_beside(pages));
        operations.saturating_mul(costs.address) <= by_tag
    }
}

/// The shortest of `rounds` times, one at least, that `act` takes between two looks at the clock.
fn least(rounds: u32, clock: &mut impl FnMut() -> u64, act: impl Fn()) -> u64 {
    let mut time = || {
        let before = clock();
        act();
        clock().saturating_sub(before)
    };
    (1..rounds).fold(time(), |least, _| least.min(time()))
}
