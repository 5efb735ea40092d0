//! The answer that plausible machines give.

use lookaside_terminal::{Refused, names};
use rayon::prelude::*;

use super::{
    rank,
    sample::{self, Gaps, Plausible, Uncertain},
    standing::Standing,
};
use crate::{
    data::{Better, Machine, Ranges},
    workload::Metric,
};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The machine as its file has it.
    pub machine: &'q Machine,
    /// The ranges of prices.
    pub ranges: &'q Ranges,
    /// Paths of the machine that the workload assumes.
    pub assumed: &'q [&'q str],
    /// The strategies.
    pub strategies: &'q [String],
    /// How many plausible machines.
    pub machines: usize,
    /// What pseudo-random numbers begin with.
    pub seed: u64,
    /// Two strategies are as good as each other where the better is at most this part better: 0.01 is one percent.
    pub tie: f64,
    /// Strategies that are best on nearly as many machines, up to this part of all fewer, are ordered by what they
    /// [lose](Answer::lost) in the mean: 0 if the number of machines alone decides.
    pub near: f64,
    /// Whether it is looked for what the answer turns on, which takes some more runs.
    pub influences: bool,
    /// The metric that decides; none for the first.
    pub metric: Option<&'q str>,
}

/// Runs one strategy on one machine with one seed.
pub type Ask<'q> = dyn Fn(&Machine, &str, u64) -> Result<Vec<Metric>, Refused> + Sync + 'q;

/// Where a metric lies on most plausible machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// At most a tenth of the machines are below.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// At most a tenth of the machines are above.
    pub high: f64,
}

impl Interval {
    /// That of these numbers; none if there are none.
    #[must_use]
    pub fn of(values: Vec<f64>) -> Option<Self> {
        Self::with_tails(values, 0.1)
    }

    /// The same with at most another part of the numbers below its low end, and as many above its high end. Its ends are
    /// numbers that were drawn: between them lie as many as is said also where there are few.
    #[must_use]
    pub fn with_tails(mut values: Vec<f64>, tail: f64) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let left_out = ((tail * values.len() as f64) as usize).min(last / 2);
        let median = f64::midpoint(values[last / 2], values[values.len() / 2]);
        Some(Self { low: values[left_out], median, high: values[last - left_out] })
    }

    /// Whether a number is in it.
    #[must_use]
    pub fn has(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }
}

/// A number of the machine on which the answer turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Influence {
    /// The number and its range.
    pub number: Uncertain,
    /// Its rank correlation with the answer over all plausible machines.
    pub correlation: f64,
    /// The answer, with this number at the low and at the high end and all others in the middle: how many times as
    /// good the first of [`Answer::pair`] is as the second, or the metric where there is one strategy.
    pub ends: [f64; 2],
    /// By what part the answer's range over plausible machines, high end by low end, would be smaller were the number known:
    /// 0.1 of a range from 1 to 2.2 leaves one in which the high end is twice the low one.
    pub narrows: f64,
}

impl Influence {
    /// By what part a range of the answer is smaller if this share of its variance is gone: what the rank correlation says,
    /// and no more than what the ends say, since a correlation may be an accident and what the ends do is none.
    fn narrowing(correlation: f64, ends: [f64; 2], range: &Interval) -> f64 {
        let width = (range.high / range.low).ln();
        // A metric is 0 at an end: no part of such a range is smaller.
        if !width.is_finite() {
            return 0.0;
        }
        let left = width * (1.0 - correlation * correlation).max(0.0).sqrt();
        let most = (ends[0] / ends[1]).ln().abs();
        let less = (width - left).min(most);
        if less.is_finite() { 1.0 - (-less).exp() } else { 0.0 }
    }

    /// Whether the other of two strategies is better at one end of the number's range, and not at the other; by more than a
    /// [tie](Question::tie).
    #[must_use]
    pub fn turns(&self, pair: [usize; 2], tie: f64) -> bool {
        let is_other = |end: f64| end * (1.0 + tie) < 1.0;
        let [low, high] = [self.ends[0].min(self.ends[1]), self.ends[0].max(self.ends[1])];
        pair[0] != pair[1] && is_other(low) && high * (1.0 + tie) > 1.0
    }
}

