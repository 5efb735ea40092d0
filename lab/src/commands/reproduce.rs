//! `lookaside reproduce`: published results beside those of the model.

use std::{process::ExitCode, time::Instant};

use lookaside_simulation::reproduce::{
    Book, Plan, Request, Run, Sample, Summary, readings, table, to_csv, to_json,
};
use lookaside_terminal::{counted, tell};

use super::{
    output::{Format, Output},
    progress,
};

/// Arguments of `lookaside reproduce`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names of results, as `lookaside list results` shows them; all if none is given.
    ids: Vec<String>,
    /// Run on this machine instead of the published ones; then there are no published values to compare.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Show only the baseline and these strategies, which may be unpublished ones.
    #[arg(long, value_name = "STRATEGY,...", value_delimiter = ',')]
    strategy: Vec<String>,
    /// Seed of the pseudo-random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run each run that does not take long with this many seeds, and show which values wander.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Give all runs that many seeds, however long they take.
    #[arg(long)]
    thorough: bool,
    /// Ask this many plausible machines, which differ in what is not known exactly, where each gain lies that could
    /// have failed; 0 for none. As many as some seconds allow if absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000))]
    plausible: Option<u64>,
    #[command(flatten)]
    output: Output,
}

/// Runs of more events have one seed, unless all are to have several: the longest would take as long again for
/// each.
const EVENTS: u64 = 400_000;

/// Runs `lookaside reproduce`. The exit status is 1 if a direction is wrong or a run fails.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { ids, machine, strategy, seed, seeds, thorough, plausible, output } = arguments;
    output.check()?;
    let mut book = Book::shipped()?;
    let request = Request {
        ids: ids.clone(),
        machine: machine.as_deref().map(|name| book.admit(name)).transpose()?,
        strategies: strategy.clone(),
        seed: *seed,
        seeds: *seeds,
        most: if *thorough { u64::MAX } else { EVENTS },
    };
    let begin = Instant::now();
    let plan = Plan::new(&book, &request)?;
    let bar = progress::bar(plan.runs.len());
    let execute = |machine: &_, run: &Run| run.measure(machine);
    let mut reproduction = plan.execute(&book, &execute, &|| bar.inc(1), machine.is_some());
    if machine.is_none() && strategy.is_empty() {
        bar.set_message("now plausible machines are asked".to_owned());
        reproduction.readings = readings(&book, &reproduction, *seed, &execute)?;
        let machines = plausible.map(|count| count as usize);
        let sample = Sample { machines, most: request.most, seed: *seed };
        reproduction.ask_plausible(&book, &plan, sample, &execute)?;
    }
    bar.finish_and_clear();
    output.write(&match output.format {
        Format::Table => table::to_text(&reproduction),
        Format::Json => to_json(&reproduction),
        Format::Csv => to_csv(&reproduction),
        Format::Markdown => table::to_markdown(&reproduction),
    })?;
    let (seconds, millions) = (begin.elapsed().as_secs_f64(), reproduction.events as f64 / 1e6);
    let (runs, speed) = (counted(plan.runs.len(), "run", "runs"), millions / seconds);
    tell!("{runs} in {seconds:.1} s: {millions:.1} million events, {speed:.1} million a second");
    let summary = Summary::of(&reproduction);
    let sound = summary.reversed.is_empty() && (machine.is_some() || summary.failed.is_empty());
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
