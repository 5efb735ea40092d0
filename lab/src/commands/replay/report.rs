//! The report of a replay: repeats the replay with other numbers of CPUs and other prices, and writes all
//! results into a folder.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use lookaside_replay::{
    Replayed, Setup, WorkingSet, replay,
    report::{
        self, About, Assumptions, Curve, CurvePoint, Document, Loss, Plausible, Question,
        Sensitivity, Swing,
    },
};
use lookaside_simulation::{
    data::Machine,
    sensitivity::{Answer, Interval, words},
};
use lookaside_terminal::{Refused, counted, plain, tell};
use lookaside_traces::reconstruct::Script;
use rayon::prelude::*;

use super::{super::output, Plan, Shown, budget::Budget, progress};

/// The current folder for the parent of a path that has one name alone.
fn or_here(path: &Path) -> &Path {
    if path == Path::new("") { Path::new(".") } else { path }
}

/// The largest number of CPUs in a curve without `--curve`.
const USUAL_CPUS: usize = 64;
/// How many of the most influential numbers the report keeps.
const NUMBERS: usize = 10;

/// Options of the report.
#[derive(Args)]
pub(super) struct Report {
    /// Also write a report into this folder: a page for people (`index.html`), tables, JSON, and stacks for
    /// flame graphs.
    #[arg(long, value_name = "FOLDER", conflicts_with = "validate")]
    report: Option<PathBuf>,
    /// Write the report even if its folder holds files, and no earlier report.
    #[arg(long, requires = "report")]
    force: bool,
    /// The numbers of CPUs in the report's curve, or `none`. Default: powers of two up to the size of the
    /// machine, at most 64.
    #[arg(long, value_name = "N,...", requires = "report", value_parser = counts)]
    curve: Option<Counts>,
    /// How long all may take, in seconds of a machine that simulates 5 million events a second: the range of refills,
    /// plausible machines, the largest numbers of CPUs and the last prices are left out beyond that, and the report says
    /// so. A curve that is named, and plausible machines that are counted, are computed in full.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "report")]
    budget: u64,
    /// Do not compute how the answer depends on the machine's prices.
    #[arg(long, requires = "report")]
    no_sensitivity: bool,
}

/// Numbers of CPUs.
#[derive(Clone, Debug)]
struct Counts(Vec<usize>);

fn counts(text: &str) -> Result<Counts, String> {
    if text == "none" {
        return Ok(Counts(Vec::new()));
    }
    let count = |part: &str| part.parse::<usize>().map_err(|_| format!("`{part}` is no number"));
    text.split(',').map(count).collect::<Result<_, _>>().map(Counts)
}

impl Report {
    /// Refuses a folder that holds other files or cannot be made, before any replay starts.
    pub(super) fn check(&self) -> Result<(), Refused> {
        let Some(folder) = self.report.as_deref().filter(|_| !self.force) else { return Ok(()) };
        let shown = folder.display();
        if !folder.exists() {
            // It is made when there is something to write: what is refused leaves no empty folder.
            let existing = folder.ancestors().skip(1).map(or_here).find(|path| path.exists());
            let name = folder.file_name().unwrap_or_default();
            return existing.map_or(Ok(()), |path| output::check(&path.join(name)));
        }
        let mut files =
            fs::read_dir(folder).map_err(|error| Refused(format!("`{shown}`: {error}")))?;
        if files.next().is_some() && !report::is_report(folder) {
            let why = "holds files, and no earlier report; `--force` writes into it";
            return Err(Refused(format!("`{shown}` {why}")));
        }
        Ok(())
    }

    /// What all replays may take together.
    pub(super) fn budget(&self) -> Budget {
        Budget::new(self.report.as_ref().map(|_| self.budget))
    }

    /// Refuses numbers of CPUs that the machine does not have.
    pub(super) fn check_curve(&self, machine: &Machine) -> Result<(), Refused> {
        let (key, limit) = (&machine.key, machine.model.topology.cpus());
        let given = self.curve.iter().flat_map(|counts| &counts.0);
        match given.copied().find(|&cpus| cpus == 0 || cpus > limit) {
            Some(cpus) => Err(Refused(format!("{cpus} CPUs; machine `{key}` has {limit}"))),
            None => Ok(()),
        }
    }

