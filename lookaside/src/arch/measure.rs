//! Costs of invalidations, measured on this machine.

use super::{Errata, Invalidation, Mmu, Scope, TableChange, Tag};
use crate::{
    costs::{Costs, OperationCosts},
    range::VaRange,
};

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
    /// The [typical](super::Properties::typical_costs) costs, with those of [`Self::local`] measured on this CPU.
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
        let typical = mmu.properties().typical_costs;
        let overhead = least(rounds, &mut clock, || ());
        let mut time = |act: &dyn Fn()| least(rounds, &mut clock, act).saturating_sub(overhead);
        let flush = |pages: &[VaRange]| {
            mmu.flush(
                errata,
                Invalidation::ranges(Tag::RESERVED, pages, TableChange::LastLevel),
                Scope::Local,
            );
        };
        let one = time(&|| flush(&PAGES[..1]));
        let many = time(&|| flush(&PAGES));
        let tag = time(&|| mmu.flush(errata, Invalidation::Tag(Tag::RESERVED), Scope::Local));

        let operations = |pages: &[VaRange]| {
            let each = |page| mmu.operations(page, TableChange::LastLevel, Scope::Local);
            pages.iter().map(each).sum::<Option<u64>>()
        };
        let local = match (operations(&PAGES[..1]), operations(&PAGES)) {
            (Some(first), Some(all)) if all > first => {
                let address = many.saturating_sub(one) / (all - first);
                let wait = one.saturating_sub(first.saturating_mul(address));
                OperationCosts { address, tag: tag.saturating_sub(wait), wait, ..typical.local }
            }
            // Whatever the range is, the whole tag is flushed.
            _ => OperationCosts { address: tag, tag, wait: 0, ..typical.local },
        };
        Self { local, ..*typical }
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
