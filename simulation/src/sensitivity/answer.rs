//! The answer that plausible machines give.

use lookaside_terminal::Refused;
use rayon::prelude::*;

use super::{
    rank,
    sample::{self, Gaps, Plausible, Uncertain},
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
    /// The metric that decides: the first.
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
    /// How many times as good the first of them is as the second.
    pub gain: Interval,
    /// What the answer turns on, most first.
    pub influences: Vec<Influence>,
    /// What the machine file has no price for.
    pub gaps: Gaps,
    /// The readings of the sources, with on how many of its machines [`Answer::pair`]'s first is best; that of the
    /// file first.
    pub readings: Vec<(String, usize, usize)>,
}

/// Which way a metric is better.
#[must_use]
pub fn best_of(metric: &Metric) -> Better {
    match (metric.unit, metric.key) {
        ("1/s", _) | (_, "useful_share") => Better::Higher,
        _ => Better::Lower,
    }
}

/// How many times as good the first number is as the second.
fn gain(first: f64, second: f64, better: Better) -> f64 {
    match better {
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
        let first = &outcomes[0][0][0];
        let better = best_of(first);
        let deciding = |strategy: usize, i: usize| outcomes[strategy][i][0].value;
        let (mut best, mut tied) = (vec![0; strategies.len()], 0);
        // On how many each is the best or within a tie of it: two that come to the same everywhere are best nowhere.
        let mut near_best = vec![0; strategies.len()];
        for i in 0..all.len() {
            let of = |strategy: usize| gain(deciding(strategy, i), 1.0, better);
            let mut order: Vec<usize> = (0..strategies.len()).collect();
            order.sort_by(|&a, &b| of(b).total_cmp(&of(a)));
            let [winner, next] = [order[0], order[order.len().min(2) - 1]];
            let is_tie = winner != next && of(winner) <= of(next) * (1.0 + self.tie);
            if is_tie {
                tied += 1
            } else {
                best[winner] += 1
            }
            for one in order {
                near_best[one] += usize::from(of(winner) <= of(one) * (1.0 + self.tie));
            }
        }
        let median = |strategy: usize| {
            let values = (0..all.len()).map(|i| gain(deciding(strategy, i), 1.0, better)).collect();
            Interval::of(values).map_or(0.0, |interval| interval.median)
        };
        // The earlier of two that are the same.
        let order = |&a: &usize, &b: &usize| {
            near_best[a].cmp(&near_best[b]).then(median(a).total_cmp(&median(b))).then(b.cmp(&a))
        };
        let lost: Vec<[f64; 2]> = (0..strategies.len())
            .map(|strategy| {
                let loss = |i: usize| {
                    let own = deciding(strategy, i);
                    let all = (0..strategies.len()).map(|other| (deciding(other, i) - own).abs());
                    let is_worse =
                        |&(other, _): &(usize, f64)| gain(deciding(other, i), own, better) > 1.0;
                    all.enumerate().filter(is_worse).map(|(_, by)| by).fold(0.0, f64::max)
                };
                let losses = (0..all.len()).map(loss);
                let sum: f64 = losses.clone().sum();
                [sum / all.len().max(1) as f64, losses.fold(0.0, f64::max)]
            })
            .collect();
        let most = (0..strategies.len()).max_by(order).unwrap_or(0);
        let margin = self.near * all.len() as f64;
        let nearly = |&one: &usize| {
            self.near > 0.0 && near_best[one] as f64 + margin >= near_best[most] as f64
        };
        let leader = (0..strategies.len())
            .filter(nearly)
            .min_by(|&a, &b| lost[a][0].total_cmp(&lost[b][0]).then(order(&b, &a)))
            .unwrap_or(most);
        let others = (0..strategies.len()).filter(|&strategy| strategy != leader);
        let second = others.max_by(order).unwrap_or(leader);
        let pair = [leader, second];
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
            let one = run(leader)?;
            if leader == second {
                return Ok(one[0].value);
            }
            let other = run(second)?;
            Ok(gain(one[0].value, other[0].value, best_of(&one[0])))
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
mod tests {
    use lookaside_machine::timed::Price;

    use super::*;
    use crate::data::Quality;

    /// What plausible machines say of strategies whose times on each of them are these.
    fn answer(times: &[&[f64]], tie: f64) -> Answer {
        nearly(times, tie, 0.0)
    }

    /// The same where strategies are near each other that are best on so many machines fewer.
    fn nearly(times: &[&[f64]], tie: f64, near: f64) -> Answer {
        let strategies: Vec<String> = (0..times.len()).map(|i| i.to_string()).collect();
        let machine = Machine::named("zen4").unwrap();
        let question = Question {
            machine: &machine,
            ranges: &Ranges::default(),
            assumed: &[],
            strategies: &strategies,
            machines: times[0].len(),
            seed: 0,
            tie,
            near,
            influences: false,
        };
        let ask = |_: &Machine, strategy: &str, seed: u64| {
            let value = times[strategy.parse::<usize>().unwrap()][seed as usize];
            Ok(vec![Metric { key: "time", unit: "s", value }])
        };
        question.answer(&ask).unwrap()
    }

    #[test]
    fn the_best_are_counted_and_ties_for_none_of_the_two() {
        let of = answer(&[&[1.0, 3.0, 2.0, 2.0], &[2.0, 1.0, 2.01, 2.0], &[9.0; 4]], 0.01);
        assert_eq!((of.best, of.tied, of.pair), (vec![1, 1, 0], 2, [0, 1]));
        let of = answer(&[&[1.0, 3.0, 2.0, 2.0], &[2.0, 1.0, 2.01, 2.0], &[9.0; 4]], 0.0);
        assert_eq!((of.best, of.tied, of.pair), (vec![2, 1, 0], 1, [0, 1]));
        let of = answer(&[&[5.0; 3], &[5.0; 3]], 0.0);
        assert_eq!((of.best, of.tied), (vec![0, 0], 3));
    }

    #[test]
    fn two_that_come_to_the_same_leave_the_first_place_to_no_third() {
        let times: [&[f64]; 3] = [
            &[1.0, 1.0, 1.0, 9.0, 9.0],
            &[1.001, 1.001, 1.001, 9.0, 9.0],
            &[5.0, 5.0, 5.0, 1.0, 1.0],
        ];
        let of = answer(&times, 0.01);
        assert_eq!((of.best, of.tied, of.pair), (vec![0, 0, 2], 3, [0, 1]));
    }

    #[test]
    fn of_those_that_are_never_best_the_better_is_second() {
        assert_eq!(answer(&[&[9.0; 3], &[1.0; 3], &[2.0; 3]], 0.0).pair, [1, 2]);
        let alone = answer(&[&[3.0, 4.0]], 0.01);
        assert_eq!((alone.best, alone.tied, alone.pair), (vec![2], 0, [0, 0]));
    }

    #[test]
    fn what_a_number_narrows_is_what_both_the_correlation_and_the_ends_allow() {
        let range = Interval { low: 1.0, median: 1.5, high: 2.0 };
        let of = |correlation, ends| Influence::narrowing(correlation, ends, &range);
        assert_eq!(of(0.0, [1.0, 2.0]), 0.0);
        // All of the range, and three fifths of the correlation's variance: 0.8 of its width is left.
        assert!((of(1.0, [2.0, 1.0]) - 0.5).abs() < 1e-9);
        assert!((of(0.6, [1.0, 2.0]) - (1.0 - 0.5_f64.powf(0.2))).abs() < 1e-9);
        // An accident: at its ends it does nothing.
        assert!(of(0.9, [1.5, 1.501]) < 0.001);
        // What hardly varies cannot get narrower.
        let flat = Interval { low: 1.0, median: 1.001, high: 1.002 };
        assert!(Influence::narrowing(0.99, [1.0, 1.3], &flat) < 0.002);
    }

    #[test]
    fn another_is_best_at_an_end_beyond_a_tie() {
        let turns = |ends, tie| {
            let number = Uncertain {
                name: "prices.walk".into(),
                quality: Quality::Proxy,
                known: None,
                low: 1.0,
                high: 2.0,
                is_assumed: false,
            };
            Influence { number, correlation: 0.5, ends, narrows: 0.0 }.turns([0, 1], tie)
        };
        assert!(turns([0.995, 1.02], 0.0) && turns([1.02, 0.995], 0.0));
        assert!(!turns([0.995, 1.02], 0.01), "they come to the same there");
        assert!(turns([0.98, 1.02], 0.01) && turns([1.0, 0.98], 0.01));
        assert!(!turns([0.9, 0.95], 0.01), "the other is best at both");
        assert!(!turns([1.0, 1.5], 0.0) && !turns([1.0, 0.5], 0.0), "as before without a tie");
    }

    #[test]
    fn a_number_is_named_that_turns_the_answer_or_narrows_it() {
        let machine = Machine::named("zen4").unwrap();
        let walk = machine.model.prices.charge(Price::Walk) as f64;
        let ranges = crate::data::Files::own().ranges().unwrap();
        let names = |times: f64, power: f64| -> Vec<String> {
            let question = Question {
                machine: &machine,
                ranges: &ranges,
                assumed: &[],
                strategies: &["one".to_owned(), "other".to_owned()],
                machines: 24,
                seed: 0,
                tie: 0.0,
                near: 0.0,
                influences: true,
            };
            let ask = |machine: &Machine, strategy: &str, _: u64| {
                let walk = machine.model.prices.charge(Price::Walk) as f64 / walk;
                let value = if strategy == "one" { 1.0 } else { times * walk.powf(power) };
                Ok(vec![Metric { key: "time", unit: "s", value }])
            };
            let influences = question.answer(&ask).unwrap().influences;
            influences.into_iter().map(|one| one.number.name).collect()
        };
        assert_eq!(names(2.0, 1.0), ["prices.walk"], "it narrows the answer");
        assert_eq!(names(2.0, 0.02), [""; 0], "by 2 %, from twice to twice");
        assert_eq!(names(1.0, 0.02), ["prices.walk"], "by 2 %, from one to the other");
    }

    #[test]
    fn of_two_that_are_nearly_as_often_best_the_one_that_loses_less_leads() {
        // The first is best on three of five machines by one, the other on two by ten.
        let times: [&[f64]; 2] = [&[1.0, 1.0, 1.0, 12.0, 12.0], &[2.0, 2.0, 2.0, 2.0, 2.0]];
        let of = nearly(&times, 0.01, 0.2);
        assert_eq!((of.pair, of.lost), ([1, 0], vec![[4.0, 10.0], [0.6, 1.0]]));
        assert_eq!(
            nearly(&times, 0.01, 0.1).pair,
            [0, 1],
            "one machine of five is more than a tenth"
        );
        assert_eq!(answer(&times, 0.01).pair, [0, 1]);
        // One that is always second loses least, and is never best.
        let third = [times[0], times[1], &[1.5, 1.5, 1.5, 2.5, 2.5]];
        assert_eq!(nearly(&third, 0.01, 0.2).pair, [1, 0]);
    }

    #[test]
    fn so_few_machines_show_no_correlation() {
        let least = |machines: usize| ERRORS / (machines as f64 - 1.0).sqrt();
        assert!(least(FEW) >= 1.0 && least(FEW + 1) < 1.0);
    }

    #[test]
    fn between_the_ends_lie_as_many_as_is_said_however_few_there_are() {
        for count in 1..=100 {
            let values: Vec<f64> = (0..count).map(|i| f64::from(i * i)).collect();
            for tail in [0.05, 0.1] {
                let of = Interval::with_tails(values.clone(), tail).unwrap();
                let inside = values.iter().filter(|&&value| of.has(value)).count() as f64;
                let least = (1.0 - 2.0 * tail) * f64::from(count);
                assert!(inside >= least - 1e-9, "{inside} of {count}, {tail}");
                // Without its ends it would have fewer.
                assert!(inside - 2.0 < least + 1e-9, "{inside} of {count}, {tail}");
                assert!(of.has(of.median));
            }
        }
    }

    #[test]
    fn an_interval_has_tails_of_the_size_that_was_asked_for() {
        let numbers: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let ends = |of: Option<Interval>| of.map(|of| [of.low, of.median, of.high].map(f64::round));
        assert_eq!(ends(Interval::of(numbers.clone())), Some([10.0, 50.0, 90.0]));
        assert_eq!(ends(Interval::with_tails(numbers, 0.05)), Some([5.0, 50.0, 95.0]));
    }
}
