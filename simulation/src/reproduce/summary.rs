//! What a comparison comes to.

use super::{
    ratio,
    reference::{Member, Reference},
    row::{Place, Reproduction, Row, Standing, Test},
    shape,
};
use crate::{data::Published, seeds::Spread};

/// A prediction that is off by more than this fraction needs a cause.
pub const LIMIT: f64 = 0.1;
/// How much slower than the best variant the recommended strategy may be without being called so: what
/// the random beginnings of programs make of a run.
pub const SAME: f64 = 0.995;

/// What a comparison comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Values beside which the model has one.
    pub rows: usize,
    /// Those to which a number of a machine is fitted.
    pub fitted: usize,
    /// Those that come out of the model.
    pub predicted: usize,
    /// Those of them that are off by 10 % at most.
    pub within: usize,
    /// Those of the predicted that are ratios to a baseline, and those of them that are off by 10 % at
    /// most.
    pub ratios: (usize, usize),
    /// Predictions that could have failed, and those of them that are off by 10 % at most.
    pub failable: (usize, usize),
    /// Gains among them, all of which differ from 1 by more than 10 %, and those of them that are right.
    pub gains: (usize, usize),
    /// Predictions that could hardly have failed, and those of them that are off by 10 % at most: controls,
    /// interpolations, repeats.
    pub easy: [(usize, usize); 3],
    /// Values that have one seed, where others have several.
    pub single: usize,
    /// Values of which the seed makes something else.
    pub chaotic: Vec<String>,
    /// Where the model's curves and orders have another shape than the published ones: steps, peaks and ties.
    pub unlike: Vec<String>,
    /// Those that are off by more.
    pub misses: Vec<Miss>,
    /// Where the model has values the other way round than they were published.
    pub reversed: Vec<String>,
    /// Points at which the recommended strategy is compared with published variants.
    pub compared: usize,
    /// Where the recommended strategy is worse than the best published variant.
    pub slower: Vec<String>,
    /// Runs that gave nothing, and why.
    pub failed: Vec<String>,
}

/// A prediction that misses.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// The name of the result.
    pub id: String,
    /// Which value.
    pub what: String,
    /// By how much, as a fraction.
    pub error: f64,
    /// Why, if that was found.
    pub cause: Option<String>,
}

impl Summary {
    /// Counts and looks for what is wrong.
    #[must_use]
    pub fn of(reproduction: &Reproduction<'_>) -> Self {
        let mut summary = Self::default();
        for comparison in &reproduction.comparisons {
            for place in &comparison.places {
                summary.count(comparison.result, place);
                summary.look_for_reversals(comparison.result, place);
                summary.compared += usize::from(place.over_best.is_some());
                if let Some(multiple) = place.over_best.filter(|&multiple| multiple < SAME) {
                    let name = reference(comparison.result, Member::Recommended, place.x);
                    summary.slower.push(format!("{name}: {multiple:.2}x the best published"));
                }
            }
        }
        summary.unlike = shape::unlike(&reproduction.comparisons);
        summary
    }

    /// Whether every direction is right and every run gave something.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.reversed.is_empty() && self.failed.is_empty()
    }

    fn tested(&mut self, test: Test, is_gain: bool, near: usize) {
        let add = |count: &mut (usize, usize)| {
            count.0 += 1;
            count.1 += near;
        };
        match test {
            Test::Failable => {
                add(&mut self.failable);
                if is_gain {
                    add(&mut self.gains);
                }
            }
            Test::Control => add(&mut self.easy[0]),
            Test::Interpolation => add(&mut self.easy[1]),
            Test::Repeat => add(&mut self.easy[2]),
        }
    }

    fn fail(&mut self, why: String) {
        if !self.failed.contains(&why) {
            self.failed.push(why);
        }
    }

    fn count(&mut self, result: &Published, place: &Place<'_>) {
        for row in &place.rows {
            if let Some(why) = &row.problem {
                self.fail(format!("{} with `{}`: {why}", result.id, row.strategy));
            }
            self.single += usize::from(row.spread.is_none() && row.modelled.is_some());
            if let (Some(member), Some(how)) =
                (row.member, row.spread.as_ref().and_then(Spread::words))
            {
                let what = reference(result, member, place.x);
                let of = if member == Member::Baseline { "" } else { " (over the baseline)" };
                self.chaotic.push(format!("{what}{of} {how}"));
            }
            let (Some(standing), Some(error), Some(member)) = (row.standing, row.error, row.member)
            else {
                continue;
            };
            self.rows += 1;
            match standing {
                Standing::Given => {}
                Standing::Fitted => self.fitted += 1,
                Standing::Predicted => {
                    self.predicted += 1;
                    if member != Member::Baseline {
                        self.ratios.0 += 1;
                        self.ratios.1 += usize::from(error.abs() <= LIMIT);
                    }
                    let near = usize::from(error.abs() <= LIMIT);
                    let is_gain = member != Member::Baseline;
                    self.tested(row.test.unwrap_or(Test::Failable), is_gain, near);
                    if near == 1 {
                        self.within += 1;
                    } else {
                        let what = reference(result, member, place.x).to_string();
                        let (id, cause) = (result.id.clone(), row.cause.clone());
                        self.misses.push(Miss { id, what, error, cause });
                    }
                }
            }
        }
        if let Some(why) = &place.problem {
            let strategy = &result.recommended.strategy;
            self.fail(format!("{} with `{strategy}`: {why}", result.id));
        }
    }

    /// Every two values of a point must be in the order in which they were published.
    fn look_for_reversals(&mut self, result: &Published, place: &Place<'_>) {
        if place.x.is_some_and(|x| result.controls.contains(&x)) {
            return;
        }
        let ratios = |row: &Row| row.published?.ratio.zip(row.modelled?.ratio);
        for (i, second) in place.rows.iter().enumerate() {
            for first in &place.rows[..i] {
                let (Some((p1, m1)), Some((p2, m2))) = (ratios(first), ratios(second)) else {
                    continue;
                };
                if ratio::is_reversed(p2 / p1, m2 / m1) {
                    let name = |row: &Row| {
                        let member = row.member.unwrap_or(Member::Baseline);
                        reference(result, member, place.x).to_string()
                    };
                    let change = |ratio: f64| 100.0 * (ratio - 1.0);
                    self.reversed.push(format!(
                        "{} over {}: published {:+.1} %, modelled {:+.1} %",
                        name(second),
                        name(first),
                        change(p2 / p1),
                        change(m2 / m1),
                    ));
                }
            }
        }
    }
}

pub(super) fn reference(result: &Published, member: Member, x: Option<f64>) -> Reference {
    Reference { id: result.id.clone(), member, x }
}
