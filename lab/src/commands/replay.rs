//! `lookaside replay`: replays a trace of a live system under several strategies on a modelled machine.

mod budget;
mod data;
mod page;
mod report;
mod validated;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use lookaside_replay::{
    Replayed, Setup,
    assume::Basis,
    inputs::{Choice, Inputs},
    replay_with_timeline,
};
use lookaside_simulation::{
    data::{Machine, Ranges},
    reproduce::Book,
    sensitivity::{Answer, Interval},
    workload::Metric,
};
use lookaside_terminal::{Refused, grid::Grid, plain, tell};
use lookaside_traces::{
    Trace, import, lackey,
    reconstruct::{self, Flushes},
};
use rayon::prelude::*;

use self::{report::Report, validated::validated};
use super::{
    output::{Format, Output},
    plausible::{self, Costs, Plausible},
    progress,
    timeline::Timeline,
};

/// Arguments of `lookaside replay`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lookaside replay server.trace
  lookaside replay server.trace --machine zen4 --report server-report
  lookaside replay server.trace --validate")]
pub(crate) struct Arguments {
    /// The trace, in any format that `lookaside import` reads.
    file: PathBuf,
    /// The machine, as `lookaside list machines` shows it, or the path of a machine file. Default: a machine of the
    /// trace's architecture.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Number of CPUs. Default: as many as were recorded.
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// The strategies; ratios are relative to the first. Default: Linux's and the library's.
    #[arg(long, value_name = "STRATEGY,...", value_delimiter = ',')]
    strategy: Vec<String>,
    /// Pages that a computing program accesses: in each window (in us) the hot pages, and `others` pages out
    /// of a pool.
    #[arg(
        long,
        value_name = "hot=N,others=N,pool=N,window=US",
        value_delimiter = ',',
        value_parser = super::option,
        conflicts_with = "lackey"
    )]
    working_set: Vec<(String, f64)>,
    /// Take the working set from a memory trace of valgrind's lackey.
    #[arg(long, value_name = "FILE")]
    lackey: Option<PathBuf>,
    /// The source of flushes.
    #[arg(long, value_enum)]
    flushes: Option<Source>,
    /// Seed of the pseudo-random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compare the kernel's own counts with those of the modelled Linux strategy, and fail if they differ by
    /// more than the limits.
    #[arg(long, conflicts_with = "flushes")]
    validate: bool,
    #[command(flatten)]
    plausible: Plausible,
    #[command(flatten)]
    report: Report,
    #[command(flatten)]
    timeline: Timeline,
    #[command(flatten)]
    output: Output,
}

/// The source of flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Source {
    /// The flushes that the kernel recorded.
    Recorded,
    /// The flushes that follow from system calls, faults, forks and exits.
    Calls,
}

impl From<Source> for Flushes {
    fn from(source: Source) -> Self {
        match source {
            Source::Recorded => Self::Recorded,
            Source::Calls => Self::FromCalls,
        }
    }
}

/// The resolved inputs of all runs.
struct Plan<'a> {
    arguments: &'a Arguments,
    trace: &'a Trace,
    machine: &'a Machine,
    ranges: &'a Ranges,
    inputs: Inputs,
}

/// What is shown: what the strategies gave with the file's numbers, and what plausible machines say.
struct Shown {
    runs: Vec<Replayed>,
    answer: Option<Answer>,
}

/// Says on standard error what a trace lacks, for commands whose results have no place for that.
pub(super) fn note_losses(path: &Path, trace: &Trace) {
    let shown = plain::line(&path.display().to_string()).into_owned();
    if let Some(missing) = trace.missing() {
        tell!("note: {shown}: {missing}");
    }
    if trace.origin.losses.truncated {
        tell!("note: {shown}: the end of the trace is missing");
    }
}

/// Refuses a trace in which no program does anything, and says which trace that is.
pub(super) fn check_programs(path: &Path, trace: &Trace) -> Result<(), Refused> {
    let shown = plain::line(&path.display().to_string()).into_owned();
    reconstruct::check(trace).map_err(|bad| Refused(format!("{shown}: {bad}")))
}