/// What plausible machines say.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How many they are.
    pub machines: usize,
    /// The metrics of each strategy on each machine.
    pub outcomes: Vec<Vec<Vec<Metric>>>,
    /// For each strategy, for each metric, where it lies.
    pub intervals: Vec<Vec<Interval>>,
    /// The metric that decides.
    pub metric: &'static str,
    /// On how many machines each strategy is best, and better than each other.
    pub best: Vec<usize>,
    /// On how many machines the best two are as good as each other ([`Question::tie`]).
    pub tied: usize,
    /// The tie that was asked with.
    pub tie: f64,
    /// For each strategy, how much worse than the best its deciding metric is: in the mean of all machines, and at most.
    pub lost: Vec<[f64; 2]>,
    /// The two strategies that are compared: the one that is best most often, and the best of the others; of those
    /// that are as often the best, the one with the better median. Where others are [nearly](Question::near) as often the
    /// best, the first of them all is that which [loses](Self::lost) least. The same one twice if there is one only.
    pub pair: [usize; 2],
    /// How many times as good the first of them is as the second; infinite where the metric of one of them is 0.
    pub gain: Interval,
    /// What the answer turns on, most first.
    pub influences: Vec<Influence>,
    /// What the machine file has no price for.
    pub gaps: Gaps,
    /// The readings of the sources, with on how many of its machines [`Answer::pair`]'s first is best; that of the
    /// file first.
    pub readings: Vec<(String, usize, usize)>,
}

/// What another metric than the deciding one says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otherwise {
    /// The metric.
    pub metric: &'static str,
    /// The strategy that is best by it.
    pub strategy: usize,
    /// On how many machines it is.
    pub best_on: usize,
}

/// Metrics that say where time goes, and not how well what was asked for goes.
const CAUSES: [&str; 4] = ["interrupted", "flushing", "interrupts", "rate"];

impl Answer {
    /// The other metrics by which another strategy is best more often than the first of [`Self::pair`], or where the best two
    /// are a [tie](Self::is_tie) any that is best on more than half of the machines.
    #[must_use]
    pub fn otherwise(&self) -> Vec<Otherwise> {
        let Some(metrics) = self.outcomes.first().and_then(|machines| machines.first()) else {
            return Vec::new();
        };
        let others =
            metrics.iter().filter(|one| one.key != self.metric && !CAUSES.contains(&one.key));
        let says = |one: &Metric| {
            let values = values(&self.outcomes, one.key);
            let Standing { best, pair: [strategy, _], .. } =
                Standing::of(&values, best_of(one), [self.tie, 0.0]);
            let is_other = match self.is_tie() {
                true => 2 * best[strategy] > self.machines,
                false => strategy != self.pair[0] && best[strategy] > best[self.pair[0]],
            };
            is_other.then_some(Otherwise { metric: one.key, strategy, best_on: best[strategy] })
        };
        others.filter_map(says).collect()
    }

    /// Whether the best two come to the same on at least 80 % of the machines: then neither is better.
    #[must_use]
    pub fn is_tie(&self) -> bool {
        let [leader, second] = self.pair;
        let most = 1.0 + self.tie;
        leader != second && self.gain.low * most >= 1.0 && self.gain.high <= most
    }
}

/// Which way a metric is better.
#[must_use]
pub fn best_of(metric: &Metric) -> Better {
    match (metric.unit, metric.key) {
        // Fewer interrupts and broadcasts are better, a second as well.
        (_, "interrupts" | "broadcasts") => Better::Lower,
        ("1/s", _) | (_, "useful_share") => Better::Higher,
        _ => Better::Lower,
    }
}

/// The values of a metric: by strategy, on each machine. What lacks it has none of it.
fn values(outcomes: &[Vec<Vec<Metric>>], key: &str) -> Vec<Vec<f64>> {
    let value = |metrics: &Vec<Metric>| {
        metrics.iter().find(|metric| metric.key == key).map_or(f64::NAN, |metric| metric.value)
    };
    outcomes.iter().map(|machines| machines.iter().map(value).collect()).collect()
}

