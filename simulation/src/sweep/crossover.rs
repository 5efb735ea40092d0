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
    /// The points that it is between.
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

/// How much better the first is than the second: more than 0 if it is.
fn lead(first: f64, second: f64, better: Better) -> f64 {
    match better {
        Better::Lower => (second / first).ln(),
        Better::Higher => (first / second).ln(),
    }
}

fn median(values: &[f64]) -> f64 {
    crate::seeds::Spread::of(values).median()
}

fn of(first: &Curve, second: &Curve, better: Better) -> Vec<Crossover> {
    let both: Vec<(f64, &[f64], &[f64])> = first
        .points
        .iter()
        .zip(&second.points)
        .filter_map(|(a, b)| Some((a.x, a.samples.as_deref().ok()?, b.samples.as_deref().ok()?)))
        .collect();
    let mut all = Vec::new();
    for two in both.windows(2) {
        let [(x1, a1, b1), (x2, a2, b2)] = [two[0], two[1]];
        let before = lead(median(a1), median(b1), better);
        let after = lead(median(a2), median(b2), better);
        if before * after >= 0.0 {
            continue;
        }
        let share = before / (before - after);
        let at = match x1 > 0.0 {
            true => x1 * (x2 / x1).powf(share),
            false => x1 + (x2 - x1) * share,
        };
        let samples = a1.len().min(a2.len()).min(b1.len()).min(b2.len());
        let crosses = |i: &usize| {
            let (one, other) = (lead(a1[*i], b1[*i], better), lead(a2[*i], b2[*i], better));
            one * before > 0.0 && other * after > 0.0
        };
        let count = (0..samples).filter(crosses).count();
        let (earlier, later) = if before > 0.0 { (first, second) } else { (second, first) };
        all.push(Crossover {
            machine: first.machine.clone(),
            strategies: [earlier.strategy.clone(), later.strategy.clone()],
            between: [x1, x2],
            at,
            certainty: count as f64 / samples.max(1) as f64,
        });
    }
    all
}
