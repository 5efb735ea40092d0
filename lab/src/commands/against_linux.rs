//! `lookaside against-linux`: the library beside Linux of the same architecture, on every trace and machine.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

use lookaside_replay::{
    Replayed, Setup, WorkingSet,
    assume::{usual_flushes, usual_strategies},
    replay,
};
use lookaside_simulation::{data::Machine, reproduce::Book};
use lookaside_terminal::{Refused, grid::Grid, tell};
use lookaside_traces::{
    Kind, import,
    reconstruct::{Flushes, Script, reconstruct},
};
use rayon::prelude::*;
use serde_json::json;

use super::{
    output::{Format, Output},
    progress,
};

/// Arguments of `lookaside against-linux`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Traces, in any format that `lookaside import` reads, and directories, of which every `.trace` file is taken.
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// The machines. Default: every shipped one of whose architecture there is a Linux to compare with.
    #[arg(long, value_name = "MACHINE,...", value_delimiter = ',')]
    machine: Vec<String>,
    /// Numbers of CPUs. Default: as many as were recorded.
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Seed of the pseudo-random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Fail if the library takes more than this part of Linux's time anywhere, with refills as assumed.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    most: Option<f64>,
    /// The same of what is known, without refills.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    most_known: Option<f64>,
    /// Fail if the median is more than this, with refills as assumed.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    median: Option<f64>,
    /// The same of what is known, without refills.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    median_known: Option<f64>,
    #[command(flatten)]
    output: Output,
}

/// A ratio that is a limit. Nothing is more than a limit that is no number.
fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1e9).contains(ratio));
    ratio.ok_or_else(|| "a ratio is a number from 0, such as 1.05".to_owned())
}

/// A trace, with the flushes that were recorded and with those that follow from calls.
struct Recorded {
    name: String,
    has_flushes: bool,
    scripts: BTreeMap<bool, Script>,
}

/// The library's time as part of Linux's, on one trace and machine.
struct Ratio {
    trace: usize,
    machine: usize,
    cpus: usize,
    /// Of switches, flushes, waits, interrupted CPUs and broadcasts.
    known: f64,
    /// Of the same and refills, as assumed.
    all: f64,
    runs: [Replayed; 2],
}

/// Runs `lookaside against-linux`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    arguments.output.check()?;
    let files = files(&arguments.traces)?;
    let traces: Vec<Recorded> =
        files.par_iter().map(|file| open(file)).collect::<Result<_, _>>()?;
    let mut book = Book::shipped()?;
    let named =
        arguments.machine.iter().map(|name| book.admit(name)).collect::<Result<Vec<_>, _>>()?;
    let all = book.machines.iter().filter(|machine| usual_strategies(machine).len() == 2);
    let machines: Vec<&Machine> = match named.is_empty() {
        true => all.collect(),
        false => named.iter().map(|key| book.machine(key)).collect::<Result<_, _>>()?,
    };
    if let Some(machine) = machines.iter().find(|machine| usual_strategies(machine).len() != 2) {
        let key = &machine.key;
        return Err(Refused(format!("no strategy of Linux is modelled for `{key}`")).into());
    }
    let set = WorkingSet::of_build(&book.options("build", &BTreeMap::new()))?;
    let mut jobs = Vec::new();
    for (trace, recorded) in traces.iter().enumerate() {
        for (machine, of) in machines.iter().enumerate() {
            let recorded = recorded.script(of).cpus.len();
            let counts = if arguments.cpus.is_empty() { &[recorded] } else { &arguments.cpus[..] };
            let fits = counts.iter().filter(|&&cpus| cpus <= of.model.topology.cpus());
            jobs.extend(fits.map(|&cpus| (trace, machine, cpus)));
        }
    }
    if jobs.is_empty() {
        let most = machines.iter().map(|machine| machine.model.topology.cpus()).max();
        let why = format!("none of these machines has as many CPUs: at most {}", most.unwrap_or(0));
        return Err(Refused(why).into());
    }
    let bar = progress::bar(jobs.len());
    let one = |&(trace, machine, cpus): &(usize, usize, usize)| {
        let (recorded, of) = (&traces[trace], machines[machine]);
        let run = |strategy: &&'static str| {
            let seed = arguments.seed;
            let setup =
                Setup { machine: of, strategy, cpus, working_set: set, seed, arrivals: None };
            replay(recorded.script(of), &setup).map_err(|Refused(why)| {
                Refused(format!("`{}` on `{}` under `{strategy}`: {why}", recorded.name, of.key))
            })
        };
        let [linux, library] = usual_strategies(of) else { unreachable!("there are two") };
        let runs = [run(linux)?, run(library)?];
        bar.inc(1);
        let part = |of: fn(&Replayed) -> u64| of(&runs[1]) as f64 / of(&runs[0]) as f64;
        let (known, all) = (part(Replayed::known), part(|run| run.total));
        Ok(Ratio { trace, machine, cpus, known, all, runs })
    };
    let ratios: Vec<Ratio> =
        jobs.par_iter().with_max_len(1).map(one).collect::<Result<_, Refused>>()?;
    bar.finish_and_clear();
    let table = Table { traces: &traces, machines: &machines, ratios };
    let text = match arguments.output.format {
        Format::Json => table.to_json(),
        Format::Csv => table.list().to_csv(),
        Format::Table => table.to_text(Grid::to_text),
        Format::Markdown => table.to_page(),
    };
    arguments.output.write(&text)?;
    let mut missed =
        table.missed("what is known", KNOWN, arguments.most_known, arguments.median_known);
    missed.extend(table.missed("with refills", ALL, arguments.most, arguments.median));
    missed.iter().for_each(|miss| tell!("missed: {miss}"));
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The named traces, and those in the named directories.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Refused> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let unreadable = |error| Refused(format!("`{}`: {error}", path.display()));
        let before = files.len();
        for entry in path.read_dir().map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.path();
            files.extend((file.extension().is_some_and(|end| end == "trace")).then_some(file));
        }
        files[before..].sort();
        if files.len() == before {
            return Err(Refused(format!("`{}` has no `.trace` file", path.display())));
        }
    }
    Ok(files)
}

