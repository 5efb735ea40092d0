//! Axes: where a value is in a picture, and which values are written beside it.

/// A way from values to places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    logarithmic: bool,
    from: f64,
    to: f64,
    /// Where `from` and `to` are.
    place: [f64; 2],
}

impl Scale {
    /// From 0 to a round value that is at least `most`.
    pub(super) fn linear(most: f64, place: [f64; 2]) -> Self {
        let step = step(most);
        let to = if most > 0.0 { (most / step).ceil() * step } else { 1.0 };
        Self { logarithmic: false, from: 0.0, to, place }
    }

    /// From `from` to `to`, both above 0, by factors.
    pub(super) fn logarithmic(from: f64, to: f64, place: [f64; 2]) -> Self {
        let to = if to > from { to } else { from * 2.0 };
        Self { logarithmic: true, from, to, place }
    }

    /// By factors and in whole decades.
    pub(super) fn decades(least: f64, most: f64, place: [f64; 2]) -> Self {
        let (from, to) = (10_f64.powf(least.log10().floor()), 10_f64.powf(most.log10().ceil()));
        Self::logarithmic(from, to, place)
    }

    /// Where a value is. What is beyond the ends is at the end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.place[0] + part.clamp(0.0, 1.0) * (self.place[1] - self.place[0])
    }

    /// Round values to write beside the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            let step = step(self.to);
            let count = (self.to / step).round() as u32;
            return (0..=count).map(|i| f64::from(i) * step).collect();
        }
        let (first, last) = (self.from.log10().round() as i32, self.to.log10().round() as i32);
        (first..=last).map(|decade| 10_f64.powi(decade)).collect()
    }
}

/// The length of a round step of which some four or five make up `most`.
fn step(most: f64) -> f64 {
    if most <= 0.0 || !most.is_finite() {
        return 1.0;
    }
    let rough = most / 4.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * decade);
    steps.into_iter().find(|&step| step >= rough * 0.999).unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_begins_at_0_and_ends_with_a_round_value() {
        let scale = Scale::linear(0.037, [100.0, 0.0]);
        assert_eq!(scale.ticks(), [0.0, 0.01, 0.02, 0.03, 0.04]);
        assert_eq!((scale.at(0.0), scale.at(0.04)), (100.0, 0.0));
        assert!((scale.at(0.01) - 75.0).abs() < 1e-9);
        let nothing = Scale::linear(0.0, [0.0, 1.0]);
        assert_eq!((nothing.at(0.0), nothing.ticks().len()), (0.0, 5));
    }

    #[test]
    fn a_logarithmic_axis_has_whole_decades() {
        let scale = Scale::decades(0.003, 0.2, [0.0, 300.0]);
        assert_eq!(scale.ticks().len(), 4);
        assert!((scale.at(0.01) - 100.0).abs() < 1e-9);
        assert_eq!(scale.at(0.0), 0.0);
    }
}
