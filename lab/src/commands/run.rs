//! `lookaside run`: runs a workload with one or several strategies.

mod certainty;
mod page;

use std::process::ExitCode;

use lookaside_machine::timed::Counters;
use lookaside_simulation::{
    data::{Machine, Sockets},
    reproduce::{Book, Run},
    sensitivity::{Answer, Gaps, Question, TIE, words},
    strategy, sweep,
    workload::{self, Outcome},
};
use lookaside_terminal::{Refused, grid::Grid, names, plain, tell};
use rayon::prelude::*;

pub(super) use self::certainty::certainty;
#[cfg(feature = "traces")]
pub(super) use self::certainty::{influence, record};
use super::{
    output::{Format, Output},
    progress,
    timeline::Timeline,
};

/// Arguments of `lookaside run`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The workload: the path of a file, or a name that `lookaside list workloads` shows.
    workload: String,
    /// The machine, as `lookaside list machines` shows it, or the path of a machine file.
    #[arg(long, value_name = "MACHINE")]
    machine: String,
    /// Other sockets in place of the machine's own, each a node: so many, all linked with each other, or for each a row of
    /// links to the others: `0 1 1 2; 1 0 2 1; 1 2 0 1; 2 1 1 0`.
    #[arg(long, value_name = "SOCKETS")]
    sockets: Option<Sockets>,
    /// The strategies; ratios are relative to the first.
    #[arg(long, value_name = "STRATEGY,...", value_delimiter = ',', default_value = "lookaside")]
    strategy: Vec<String>,
    /// Number of CPUs, for workloads that do not fix it.
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// The place on the curve, for workloads that have one.
    #[arg(long, value_name = "X")]
    x: Option<f64>,
    /// An option of the workload; may be given several times.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = super::option)]
    option: Vec<(String, f64)>,
    /// The metric that decides which strategy is best; the first one that the workload measures if it is not given.
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Seed of the pseudo-random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run with this many seeds, from `--seed` on, and show the median; with `--plausible 0` the extremes too, which are
    /// otherwise in the range of plausible machines, as each has a seed of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Ask this many plausible machines, which differ in what is not known exactly, how sure the answer is: 4 to 10000, or 0
    /// for none. Default: as many as do not take long.
    #[arg(long, value_name = "N")]
    plausible: Option<usize>,
    #[command(flatten)]
    timeline: Timeline,
    #[command(flatten)]
    output: Output,
}

/// How many events the plausible machines may take, unless their number is given: some seconds of two CPUs.
const EVENTS: u64 = 150_000_000;
/// How many operations a storm has on a plausible machine, unless they are given: a quarter.
const BRIEF: f64 = 5000.0;
/// The least number of plausible machines that say something, and the most that say more.
const PLAUSIBLE: [u64; 2] = [12, 64];

/// The results of a strategy over all seeds.
struct Results {
    strategy: String,
    metrics: Vec<Metric>,
    /// Of the first seed.
    counters: Counters,
    /// How many CPUs it ran on.
    cpus: usize,
    /// What is to be known of the results of the first seed.
    notes: Vec<String>,
    events: u64,
    simulated: u64,
}

/// One metric over all seeds.
struct Metric {
    key: &'static str,
    unit: &'static str,
    /// The median, the least and the greatest.
    values: [f64; 3],
    /// All of them, in the order of the seeds.
    all: Vec<f64>,
    /// Why it is 0, where that is as nothing was counted.
    remark: Option<String>,
}