fn open(file: &Path) -> Result<Recorded, Refused> {
    let shown = file.display();
    let trace = import::open(file).map_err(Refused::because)?;
    super::replay::note_losses(file, &trace);
    let has_flushes = trace.events.iter().any(|event| matches!(event.kind, Kind::Flush { .. }));
    let mut scripts = BTreeMap::new();
    for recorded in [false, true].into_iter().filter(|&recorded| !recorded || has_flushes) {
        let source = if recorded { Flushes::Recorded } else { Flushes::FromCalls };
        let script =
            reconstruct(&trace, source).map_err(|bad| Refused(format!("`{shown}`: {bad}")))?;
        scripts.insert(recorded, script);
    }
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = if folder.is_empty() || folder == "traces" {
        stem.into()
    } else {
        format!("{folder}/{stem}")
    };
    Ok(Recorded { name, has_flushes, scripts })
}

impl Recorded {
    /// The script for a machine.
    fn script(&self, machine: &Machine) -> &Script {
        &self.scripts[&(usual_flushes(machine, self.has_flushes) == Flushes::Recorded)]
    }
}

struct Table<'a> {
    traces: &'a [Recorded],
    machines: &'a [&'a Machine],
    ratios: Vec<Ratio>,
}

const ABOUT: &str = "\
The library's time as part of that of Linux as it runs on such a machine, on every trace and machine, on as many CPUs as were
recorded, of the recorded command alone, seed 1. Lower is better for the library. That is `linux-invlpgb-2025` where the
machine has `INVLPGB`, `linux-ipi-2025` on other x86-64 machines, and `linux-broadcast` on Arm64.
[`docs/replay.md`](replay.md) says what the figures mean, and why the library is not ahead where it is not. This page is
written by

```console
$ cargo lab against-linux traces traces/corpus/found traces/corpus/judged --format markdown --output docs/against-linux.md
```";
const ABOUT_KNOWN: &str =
    "What is known: switches, flushes, waits, interrupted CPUs and broadcasts.";
const ABOUT_ALL: &str = "The same with refills, as assumed.";

/// One of the two ratios.
type Of = fn(&Ratio) -> f64;
const KNOWN: Of = |ratio| ratio.known;
const ALL: Of = |ratio| ratio.all;

