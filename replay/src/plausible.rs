//! What [plausible machines](lookaside_simulation::sensitivity) say of replays that are compared: on how many of them which
//! side is better, where each time lies, and on which price that turns.
//!
//! What is compared is what is [known](Replayed::known), so programs [hardly access](crate::WorkingSet::hardly_used) their
//! pages in these replays.

use core::sync::atomic::{AtomicU64, Ordering};

use lookaside_simulation::{
    data::{Machine, Ranges},
    sensitivity::{Answer, FEW, Question},
    workload::Metric,
};
use lookaside_terminal::Refused;

use super::{
    Replayed, Setup, Upkeep,
    advice::{MACHINES, TIE, affordable},
    difference::{Per, Spread},
    inputs::Inputs,
    replay,
};

/// How many events the plausible machines may take, unless their number is given: some five seconds of two CPUs.
const EVENTS: u64 = 100_000_000;

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'c> {
    /// The machine as its file has it.
    pub machine: &'c Machine,
    /// Where prices lie that are not known exactly.
    pub ranges: &'c Ranges,
    /// How many sides there are.
    pub sides: usize,
    /// How many plausible machines; none for as many as do not take long.
    pub machines: Option<usize>,
    /// About how many events they may take, by what the machine file takes, unless their number is given: if that does not suffice for the least number of
    /// them, none is asked. None for no such limit.
    pub most: Option<u64>,
    /// What pseudo-random numbers begin with.
    pub seed: u64,
    /// What times are per.
    pub per: Per,
    /// Whether the share of all CPUs' time decides, and not the time: of sides with other numbers of CPUs the larger does more.
    pub by_share: bool,
}

/// Replays a side, which has one or more recordings, on a machine with a seed.
pub type Run<'r> = dyn Fn(&Machine, usize, u64) -> Result<Vec<Replayed>, Refused> + Sync + 'r;

/// Is called after each replay of a side with how many there are, or 0 before that is known.
pub type Done<'d> = dyn Fn(u64) + Sync + 'd;

/// How many plausible machines are replayed, and what that may take and took.
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    /// As [`Comparison::machines`].
    pub machines: Option<usize>,
    /// As [`Comparison::most`].
    pub most: Option<u64>,
    /// As [`Comparison::seed`].
    pub seed: u64,
    /// The events that they took are added to this.
    pub spent: &'a AtomicU64,
}

impl Comparison<'_> {
    /// The answer, in milliseconds of CPU time: the first metric is what is known, and its [causes](Upkeep::known_causes)
    /// follow. A side of several recordings is the middle one. None if a side has no switch and no flush, which take no time
    /// whatever the prices are, or if they may not take so many events.
    ///
    /// # Errors
    ///
    /// If a side cannot be replayed.
    pub fn answer(&self, run: &Run<'_>, done: &Done<'_>) -> Result<Option<Answer>, Refused> {
        let Self { machine, ranges, sides, machines, most, seed, per, by_share } = *self;
        let replays = AtomicU64::new(0);
        let most = most.filter(|_| machines.is_none());
        if most == Some(0) {
            return Ok(None);
        }
        let run = |machine: &Machine, side: usize, seed: u64| {
            let replayed = run(machine, side, seed);
            done(replays.load(Ordering::Relaxed));
            replayed
        };
        let with_file: Result<Vec<_>, Refused> =
            (0..sides).map(|side| run(machine, side, seed)).collect();
        let with_file = with_file?;
        if with_file.iter().any(|runs| runs.iter().all(Replayed::is_idle)) {
            return Ok(None);
        }
        let events = |runs: &Vec<Replayed>| runs.iter().map(|run| run.events).sum();
        let each: Vec<u64> = with_file.iter().map(events).collect();
        if most.is_some_and(|most| MACHINES[0] as u64 * each.iter().sum::<u64>() > most) {
            return Ok(None);
        }
        let most = most.map_or(EVENTS, |most| most.min(EVENTS));
        let machines = machines.unwrap_or_else(|| affordable(&each, most));
        replays.store((sides * (machines + 1)) as u64, Ordering::Relaxed);
        let names: Vec<String> = (0..sides).map(|side| side.to_string()).collect();
        let question = Question {
            machine,
            ranges,
            assumed: &[],
            strategies: &names,
            machines,
            seed,
            tie: TIE,
            near: 0.0,
            influences: machines > FEW,
            metric: by_share.then_some(SHARE),
        };
        let ask = |machine: &Machine, side: &str, seed: u64| {
            let side = side.parse().map_err(Refused::because)?;
            let runs = run(machine, side, seed)?;
            let share = by_share.then(|| share(&runs));
            Ok(metrics(&runs, per).into_iter().chain(share).collect())
        };
        let more = |more: usize| _ = replays.fetch_add(more as u64, Ordering::Relaxed);
        question.counted_answer(&ask, &more).map(Some)
    }
}

/// The metric that decides where sides have other numbers of CPUs: a part of the time of all of them.
pub const SHARE: &str = "share";

/// What is known as a part of the time of all CPUs: the middle of the recordings of a side.
fn share(runs: &[Replayed]) -> Metric {
    let share = |run: &Replayed| run.share_of(run.known());
    Metric { key: SHARE, unit: "", value: Spread::of(runs.iter().map(share).collect()).median }
}

/// The middle of the recordings of a side; of an even number, the mean of the two.
fn metrics(runs: &[Replayed], per: Per) -> Vec<Metric> {
    let unit = match per {
        Per::Run => "ms",
        Per::Second => "ms/s",
    };
    let metric = |key, time: &dyn Fn(&Replayed) -> u64| {
        let one = |run: &Replayed| match per {
            Per::Run => time(run) as f64 / 1e9,
            Per::Second => time(run) as f64 * 1e3 / run.traced.max(1) as f64,
        };
        Metric { key, unit, value: Spread::of(runs.iter().map(one).collect()).median }
    };
    let mut all = vec![metric("time", &Replayed::known)];
    for (place, (key, _)) in Upkeep::default().known_causes().enumerate() {
        let time =
            |run: &Replayed| run.upkeep.known_causes().nth(place).map_or(0, |(_, time)| time);
        all.push(metric(key, &time));
    }
    all
}

impl Inputs {
    /// What plausible machines say of the strategies of these inputs; `machine` is the one that was found for them.
    ///
    /// # Errors
    ///
    /// If one cannot be replayed.
    pub fn on_plausible_machines(
        &self,
        machine: &Machine,
        ranges: &Ranges,
        Sampling { machines, most, seed, spent }: Sampling<'_>,
        done: &Done<'_>,
    ) -> Result<Option<Answer>, Refused> {
        let sides = self.strategies.len();
        let per = Per::Run;
        let run = |machine: &Machine, side: usize, seed: u64| {
            let strategy = &self.strategies[side];
            let working_set = self.working_set.hardly_used();
            let setup = Setup { working_set, ..self.setup(machine, strategy, seed) };
            let of = |Refused(why)| Refused(format!("strategy `{strategy}`: {why}"));
            let replayed = replay(&self.script, &setup).map_err(of)?;
            spent.fetch_add(replayed.events, Ordering::Relaxed);
            Ok(vec![replayed])
        };
        let by_share = false;
        Comparison { machine, ranges, sides, machines, most, seed, per, by_share }
            .answer(&run, done)
    }
}
