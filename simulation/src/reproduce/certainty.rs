//! Where gains lie on plausible machines, and which price they turn on.
//!
//! What is asked are gains that could have failed. The numbers of a machine are drawn as
//! [`sensitivity`](crate::sensitivity) says, those that are fitted too: they are not fitted again.

use lookaside_terminal::{Refused, grid::times};
use rayon::prelude::*;

use super::{
    book::Book,
    execute::Execute,
    plan::{Plan, Point},
    ratio,
    reference::Member,
    row::{Reproduction, Row, Test},
    summary,
};
use crate::{
    data::{Machine, Published},
    sensitivity::{self, Interval, Plausible, Uncertain, words},
};

/// The ends of an interval and what was published. A number that is outside is not printed as one of the ends: all then
/// have more digits.
fn told_apart(numbers: [f64; 3], is_inside: bool) -> [String; 3] {
    let short = numbers.map(times);
    if is_inside || !short[..2].contains(&short[2]) {
        return short;
    }
    let digits = |digits: usize| numbers.map(|number| format!("{number:.digits$}x"));
    let longer = (3..9).map(digits).find(|all| !all[..2].contains(&all[2]));
    longer.unwrap_or(short)
}

/// Where the ratio of a variant to its baseline lies on plausible machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Certainty {
    /// On at least 80 % of them.
    pub interval: Interval,
    /// How many they are.
    pub machines: usize,
    /// The number that it turns on most, by rank correlation; none if none stands out.
    pub most: Option<Uncertain>,
}

/// Which machines are asked.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// How many; none for as many as some seconds allow.
    pub machines: Option<usize>,
    /// Pairs of runs of more events than this are left out.
    pub most: u64,
    /// What pseudo-random numbers begin with.
    pub seed: u64,
}

/// How many events all plausible machines may take unless their number is given: some seconds of two CPUs.
const EVENTS: u64 = 100_000_000;
/// The least number of machines that says something, and the number that shows a price which decides half.
const MACHINES: (u64, u64) = (12, 24);

impl Certainty {
    /// The name of the number that it turns on.
    #[must_use]
    pub fn turns_on(&self) -> Option<&str> {
        self.most.as_ref().map(|number| words::key(&number.name))
    }

    /// What it turns on, and what settles that.
    fn words(&self) -> String {
        let Some(number) = &self.most else { return "no single price decides".to_owned() };
        let (key, quality) = (words::key(&number.name), number.quality.word());
        match words::price(&number.name) {
            Some(price) => {
                format!("turns on {key} ({quality}): `lookaside calibrate --only {price}`")
            }
            None => format!("turns on {key} ({quality})"),
        }
    }
}

/// Whether a row is a gain that could have failed.
fn is_asked(row: &Row) -> bool {
    row.test == Some(Test::Failable) && matches!(row.member, Some(Member::Variant(_)))
}

/// The ratio of a line of a point to its baseline on a machine.
fn ratio_on(
    plan: &Plan<'_>,
    result: &Published,
    point: &Point<'_>,
    line: usize,
    (machine, seed): (&Machine, u64),
    execute: &Execute<'_>,
) -> Result<f64, Refused> {
    let value = |run: usize| {
        let mut run = plan.runs.get(run).clone();
        run.seed = seed;
        execute(machine, &run)?.metric(&result.measure)
    };
    let (value, baseline) = (value(point.lines[line].run)?, value(point.baseline)?);
    let pair = ratio::modelled(value, Some(baseline), result.scale, result.relative);
    pair.and_then(|pair| pair.ratio).ok_or_else(|| Refused("there is no ratio".to_owned()))
}

