//! `lookaside replay`: replays a trace of a live system under several strategies on a modelled machine.

mod report;
mod validated;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use lookaside_replay::{
    BAND, Blame, OVERFULL, Replayed, Setup, Upkeep,
    assume::Basis,
    inputs::{Choice, Inputs},
    replay_with_timeline, with_band,
};
use lookaside_simulation::{
    data::{Machine, Ranges},
    reproduce::Book,
    sensitivity::{Answer, Interval, words},
    workload::Metric,
};
use lookaside_terminal::{
    Refused,
    grid::{Grid, number, times, wrapped},
    plain,
};
use lookaside_traces::{Trace, import, lackey, reconstruct::Flushes};
use rayon::prelude::*;
use serde_json::{Value, json};

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

/// The version of the JSON: it changes when a key goes or means something else. Since 2 `total` is of the recorded
/// program alone, and `rest` has the others.
const VERSION: u32 = 2;

/// Number of initiators in the table for people.
const INITIATORS: usize = 12;

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
        eprintln!("note: {shown}: {missing}");
    }
    if trace.origin.losses.truncated {
        eprintln!("note: {shown}: the end of the trace is missing");
    }
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
    if let Some(missing) = trace.missing() {
        eprintln!("note: {missing}");
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
        // Counts do not depend on what programs access: no band for a validation.
        let replayed = replayed.and_then(|(replayed, timeline)| match arguments.validate {
            true => Ok((replayed, timeline)),
            false => Ok((with_band(&plan.inputs.script, &setup, replayed)?, timeline)),
        });
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
    let answer = arguments.plausible.ask(|machines, done| {
        let asked = (machines, arguments.seed);
        plan.inputs.on_plausible_machines(plan.machine, plan.ranges, asked, done)
    })?;
    let shown = Shown { runs, answer };
    let text = match arguments.output.format {
        Format::Json => plan.to_json(&shown),
        Format::Csv => plan.to_csv(&shown),
        Format::Markdown => plan.to_text(&shown, Grid::to_markdown),
        Format::Table => plan.to_text(&shown, Grid::to_text),
    };
    arguments.output.write(&text)?;
    arguments.report.write(&plan, &shown)?;
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

    fn heading(&self) -> String {
        let Self { machine, arguments, inputs: Inputs { cpus, script, .. }, .. } = self;
        let file = arguments.file.file_name().unwrap_or_default().display();
        let seconds = number(script.length as f64 / 1e9);
        let steps: usize = script.cpus.iter().map(Vec::len).sum();
        format!(
            "{file}: {seconds} s of {} CPUs, {} events, {steps} steps; on {}, {cpus} CPUs, seed {}",
            script.cpus.len(),
            self.trace.events.len(),
            machine.key,
            arguments.seed
        )
    }

    fn costs(&self) -> Costs {
        Costs::of(self.machine, self.ranges, self.inputs.chosen, [&self.trace.origin])
    }

    fn assumptions(&self) -> String {
        let all = self.basis().besides();
        all.iter().map(|text| format!("* {}\n", wrapped(text, 0))).collect()
    }

    fn to_text(&self, shown: &Shown, form: fn(&Grid) -> String) -> String {
        let Shown { runs, answer } = shown;
        let first = &runs[0];
        let mut text = format!("{}\n\n{}", self.heading(), self.costs().text());
        text += &format!("{}\n", wrapped(&headline(shown), 0));
        let more: Vec<String> =
            answer.iter().flat_map(|answer| implausible(runs, answer)).collect();
        text += &plausible::how_sure(answer.as_ref(), &self.inputs.strategies, &more);
        text += &format!("time of all CPUs, in ms\n\n{}\n", form(&causes(runs)));
        if let Some(answer) = answer {
            text += &format!(
                "the same on {} plausible machines: the median, and where at least 80 % of them are\n\n{}\n",
                answer.machines,
                form(&intervals(runs, answer))
            );
        }
        if runs.iter().any(|run| run.share() > 1.0) {
            text += &format!("{}\n", wrapped(OVERFULL, 0));
        }
        if let Some(unequal) = unequal(runs) {
            text += &format!("{}\n", wrapped(&unequal, 0));
        }
        text += &format!("operations\n\n{}\n", form(&operations(runs)));
        text += &format!("how long operations take, in ns\n\n{}\n", form(&latencies(runs)));
        let who = form(&initiators(runs, Some(INITIATORS)));
        text += &format!(
            "time by initiator under {}, in ms of all CPUs, with refills as assumed\n\n{who}\n",
            first.strategy
        );
        text + "what this rests on\n\n" + &self.assumptions()
    }

    fn to_csv(&self, Shown { runs, answer }: &Shown) -> String {
        let mut grid =
            Grid::new(["strategy", "table", "row", "column", "value", "unit"], &[0, 1, 2, 3, 5]);
        for (place, run) in runs.iter().enumerate() {
            let mut row = |table: &str, row: &str, column: &str, value: String, unit: &str| {
                grid.row([run.strategy.as_str(), table, row, column, &value, unit]);
            };
            for (cause, time) in run.upkeep.iter() {
                row("time", cause, "time", time.to_string(), "ps");
            }
            row("time", "total", "time", run.total.to_string(), "ps");
            row("time", "total", "share", run.share().to_string(), "");
            row("time", "known", "time", run.known().to_string(), "ps");
            row("time", "known", "share", run.share_of(run.known()).to_string(), "");
            row("time", "rest", "time", run.rest.total().to_string(), "ps");
            for (name, refills) in ["refills_low", "refills_high"].iter().zip(band(run)) {
                row("time", name, "time", refills.to_string(), "ps");
            }
            for (name, count) in operations_of(run) {
                row("operations", name, "count", count.to_string(), "");
            }
            for (metric, interval) in answer.iter().flat_map(|answer| plausible_of(answer, place)) {
                let Interval { low, median, high } = interval;
                for (name, value) in [("low", low), ("median", median), ("high", high)] {
                    row("plausible", metric.key, name, value.to_string(), metric.unit);
                }
            }
            for latency in &run.latencies {
                let quantiles = [
                    ("p50", latency.p50),
                    ("p90", latency.p90),
                    ("p99", latency.p99),
                    ("max", latency.max),
                ];
                for (name, time) in quantiles {
                    row("latency", latency.of, name, time.to_string(), "ps");
                }
            }
            for blame in &run.blame {
                let who = format!("{};{}", blame.process, blame.operation);
                row("blame", &who, "count", blame.count.to_string(), "");
                row("blame", &who, "interrupts", blame.interrupts.to_string(), "");
                for (cause, time) in blame.upkeep.iter() {
                    row("blame", &who, cause, time.to_string(), "ps");
                }
            }
        }
        grid.to_csv()
    }

    fn about(&self) -> Value {
        let mut about = json!({
            "version": VERSION,
            "file": self.arguments.file.file_name().unwrap_or_default().display().to_string(),
            "machine": self.machine.key,
            "cpus": self.inputs.cpus,
            "recorded_cpus": self.inputs.script.cpus.len(),
            "events": self.trace.events.len(),
            "traced": self.inputs.script.length,
            "flushes": if self.inputs.flushes == Flushes::Recorded { "recorded" } else { "calls" },
            "working_set": self.inputs.working_set,
            "seed": self.arguments.seed,
            "assumptions": self.basis().sentences(),
        });
        self.costs().add_to(&mut about);
        about
    }

    fn to_json(&self, Shown { runs, answer }: &Shown) -> String {
        let mut document = self.about();
        document["certainty"] = match answer {
            Some(answer) => super::run::certainty(answer, &self.inputs.strategies),
            None => Value::Null,
        };
        let one = |run: &Replayed| {
            let mut value = json!(run);
            value["share"] = json!(run.share());
            value["known"] = json!(run.known());
            value["known_share"] = json!(run.share_of(run.known()));
            value["ratio"] = json!(ratio(run, &runs[0]));
            value
        };
        document["strategies"] = runs.iter().map(one).collect();
        format!("{document:#}\n")
    }
}