/// Runs `lookaside run`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { workload, strategy, cpus, x, seed, seeds, timeline, output, .. } = arguments;
    output.check()?;
    timeline.check()?;
    super::check_plausible(arguments.plausible)?;
    if timeline.moments() > 0 && (strategy.len() > 1 || *seeds > 1) {
        let why = "a timeline is of one run: `--perfetto` takes one strategy and one seed";
        return Err(Refused(why.into()).into());
    }
    let mut book = Book::shipped()?;
    let key = book.admit(&arguments.machine)?;
    let machine = &super::with_sockets(book.machine(&key)?, arguments.sockets);
    let assumed = super::check_place(workload, machine, *x, *cpus)?;
    if let Some(metric) = &arguments.metric {
        workload::check_metric(workload, metric)?;
    }
    for name in strategy {
        strategy::find(name, machine)?;
    }
    let names: Vec<&str> = strategy.iter().map(String::as_str).collect();
    if let Some(name) = names::repeated(&names) {
        return Err(Refused(format!("strategy `{name}` is named twice: leave one out")).into());
    }
    let options = book.options(workload, &super::settings(&arguments.option)?);
    let run = |strategy: &String, seed: u64| Run {
        machine: key.clone(),
        workload: workload.clone(),
        strategy: strategy.clone(),
        options: options.clone(),
        x: *x,
        cpus: *cpus,
        seed,
    };
    let seeds = (*seed..).take(*seeds as usize);
    let runs: Vec<Run> =
        strategy.iter().flat_map(|name| seeds.clone().map(|seed| run(name, seed))).collect();
    let bar = progress::bar(runs.len());
    let outcome = |run: &Run| {
        let outcome = super::execute(run, machine, &arguments.option, timeline.moments());
        bar.inc(1);
        outcome
    };
    let outcomes: Vec<Result<Outcome, Refused>> =
        runs.par_iter().with_max_len(1).map(outcome).collect();
    bar.finish_and_clear();
    // One strategy that fails takes nothing from the others.
    let (mut strategies, mut outcomes_of, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    let mut outcomes = outcomes.into_iter();
    for name in strategy {
        let all: Vec<_> = outcomes.by_ref().take(arguments.seeds as usize).collect();
        match all.into_iter().collect::<Result<Vec<Outcome>, Refused>>() {
            Ok(all) => {
                strategies.push(name.clone());
                outcomes_of.push(all);
            }
            Err(why) => failed.push((name, why)),
        }
    }
    if strategies.is_empty() {
        // The first one says what is wrong: mostly with what was asked for.
        return Err(failed.swap_remove(0).1.into());
    }
    let results: Vec<_> =
        strategies.iter().zip(&outcomes_of).map(|(s, o)| Results::of(s, o)).collect();
    // By events and not by the clock, so that two runs give the same bytes.
    let cost = results.iter().map(|one| one.events).sum::<u64>() / arguments.seeds;
    let fit = (EVENTS / cost.max(1)).clamp(PLAUSIBLE[0], PLAUSIBLE[1]) as usize;
    let affordable = if PLAUSIBLE[0] * cost > 4 * EVENTS { 0 } else { fit };
    let machines = arguments.plausible.unwrap_or(affordable);
    let answer = match machines {
        _ if timeline.moments() > 0 => None,
        0 => None,
        _ => {
            let comparison = Comparison { arguments, strategies: &strategies, book: &book };
            match answer(&comparison, machine, &assumed, &run, machines) {
                Ok(answer) => Some(answer),
                Err(why) => {
                    failed.push((&strategies[0], why));
                    None
                }
            }
        }
    };
    let left_out = arguments.plausible.is_none() && affordable == 0 && timeline.moments() == 0;
    let gaps = words::gaps(&Gaps::of(machine, &book.ranges), &key).filter(|_| answer.is_none());
    let left_out = left_out.then_some(cost);
    let results = Shown { results, answer, assumed, gaps, left_out };
    let text = match output.format {
        Format::Json => page::to_json(arguments, &machine.key, &results),
        Format::Csv => page::to_csv(arguments, &results),
        Format::Markdown => page::to_text(arguments, &machine.key, &results, Grid::to_markdown),
        Format::Table => page::to_text(arguments, &machine.key, &results, Grid::to_text),
    };
    output.write(&text)?;
    timeline.write(outcomes_of[0][0].report.timeline.as_ref(), machine)?;
    for (name, Refused(why)) in &failed {
        let named = why.contains(name.as_str());
        let name = if named { String::new() } else { format!("strategy `{name}`: ") };
        tell!("error: {name}{}", plain::text(why));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Results {
    fn of(strategy: &str, outcomes: &[Outcome]) -> Self {
        let first = &outcomes[0];
        let metric = |i: usize| {
            let all: Vec<f64> = outcomes.iter().map(|o| o.metrics[i].value).collect();
            let mut values = all.clone();
            values.sort_by(f64::total_cmp);
            let [least, greatest] = [values[0], values[values.len() - 1]];
            let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
            let (key, unit) = (first.metrics[i].key, first.metrics[i].unit);
            let remark =
                sweep::remark(outcomes.iter().map(|one| sweep::unreached(&one.notes, key)));
            Metric { key, unit, values: [median, least, greatest], all, remark }
        };
        Self {
            strategy: strategy.to_owned(),
            metrics: (0..first.metrics.len()).map(metric).collect(),
            counters: first.report.counters(),
            cpus: first.report.cpus.len(),
            notes: first.notes.clone(),
            events: outcomes.iter().map(|outcome| outcome.report.events).sum(),
            simulated: outcomes.iter().map(|outcome| outcome.report.elapsed).sum(),
        }
    }

    /// A metric relative to that of another strategy.
    fn ratio(&self, other: &Self, key: &str) -> Option<f64> {
        let median = |results: &Self| {
            let metric = results.metrics.iter().find(|metric| metric.key == key);
            metric.map(|metric| metric.values[0])
        };
        let ratio = median(self)? / median(other)?;
        ratio.is_finite().then_some(ratio)
    }
}

/// The results, and what plausible machines say.
struct Shown {
    results: Vec<Results>,
    answer: Option<Answer>,
    /// Paths of the machine that are assumed.
    assumed: Vec<&'static str>,
    /// What the machine has no price for, where plausible machines do not say it.
    gaps: Option<String>,
    /// How many events a run of all strategies has, where plausible machines were not asked as it has too many.
    left_out: Option<u64>,
}

/// What is compared on plausible machines.
struct Comparison<'a> {
    arguments: &'a Arguments,
    /// The strategies that ran.
    strategies: &'a [String],
    book: &'a Book,
}

/// Asks plausible machines.
fn answer(
    &Comparison { arguments, strategies, book }: &Comparison<'_>,
    machine: &Machine,
    assumed: &[&str],
    run: &(dyn Fn(&String, u64) -> Run + Sync),
    machines: usize,
) -> Result<Answer, Refused> {
    let (ranges, seed) = (&book.ranges, arguments.seed);
    let influences = machines > 1;
    let question = Question {
        machine,
        ranges,
        assumed,
        strategies,
        machines,
        seed,
        tie: TIE,
        near: 0.0,
        influences,
        metric: arguments.metric.as_deref(),
    };
    let bar = progress::bar(machines * strategies.len());
    let answer = question.answer(&|machine, strategy, seed| {
        let mut run = run(&strategy.to_owned(), seed);
        if run.workload == "storm" {
            run.options.entry("operations".to_owned()).or_insert(BRIEF);
        }
        let outcome = run.outcome(machine, 0);
        bar.inc(1);
        let on =
            |Refused(why)| Refused(format!("on a plausible machine, strategy `{strategy}`: {why}"));
        outcome.map(|outcome| outcome.metrics).map_err(on)
    });
    bar.finish_and_clear();
    answer
}
