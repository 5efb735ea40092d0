//! `lookaside explain`: how the time of a run is distributed.

use std::{path::Path, process::ExitCode};

use lookaside_simulation::{
    reproduce::{
        Book, Reference, Run,
        explain::{self, Explanation},
        machine_at, points, run as run_of,
    },
    strategy, workload,
};
use lookaside_terminal::Refused;

use super::{
    output::{Format, Output},
    timeline::Timeline,
};

/// Arguments of `lookaside explain`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The run. For a published one RESULT or RESULT:VARIANT, with @X for a point of a curve; VARIANT is a
    /// number from 1 or `recommended`, the default is the baseline. For any other WORKLOAD/MACHINE/STRATEGY.
    run: String,
    /// The place on the curve, for WORKLOAD/MACHINE/STRATEGY.
    #[arg(long, value_name = "X")]
    x: Option<f64>,
    /// Number of CPUs, for WORKLOAD/MACHINE/STRATEGY.
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// An option of the workload, for WORKLOAD/MACHINE/STRATEGY; may be given several times.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = super::option)]
    option: Vec<(String, f64)>,
    /// Seed of the pseudo-random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    timeline: Timeline,
    #[command(flatten)]
    output: Output,
}

/// Runs `lookaside explain`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { timeline, output, .. } = arguments;
    output.check()?;
    timeline.check()?;
    let mut book = Book::shipped()?;
    let run = if arguments.run.contains('/') {
        direct(&mut book, arguments)?
    } else {
        published(&book, arguments)?
    };
    let machine = book.machine(&run.machine)?;
    let outcome = super::execute(&run, machine, &arguments.option, timeline.moments())?;
    let explanation = Explanation { run: &run, machine, outcome: &outcome };
    let text = match output.format {
        Format::Table => explanation.to_text(),
        Format::Markdown => explanation.to_markdown(),
        Format::Csv => explanation.time().to_csv(),
        Format::Json => explain::to_json(&explanation),
    };
    output.write(&text)?;
    timeline.write(outcome.report.timeline.as_ref(), machine)?;
    Ok(ExitCode::SUCCESS)
}

/// A run of a published result.
fn published(book: &Book, arguments: &Arguments) -> Result<Run, Refused> {
    let Arguments { run, x, cpus, option, seed, .. } = arguments;
    if x.is_some() || cpus.is_some() || !option.is_empty() {
        let why = "the run of a published result has its own x, CPUs and options";
        return Err(Refused(format!("{why}; write WORKLOAD/MACHINE/STRATEGY to choose them")));
    }
    let reference: Reference = run.parse()?;
    let result = book.result(&reference.id)?;
    let series = reference.member.of(result)?;
    let known = points(result);
    let x = match known.as_slice() {
        [only] => reference.x.or(*only),
        _ => reference.x,
    };
    if !known.contains(&x) {
        let known: Vec<String> = known.iter().flatten().map(f64::to_string).collect();
        let (id, known) = (&result.id, known.join(", "));
        return Err(Refused(match known.as_str() {
            "" => format!("result `{id}` is one value, not a curve"),
            _ => format!("result `{id}` is a curve; its points are {known}: write `{run}@X`"),
        }));
    }
    let machine = book.machine(machine_at(result, x)?)?;
    Ok(run_of(book, result, machine, (&series.strategy, &series.options), x, *seed))
}

/// A run that was not published.
fn direct(book: &mut Book, arguments: &Arguments) -> Result<Run, Refused> {
    let Arguments { run, x, cpus, option, seed, .. } = arguments;
    // The workload and the machine may be paths of files: the workload ends at the first `/` before which there is one.
    let parts = run.rsplit_once('/').and_then(|(rest, strategy)| {
        let mut ends = rest.match_indices('/').map(|(end, _)| end);
        let is_workload = |end: &usize| {
            let name = &rest[..*end];
            workload::find(name).is_ok() || name.ends_with(".toml") && Path::new(name).exists()
        };
        let end = ends.clone().find(is_workload).or(ends.next())?;
        Some((&rest[..end], &rest[end + 1..], strategy))
    });
    let Some((workload, machine, strategy)) = parts else {
        return Err(Refused(format!("`{run}` is not of the form WORKLOAD/MACHINE/STRATEGY")));
    };
    let key = book.admit(machine)?;
    let machine = book.machine(&key)?;
    super::check_place(workload, machine, *x, *cpus)?;
    strategy::find(strategy, machine)?;
    let options = book.options(workload, &super::settings(option)?);
    let (workload, strategy) = (workload.to_owned(), strategy.to_owned());
    Ok(Run { machine: key, workload, strategy, options, x: *x, cpus: *cpus, seed: *seed })
}