impl Reproduction<'_> {
    /// Asks plausible machines for each gain that could have failed and whose runs do not take too long.
    ///
    /// # Errors
    ///
    /// If a machine cannot be drawn or a run fails on one.
    pub fn ask_plausible(
        &mut self,
        book: &Book,
        plan: &Plan<'_>,
        sample: Sample,
        execute: &Execute<'_>,
    ) -> Result<(), Refused> {
        let mut asked: Vec<[usize; 3]> = Vec::new();
        let mut events = 0;
        for (i, comparison) in self.comparisons.iter().enumerate() {
            for (j, place) in comparison.places.iter().enumerate() {
                for (k, row) in place.rows.iter().enumerate() {
                    if is_asked(row) && row.events <= sample.most {
                        asked.push([i, j, k]);
                        events += row.events;
                    }
                }
            }
        }
        let affordable = (EVENTS / events.max(1)).clamp(MACHINES.0, MACHINES.1) as usize;
        let count = sample.machines.unwrap_or(affordable);
        if count == 0 {
            return Ok(());
        }
        let of = |&[i, j, k]: &[usize; 3]| -> Result<Certainty, Refused> {
            let (group, point) = (&plan.groups[i], &plan.groups[i].points[j]);
            let machine = point.machine;
            let all = sensitivity::plausible(machine, &book.ranges, &[], count, sample.seed)?;
            let one = |(number, plausible): (usize, &Plausible)| {
                let seed = sample.seed.wrapping_add(number as u64);
                ratio_on(plan, group.result, point, k, (&plausible.machine, seed), execute)
            };
            let ratios: Result<Vec<f64>, Refused> = all.par_iter().enumerate().map(one).collect();
            let ratios = ratios?;
            let numbers = sensitivity::uncertain(machine, &book.ranges, &[]);
            let most = sensitivity::foremost(&all, &ratios, &numbers);
            let most = most.first().map(|(_, number)| (*number).clone());
            let interval =
                Interval::of(ratios).unwrap_or(Interval { low: 1.0, median: 1.0, high: 1.0 });
            Ok(Certainty { interval, machines: count, most })
        };
        let found: Result<Vec<Certainty>, Refused> = asked.par_iter().map(of).collect();
        for ([i, j, k], certainty) in asked.into_iter().zip(found?) {
            self.comparisons[i].places[j].rows[k].certainty = Some(certainty);
        }
        Ok(())
    }

    /// What plausible machines say, a line each; nothing if none were asked.
    #[must_use]
    pub fn certainties(&self) -> Vec<String> {
        let (mut lines, mut inside, mut left_out, mut machines) = (Vec::new(), 0, 0, 0);
        for comparison in &self.comparisons {
            let result = comparison.result;
            for place in &comparison.places {
                for row in place.rows.iter().filter(|row| is_asked(row)) {
                    let ratio = row.published.and_then(|pair| pair.ratio);
                    let (Some(certainty), Some(published)) = (&row.certainty, ratio) else {
                        left_out += 1;
                        continue;
                    };
                    machines = certainty.machines;
                    let is_inside = certainty.interval.has(published);
                    inside += usize::from(is_inside);
                    let gain = |ratio: f64| ratio::gain(ratio, result.better);
                    let Interval { low, high, .. } = certainty.interval;
                    let mut ends = [gain(low), gain(high)].map(|end| end.unwrap_or(f64::INFINITY));
                    ends.sort_by(f64::total_cmp);
                    let what =
                        summary::reference(result, row.member.unwrap_or(Member::Baseline), place.x);
                    let [low, high, published] = told_apart(
                        [ends[0], ends[1], gain(published).unwrap_or(f64::NAN)],
                        is_inside,
                    );
                    lines.push(format!(
                        "  {what}: {low} to {high}, published {published}{}; {}",
                        if is_inside { "" } else { " (outside)" },
                        certainty.words()
                    ));
                }
            }
        }
        if lines.is_empty() {
            return lines;
        }
        let mut head = format!(
            "Gains that could have failed, on at least 80 % of {machines} plausible machines each: {inside} of {} have the \
             published one in between.",
            lines.len()
        );
        if left_out > 0 {
            head +=
                &format!(" The runs of {left_out} more take long: `--thorough` asks for them too.");
        }
        lines.insert(0, head);
        lines
    }
}