/// How many times as good the first number is as the second: once if they are the same, also where both are 0, and infinite
/// where it is better and the number by which is divided is 0.
pub(super) fn gain(first: f64, second: f64, better: Better) -> f64 {
    match better {
        _ if first == second => 1.0,
        Better::Lower => second / first,
        Better::Higher => first / second,
    }
}

/// A correlation below this many standard errors of one between unrelated numbers is none.
const ERRORS: f64 = 2.5;
/// So few machines never show what an answer turns on: of seven, `ERRORS` standard errors are more than a correlation can
/// be.
pub const FEW: usize = 7;
/// A number is named if it may turn the answer, or if to know it would make the answer's range smaller by this part at least.
const NARROWS: f64 = 0.05;
/// How many influences are looked at closely.
const INFLUENCES: usize = 3;

impl Question<'_> {
    /// Asks every plausible machine.
    ///
    /// # Errors
    ///
    /// If one cannot run a strategy.
    pub fn answer(&self, ask: &Ask<'_>) -> Result<Answer, Refused> {
        self.counted_answer(ask, &|_| ())
    }

    /// The same, and `more` is told before the last runs how many these are: they show what the answer turns on.
    ///
    /// # Errors
    ///
    /// As [`Self::answer`].
    pub fn counted_answer(&self, ask: &Ask<'_>, more: &dyn Fn(usize)) -> Result<Answer, Refused> {
        let Self { machine, ranges, assumed, strategies, seed, .. } = *self;
        let all = sample::plausible(machine, ranges, assumed, self.machines, seed)?;
        let outcomes = self.ask_all(&all, ask)?;
        let first = self.deciding(&outcomes[0][0])?;
        let better = best_of(first);
        let values = values(&outcomes, first.key);
        let Standing { best, tied, lost, pair } =
            Standing::of(&values, better, [self.tie, self.near]);
        let [leader, second] = pair;
        let deciding = |strategy: usize, i: usize| values[strategy][i];
        let is_one = leader == second;
        let answers: Vec<f64> = (0..all.len())
            .map(|i| match is_one {
                true => deciding(leader, i),
                false => gain(deciding(leader, i), deciding(second, i), better),
            })
            .collect();
        let numbers = sample::uncertain(machine, ranges, assumed);
        let nothing = Interval { low: 1.0, median: 1.0, high: 1.0 };
        let gain = Interval::of(answers.clone()).unwrap_or(nothing);
        let influences = match self.influences {
            true => self.influences((&all, &answers, &gain), &numbers, pair, (ask, more))?,
            false => Vec::new(),
        };
        let interval = |strategy: usize, metric: usize| {
            let values = (0..all.len()).map(|i| outcomes[strategy][i][metric].value).collect();
            Interval::of(values).unwrap_or(Interval { low: 0.0, median: 0.0, high: 0.0 })
        };
        let intervals = (0..strategies.len())
            .map(|s| (0..outcomes[s][0].len()).map(|metric| interval(s, metric)).collect())
            .collect();
        Ok(Answer {
            machines: all.len(),
            intervals,
            metric: first.key,
            best,
            tied,
            tie: self.tie,
            lost,
            pair,
            gain,
            influences,
            gaps: Gaps::among(&numbers, self.machine),
            readings: readings(machine, &all, &answers, is_one),
            outcomes,
        })
    }

    /// The metric that decides among those of a run.
    fn deciding<'m>(&self, metrics: &'m [Metric]) -> Result<&'m Metric, Refused> {
        let keys = metrics.iter().map(|metric| metric.key);
        let found = match self.metric {
            None => metrics.first(),
            Some(key) => metrics.iter().find(|metric| metric.key == key),
        };
        found.ok_or_else(|| names::unknown("metric", self.metric.unwrap_or_default(), keys))
    }

    /// The metrics of each strategy on each machine.
    fn ask_all(&self, all: &[Plausible], ask: &Ask<'_>) -> Result<Vec<Vec<Vec<Metric>>>, Refused> {
        let runs: Vec<(usize, usize)> = (0..self.strategies.len())
            .flat_map(|strategy| (0..all.len()).map(move |machine| (strategy, machine)))
            .collect();
        let outcomes: Result<Vec<Vec<Metric>>, Refused> = runs
            .par_iter()
            .with_max_len(1)
            .map(|&(strategy, i)| {
                let seed = self.seed.wrapping_add(i as u64);
                ask(&all[i].machine, &self.strategies[strategy], seed)
            })
            .collect();
        Ok(outcomes?.chunks(all.len()).map(<[_]>::to_vec).collect())
    }

    fn influences(
        &self,
        (all, answers, range): (&[Plausible], &[f64], &Interval),
        numbers: &[Uncertain],
        [leader, second]: [usize; 2],
        (ask, more): (&Ask<'_>, &dyn Fn(usize)),
    ) -> Result<Vec<Influence>, Refused> {
        let mut found = foremost(all, answers, numbers);
        found.truncate(INFLUENCES);
        let ends: Vec<(&Uncertain, f64)> =
            found.iter().flat_map(|&(_, number)| [(number, 0.0), (number, 1.0)]).collect();
        more(ends.len() * if leader == second { 1 } else { 2 });
        let answer = |&(number, place): &(&Uncertain, f64)| -> Result<f64, Refused> {
            let machine =
                sample::middle(self.machine, numbers, Some((number.name.as_str(), place)));
            let run = |strategy: usize| ask(&machine, &self.strategies[strategy], self.seed);
            let metrics = run(leader)?;
            let one = self.deciding(&metrics)?;
            if leader == second {
                return Ok(one.value);
            }
            let other = self.deciding(&run(second)?)?.value;
            Ok(gain(one.value, other, best_of(one)))
        };
        let answers: Result<Vec<f64>, Refused> =
            ends.par_iter().with_max_len(1).map(answer).collect();
        let answers = answers?;
        let influence = |((correlation, number), ends): ((f64, &Uncertain), &[f64])| {
            let ends = [ends[0], ends[1]];
            let narrows = Influence::narrowing(correlation, ends, range);
            Influence { number: number.clone(), correlation, ends, narrows }
        };
        let matters =
            |one: &Influence| one.turns([leader, second], self.tie) || one.narrows >= NARROWS;
        Ok(found.into_iter().zip(answers.chunks(2)).map(influence).filter(matters).collect())
    }
}

