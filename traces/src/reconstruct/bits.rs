//! Sets of the 512 pages that one page table maps.

/// How many pages one page table maps.
pub(super) const PIECE: u64 = 512;

/// A set of pages of one piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits([u64; 8]);

impl Bits {
    /// Those from `from` up to, and without, `to`. Both are at most 512.
    pub(super) fn between(from: u64, to: u64) -> Self {
        let mut bits = Self::default();
        for (word, low) in bits.0.iter_mut().zip((0..PIECE).step_by(64)) {
            let from = from.clamp(low, low + 64) - low;
            let to = to.clamp(low, low + 64) - low;
            if from < to {
                *word = (u64::MAX >> (64 - (to - from))) << from;
            }
        }
        bits
    }

    /// One page.
    pub(super) fn one(page: u64) -> Self {
        Self::between(page, page + 1)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == [0; 8]
    }

    pub(super) fn count(self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The first and the last; none if there are none.
    pub(super) fn ends(self) -> Option<(u64, u64)> {
        let first = self.0.iter().position(|word| *word != 0)?;
        let last = self.0.iter().rposition(|word| *word != 0)?;
        let low = u64::from(self.0[first].trailing_zeros());
        let high = 63 - u64::from(self.0[last].leading_zeros());
        Some((first as u64 * 64 + low, last as u64 * 64 + high))
    }

    pub(super) fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    pub(super) fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    pub(super) fn without(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u64> {
        self.0.into_iter().zip((0..PIECE).step_by(64)).flat_map(|(word, low)| {
            core::iter::successors((word != 0).then_some(word), |word| {
                let rest = word & (word - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |word| low + u64::from(word.trailing_zeros()))
        })
    }

    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self(core::array::from_fn(|word| with(self.0[word], other.0[word])))
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn ranges_have_their_ends_and_their_pages() {
        for (from, to) in [(0, 1), (0, 64), (63, 65), (1, 512), (511, 512), (100, 300)] {
            let bits = Bits::between(from, to);
            assert_eq!(bits.ends(), Some((from, to - 1)));
            assert_eq!(bits.count(), to - from);
            assert!(bits.iter().eq(from..to));
        }
        assert!(Bits::between(7, 7).is_empty());
        assert_eq!(Bits::default().ends(), None);
    }
}