    /// Writes the report of what the strategies gave, if one is asked for.
    pub(super) fn write(
        &self,
        plan: &Plan<'_>,
        shown: &Shown,
        mut budget: Budget,
    ) -> super::super::Result<()> {
        let Some(folder) = &self.report else { return Ok(()) };
        let results = &shown.runs[..];
        let certainty = |answer| words::certainty(answer, &plan.inputs.strategies);
        let certainty = shown.answer.as_ref().map_or_else(Vec::new, certainty);
        let file = &plan.arguments.file;
        let content = fs::read(file).map_err(|e| Refused(format!("{}: {e}", file.display())))?;
        let basis = plan.basis();
        let (scaling, too_large) = self.scaling(plan, results, &mut budget)?;
        let (sensitivity, left) = match self.no_sensitivity {
            true => (None, 0),
            false => sensitivity(plan, results, budget.rest())?,
        };
        budget.left_out_of_report(&too_large, left);
        let mut notes = basis.notes();
        notes.extend(certainty.iter().cloned());
        notes.extend(budget.left_out);
        let document = Document {
            version: Document::VERSION,
            question: Question {
                subject: subject(plan),
                input: Question::input_of(file),
                hash: Question::hash_of(&content),
                command: command(std::env::args_os()),
                version: env!("CARGO_PKG_VERSION").into(),
                seed: plan.arguments.seed,
            },
            machine: About::of(plan.machine),
            results: results.to_vec(),
            scaling,
            certainty,
            turned: super::turned(shown),
            plausible: shown.answer.as_ref().map(plausible),
            assumptions: Assumptions {
                working_set: plan.inputs.working_set,
                working_set_from: format!("No trace shows accesses: this is {}.", plan.inputs.from),
                flushes_from: basis.flushes_from().into(),
                lost: plan.trace.origin.losses.lost,
                unknown: Loss::of(&plan.inputs.script.unknown),
                notes,
            },
            sensitivity,
        };
        report::write(&document, folder)
            .map_err(|error| Refused(format!("`{}`: {error}", folder.display())))?;
        tell!("{}", plain::text(&report::answer(&document).replace('`', "")));
        tell!("note: the report is {}", folder.join(report::PAGE).display());
        Ok(())
    }

    /// Replays every strategy with the other numbers of CPUs of the curve, and adds the results at hand. Also returns
    /// the numbers of CPUs that a half of the budget does not suffice for.
    fn scaling(
        &self,
        plan: &Plan<'_>,
        results: &[Replayed],
        budget: &mut Budget,
    ) -> Result<(Vec<Curve>, Vec<usize>), Refused> {
        let mut counts = match &self.curve {
            Some(Counts(given)) if given.is_empty() => return Ok((Vec::new(), Vec::new())),
            Some(Counts(given)) => given.clone(),
            None => {
                let limit = plan.machine.model.topology.cpus().min(USUAL_CPUS);
                core::iter::successors(Some(1), |cpus| Some(cpus * 2))
                    .take_while(|&cpus| cpus <= limit)
                    .collect()
            }
        };
        counts.push(plan.inputs.cpus);
        counts.sort_unstable();
        counts.dedup();
        // Each CPU does what one did that was recorded: as many events, and more for what they ask of each other.
        let events: u64 = results.iter().map(|result| result.events).sum();
        let events_of = |cpus: usize| events.saturating_mul(cpus as u64) / plan.inputs.cpus as u64;
        let mut left = budget.half();
        let fits = |cpus: usize, left: &mut u64| {
            let enough =
                self.curve.is_some() || cpus == plan.inputs.cpus || events_of(cpus) <= *left;
            if enough && cpus != plan.inputs.cpus {
                *left = left.saturating_sub(events_of(cpus));
            }
            enough
        };
        let (counts, too_large): (Vec<usize>, Vec<usize>) =
            counts.into_iter().partition(|&cpus| fits(cpus, &mut left));
        let others = || counts.iter().copied().filter(|&cpus| cpus != plan.inputs.cpus);
        // The longest replays first.
        let tries: Vec<(usize, usize)> =
            others().rev().flat_map(|cpus| (0..results.len()).map(move |i| (i, cpus))).collect();
        let setup =
            |&(i, cpus): &(usize, usize)| Setup { cpus, ..plan.setup(&results[i].strategy) };
        let point =
            |run: &Replayed| CurvePoint { cpus: run.cpus, total: run.total, share: run.share() };
        let setups: Vec<Setup<'_>> = tries.iter().map(setup).collect();
        let runs = all(&plan.inputs.script, &setups)?;
        budget.spend(runs.iter().map(|run| run.events).sum());
        let curve = |(i, result): (usize, &Replayed)| {
            let own = tries.iter().zip(&runs).filter(|((of, _), _)| *of == i);
            let mut points: Vec<CurvePoint> = own.map(|(_, run)| point(run)).collect();
            points.push(point(result));
            points.sort_unstable_by_key(|point| point.cpus);
            Curve { strategy: result.strategy.clone(), points }
        };
        Ok((results.iter().enumerate().map(curve).collect(), too_large))
    }
}