/// The numbers on which an answer turns, by rank correlation over plausible machines: most first.
pub(crate) fn foremost<'n>(
    all: &[Plausible],
    answers: &[f64],
    numbers: &'n [Uncertain],
) -> Vec<(f64, &'n Uncertain)> {
    let mut found: Vec<(f64, &Uncertain)> = Vec::new();
    for number in numbers {
        let placed = all.iter().zip(answers).filter_map(|(one, &answer)| {
            let place = one.places.iter().find(|(name, _)| *name == number.name)?;
            Some((place.1, answer))
        });
        let (places, answers): (Vec<f64>, Vec<f64>) = placed.unzip();
        let correlation = rank::correlation(&places, &answers);
        let error = ((places.len() as f64) - 1.0).max(1.0).sqrt().recip();
        if correlation.abs() > ERRORS * error {
            found.push((correlation, number));
        }
    }
    found.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    found
}

/// How each reading of the sources decides.
fn readings(
    machine: &Machine,
    all: &[Plausible],
    answers: &[f64],
    is_one: bool,
) -> Vec<(String, usize, usize)> {
    if machine.readings.is_empty() || is_one {
        return Vec::new();
    }
    let names = [None].into_iter().chain(machine.readings.iter().map(|one| Some(&one.name)));
    names
        .map(|name| {
            let of = all.iter().zip(answers).filter(|(one, _)| one.reading.as_ref() == name);
            let (count, wins) =
                of.fold((0, 0), |(n, wins), (_, &gain)| (n + 1, wins + usize::from(gain >= 1.0)));
            (name.map_or_else(|| "as in the file".to_owned(), Clone::clone), wins, count)
        })
        .collect()
}

#[cfg(test)]
mod tests;
