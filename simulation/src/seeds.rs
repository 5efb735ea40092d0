//! What the seed of a run makes of its result.
//!
//! A run is exact for its seed, and programs that contend with each other are chaotic: a start that is some
//! nanoseconds later can change who waits for whom for good. So a result of more than one CPU is asked of several
//! seeds. Where it falls on one of two sides with nothing between, its median says nothing.

use lookaside_terminal::grid::{number, percent};

/// The results of a run with several seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// In ascending order.
    sorted: Vec<f64>,
}

/// A result whose seeds differ by less than this fraction of the median is called the same.
pub const SAME: f64 = 0.05;
/// The fewest seeds of which it can be said that they fall on two sides.
const ENOUGH: usize = 5;

impl Spread {
    /// That of these results.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self { sorted }
    }

    /// The least.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(f64::NAN)
    }

    /// The greatest.
    #[must_use]
    pub fn greatest(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(f64::NAN)
    }

    /// The median.
    #[must_use]
    pub fn median(&self) -> f64 {
        let count = self.sorted.len();
        match count {
            0 => f64::NAN,
            _ => f64::midpoint(self.sorted[(count - 1) / 2], self.sorted[count / 2]),
        }
    }

    /// The greatest less the least, as a fraction of the median; 0 if there is one result.
    #[must_use]
    pub fn relative(&self) -> f64 {
        let range = self.greatest() - self.least();
        if range > 0.0 { range / self.median().abs() } else { 0.0 }
    }

    /// The two sides that the results fall on, if they do: where the widest gap between neighbours is more than
    /// half of the whole range, and more than one seed is on each side of it.
    #[must_use]
    pub fn sides(&self) -> Option<[Self; 2]> {
        if self.sorted.len() < ENOUGH || self.relative() < 2.0 * SAME {
            return None;
        }
        let gap = |i: usize| self.sorted[i] - self.sorted[i - 1];
        let widest = (1..self.sorted.len()).max_by(|&a, &b| gap(a).total_cmp(&gap(b)))?;
        let (low, high) = self.sorted.split_at(widest);
        let parted = gap(widest) > 0.5 * (self.greatest() - self.least());
        (parted && low.len() > 1 && high.len() > 1).then(|| [Self::of(low), Self::of(high)])
    }

    /// What is to be said of it, if it is not the same for all seeds.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        if let Some([low, high]) = self.sides() {
            let (low_count, high_count) = (low.sorted.len(), high.sorted.len());
            let (low, high) = (number(low.median()), number(high.median()));
            return Some(format!(
                "is bistable: about {low} with {low_count} seeds, about {high} with {high_count}"
            ));
        }
        (self.relative() > SAME).then(|| {
            let [least, greatest] = [self.least(), self.greatest()].map(number);
            let (count, range) = (self.sorted.len(), percent(self.relative()));
            let range = range.trim_start_matches('+');
            format!("depends on the seed: {least} to {greatest} with {count} seeds, {range} of the median")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sides_are_told_from_a_wide_range() {
        let two = Spread::of(&[394.0, 401.0, 398.0, 1406.0, 1390.0]);
        let [low, high] = two.sides().expect("it has two sides");
        assert_eq!((low.median(), high.median()), (398.0, 1398.0));
        assert!(two.words().unwrap().starts_with("is bistable: about 398"));
        let wide = Spread::of(&[400.0, 600.0, 800.0, 1000.0, 1200.0, 1400.0]);
        assert_eq!(wide.sides(), None);
        assert!(wide.words().unwrap().contains("with 6 seeds, 111"));
    }

    #[test]
    fn one_outlier_is_no_side_and_few_seeds_have_none() {
        assert_eq!(Spread::of(&[1.0, 1.0, 1.0, 1.0, 9.0]).sides(), None);
        assert_eq!(Spread::of(&[1.0, 1.0, 9.0, 9.0]).sides(), None);
    }

    #[test]
    fn nothing_is_said_of_results_that_are_the_same() {
        assert_eq!(Spread::of(&[100.0, 101.0, 102.0]).words(), None);
        assert_eq!(Spread::of(&[7.0]).words(), None);
        assert_eq!(Spread::of(&[0.0, 0.0]).words(), None);
    }
}
