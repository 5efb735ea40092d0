//! Where curves cross.

use super::{Curve, Swept};
use crate::data::Better;

/// A place where one strategy becomes better than another.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossover {
    /// The key of the machine.
    pub machine: String,
    /// The strategy that is better before, and the one that is better after.
    pub strategies: [String; 2],
    /// The points that it is between: the last at which one is better, and the next at which the other is. At points in
    /// between the medians are the same.
    pub between: [f64; 2],
    /// Where the medians cross.
    pub at: f64,
    /// On which share of the samples they cross there, and in that direction.
    pub certainty: f64,
}

/// All places where the medians of two curves of a machine cross.
#[must_use]
pub fn crossovers(swept: &Swept) -> Vec<Crossover> {
    let mut all = Vec::new();
    for machine in swept.machines() {
        let curves: Vec<&Curve> = swept.of(machine).collect();
        for (i, &second) in curves.iter().enumerate() {
            for &first in &curves[..i] {
                all.extend(of(first, second, swept.better));
            }
        }
    }
    all
}

/// How much better the first is than the second, as a logarithm: more than 0 if it is, and infinite where there is no
/// ratio, as one of them is 0. None where neither is better, which two that are 0 are not.
fn lead(first: f64, second: f64, better: Better) -> Option<f64> {
    let (better, worse) = match better {
        Better::Lower => (first, second),
        Better::Higher => (second, first),
    };
    match better == worse {
        true => None,
        false if better > 0.0 && worse > 0.0 => Some((worse / better).ln()),
        false => Some(f64::INFINITY.copysign(worse - better)),
    }
}

fn median(values: &[f64]) -> f64 {
    crate::seeds::Spread::of(values).median()
}

/// A place on the way between two others: by their logarithms where these exist.
fn on_the_way([from, to]: [f64; 2], share: f64) -> f64 {
    match from > 0.0 {
        true => from * (to / from).powf(share),
        false => from + (to - from) * share,
    }
}

/// A point of both curves.
#[derive(Clone, Copy)]
struct Both<'c> {
    x: f64,
    first: &'c [f64],
    second: &'c [f64],
}

impl Both<'_> {
    fn medians(&self) -> [f64; 2] {
        [median(self.first), median(self.second)]
    }

    fn lead(&self, better: Better) -> Option<f64> {
        let [first, second] = self.medians();
        lead(first, second, better)
    }

    /// Whether the sample of this number has the lead on the same side.
    fn agrees(&self, sample: usize, side: f64, better: Better) -> bool {
        lead(self.first[sample], self.second[sample], better)
            .is_some_and(|lead| (lead > 0.0) == (side > 0.0))
    }
}

/// Where medians cross between a point with a lead, points without, and a point with the opposite lead.
fn place(from: (&Both<'_>, f64), ties: &[Both<'_>], to: (&Both<'_>, f64)) -> f64 {
    if let [first, .., last] | [first @ last] = ties {
        return on_the_way([first.x, last.x], 0.5);
    }
    let ((before, lead), (after, other)) = (from, to);
    let share = match lead.is_finite() && other.is_finite() {
        true => lead / (lead - other),
        // Without a ratio at one of them: on straight lines.
        false => {
            let apart = |[first, second]: [f64; 2]| (first - second).abs();
            let [here, there] = [apart(before.medians()), apart(after.medians())];
            here / (here + there)
        }
    };
    on_the_way([before.x, after.x], share)
}

fn of(first: &Curve, second: &Curve, better: Better) -> Vec<Crossover> {
    let points = first.points.iter().zip(&second.points).filter_map(|(a, b)| {
        let [one, other] = [a, b].map(|point| point.samples.as_deref().ok());
        Some(Both { x: a.x, first: one?, second: other? })
    });
    let both: Vec<Both<'_>> = points.collect();
    let mut all = Vec::new();
    // The last point at which one of them leads: at those after it they tie.
    let mut last: Option<(usize, f64)> = None;
    for (place_after, after) in both.iter().enumerate() {
        let Some(to) = after.lead(better) else { continue };
        let Some((place_before, from)) = last.replace((place_after, to)) else { continue };
        if (from > 0.0) == (to > 0.0) {
            continue;
        }
        let (before, ties) = (&both[place_before], &both[place_before + 1..place_after]);
        let samples = [before, after].map(|one| one.first.len().min(one.second.len()));
        let samples = samples[0].min(samples[1]);
        let crosses = |&i: &usize| before.agrees(i, from, better) && after.agrees(i, to, better);
        let count = (0..samples).filter(crosses).count();
        let (earlier, later) = if from > 0.0 { (first, second) } else { (second, first) };
        all.push(Crossover {
            machine: first.machine.clone(),
            strategies: [earlier.strategy.clone(), later.strategy.clone()],
            between: [before.x, after.x],
            at: place((before, from), ties, (after, to)),
            certainty: count as f64 / samples.max(1) as f64,
        });
    }
    all
}
