//! One line of a comparison: a published value beside what the model gives.

use std::collections::BTreeSet;

use lookaside_machine::timed::Ps;
use lookaside_terminal::Refused;

use super::{
    book::Book,
    certainty::Certainty,
    execute::{Execute, Measured},
    plan::{Line, Plan, Point},
    ratio::{self, Pair},
    readings::ReadAs,
    reference::Member,
    summary::LIMIT,
};
use crate::{
    data::{Better, Published},
    seeds::Spread,
};

/// What a published value is to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A number of a machine was set so that this comes out.
    Fitted,
    /// It comes out.
    Predicted,
    /// It is zero by definition: the baseline of changes in percent.
    Given,
}

impl Standing {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Predicted => "predicted",
            Self::Given => "given",
        }
    }
}

/// What a prediction tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// It could have failed.
    Failable,
    /// Nothing was to change: the publication calls the point a control, or the gain is less than a tenth, so that a
    /// model in which nothing ever changes would be right too.
    Control,
    /// It lies between two points of its curve that are fitted.
    Interpolation,
    /// The same run gives another value that is counted.
    Repeat,
}

impl Test {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failable => "failable",
            Self::Control => "control",
            Self::Interpolation => "interpolation",
            Self::Repeat => "repeat",
        }
    }
}

/// One published value beside what the model gives.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which series; none for a strategy that was asked for besides.
    pub member: Option<Member>,
    /// What the publication calls it.
    pub variant: String,
    /// What the lab calls it.
    pub strategy: String,
    /// What was published, and its ratio to the baseline.
    pub published: Option<Pair>,
    /// What the model gives, and its ratio to the baseline.
    pub modelled: Option<Pair>,
    /// By how much the model is off, as a fraction.
    pub error: Option<f64>,
    /// Whether the value was fitted; none where nothing was published.
    pub standing: Option<Standing>,
    /// Whether a prediction could have failed; none for what is not predicted.
    pub test: Option<Test>,
    /// What the seed makes of the value, or of its ratio to the baseline; none where there was one seed.
    pub spread: Option<Spread>,
    /// Where the gain lies on plausible machines; none where none were asked.
    pub certainty: Option<Certainty>,
    /// How many steps its run has, and that of the baseline.
    pub events: u64,
    /// What the recommended strategy gives under the same conditions.
    pub recommended: Option<Pair>,
    /// Why a prediction misses.
    pub cause: Option<String>,
    /// Why the model gives nothing.
    pub problem: Option<String>,
}

impl Row {
    /// How many times as good the recommended strategy is under the same conditions.
    #[must_use]
    pub fn over(&self, better: Better) -> Option<f64> {
        let gain = |pair: Option<Pair>| ratio::gain(pair?.ratio?, better);
        Some(gain(self.recommended)? / gain(self.modelled)?)
    }
}

/// The rows of one point of a result.
#[derive(Clone, Debug)]
pub struct Place<'b> {
    /// Where it is.
    pub x: Option<f64>,
    /// The key of the machine.
    pub machine: &'b str,
    /// The baseline first.
    pub rows: Vec<Row>,
    /// What the recommended strategy gives on the same run.
    pub recommended: Option<Pair>,
    /// Why it gives nothing.
    pub problem: Option<String>,
    /// How many times as good the recommended strategy is as the best published variant in the same
    /// model run; none if there are no variants. Where the series are conditions, the least of how many
    /// times as good it is as each of them.
    pub over_best: Option<f64>,
}

/// All rows of one result.
#[derive(Clone, Debug)]
pub struct Comparison<'b> {
    /// The result.
    pub result: &'b Published,
    /// Its points.
    pub places: Vec<Place<'b>>,
}