/// Where what is known lies on plausible machines, in picoseconds.
fn plausible(answer: &Answer) -> Plausible {
    let of = |metrics: &Vec<Interval>| {
        let Interval { low, median, high } = metrics[0];
        [low, median, high].map(|ms| (ms * 1e9) as u64)
    };
    Plausible { machines: answer.machines, known: answer.intervals.iter().map(of).collect() }
}

/// Replays several setups in parallel, with a progress bar.
fn all(script: &Script, setups: &[Setup<'_>]) -> Result<Vec<Replayed>, Refused> {
    let bar = progress::bar(setups.len());
    let one = |setup: &Setup<'_>| {
        let replayed = replay(script, setup);
        bar.inc(1);
        let of = |Refused(why)| {
            let cpus = counted(setup.cpus, "CPU", "CPUs");
            Refused(format!("strategy `{}` on {cpus}: {why}", setup.strategy))
        };
        replayed.map_err(of)
    };
    let runs = setups.par_iter().with_max_len(1).map(one).collect();
    bar.finish_and_clear();
    runs
}

/// A number to be halved and doubled, with the machine and working set for each end.
struct Try {
    name: String,
    unit: String,
    value: f64,
    ends: [(f64, Machine, WorkingSet); 2],
}

/// Sets a part of a working set.
type Change = fn(&mut WorkingSet, u32);

/// Every price of the machine's file and every part of the working set, halved and doubled.
fn tries(machine: &Machine, set: WorkingSet) -> Result<Vec<Try>, Refused> {
    let mut all = Vec::new();
    let prices = machine.values.iter().filter(|value| value.name.starts_with("prices."));
    for price in prices.filter(|value| value.number > 0.0) {
        let end = |times: f64| {
            let (mut machine, number) = (machine.clone(), price.number * times);
            machine.set_number(&price.name, number).map(|()| (number, machine, set))
        };
        let (name, unit) = (price.name.clone(), price.unit.clone());
        all.push(Try { name, unit, value: price.number, ends: [end(0.5)?, end(2.0)?] });
    }
    let parts: [(&str, u32, Change); 3] = [
        ("hot", set.hot, |set, pages| set.hot = pages),
        ("others", set.others, |set, pages| set.others = pages),
        ("pool", set.pool, |set, pages| set.pool = pages),
    ];
    for (name, pages, change) in parts.into_iter().filter(|&(_, pages, _)| pages > 0) {
        let end = |pages: u32| {
            let mut set = set;
            change(&mut set, pages);
            (f64::from(pages), machine.clone(), set)
        };
        let ends = [end(pages.div_ceil(2)), end(pages.saturating_mul(2))];
        let (name, unit) = (format!("working_set.{name}"), "pages".into());
        all.push(Try { name, unit, value: f64::from(pages), ends });
    }
    Ok(all)
}

