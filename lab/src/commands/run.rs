//! `lookaside run`: runs a workload with one or several strategies.

use std::process::ExitCode;

use lookaside_machine::timed::Counters;
use lookaside_simulation::{
    reproduce::{Book, Run},
    strategy,
    workload::{self, Outcome},
};
use lookaside_terminal::{
    Refused,
    grid::{Grid, number, times},
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
    #[command(flatten)]
    timeline: Timeline,
    #[command(flatten)]
    output: Output,
}

/// The results of a strategy over all seeds.
struct Results {
    strategy: String,
    metrics: Vec<Metric>,
    /// Of the first seed.
    counters: Counters,
    events: u64,
    simulated: u64,
}

/// One metric over all seeds.
struct Metric {
    key: &'static str,
    unit: &'static str,
    /// The median, the least and the greatest.
    values: [f64; 3],
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
    let machine = book.machine(&key)?;
    super::check_place(workload::find(workload)?, machine, *x, *cpus)?;
    for name in strategy {
        strategy::find(name, machine)?;
    }
    let options = book.options(workload, &arguments.option.iter().cloned().collect());
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
    let outcomes: Result<Vec<Outcome>, Refused> =
        runs.par_iter().with_max_len(1).map(outcome).collect();
    bar.finish_and_clear();
    let outcomes = outcomes?;
    let chunks = outcomes.chunks(arguments.seeds as usize);
    let results: Vec<_> = strategy.iter().zip(chunks).map(|(s, o)| Results::of(s, o)).collect();
    let text = match output.format {
        Format::Json => to_json(arguments, &key, &results),
        Format::Csv => metrics(&results, arguments.seeds > 1).to_csv(),
        Format::Markdown => to_text(arguments, &key, &results, Grid::to_markdown),
        Format::Table => to_text(arguments, &key, &results, Grid::to_text),
    };
    output.write(&text)?;
    timeline.write(outcomes[0].report.timeline.as_ref(), machine)?;
    Ok(ExitCode::SUCCESS)
}

impl Results {
    fn of(strategy: &str, outcomes: &[Outcome]) -> Self {
        let first = &outcomes[0];
        let metric = |i: usize| {
            let mut values: Vec<f64> = outcomes.iter().map(|o| o.metrics[i].value).collect();
            values.sort_by(f64::total_cmp);
            let [least, greatest] = [values[0], values[values.len() - 1]];
            let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
            let (key, unit) = (first.metrics[i].key, first.metrics[i].unit);
            Metric { key, unit, values: [median, least, greatest] }
        };
        Self {
            strategy: strategy.to_owned(),
            metrics: (0..first.metrics.len()).map(metric).collect(),
            counters: first.report.counters(),
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

/// The metrics, those of the same name together.
fn metrics(results: &[Results], spread: bool) -> Grid {
    let mut header = vec!["metric", "unit", "strategy"];
    header.extend(if spread { &["median", "least", "greatest"][..] } else { &["value"][..] });
    header.push("ratio");
    let mut grid = Grid::new(header, &[0, 1, 2]);
    for metric in &results[0].metrics {
        for one in results {
            let Some(found) = one.metrics.iter().find(|found| found.key == metric.key) else {
                continue;
            };
            let mut row = vec![found.key.to_owned(), found.unit.to_owned(), one.strategy.clone()];
            let values = if spread { &found.values[..] } else { &found.values[..1] };
            row.extend(values.iter().map(|&value| number(value)));
            row.push(one.ratio(&results[0], found.key).map(times).unwrap_or_default());
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
    results: &[Results],
    form: fn(&Grid) -> String,
) -> String {
    let Arguments { workload, cpus, x, option, seed, seeds, .. } = arguments;
    let mut heading = format!("{workload} on {machine}");
    if let Some(cpus) = cpus {
        heading += &format!(", {cpus} CPUs");
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
    let metrics = form(&metrics(results, *seeds > 1));
    let counters = form(&counters(results));
    let first = if *seeds > 1 { " with the first seed" } else { "" };
    format!("{heading}\n\n{metrics}\nof all CPUs, start included{first}\n\n{counters}")
}

fn to_json(arguments: &Arguments, machine: &str, results: &[Results]) -> String {
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
    let Arguments { workload, cpus, x, option, seed, seeds, .. } = arguments;
    let options: serde_json::Map<String, serde_json::Value> =
        option.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let document = json!({
        "workload": workload,
        "machine": machine,
        "cpus": cpus,
        "x": x,
        "options": options,
        "seed": seed,
        "seeds": seeds,
        "results": rows.collect::<Vec<_>>(),
        "counters": counters.collect::<serde_json::Map<_, _>>(),
        "events": results.iter().map(|one| one.events).sum::<u64>(),
        "seconds": results.iter().map(|one| one.simulated).sum::<u64>() as f64 / 1e12,
    });
    format!("{document:#}\n")
}
