//! Which mechanism of flushing a machine should use for a recorded program, and how certain that is.
//!
//! The trace is replayed under each mechanism with the numbers of the machine file, and on
//! [plausible machines](lookaside_simulation::sensitivity), on which prices that are not known exactly or not at all
//! are drawn from their ranges. What is compared is what is [known](Replayed::known). It hardly depends on how often
//! programs access their pages (an interrupt waits for accesses under way: 3 % in `compile.trace`), so in these replays
//! they [hardly do](WorkingSet::hardly_used). Refills do depend on it: they are replayed apart, with a smaller and a
//! larger working set.
//!
//! Where that takes too long, as with interrupts on many CPUs, all mechanisms are replayed with the same [pieces](Script::excerpt)
//! of the trace.

use core::sync::atomic::{AtomicU64, Ordering};

/// Mechanisms whose times differ by at most this part of the shorter come to the same.
pub use lookaside_simulation::sensitivity::TIE;
use lookaside_simulation::{
    data::{Machine, Ranges},
    sensitivity::{Answer, FEW, Interval, LEAST, Question},
    workload::Metric,
};
use lookaside_terminal::Refused;
use lookaside_traces::reconstruct::{Excerpt, Script};
use rayon::prelude::*;

use super::{BAND, NS, Replayed, Setup, WorkingSet, inputs::Inputs, plausible::Done, replay};

/// A difference below this part of the time of all CPUs is not worth a choice: benchmarks do not show it.
pub const MATTERS: f64 = 0.001;
/// A mechanism is advised that is best on this part of the plausible machines at least.
pub const CERTAIN: f64 = 0.6;
/// Of mechanisms that are best on nearly as many plausible machines, this part of all fewer at most, the one is advised that
/// loses less in the mean where it is not the best.
pub const NEAR: f64 = 0.1;
/// The part of plausible machines that is at most below an interval, and the part that is above.
const TAIL: f64 = 0.05;

/// The least and the most plausible machines, unless their number is given.
pub const MACHINES: [usize; 2] = [LEAST, 64];
/// How many events two CPUs simulate in a second, about.
const EVENTS: u64 = 20_000_000;
/// This part of a trace tells how long all of it would take.
const PROBE: f64 = 1.0 / 64.0;
/// An excerpt is in so many pieces.
pub const PIECES: usize = 64;
/// It is at least so many nanoseconds long: copies of programs begin up to a millisecond after each other.
const SHORTEST: u64 = 4_000_000;
/// How many replays show what it turns on: two mechanisms with three prices at two ends.
const INFLUENCES: u64 = 12;
/// How many CPUs refills are replayed on: what a CPU accesses does not depend on how many there are, but Linux broadcasts
/// only for programs on four and more.
const REFILL_CPUS: usize = 4;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Advising<'a> {
    /// The trace, the mechanisms and the number of CPUs.
    pub inputs: &'a Inputs,
    /// The machine of these inputs.
    pub machine: &'a Machine,
    /// Where prices lie that are not known exactly.
    pub ranges: &'a Ranges,
    /// How many plausible machines; none for as many as the budget allows.
    pub machines: Option<usize>,
    /// About how many seconds two CPUs may take for the replays on plausible machines.
    pub budget: u64,
    /// What pseudo-random numbers begin with.
    pub seed: u64,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The program flushes nothing.
    NoFlushes,
    /// It has one CPU.
    OneCpu,
    /// On nearly all machines no two mechanisms are as far apart as [`MATTERS`] says.
    Leave,
    /// The best two are not, and others may be worse.
    Either,
    /// One is best on so many machines as [`CERTAIN`] says, and none loses less in the mean.
    Take,
    /// None is.
    CannotTell,
}