/// Runs `lookaside replay`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    arguments.output.check()?;
    if arguments.validate && arguments.plausible.are_given() {
        let why = "`--validate` compares counts, which do not depend on prices: it takes no `--plausible`";
        return Err(Refused(why.to_owned()).into());
    }
    arguments.plausible.check()?;
    arguments.report.check()?;
    arguments.timeline.check()?;
    let trace = import::open(&arguments.file)?;
    check_programs(&arguments.file, &trace)?;
    if let Some(missing) = trace.missing() {
        tell!("note: {missing}");
    }
    let mut book = Book::shipped()?;
    let named = arguments.machine.as_deref().map(|name| book.admit(name)).transpose()?;
    let plan = Plan::new(arguments, &trace, &mut book, named.as_deref())?;
    let bar = progress::bar(plan.inputs.strategies.len());
    arguments.report.check_curve(plan.machine)?;
    // Only the first strategy has a timeline.
    let moments = |strategy: &String| match *strategy == plan.inputs.strategies[0] {
        true => arguments.timeline.moments(),
        false => 0,
    };
    let one = |strategy: &String| {
        let setup = plan.setup(strategy);
        let replayed = replay_with_timeline(&plan.inputs.script, &setup, moments(strategy));
        bar.inc(1);
        replayed.map_err(|Refused(why)| Refused(format!("strategy `{strategy}`: {why}")))
    };
    let runs: Result<Vec<_>, Refused> =
        plan.inputs.strategies.par_iter().with_max_len(1).map(one).collect();
    bar.finish_and_clear();
    let (runs, timelines): (Vec<Replayed>, Vec<_>) = runs?.into_iter().unzip();
    arguments.timeline.write(timelines[0].as_ref(), plan.machine)?;
    if arguments.validate {
        return validated(&plan, &runs);
    }
    let mut budget = arguments.report.budget();
    budget.begin(&runs);
    let bar = progress::bar(runs.len());
    let runs = budget.bands(&plan, runs, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let answer = budget.plausible(&plan, &runs)?;
    for left_out in &budget.left_out {
        tell!("note: {left_out}");
    }
    let shown = Shown { runs, answer };
    let text = match arguments.output.format {
        Format::Json => plan.to_json(&shown),
        Format::Csv => plan.to_csv(&shown),
        Format::Markdown => plan.to_text(&shown, Grid::to_markdown),
        Format::Table => plan.to_text(&shown, Grid::to_text),
    };
    arguments.output.write(&text)?;
    arguments.report.write(&plan, &shown, budget)?;
    Ok(ExitCode::SUCCESS)
}
impl<'a> Plan<'a> {
    fn new(
        arguments: &'a Arguments,
        trace: &'a Trace,
        book: &'a mut Book,
        named: Option<&str>,
    ) -> Result<Self, Refused> {
        let pattern = arguments.lackey.as_deref().map(lackey::working_set).transpose();
        let pattern = pattern.map_err(Refused::because)?;
        let choice = Choice {
            machine: named,
            cpus: arguments.cpus,
            strategies: &arguments.strategy,
            flushes: arguments.flushes.map(Flushes::from),
            working_set: &arguments.working_set,
            pattern: pattern.as_ref(),
            validate: arguments.validate,
        };
        let inputs = choice.inputs(trace, book)?;
        let machine = book.machine(&inputs.machine)?;
        Ok(Self { arguments, trace, machine, ranges: &book.ranges, inputs })
    }

    fn setup<'s>(&'s self, strategy: &'s str) -> Setup<'s> {
        self.inputs.setup(self.machine, strategy, self.arguments.seed)
    }

    fn basis(&self) -> Basis<'_> {
        self.inputs.basis(&self.trace.origin, self.machine)
    }

    fn costs(&self) -> Costs {
        Costs::of(self.machine, self.ranges, self.inputs.chosen, [&self.trace.origin])
    }
}

/// A time relative to that of another strategy.
fn ratio(run: &Replayed, first: &Replayed, time: fn(&Replayed) -> u64) -> Option<f64> {
    let ratio = time(run) as f64 / time(first) as f64;
    ratio.is_finite().then_some(ratio)
}

/// The metrics of a strategy, the first of which is what is known, and where they lie on plausible machines.
fn plausible_of(answer: &Answer, strategy: usize) -> impl Iterator<Item = (&Metric, Interval)> {
    let metrics = answer.outcomes[strategy][0].iter();
    metrics.zip(answer.intervals[strategy].iter().copied())
}

/// That the order of the strategies is another on plausible machines.
fn turned(Shown { runs, answer }: &Shown) -> Option<String> {
    let known: Vec<f64> = runs.iter().map(|run| run.known() as f64).collect();
    let names: Vec<String> = runs.iter().map(|run| run.strategy.clone()).collect();
    plausible::turned(answer.as_ref(), &known, &names)
}

fn operations_of(run: &Replayed) -> [(&'static str, u64); 8] {
    let of = run.operations;
    [
        ("switches", of.switches),
        ("flushes", of.flushes),
        ("interrupts", of.interrupts),
        ("invalidations of a page", of.page_flushes),
        ("invalidations of a tag or all", of.full_flushes),
        ("broadcasts", of.broadcasts),
        ("walks", of.walks),
        ("page accesses", of.accesses),
    ]
}