/// What a request has given.
#[derive(Clone, Debug)]
pub struct Reproduction<'b> {
    /// One for each result.
    pub comparisons: Vec<Comparison<'b>>,
    /// How many steps were simulated.
    pub events: u64,
    /// How much time was simulated, in picoseconds.
    pub simulated: Ps,
    /// Whether other machines were asked for than those of the publications.
    pub elsewhere: bool,
    /// How many seeds runs have that do not take too long.
    pub seeds: u64,
    /// What other readings of the sources of machines make of it.
    pub readings: Vec<ReadAs>,
}

impl<'b> Plan<'b> {
    /// Executes the runs and compares. Calls `done` after each run.
    pub fn execute(
        &self,
        book: &Book,
        execute: &Execute<'_>,
        done: &(dyn Fn() + Sync),
        elsewhere: bool,
    ) -> Reproduction<'b> {
        let measured = self.runs.execute(book, execute, done);
        let (seeds, most) = self.seeds;
        let again = self.runs.execute_seeds(book, execute, &measured, seeds, most);
        let mut seen = BTreeSet::new();
        let sum = |f: fn(&Measured) -> u64| measured.iter().flatten().map(f).sum::<u64>();
        let known = Known { book, measured: &measured, again: &again };
        let mut comparison = |group: &super::plan::Group<'b>| {
            let mut places: Vec<Place<'b>> =
                group.points.iter().map(|point| compare(known, group, point)).collect();
            for (place, point) in places.iter_mut().zip(&group.points) {
                for (row, line) in place.rows.iter_mut().zip(&point.lines) {
                    row.test = test(book, group.result, point, line, row, &mut seen);
                }
            }
            Comparison { result: group.result, places }
        };
        let more = again.iter().flat_map(|all| all.iter().skip(1));
        let (events, simulated) =
            more.fold((0, 0), |(events, time), one| (events + one.events, time + one.elapsed));
        Reproduction {
            comparisons: self.groups.iter().map(&mut comparison).collect(),
            events: events + sum(|measured| measured.events),
            simulated: simulated + sum(|measured| measured.elapsed),
            elsewhere,
            seeds,
            readings: Vec::new(),
        }
    }
}

/// What runs have given.
#[derive(Clone, Copy)]
struct Known<'k> {
    book: &'k Book,
    measured: &'k [Result<Measured, Refused>],
    /// The same with further seeds, the first included; empty where there are none.
    again: &'k [Vec<Measured>],
}

impl Known<'_> {
    /// What the seed makes of a run, or of its ratio to another.
    fn spread(&self, result: &Published, run: usize, baseline: Option<usize>) -> Option<Spread> {
        let metric = |run: usize| -> Vec<f64> {
            self.again[run].iter().filter_map(|one| one.metric(&result.measure).ok()).collect()
        };
        let mut values = metric(run);
        match baseline {
            Some(baseline) => {
                let below = metric(baseline);
                if below.len() != values.len() {
                    return None;
                }
                values = values.iter().zip(&below).map(|(value, below)| value / below).collect();
            }
            None => values.iter_mut().for_each(|value| *value *= result.scale),
        }
        (values.len() > 1).then(|| Spread::of(&values))
    }
}

/// What a prediction tests.
fn test(
    book: &Book,
    result: &Published,
    point: &Point<'_>,
    line: &Line,
    row: &Row,
    seen: &mut BTreeSet<(usize, usize, String)>,
) -> Option<Test> {
    let member = line.member.filter(|_| row.standing == Some(Standing::Predicted))?;
    let is_baseline = member == Member::Baseline;
    let over = if is_baseline { usize::MAX } else { point.baseline };
    let is_new = seen.insert((line.run, over, result.measure.clone()));
    if !is_new || (!is_baseline && line.run == point.baseline) {
        return Some(Test::Repeat);
    }
    let is_control = point.x.is_some_and(|x| result.controls.contains(&x));
    let ratio = row.published.and_then(|pair| pair.ratio);
    let changes = ratio.is_some_and(|ratio| (ratio - 1.0).abs() > LIMIT);
    if is_control || (!is_baseline && !changes) {
        return Some(Test::Control);
    }
    let fitted = |side: &dyn Fn(f64, f64) -> bool| {
        let points = member.of(result).ok().into_iter().flat_map(|series| &series.points);
        let mut others = points.filter_map(|other| other.x.zip(point.x));
        others.any(|(other, here)| {
            side(other, here) && book.is_fitted(&result.id, member, Some(other))
        })
    };
    if fitted(&|other, here| other < here) && fitted(&|other, here| other > here) {
        return Some(Test::Interpolation);
    }
    Some(Test::Failable)
}