/// Total time relative to that of another strategy.
fn ratio(run: &Replayed, first: &Replayed) -> Option<f64> {
    let ratio = run.total as f64 / first.total as f64;
    ratio.is_finite().then_some(ratio)
}

fn ms(time: u64) -> String {
    number(time as f64 / 1e9)
}

fn share(part: f64) -> String {
    format!("{:.3} %", part * 100.0)
}

fn header<'r>(first: &'r str, runs: &'r [Replayed]) -> impl Iterator<Item = &'r str> {
    [first].into_iter().chain(runs.iter().map(|run| run.strategy.as_str()))
}

fn causes(runs: &[Replayed]) -> Grid {
    let mut grid = Grid::new(header("cause", runs), &[0]);
    for (i, name) in Upkeep::NAMES.into_iter().enumerate().filter(|(_, name)| *name != "refills") {
        let time = |run: &Replayed| run.upkeep.iter().nth(i).map_or(0, |(_, time)| time);
        let cells = runs.iter().map(|run| ms(time(run)));
        grid.row([name.to_owned()].into_iter().chain(cells));
    }
    let mut row = |name: &str, cell: &dyn Fn(&Replayed) -> String| {
        grid.row([name.to_owned()].into_iter().chain(runs.iter().map(cell)));
    };
    row("known: all of these", &|run| ms(run.known()));
    row("share of all CPUs' time", &|run| share(run.share_of(run.known())));
    row("ratio", &|run| {
        let ratio = run.known() as f64 / runs[0].known() as f64;
        if ratio.is_finite() { times(ratio) } else { String::new() }
    });
    row("refills, as assumed", &|run| ms(run.upkeep.refills));
    row("refills, from", &|run| ms(band(run)[0]));
    row("refills, to", &|run| ms(band(run)[1]));
    row("ratio with refills as assumed", &|run| {
        ratio(run, &runs[0]).map(times).unwrap_or_default()
    });
    if runs.iter().any(|run| run.rest.total() > 0) {
        row("the rest of the system", &|run| ms(run.rest.total()));
    }
    grid
}