/// The numbers on which the ratio of the first two strategies depends most, and how many were not varied, as `budget` events
/// do not suffice. `None` unless there are two strategies, both cost time, and a number was varied.
fn sensitivity(
    plan: &Plan<'_>,
    results: &[Replayed],
    budget: u64,
) -> Result<(Option<Sensitivity>, usize), Refused> {
    let [baseline, other, ..] = results else { return Ok((None, 0)) };
    let factor = |other: &Replayed, baseline: &Replayed| {
        let factor = other.total as f64 / baseline.total as f64;
        (factor.is_finite() && factor > 0.0).then_some(factor)
    };
    let Some(now) = factor(other, baseline) else { return Ok((None, 0)) };
    let mut tries = tries(plan.machine, plan.inputs.working_set)?;
    // Each is tried at two ends, under both strategies.
    let events = 2 * (baseline.events + other.events);
    let all_tries = tries.len();
    tries.truncate((budget / events.max(1)) as usize);
    let left = all_tries - tries.len();
    if tries.is_empty() {
        return Ok((None, left));
    }
    let pair = [other, baseline].map(|result| result.strategy.as_str());
    let setups: Vec<Setup<'_>> = tries
        .iter()
        .flat_map(|tried| &tried.ends)
        .flat_map(|(_, machine, working_set)| {
            let of =
                |strategy| Setup { machine, working_set: *working_set, ..plan.setup(strategy) };
            pair.map(of)
        })
        .collect();
    let runs = all(&plan.inputs.script, &setups)?;
    let swing = |(tried, runs): (&Try, &[Replayed])| {
        let at = [factor(&runs[0], &runs[1])?, factor(&runs[2], &runs[3])?];
        let [low, high] = [&tried.ends[0], &tried.ends[1]].map(|end| end.0);
        Some(Swing {
            parameter: tried.name.clone(),
            unit: tried.unit.clone(),
            value: tried.value,
            low,
            high,
            at_low: at[0],
            at_high: at[1],
        })
    };
    let swings = tries.iter().zip(runs.chunks_exact(4)).filter_map(swing).collect();
    let mut sensitivity = Sensitivity {
        strategy: other.strategy.clone(),
        baseline: baseline.strategy.clone(),
        factor: now,
        swings,
    };
    sensitivity.sort();
    sensitivity.swings.truncate(NUMBERS);
    Ok((Some(sensitivity), left))
}

/// The recorded program, or else the name of the file.
fn subject(plan: &Plan<'_>) -> String {
    let file =
        || plan.arguments.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    plan.trace.origin.command.first().cloned().unwrap_or_else(file)
}

/// The command line with file names instead of paths: a report reveals no folders.
fn command(arguments: impl Iterator<Item = OsString>) -> String {
    let word = |text: OsString| {
        let text = text.to_string_lossy().into_owned();
        let (option, value) = match text.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (format!("{option}="), value),
            _ => (String::new(), text.as_str()),
        };
        let name = Path::new(value).file_name().map(|name| name.to_string_lossy());
        let text = option + &name.unwrap_or(value.into());
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:+@%".contains(c);
        if !text.is_empty() && text.chars().all(plain) {
            text
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    let words: Vec<String> =
        core::iter::once("lookaside".to_owned()).chain(arguments.skip(1).map(word)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_has_no_folders_and_can_be_typed_again() {
        let words = ["/x/lab", "replay", "/home/me/a b.trace", "--report=/var/out", "--cpus", "4"];
        let typed = command(words.into_iter().map(Into::into));
        assert_eq!(typed, "lookaside replay 'a b.trace' --report=out --cpus 4");
        let hostile = command(["lookaside", "it's", ".."].into_iter().map(Into::into));
        assert_eq!(hostile, r"lookaside 'it'\''s' ..");
    }

    #[test]
    fn numbers_of_cpus_are_numbers_or_none() {
        assert_eq!(counts("4,1").unwrap().0, [4, 1]);
        assert!(counts("none").unwrap().0.is_empty());
        assert!(counts("4,x").is_err() && counts("").is_err());
    }
}