/// What a mechanism costs.
#[derive(Clone, Debug)]
pub struct Mechanism {
    /// Its strategy.
    pub strategy: String,
    /// With the numbers of the machine file.
    pub file: Replayed,
    /// Milliseconds of CPU time for each second of the program: where they are on at least nine of ten plausible machines.
    pub time: Interval,
    /// Interrupts in each second of the program.
    pub interrupts: Interval,
    /// Invalidations that were broadcast, in each second of the program.
    pub broadcasts: Interval,
    /// Milliseconds of CPU time for each second of the program that it takes more than the best mechanism: in the mean of
    /// plausible machines, and at most.
    pub lost: [f64; 2],
    /// On how many plausible machines another takes less, by more than a tie.
    pub behind_on: usize,
    /// Refills as a part of the time of all CPUs, with a [`BAND`]th and [`BAND`] times the assumed working set.
    pub refills: [f64; 2],
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Advice {
    /// In one word.
    pub verdict: Verdict,
    /// What each mechanism costs, in the order in which they were named.
    pub mechanisms: Vec<Mechanism>,
    /// What plausible machines say.
    pub plausible: Answer,
    /// How many CPUs the refills are of.
    pub refill_cpus: usize,
    /// The part of the trace that was replayed, by its steps, but for the refills.
    pub part: f64,
}

/// What refills take under each mechanism, as parts of the time of all CPUs, with the large working set and then with the
/// small one.
#[derive(Clone, Debug)]
pub struct Refills(Vec<f64>);

impl Advising<'_> {
    /// The refills, which take longer than all other replays of an advice; calls `done` after each replay with how many there
    /// are.
    ///
    /// # Errors
    ///
    /// If the trace cannot be replayed under a mechanism.
    pub fn refills(&self, done: &Done<'_>) -> Result<Refills, Refused> {
        let Inputs { strategies, working_set, .. } = self.inputs;
        // The longest first.
        let sets = [working_set.scaled(BAND, 1), working_set.scaled(1, BAND)];
        let tries: Vec<(&str, WorkingSet)> = (sets.iter())
            .flat_map(|&set| strategies.iter().map(move |strategy| (strategy.as_str(), set)))
            .collect();
        let script = &self.inputs.script;
        let run = |&(strategy, set): &(&str, WorkingSet)| {
            let cpus = self.refill_cpus();
            let replayed = self.run(script, self.machine, strategy, self.seed, cpus, set);
            done(tries.len() as u64);
            replayed.map(|replayed| replayed.share_of(replayed.upkeep.refills))
        };
        all(&tries, run).map(Refills)
    }

    fn refill_cpus(&self) -> usize {
        self.inputs.cpus.min(REFILL_CPUS)
    }

    /// As much of the trace as the budget allows for the fewest machines; none if that is all of it.
    fn excerpt(&self) -> Result<Option<Excerpt>, Refused> {
        let Inputs { script, strategies, cpus, working_set, .. } = self.inputs;
        if script.length < 8 * SHORTEST {
            return Ok(None);
        }
        let probe = script.excerpt(PIECES, PROBE);
        if probe.script.length == 0 {
            return Ok(None); // Nothing but mappings, or everything at one moment.
        }
        let set = working_set.hardly_used();
        let runs = all(strategies, |strategy| {
            self.run(&probe.script, self.machine, strategy, self.seed, *cpus, set)
        })?;
        let events = runs.iter().map(|run| run.events).sum::<u64>() as f64;
        let machines = self.machines.unwrap_or(MACHINES[0]) + 1;
        let needed = events / probe.part * machines as f64;
        let part = self.budget.saturating_mul(EVENTS) as f64 / needed;
        // Long enough for the copies of programs, which begin one after the other.
        let least = probe.part * SHORTEST as f64 / probe.script.length as f64;
        let part = part.max(least);
        Ok((part < 1.0).then(|| script.excerpt(PIECES, part)))
    }

    fn run(
        &self,
        script: &Script,
        machine: &Machine,
        strategy: &str,
        seed: u64,
        cpus: usize,
        working_set: WorkingSet,
    ) -> Result<Replayed, Refused> {
        let setup = Setup { cpus, working_set, ..self.inputs.setup(machine, strategy, seed) };
        let of = |Refused(why)| Refused(format!("strategy `{strategy}`: {why}"));
        replay(script, &setup).map_err(of)
    }