fn compare<'b>(known: Known<'_>, group: &super::plan::Group<'b>, point: &Point<'b>) -> Place<'b> {
    let Known { book, measured, .. } = known;
    let result = group.result;
    let metric = |run: usize| match &measured[run] {
        Ok(measured) => measured.metric(&result.measure),
        Err(refused) => Err(refused.clone()),
    };
    let baseline = metric(point.baseline).ok();
    let modelled = |run: usize| {
        let value = metric(run)?;
        ratio::modelled(value, baseline, result.scale, result.relative)
            .ok_or_else(|| Refused("there is no baseline to compare with".to_owned()))
    };
    let published_baseline = point.lines.first().and_then(|line| line.published);
    let row = |line: &Line| {
        let recommended = modelled(line.recommended).ok();
        let (modelled, problem) = split(modelled(line.run));
        let published = line
            .published
            .map(|value| ratio::published(value, published_baseline, result.relative));
        let is_baseline = line.member == Some(Member::Baseline);
        let error = published
            .zip(modelled)
            .and_then(|(p, m)| ratio::error(p, m, is_baseline, result.relative));
        let standing = line.member.filter(|_| published.is_some()).map(|member| {
            if is_baseline && result.relative {
                Standing::Given
            } else if book.is_fitted(&result.id, member, point.x) {
                Standing::Fitted
            } else {
                Standing::Predicted
            }
        });
        let number = match line.member {
            Some(Member::Baseline) => Some(0),
            Some(Member::Variant(number)) => Some(number),
            _ => None,
        };
        let cause = number.and_then(|number| result.causes.get(number)).filter(|c| !c.is_empty());
        Row {
            member: line.member,
            variant: line.name.clone(),
            strategy: line.strategy.clone(),
            published,
            modelled,
            error,
            standing,
            test: None,
            spread: known.spread(result, line.run, (!is_baseline).then_some(point.baseline)),
            certainty: None,
            events: [line.run, point.baseline]
                .map(|run| measured[run].as_ref().map_or(0, |measured| measured.events))
                .iter()
                .sum(),
            recommended,
            cause: cause.cloned(),
            problem,
        }
    };
    let rows: Vec<Row> = point.lines.iter().map(row).collect();
    let (recommended, problem) = split(modelled(point.recommended));
    let over_best = match result.conditions {
        true => {
            let published = rows.iter().filter(|row| row.member.is_some());
            published.filter_map(|row| row.over(result.better)).reduce(f64::min)
        }
        false => recommended.and_then(|recommended| over_best(&rows, recommended, result.better)),
    };
    Place { x: point.x, machine: &point.machine.key, rows, recommended, problem, over_best }
}

fn split(pair: Result<Pair, Refused>) -> (Option<Pair>, Option<String>) {
    match pair {
        Ok(pair) => (Some(pair), None),
        Err(Refused(why)) => (None, Some(why)),
    }
}

/// How many times as good as the best variant.
fn over_best(rows: &[Row], recommended: Pair, better: Better) -> Option<f64> {
    let gain = |pair: Option<Pair>| ratio::gain(pair?.ratio?, better);
    let variants = rows.iter().filter(|row| matches!(row.member, Some(Member::Variant(_))));
    let best = variants.filter_map(|row| gain(row.modelled)).reduce(f64::max)?;
    Some(gain(Some(recommended))? / best)
}
