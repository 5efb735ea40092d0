//! The choice between addresses and the tag, against somebody who knows what is used again.

use super::*;

/// Pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    fn costs(&mut self) -> Costs {
        let mut cost = || 1 + self.below(300_000);
        let (address, tag) = (cost(), cost());
        let each = OperationCosts { address, tag, wait: 0, ceiling: u64::MAX };
        let refill = self.below(80_000);
        let useful_entries = self.below(4096);
        priced(each, refill, useful_entries)
    }
}

fn priced(each: OperationCosts, refill: u64, useful_entries: u64) -> Costs {
    let (local, broadcast) = (each, each);
    Costs { local, broadcast, refill, useful_entries, ipi: 1, ipi_more: 1, retag: 1 }
}

/// One flush: how many pages, how many others were mapped, and how many others the program will use again.
struct Case {
    pages: u64,
    mapped: u64,
    used: u64,
}

impl Case {
    /// Of the least entries that can be lost, the most, and what is in between.
    fn draw(random: &mut Random, costs: &Costs, known: bool) -> Self {
        let pages = 2 + random.below(600);
        let most = costs.useful_entries.saturating_sub(pages);
        let mapped =
            if known { most.div_ceil(4) + random.below(most + 1) } else { random.below(most + 1) };
        let least = mapped.min(most);
        // The program of an adversary uses as few of them or as many.
        let used = match random.below(3) {
            0 => least,
            1 => most,
            _ => least + random.below(most - least + 1),
        };
        Self { pages, mapped, used }
    }

    fn by_tag(&self, costs: &Costs) -> u64 {
        costs.local.tag + costs.refill * self.used
    }

    fn by_address(&self, costs: &Costs) -> u64 {
        costs.local.address * self.pages
    }

    /// What the library spends, and what the better choice costs.
    fn spent(&self, costs: &Costs) -> (u64, u64) {
        let (address, tag) = (self.by_address(costs), self.by_tag(costs));
        let chosen = costs.by_address_here(self.pages, self.pages, Some(self.mapped));
        (if chosen { address } else { tag }, address.min(tag))
    }
}

/// Whether `spent` is at most `sqrt(high / low)` times `best`, but for rounding.
fn is_within(spent: u64, best: u64, high: u64, low: u64) -> bool {
    u128::from(spent).pow(2) * u128::from(low) <= u128::from(best).pow(2) * u128::from(high)
}

#[test]
fn a_flush_costs_at_most_what_the_bound_says_of_the_better_choice() {
    let mut random = Random(1);
    let mut tight = 0;
    for _ in 0..20_000 {
        let costs = random.costs();
        let case = Case::draw(&mut random, &costs, false);
        let most = costs.useful_entries.saturating_sub(case.pages);
        let (low, high) = (costs.by_tag(case.mapped.min(most)), costs.by_tag(most));
        let (spent, best) = case.spent(&costs);
        assert!(is_within(spent, best, high, low), "{costs:?}: {spent} and {best}");
        tight += u64::from(spent > best);
    }
    assert!(tight > 1000, "the better choice was always known: {tight}");
}

#[test]
fn random_sequences_cost_at_most_twice_what_the_best_would_if_a_quarter_is_mapped() {
    let mut random = Random(2);
    for _ in 0..500 {
        let costs = random.costs();
        let (mut spent, mut best) = (0, 0);
        for _ in 0..1 + random.below(100) {
            let (here, least) = Case::draw(&mut random, &costs, true).spent(&costs);
            (spent, best) = (spent + here, best + least);
        }
        assert!(spent <= 2 * best, "{costs:?}: {spent} and {best}");
    }
}

#[test]
fn no_choice_is_better_at_the_threshold() {
    // T(0) = 100 and T(75) = 1600: their geometric mean is 400, and the bound 4.
    let each = OperationCosts { address: 40, tag: 100, wait: 0, ceiling: u64::MAX };
    let (refill, useful_entries) = (20, 85);
    let costs = priced(each, refill, useful_entries);
    let [least, most] = [0, 75].map(|used| Case { pages: 10, mapped: 0, used }.by_tag(&costs));
    assert_eq!((least, most), (100, 1600));
    assert!(costs.by_address_here(10, 10, Some(0)), "400 are the mean");
    assert!(!costs.by_address_here(11, 10, Some(0)));
    // By address it is four times what it had to be if nothing is used again; by tag, if everything is.
    assert_eq!((400 / least, most / 400), (4, 4));
}

#[test]
fn what_is_mapped_raises_the_limit_to_that_of_a_full_loss() {
    let mut random = Random(3);
    for _ in 0..5000 {
        let costs = random.costs();
        let (operations, pages) = (1 + random.below(600), 2 + random.below(600));
        let [none, some, all] = [0, random.below(4096), 4096]
            .map(|mapped| costs.by_address_here(operations, pages, Some(mapped)));
        assert!(none <= some && some <= all, "more is mapped, so more is lost");
        assert_eq!(all, costs.by_address(costs.local, operations, pages));
        assert_eq!(all, costs.by_address_here(operations, pages, None), "so it is if nobody knows");
    }
}

#[test]
fn beyond_the_ceiling_everything_goes() {
    let each = OperationCosts { address: 1, tag: 1 << 30, wait: 0, ceiling: 33 };
    let costs = priced(each, 1, 1000);
    assert!(costs.by_address_here(33, 33, None));
    assert!(!costs.by_address_here(34, 34, None));
    assert!(!costs.by_address_here(34, 34, Some(1000)));
    let costs = priced(OperationCosts { ceiling: 0, ..each }, 1, 1000);
    assert!(costs.by_address(OperationCosts { ceiling: 5, ..each }, 5, 33), "its own ceiling");
    assert!(!costs.by_address(OperationCosts { ceiling: 5, ..each }, 6, 36));
}

#[test]
fn the_most_pages_are_those_that_still_go_by_address() {
    let mut random = Random(4);
    for _ in 0..500 {
        let mut costs = random.costs();
        costs.local.ceiling = random.below(600);
        let mapped = [None, Some(random.below(4096))][random.below(2) as usize];
        let most = costs.most_pages_here(mapped);
        assert!(most == 0 || costs.by_address_here(most, most, mapped), "{costs:?}");
        assert!(!costs.by_address_here(most + 1, most + 1, mapped), "{costs:?}");
    }
}