    /// The advice; calls `done` after each replay with how many there are, as far as is known, or 0.
    ///
    /// # Errors
    ///
    /// If the trace cannot be replayed under a mechanism.
    pub fn advise(&self, Refills(refills): Refills, done: &Done<'_>) -> Result<Advice, Refused> {
        let strategies = &self.inputs.strategies;
        let excerpt = self.excerpt()?;
        let (script, part) = match &excerpt {
            Some(Excerpt { script, part }) => (script, *part),
            None => (&self.inputs.script, 1.0),
        };
        let traced = (self.inputs.script.length as f64 * part) as u64 * NS;
        let replays = AtomicU64::new(0);
        let run = |machine: &Machine, strategy: &str, seed, cpus, working_set| {
            let replayed = self.run(script, machine, strategy, seed, cpus, working_set);
            done(replays.load(Ordering::Relaxed));
            replayed.map(|replayed| Replayed { traced, ..replayed })
        };
        let (cpus, set) = (self.inputs.cpus, self.inputs.working_set);
        let file: Vec<Replayed> = all(strategies, |strategy| {
            run(self.machine, strategy, self.seed, cpus, set.hardly_used())
        })?;
        let events: Vec<u64> = file.iter().map(|run| run.events).collect();
        let machines = self
            .machines
            .unwrap_or_else(|| affordable(&events, self.budget.saturating_mul(EVENTS)));
        // Each with the file's numbers, and on each plausible machine.
        replays.store((strategies.len() * (machines + 1)) as u64, Ordering::Relaxed);
        let question = Question {
            machine: self.machine,
            ranges: self.ranges,
            assumed: &[],
            strategies,
            machines,
            seed: self.seed,
            tie: TIE,
            near: NEAR,
            influences: machines > FEW,
            metric: None,
        };
        let ask = |machine: &Machine, strategy: &str, seed| {
            let replayed = run(machine, strategy, seed, cpus, set.hardly_used())?;
            let second = |value: f64| value * 1e12 / replayed.traced as f64;
            let (time, counts) = (replayed.known() as f64 / 1e9, &replayed.operations);
            let metric = |key, unit, value| Metric { key, unit, value: second(value) };
            Ok(vec![
                metric("time", "ms/s", time),
                metric("interrupts", "1/s", counts.interrupts as f64),
                metric("broadcasts", "1/s", counts.broadcasts as f64),
            ])
        };
        let more = |more: usize| _ = replays.fetch_add(more as u64, Ordering::Relaxed);
        let plausible = question.counted_answer(&ask, &more)?;
        let mechanism = |(i, file): (usize, Replayed)| {
            let interval = |metric: usize| {
                let of = plausible.outcomes[i].iter().map(|metrics| metrics[metric].value);
                let none = Interval { low: 0.0, median: 0.0, high: 0.0 };
                Interval::with_tails(of.collect(), TAIL).unwrap_or(none)
            };
            Mechanism {
                strategy: strategies[i].clone(),
                file,
                time: interval(0),
                interrupts: interval(1),
                broadcasts: interval(2),
                lost: plausible.lost[i],
                behind_on: plausible.machines
                    - (0..plausible.machines).filter(|&of| is_near_best(&plausible, i, of)).count(),
                refills: [refills[strategies.len() + i], refills[i]],
            }
        };
        let mechanisms: Vec<Mechanism> = file.into_iter().enumerate().map(mechanism).collect();
        let flushes = mechanisms[0].file.operations.flushes;
        Ok(Advice {
            verdict: verdict(&plausible, flushes, cpus),
            mechanisms,
            plausible,
            refill_cpus: self.refill_cpus(),
            part,
        })
    }
}

/// As many plausible machines as so many events allow, for replays of which each has as many as are given: by events and not by
/// the clock, so that two runs give the same bytes.
pub(crate) fn affordable(of: &[u64], budget: u64) -> usize {
    let most = of.iter().max().unwrap_or(&0);
    let events = of.iter().sum::<u64>().max(1);
    let fit = |budget: u64| (budget / events) as usize;
    let with_influences = fit(budget.saturating_sub(INFLUENCES * most));
    let machines = if with_influences > FEW { with_influences } else { fit(budget).min(FEW) };
    machines.clamp(MACHINES[0], MACHINES[1])
}

/// Does the same to all, in parallel.
fn all<T: Sync, R: Send>(
    of: &[T],
    one: impl Fn(&T) -> Result<R, Refused> + Send + Sync,
) -> Result<Vec<R>, Refused> {
    of.par_iter().with_max_len(1).map(one).collect()
}

/// Whether no other mechanism takes less on one of the plausible machines, by more than a tie.
fn is_near_best(of: &Answer, mechanism: usize, machine: usize) -> bool {
    let time = |of: &Vec<Vec<Metric>>| of[machine][0].value;
    let own = time(&of.outcomes[mechanism]);
    of.outcomes.iter().all(|other| own <= time(other) * (1.0 + TIE))
}

fn verdict(of: &Answer, flushes: u64, cpus: usize) -> Verdict {
    let Answer { machines, best, lost, pair: [leader, second], outcomes, .. } = of;
    // What is best nearly everywhere and ruinous elsewhere is not to be taken.
    let loses_least = lost.iter().all(|of| lost[*leader][0] <= of[0]);
    // Whether these mechanisms are close to each other on nearly all machines.
    let close = |which: &[usize]| {
        let limit = MATTERS * 1000.0 * cpus as f64;
        let is_close = |machine: &usize| {
            let times = which.iter().map(|&strategy| outcomes[strategy][*machine][0].value);
            let [low, high] = times.fold([f64::MAX, 0.0], |[low, high], time| {
                [f64::min(low, time), f64::max(high, time)]
            });
            high - low < limit
        };
        (0..*machines).filter(is_close).count() as f64 >= (1.0 - TAIL) * *machines as f64
    };
    let every: Vec<usize> = (0..outcomes.len()).collect();
    if flushes == 0 {
        Verdict::NoFlushes
    } else if cpus == 1 && close(&every) {
        Verdict::OneCpu
    } else if close(&every) {
        Verdict::Leave
    } else if best[*leader] as f64 >= CERTAIN * *machines as f64 && loses_least {
        Verdict::Take
    } else if close(&[*leader, *second]) {
        Verdict::Either
    } else {
        Verdict::CannotTell
    }
}

