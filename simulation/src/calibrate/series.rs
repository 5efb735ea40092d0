//! Series of measured blocks, and what can be said of one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::counts::Disturbance;

/// Fewer blocks than this say nothing.
pub const LEAST: usize = 8;

/// What was measured of one thing, block by block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Nanoseconds, of the blocks that were kept.
    pub kept: Vec<f64>,
    /// How many blocks were discarded, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub discarded: BTreeMap<Disturbance, u32>,
}

impl Series {
    /// Adds a block.
    pub(super) fn block(&mut self, value: f64, disturbed: Option<Disturbance>) {
        match disturbed {
            None => self.kept.push(value),
            Some(why) => *self.discarded.entry(why).or_default() += 1,
        }
    }

    /// How many blocks there were.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.kept.len() + self.discarded.values().sum::<u32>() as usize
    }

    /// The middle and how far from it values lie.
    ///
    /// # Errors
    ///
    /// If too few blocks were kept, why the others were not.
    pub fn summary(&self) -> Result<Summary, String> {
        if self.kept.len() >= LEAST {
            return Ok(Summary::of(&self.kept));
        }
        let mut why = format!("{} of {} blocks could be used", self.kept.len(), self.blocks());
        for (reason, count) in &self.discarded {
            why += &format!(", {count}: {reason}");
        }
        Err(why)
    }
}

/// The middle of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// A quarter lies below.
    pub lower: f64,
    /// Half lies below.
    pub median: f64,
    /// Three quarters lie below.
    pub upper: f64,
    /// How many there are.
    pub n: usize,
}

impl Summary {
    /// Of at least one value.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * sorted.len().saturating_sub(1) as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self { lower: at(0.25), median: at(0.5), upper: at(0.75), n: sorted.len() }
    }

    /// The half of the values in the middle, as a share of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 {
            f64::INFINITY
        } else {
            (self.upper - self.lower) / self.median.abs()
        }
    }

    /// The same, unless it is spread more than that.
    ///
    /// # Errors
    ///
    /// If it is, with both.
    pub fn within(self, bound: f64) -> Result<Self, String> {
        let spread = self.spread();
        if spread <= bound {
            return Ok(self);
        }
        Err(format!(
            "unstable: half of {} blocks lie within {:.0} % of the median, more than {:.0} %",
            self.n,
            spread * 100.0,
            bound * 100.0
        ))
    }

    /// This less another one. The quartiles are those of two that have nothing to do with each other.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let median = self.median - other.median;
        let below = (self.median - self.lower).hypot(other.upper - other.median);
        let above = (self.upper - self.median).hypot(other.median - other.lower);
        Self { lower: median - below, median, upper: median + above, n: self.n.min(other.n) }
    }

    /// This by so much.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Self {
        let Self { lower, median, upper, n } = *self;
        Self { lower: lower * by, median: median * by, upper: upper * by, n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_between_values_and_a_disturbed_block_is_not_among_them() {
        let mut series = Series::default();
        (1..=9).for_each(|value| series.block(f64::from(value), None));
        series.block(1e9, Some(Disturbance::Few));
        let summary = series.summary().unwrap();
        assert_eq!(summary, Summary { lower: 3.0, median: 5.0, upper: 7.0, n: 9 });
        assert_eq!(series.blocks(), 10);
        assert_eq!(Summary::of(&[1.0, 2.0]).median, 1.5);
        assert_eq!(Summary::of(&[4.0]), Summary { lower: 4.0, median: 4.0, upper: 4.0, n: 1 });
    }

    #[test]
    fn few_blocks_are_refused_with_what_became_of_the_others() {
        let mut series = Series::default();
        (0..7).for_each(|_| series.block(1.0, None));
        (0..3).for_each(|_| series.block(1.0, Some(Disturbance::Preempted)));
        series.block(1.0, Some(Disturbance::Stolen));
        assert_eq!(
            series.summary().unwrap_err(),
            "7 of 11 blocks could be used, 3: preempted, 1: time stolen by the host"
        );
    }

    #[test]
    fn a_series_spread_too_wide_is_refused() {
        let summary = Summary { lower: 90.0, median: 100.0, upper: 112.0, n: 20 };
        assert!(summary.within(0.22).is_ok());
        let why = summary.within(0.2).unwrap_err();
        assert_eq!(
            why,
            "unstable: half of 20 blocks lie within 22 % of the median, more than 20 %"
        );
        assert!(Summary::of(&[0.0; 9]).within(0.5).is_err());
    }

    #[test]
    fn a_difference_is_spread_as_far_as_both_together() {
        let summary =
            |median, by| Summary { lower: median - by, median, upper: median + by, n: 10 };
        let difference = summary(10.0, 3.0).minus(&summary(4.0, 4.0));
        assert_eq!(difference, summary(6.0, 5.0));
        assert_eq!(difference.scaled(0.5), summary(3.0, 2.5));
    }
}
