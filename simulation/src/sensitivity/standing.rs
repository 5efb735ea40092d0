//! Which strategy is best by one metric, counted over plausible machines.

use super::{Interval, answer::gain};
use crate::data::Better;

/// How strategies stand by one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    /// On how many machines each strategy is best, and better than each other.
    pub(super) best: Vec<usize>,
    /// On how many machines the best two come to the same.
    pub(super) tied: usize,
    /// For each strategy, how much worse than the best it is: in the mean of all machines, and at most.
    pub(super) lost: Vec<[f64; 2]>,
    /// The best, and the best of the others: the same one twice if there is one only.
    pub(super) pair: [usize; 2],
}

impl Standing {
    /// That of strategies whose values on each machine are these, the same number of them for each. Two are as good as each
    /// other where the better is at most `tie` better; for `near` see [`Question`](super::Question).
    pub(super) fn of(values: &[Vec<f64>], better: Better, [tie, near]: [f64; 2]) -> Self {
        let machines = values.first().map_or(0, Vec::len);
        let (mut best, mut tied) = (vec![0; values.len()], 0);
        // On how many each is the best or within a tie of it: two that come to the same everywhere are best nowhere.
        let mut near_best = vec![0; values.len()];
        for i in 0..machines {
            let of = |strategy: usize| gain(values[strategy][i], 1.0, better);
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|&a, &b| of(b).total_cmp(&of(a)));
            let [winner, next] = [order[0], order[order.len().min(2) - 1]];
            if winner != next && of(winner) <= of(next) * (1.0 + tie) {
                tied += 1;
            } else {
                best[winner] += 1;
            }
            for one in order {
                near_best[one] += usize::from(of(winner) <= of(one) * (1.0 + tie));
            }
        }
        let lost: Vec<[f64; 2]> = (0..values.len()).map(|one| lost(values, one, better)).collect();
        let pair = pair(values, better, &near_best, &lost, near);
        Self { best, tied, lost, pair }
    }
}

/// How much worse than the best one strategy is: in the mean of all machines, and at most.
fn lost(values: &[Vec<f64>], strategy: usize, better: Better) -> [f64; 2] {
    let loss = |(i, &own): (usize, &f64)| {
        let others = values.iter().map(|other| other[i]);
        let is_better = |&other: &f64| gain(other, own, better) > 1.0;
        others.filter(is_better).map(|other| (other - own).abs()).fold(0.0, f64::max)
    };
    let losses = values[strategy].iter().enumerate().map(loss);
    let sum: f64 = losses.clone().sum();
    [sum / values[strategy].len().max(1) as f64, losses.fold(0.0, f64::max)]
}

/// The best strategy, and the best of the others.
fn pair(
    values: &[Vec<f64>],
    better: Better,
    near_best: &[usize],
    lost: &[[f64; 2]],
    near: f64,
) -> [usize; 2] {
    let median = |strategy: usize| {
        let gains = values[strategy].iter().map(|&value| gain(value, 1.0, better)).collect();
        Interval::of(gains).map_or(0.0, |interval| interval.median)
    };
    // The earlier of two that are the same.
    let order = |&a: &usize, &b: &usize| {
        near_best[a].cmp(&near_best[b]).then(median(a).total_cmp(&median(b))).then(b.cmp(&a))
    };
    let most = (0..values.len()).max_by(order).unwrap_or(0);
    let margin = near * values.first().map_or(0, Vec::len) as f64;
    let nearly =
        |&one: &usize| near > 0.0 && near_best[one] as f64 + margin >= near_best[most] as f64;
    let leader = (0..values.len())
        .filter(nearly)
        .min_by(|&a, &b| lost[a][0].total_cmp(&lost[b][0]).then(order(&b, &a)))
        .unwrap_or(most);
    let others = (0..values.len()).filter(|&strategy| strategy != leader);
    [leader, others.max_by(order).unwrap_or(leader)]
}