impl Verdict {
    /// Its name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFlushes => "no-flushes",
            Self::OneCpu => "one-cpu",
            Self::Leave => "leave",
            Self::Either => "either",
            Self::Take => "take",
            Self::CannotTell => "cannot-tell",
        }
    }
}

impl Advice {
    /// The part of the plausible machines on which the mechanism that is best most often is best.
    #[must_use]
    pub fn certainty(&self) -> f64 {
        let Answer { machines, best, pair: [leader, _], .. } = &self.plausible;
        best[*leader] as f64 / *machines as f64
    }

    /// How much more refills the leader may have than the next, as a part of the time of all CPUs, where that is more than
    /// what it saves in the median.
    #[must_use]
    pub fn refills_outweigh(&self) -> Option<f64> {
        let [leader, second] = self.plausible.pair.map(|place| &self.mechanisms[place]);
        let saved = second.share(second.time.median) - leader.share(leader.time.median);
        let more = [0, 1].map(|end| leader.refills[end] - second.refills[end]);
        let more = more[0].max(more[1]);
        (more > saved.max(0.0) && more >= MATTERS).then_some(more)
    }
}

impl Mechanism {
    /// What part of the time of all CPUs so many milliseconds for each second are.
    #[must_use]
    pub fn share(&self, time: f64) -> f64 {
        time / (1000.0 * self.file.cpus as f64)
    }

    /// The milliseconds of CPU time for each second of the program with the numbers of the machine file.
    #[must_use]
    pub fn file_time(&self) -> f64 {
        1000.0 * self.file.known() as f64 / self.file.traced as f64
    }
}

#[cfg(test)]
mod tests {
    use lookaside_simulation::sensitivity::Gaps;

    use super::*;

    /// How much more than the best each takes, in the mean of machines and at most.
    fn lost(shares: &[&[f64]]) -> Vec<[f64; 2]> {
        let least = |i: usize| shares.iter().map(|of| of[i]).fold(f64::MAX, f64::min);
        let of = |of: &&[f64]| {
            let losses = of.iter().enumerate().map(|(i, share)| share - least(i));
            [losses.clone().sum::<f64>() / of.len() as f64, losses.fold(0.0, f64::max)]
        };
        shares.iter().map(of).collect()
    }

    /// The verdict for two CPUs and mechanisms that take these parts of their time on each machine.
    fn judged(shares: &[&[f64]], best: &[usize]) -> Verdict {
        let metric = |share: &f64| Metric { key: "time", unit: "ms/s", value: share * 2000.0 };
        let machines = shares[0].len();
        let answer = Answer {
            machines,
            outcomes: shares
                .iter()
                .map(|of| of.iter().map(|share| vec![metric(share)]).collect())
                .collect(),
            intervals: Vec::new(),
            metric: "time",
            best: best.to_vec(),
            tied: machines - best.iter().sum::<usize>(),
            tie: TIE,
            lost: lost(shares),
            pair: [0, 1],
            gain: Interval { low: 1.0, median: 1.0, high: 1.0 },
            influences: Vec::new(),
            gaps: Gaps::default(),
            readings: Vec::new(),
        };
        verdict(&answer, 1, 2)
    }

    #[test]
    fn a_verdict_is_what_was_counted_and_what_it_is_about() {
        let far = [&[0.01; 5][..], &[0.02; 5]];
        assert_eq!(judged(&far, &[3, 2]), Verdict::Take, "three of five");
        let ruinous = [&[0.01, 0.01, 0.01, 0.01, 0.2][..], &[0.02; 5]];
        assert_eq!(judged(&ruinous, &[4, 1]), Verdict::CannotTell, "it may cost ten times as much");
        assert_eq!(judged(&far, &[2, 2]), Verdict::CannotTell);
        assert_eq!(judged(&far, &[2, 0]), Verdict::CannotTell, "most come to the same");
        // Half of a thousandth apart.
        let close = [&[0.01; 5][..], &[0.0105; 5]];
        assert_eq!(judged(&close, &[5, 0]), Verdict::Leave);
        let third = [close[0], close[1], &[0.02; 5]];
        assert_eq!(judged(&third, &[5, 0, 0]), Verdict::Take);
        assert_eq!(judged(&third, &[1, 0, 0]), Verdict::Either);
        // Close on four machines and far apart on one.
        let once = [&[0.01; 5][..], &[0.01, 0.01, 0.01, 0.01, 0.02]];
        assert_eq!(judged(&once, &[2, 1]), Verdict::CannotTell);
    }
}
