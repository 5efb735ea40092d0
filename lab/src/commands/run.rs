//! `lookaside run`: runs a workload with one or several strategies.

use std::process::ExitCode;

use lookaside_machine::timed::Counters;
use lookaside_simulation::{
    data::{Machine, Sockets},
    experiment::RECORD,
    reproduce::{Book, Run},
    seeds,
    sensitivity::{self, Answer, Gaps, Question, words},
    strategy,
    workload::{self, Outcome},
};
use lookaside_terminal::{
    Refused, counted,
    grid::{Grid, number, times, wrapped},
    names, plain, tell,
};
use rayon::prelude::*;
use serde_json::json;

use super::{
    output::{Format, Output},
    progress,
    timeline::Timeline,
};

/// Arguments of `lookaside run`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The workload, as `lookaside list workloads` shows it.
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
    /// Seed of the pseudo-random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run with this many seeds, from `--seed` on, and show the median and the extremes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Ask this many plausible machines, which differ in what is not known exactly, how sure the answer is; 0 for
    /// none. If it is not given, as many as do not take long.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    plausible: Option<u64>,
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
}

/// Runs `lookaside run`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { workload, strategy, cpus, x, seed, seeds, timeline, output, .. } = arguments;
    output.check()?;
    timeline.check()?;
    if timeline.moments() > 0 && (strategy.len() > 1 || *seeds > 1) {
        let why = "a timeline is of one run: `--perfetto` takes one strategy and one seed";
        return Err(Refused(why.into()).into());
    }
    let mut book = Book::shipped()?;
    let key = book.admit(&arguments.machine)?;
    let machine = &super::with_sockets(book.machine(&key)?, arguments.sockets);
    let assumed = super::check_place(workload, machine, *x, *cpus)?;
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
    let fit = (EVENTS / cost.max(1)).clamp(PLAUSIBLE[0], PLAUSIBLE[1]);
    let affordable = if PLAUSIBLE[0] * cost > 4 * EVENTS { 0 } else { fit };
    let machines = arguments.plausible.unwrap_or(affordable);
    let answer = match machines {
        _ if timeline.moments() > 0 => None,
        0 => None,
        _ => {
            let comparison = Comparison { arguments, strategies: &strategies, book: &book };
            match answer(&comparison, machine, &assumed, &run, machines as usize) {
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
        Format::Json => to_json(arguments, &machine.key, &results),
        Format::Csv => metrics(&results, arguments.seeds > 1).to_csv(),
        Format::Markdown => to_text(arguments, &machine.key, &results, Grid::to_markdown),
        Format::Table => to_text(arguments, &machine.key, &results, Grid::to_text),
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
            Metric { key, unit, values: [median, least, greatest], all }
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
        tie: 0.0,
        near: 0.0,
        influences,
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

/// What is to be said of strategies whose results depend on the seed: they wander, or fall on one of two sides.
fn spread(results: &[Results]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in results {
        let Some(metric) = one.metrics.first() else { continue };
        if let Some(how) = seeds::Spread::of(&metric.all).words() {
            lines.push(format!("{} of {} {how}", metric.key, one.strategy));
        }
    }
    lines
}

/// What is to be known of the results, each once.
fn notes(results: &[Results]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for note in results.iter().flat_map(|one| &one.notes) {
        if !all.contains(&note.as_str()) {
            all.push(note);
        }
    }
    all
}

/// What is to be said of values of the file that are outside what plausible machines give.
fn implausible(shown: &Shown, answer: &Answer) -> Vec<String> {
    let mut lines = Vec::new();
    for (one, intervals) in shown.results.iter().zip(&answer.intervals) {
        let (Some(metric), Some(interval)) = (one.metrics.first(), intervals.first()) else {
            continue;
        };
        let of = format!("{} of {}", metric.key, one.strategy);
        lines.extend(words::implausible(&of, metric.values[0], metric.unit, interval));
    }
    lines
}

/// The metrics, those of the same name together. What plausible machines say comes first: a value with the numbers of the
/// file alone may not even be among theirs.
fn metrics(shown: &Shown, spread: bool) -> Grid {
    let Shown { results, answer, .. } = shown;
    let mut header = vec!["metric", "unit", "strategy"];
    if answer.is_some() {
        header.extend(["plausible", "from", "to"]);
    }
    header.extend(match (spread, answer.is_some()) {
        (true, false) => &["median", "least", "greatest"][..],
        (_, true) => &["file's value"],
        (false, false) => &["value"],
    });
    header.push("ratio");
    let mut grid = Grid::new(header, &[0, 1, 2]);
    for metric in &results[0].metrics {
        for (strategy, one) in results.iter().enumerate() {
            let place = one.metrics.iter().position(|found| found.key == metric.key);
            let Some(place) = place else { continue };
            let found = &one.metrics[place];
            let mut row = vec![found.key.to_owned(), found.unit.to_owned(), one.strategy.clone()];
            if let Some(answer) = answer {
                let sensitivity::Interval { low, median, high } = answer.intervals[strategy][place];
                row.extend([median, low, high].map(number));
            }
            // The extremes of seeds are in the spread of plausible machines, which have a seed each.
            let all = spread && answer.is_none();
            let values = if all { &found.values[..] } else { &found.values[..1] };
            row.extend(values.iter().map(|&value| number(value)));
            let ratio = match answer {
                Some(answer) => {
                    let first = results[0].metrics.iter().position(|first| first.key == found.key);
                    let median = |of: usize, place: usize| answer.intervals[of][place].median;
                    first.map(|first| median(strategy, place) / median(0, first))
                }
                None => one.ratio(&results[0], found.key),
            };
            row.push(ratio.filter(|ratio| ratio.is_finite()).map(times).unwrap_or_default());
            grid.row(row);
        }
    }
    grid
}

fn counters(results: &[Results]) -> Grid {
    let strategies = results.iter().map(|one| one.strategy.as_str());
    let mut grid = Grid::new(["counter"].into_iter().chain(strategies), &[0]);
    for (i, (name, _)) in results[0].counters.iter().enumerate() {
        let values: Vec<u64> =
            results.iter().filter_map(|one| one.counters.iter().nth(i)).map(|(_, n)| n).collect();
        if values.iter().any(|&value| value > 0) {
            let values = values.iter().map(u64::to_string);
            grid.row([name.replace('_', " ")].into_iter().chain(values));
        }
    }
    grid
}

fn to_text(
    arguments: &Arguments,
    machine: &str,
    shown: &Shown,
    form: fn(&Grid) -> String,
) -> String {
    let Arguments { workload, cpus, x, option, seed, seeds, .. } = arguments;
    let mut heading = format!("{workload} on {machine}");
    if cpus.is_some() {
        heading += &format!(", {}", counted(shown.results[0].cpus, "CPU", "CPUs"));
    }
    if let Some(x) = x {
        heading += &format!(", x = {x}");
    }
    for (name, value) in option {
        heading += &format!(", {name} = {value}");
    }
    heading += &match seeds {
        1 => format!(", seed {seed}"),
        _ => format!(", {seeds} seeds from {seed} on"),
    };
    let metrics = form(&metrics(shown, *seeds > 1));
    let counters = form(&counters(&shown.results));
    let first = if *seeds > 1 { " with the first seed" } else { "" };
    let mut certainty = String::new();
    for line in spread(&shown.results) {
        certainty += &wrapped(&line, 0);
    }
    for line in notes(&shown.results) {
        certainty += &wrapped(line, 0);
    }
    if !shown.assumed.is_empty() {
        let paths = shown.assumed.join(", ");
        let line =
            format!("Assumed, as {machine} has no such path: {paths} (published/ranges.toml).");
        certainty += &wrapped(&line, 0);
    }
    if let Some(answer) = &shown.answer {
        let about = format!(
            "plausible, from, to: the median of {} plausible machines, and where at least 80 % of them are. The ratio is of these \
             medians; the file's value is with the numbers of the machine file alone.",
            answer.machines
        );
        certainty += &wrapped(&about, 0);
        for line in implausible(shown, answer) {
            certainty += &wrapped(&line, 0);
        }
        let strategies: Vec<String> =
            shown.results.iter().map(|one| one.strategy.clone()).collect();
        for line in words::sentences(answer, &strategies, machine) {
            certainty += &wrapped(&line, 0);
        }
    }
    let ran = shown.results[0].cpus;
    if let Some(given) = cpus.filter(|&given| given != ran) {
        let line = format!(
            "`--cpus {given}` changes nothing: the workload has a number of CPUs of its own, {ran}."
        );
        certainty += &wrapped(&line, 0);
    }
    if let Some(gaps) = &shown.gaps {
        certainty += &wrapped(gaps, 0);
    }
    if let Some(events) = shown.left_out {
        let line = format!(
            "How certain this is was not asked: a run has {} million events, and {} plausible machines would take minutes. \
             `--plausible {}` asks them.",
            number((events as f64 / 1e6).round()),
            PLAUSIBLE[0],
            PLAUSIBLE[0]
        );
        certainty += &wrapped(&line, 0);
    }
    if !certainty.is_empty() {
        certainty.push('\n');
    }
    format!("{heading}\n\n{metrics}\n{certainty}of all CPUs, start included{first}\n\n{counters}")
}

fn to_json(arguments: &Arguments, machine: &str, shown: &Shown) -> String {
    let results = &shown.results;
    let row = |one: &Results, metric: &Metric| {
        let [median, least, greatest] = metric.values;
        json!({
            "strategy": one.strategy,
            "metric": metric.key,
            "unit": metric.unit,
            "value": median,
            "least": least,
            "greatest": greatest,
            "ratio": one.ratio(&results[0], metric.key),
        })
    };
    let rows = results.iter().flat_map(|one| one.metrics.iter().map(move |m| row(one, m)));
    let counters = results.iter().map(|one| {
        let counters: serde_json::Map<String, serde_json::Value> =
            one.counters.iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        (one.strategy.clone(), json!(counters))
    });
    let strategies: Vec<String> = results.iter().map(|one| one.strategy.clone()).collect();
    let Arguments { workload, cpus, x, option, seed, seeds, .. } = arguments;
    let options: serde_json::Map<String, serde_json::Value> =
        option.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let document = json!({
        "version": 1,
        "workload": workload,
        "machine": machine,
        "cpus": cpus,
        "x": x,
        "options": options,
        "seed": seed,
        "seeds": seeds,
        "results": rows.collect::<Vec<_>>(),
        "notes": notes(results),
        "counters": counters.collect::<serde_json::Map<_, _>>(),
        "events": results.iter().map(|one| one.events).sum::<u64>(),
        "seconds": results.iter().map(|one| one.simulated).sum::<u64>() as f64 / 1e12,
        "certainty": shown.answer.as_ref().map(|answer| certainty(answer, &strategies)),
    });
    format!("{document:#}\n")
}

/// What an answer turns on, for programs.
pub(super) fn influence(one: &sensitivity::Influence) -> serde_json::Value {
    json!({
        "number": one.number.name,
        "quality": one.number.quality.word(),
        "low_ns": one.number.low / 1e3,
        "high_ns": one.number.high / 1e3,
        "correlation": one.correlation,
        "ends": one.ends,
        "narrows": one.narrows,
    })
}

/// What plausible machines say, for programs.
pub(super) fn certainty(answer: &Answer, strategies: &[String]) -> serde_json::Value {
    let [leader, second] = answer.pair;
    let interval = |one: &sensitivity::Interval| json!([one.low, one.median, one.high]);
    let of = |(strategy, name): (usize, &String)| {
        json!({
            "strategy": name,
            "best_on": answer.best[strategy],
            "lost": answer.lost[strategy],
            "intervals": answer.intervals[strategy].iter().map(interval).collect::<Vec<_>>(),
        })
    };
    let metrics = answer.outcomes.first().and_then(|machines| machines.first());
    let name = |metric: &workload::Metric| json!({ "key": metric.key, "unit": metric.unit });
    json!({
        "machines": answer.machines,
        "tied_on": answer.tied,
        "metric": answer.metric,
        "first": strategies[leader],
        "second": strategies[second],
        "gain": interval(&answer.gain),
        "strategies": strategies.iter().enumerate().map(of).collect::<Vec<_>>(),
        "turns_on": answer.influences.iter().map(influence).collect::<Vec<_>>(),
        "metrics": metrics.into_iter().flatten().map(name).collect::<Vec<_>>(),
        "unpriced": answer.gaps.unpriced,
        "assumed_prices": answer.gaps.assumed,
        "record": record(),
    })
}

/// How far the model has been off, for programs.
pub(super) fn record() -> serde_json::Value {
    json!({
        "comparisons": RECORD.directed,
        "right": RECORD.right,
        "values": RECORD.all,
        "half_within": RECORD.half_within,
        "most_within": RECORD.most_within,
    })
}