/// The range of refills.
fn band(run: &Replayed) -> [u64; 2] {
    run.refills_band.unwrap_or([run.upkeep.refills; 2])
}

/// The metrics of a strategy, the first of which is what is known, and where they lie on plausible machines.
fn plausible_of(answer: &Answer, strategy: usize) -> impl Iterator<Item = (&Metric, Interval)> {
    let metrics = answer.outcomes[strategy][0].iter();
    metrics.zip(answer.intervals[strategy].iter().copied())
}

/// Where each time lies on plausible machines.
fn intervals(runs: &[Replayed], answer: &Answer) -> Grid {
    let mut grid = Grid::new(header("cause", runs), &[0]);
    let of: Vec<Vec<_>> = (0..runs.len()).map(|run| plausible_of(answer, run).collect()).collect();
    // What is known is the first metric, and below its causes here.
    let places = (1..of[0].len()).chain([0]);
    for place in places {
        let name = if place == 0 { "known: all of these" } else { of[0][place].0.key };
        let cell = |all: &Vec<(&Metric, Interval)>| {
            let [median, low, high] =
                [all[place].1.median, all[place].1.low, all[place].1.high].map(number);
            if low == high { median } else { format!("{median} ({low} to {high})") }
        };
        grid.row([name.to_owned()].into_iter().chain(of.iter().map(cell)));
    }
    grid
}

/// On plausible machines programs hardly access their pages: what that alone changes of what is known, as a part of it.
const HARDLY_ACCESSED: f64 = 0.05;

/// What is to be said of times with the file's numbers that are outside what plausible machines give.
fn implausible(runs: &[Replayed], answer: &Answer) -> Vec<String> {
    let one = |(place, run): (usize, &Replayed)| {
        let of = format!("The time under {}", run.strategy);
        let Interval { low, median, high } = answer.intervals[place][0];
        let [low, high] = [low * (1.0 - HARDLY_ACCESSED), high * (1.0 + HARDLY_ACCESSED)];
        words::implausible(&of, run.known() as f64 / 1e9, "ms", &Interval { low, median, high })
    };
    runs.iter().enumerate().filter_map(one).collect()
}

