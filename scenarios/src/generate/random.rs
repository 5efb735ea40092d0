//! Pseudo-random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

/// A source of numbers.
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`.
    pub(super) const fn below(&mut self, limit: usize) -> usize {
        ((self.next() as u128 * limit as u128) >> 64) as usize
    }

    /// True in so many of a hundred cases.
    pub(super) const fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// The number of one of several, each as likely as its weight says.
    pub(super) fn weighted(&mut self, weights: impl Iterator<Item = usize> + Clone) -> usize {
        let mut at = self.below(weights.clone().sum());
        for (index, weight) in weights.enumerate() {
            if at < weight {
                return index;
            }
            at -= weight;
        }
        0
    }
}