impl Table<'_> {
    /// The machines against the traces.
    fn grid(&self, of: Of) -> Grid {
        let names = self.traces.iter().map(|trace| trace.name.as_str());
        let mut grid = Grid::new(["machine"].into_iter().chain(names), &[0]);
        for (number, machine) in self.machines.iter().enumerate() {
            let cell = |trace: usize| {
                let here = |ratio: &&Ratio| (ratio.trace, ratio.machine) == (trace, number);
                let here: Vec<_> =
                    self.ratios.iter().filter(here).map(|it| three(of(it))).collect();
                here.join(", ")
            };
            let cells = (0..self.traces.len()).map(cell);
            grid.row([machine.key.clone()].into_iter().chain(cells));
        }
        grid
    }

    /// One row for each ratio, with what it is made of.
    fn list(&self) -> Grid {
        let mut grid = Grid::new(
            [
                "trace",
                "machine",
                "cpus",
                "strategy",
                "known",
                "refills",
                "switches",
                "flushes",
                "waits",
                "interrupted",
                "fabric",
                "pages",
                "tags",
                "interrupts",
                "walks",
            ],
            &[0, 1, 3],
        );
        for ratio in &self.ratios {
            for run in &ratio.runs {
                let (time, count) = (&run.upkeep, &run.operations);
                let numbers = [
                    run.known(),
                    time.refills,
                    time.switches,
                    time.flushes,
                    time.waits,
                    time.interrupted,
                    time.fabric,
                    count.page_flushes,
                    count.full_flushes,
                    count.interrupts,
                    count.walks,
                ];
                let start = [
                    self.traces[ratio.trace].name.clone(),
                    run.machine.clone(),
                    run.cpus.to_string(),
                    run.strategy.clone(),
                ];
                grid.row(start.into_iter().chain(numbers.map(|number| number.to_string())));
            }
        }
        grid
    }

    fn median(&self, of: Of) -> f64 {
        median(self.ratios.iter().map(of))
    }

    fn worst(&self, of: Of) -> Option<&Ratio> {
        let finite = self.ratios.iter().filter(|it| of(it).is_finite());
        finite.max_by(|a, b| of(a).total_cmp(&of(b)))
    }

    /// A sentence about one of the ratios.
    fn summary(&self, of: Of) -> String {
        let over = |limit: f64| self.ratios.iter().filter(|it| of(it) > limit).count();
        let Some(worst) = self.worst(of) else { return "No trace runs on any machine.".into() };
        format!(
            "{} pairs: median {}, largest {} ({} on `{}`); {} above 1.00, {} above 1.02.",
            self.ratios.len(),
            three(self.median(of)),
            three(of(worst)),
            self.traces[worst.trace].name,
            self.machines[worst.machine].key,
            over(1.0),
            over(1.02),
        ) + &self.without_broadcasts(of)
    }

    /// The median without the machines on which broadcasts have no price, a sentence; nothing where that is none or all.
    fn without_broadcasts(&self, of: Of) -> String {
        let is_free = |ratio: &Ratio| self.machines[ratio.machine].features.invlpgb;
        let (free, priced): (Vec<&Ratio>, Vec<&Ratio>) =
            self.ratios.iter().partition(|ratio| is_free(ratio));
        match free.is_empty() || priced.is_empty() {
            true => String::new(),
            false => format!(
                " Without the machines with `INVLPGB`, for which their files have no price, so that it takes no time here, \
                 the median of {} pairs is {}; `lookaside replay` says what plausible prices make of the others.",
                priced.len(),
                three(median(priced.into_iter().map(of)))
            ),
        }
    }

    fn to_text(&self, form: fn(&Grid) -> String) -> String {
        let [known, all] =
            [KNOWN, ALL].map(|of| format!("{}\n{}\n", form(&self.grid(of)), self.summary(of)));
        format!("{ABOUT_KNOWN}\n\n{known}\n{ABOUT_ALL}\n\n{all}")
    }

    /// A page of the documentation.
    fn to_page(&self) -> String {
        let text = self.to_text(Grid::to_markdown);
        format!("# The library against Linux\n\n{ABOUT}\n\n{text}")
    }

    fn to_json(&self) -> String {
        let one = |ratio: &Ratio| {
            json!({
                "trace": self.traces[ratio.trace].name,
                "machine": self.machines[ratio.machine].key,
                "cpus": ratio.cpus,
                "known": ratio.known,
                "with_refills": ratio.all,
                "linux": ratio.runs[0],
                "library": ratio.runs[1],
            })
        };
        let ratios: Vec<_> = self.ratios.iter().map(one).collect();
        format!("{:#}\n", json!({ "version": 1, "ratios": ratios }))
    }

    /// What misses the limits.
    fn missed(&self, what: &str, of: Of, most: Option<f64>, median: Option<f64>) -> Vec<String> {
        let over = |ratio: &&Ratio| most.is_some_and(|most| of(ratio) > most);
        let one = |ratio: &Ratio| {
            let (trace, machine) =
                (&self.traces[ratio.trace].name, &self.machines[ratio.machine].key);
            format!("{what}: {} for {trace} on {machine}, {} CPUs", three(of(ratio)), ratio.cpus)
        };
        let mut missed: Vec<String> = self.ratios.iter().filter(over).map(one).collect();
        let middle = self.median(of);
        if median.is_some_and(|median| middle > median) {
            missed.push(format!("{what}: the median is {}", three(middle)));
        }
        missed
    }
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = of.filter(|it| it.is_finite()).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

fn three(ratio: f64) -> String {
    format!("{ratio:.3}")
}