/// What is known of the first strategy and of the others, with its range, and how much refills may add.
fn headline(shown: &Shown) -> String {
    let Shown { runs, answer } = shown;
    let spent = |(place, run): (usize, &Replayed)| {
        let range = answer.as_ref().map_or(String::new(), |answer| {
            let Interval { low, high, .. } = answer.intervals[place][0];
            let [low, high] = [low, high].map(|ms| share(run.share_of((ms * 1e9) as u64)));
            format!(" ({low} to {high})")
        });
        format!("{}{range} under {}", share(run.share_of(run.known())), run.strategy)
    };
    let known: Vec<String> = runs.iter().enumerate().map(spent).collect();
    let ranges = answer.as_ref().map_or(String::new(), |answer| {
        format!(" In brackets: where at least 80 % of {} plausible machines are.", answer.machines)
    });
    let turned = turned(shown).map_or(String::new(), |turned| format!(" {turned}"));
    let refills = if runs[0].has_unpriced_refills() {
        format!("{} has no price for a walk, so that they cost nothing here.", runs[0].machine)
    } else {
        let [low, high] = band(&runs[0]).map(|refills| share(runs[0].share_of(refills)));
        format!(
            "under {} they take {low} to {high} more with a quarter and with {BAND} times the assumed working set.",
            runs[0].strategy,
        )
    };
    let known = match runs.iter().all(|run| run.known() == 0 && !run.is_idle()) {
        true => format!("no time that {} has a price for.", runs[0].machine),
        false => format!("{} of the time of all CPUs.{turned}{ranges}", known.join(", ")),
    };
    format!(
        "Switches, flushes, waits and interrupted CPUs take {known} Refills are not known from a trace: {refills}",
    )
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

fn operations(runs: &[Replayed]) -> Grid {
    let mut grid = Grid::new(header("operation", runs), &[0]);
    for (i, (name, _)) in operations_of(&runs[0]).into_iter().enumerate() {
        let counts: Vec<u64> = runs.iter().map(|run| operations_of(run)[i].1).collect();
        if counts.iter().any(|&count| count > 0) {
            grid.row([name.to_owned()].into_iter().chain(counts.iter().map(u64::to_string)));
        }
    }
    let each = |run: &Replayed| run.operations.walks as f64 / run.operations.accesses.max(1) as f64;
    let each = runs.iter().map(|run| format!("{:.3}", each(run)));
    grid.row(["walks for each access".to_owned()].into_iter().chain(each));
    grid
}

/// That refills are of different amounts of work, where they are by more than a twentieth.
fn unequal(runs: &[Replayed]) -> Option<String> {
    let accesses = || runs.iter().map(|run| run.operations.accesses);
    let [least, most] = [accesses().min()?, accesses().max()?];
    (20 * (most - least) > most).then(|| {
        "Refills are of different amounts of work: what upkeep takes longer is taken from computing, so that programs access \
         fewer pages there. Walks for each access compare them."
            .to_owned()
    })
}

fn latencies(runs: &[Replayed]) -> Grid {
    let header = ["operation", "strategy", "count", "p50", "p90", "p99", "longest"];
    let mut grid = Grid::new(header, &[0, 1]);
    for i in 0..runs[0].latencies.len() {
        for run in runs {
            let latency = &run.latencies[i];
            let times = [latency.p50, latency.p90, latency.p99, latency.max];
            let times = times.map(|time| number(time as f64 / 1e3));
            let start = [latency.of.to_owned(), run.strategy.clone(), latency.count.to_string()];
            grid.row(start.into_iter().chain(times));
        }
    }
    grid
}

/// Time by initiator under the first strategy, and the same under the others.
fn initiators(runs: &[Replayed], most: Option<usize>) -> Grid {
    let first = &runs[0];
    let strategies = runs.iter().map(|run| run.strategy.as_str());
    let header =
        ["process", "operation", "count", "interrupts", "part"].into_iter().chain(strategies);
    let mut grid = Grid::new(header, &[0, 1]);
    let same = |blame: &Blame, other: &&Blame| {
        blame.process == other.process && blame.operation == other.operation
    };
    let part = |time: u64| format!("{:.1} %", time as f64 / first.total.max(1) as f64 * 100.0);
    let (shown, others) = first.blame.split_at(first.blame.len().min(most.unwrap_or(usize::MAX)));
    for blame in shown {
        let time = |run: &Replayed| {
            run.blame
                .iter()
                .find(|other| same(blame, other))
                .map_or(0, |blame| blame.upkeep.total())
        };
        let start = [
            blame.process.clone(),
            blame.operation.clone(),
            blame.count.to_string(),
            blame.interrupts.to_string(),
            part(blame.upkeep.total()),
        ];
        grid.row(start.into_iter().chain(runs.iter().map(|run| ms(time(run)))));
    }
    if !others.is_empty() {
        let is_shown = |of: &&Blame| shown.iter().any(|blame| same(blame, of));
        let time = |run: &Replayed| -> u64 {
            let rest = run.blame.iter().filter(|blame| !is_shown(blame));
            rest.map(|blame| blame.upkeep.total()).sum()
        };
        let sum = |of: fn(&Blame) -> u64| others.iter().map(of).sum::<u64>().to_string();
        let start = [
            format!("{} other{}", others.len(), if others.len() == 1 { "" } else { "s" }),
            String::new(),
            sum(|blame| blame.count),
            sum(|blame| blame.interrupts),
            part(time(first)),
        ];
        grid.row(start.into_iter().chain(runs.iter().map(|run| ms(time(run)))));
    }
    grid
}
