//! `lab explain`: where the time of a run went.

use std::process::ExitCode;

use lookaside_lab::{
    data::{Machine, Refused},
    names,
    reproduce::{
        Book, Reference, Run,
        explain::{self, Explanation},
        machine_at, points, run as run_of,
    },
    strategy, workload,
};

use super::output::{Format, Output};

/// What is to be explained.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A run: RESULT[:VARIANT][@X] for one that was published, where VARIANT is its number from 1,
    /// `recommended`, or nothing for the baseline; or WORKLOAD/MACHINE/STRATEGY.
    run: String,
    /// The place on the curve, for WORKLOAD/MACHINE/STRATEGY.
    #[arg(long, value_name = "X")]
    x: Option<f64>,
    /// How many CPUs, for WORKLOAD/MACHINE/STRATEGY.
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// An option of the workload, for WORKLOAD/MACHINE/STRATEGY; may be given several times.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = super::option)]
    option: Vec<(String, f64)>,
    /// What pseudo-random numbers begin with.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// Explains it.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let output = &arguments.output;
    output.check()?;
    let book = Book::shipped()?;
    let run = if arguments.run.contains('/') {
        direct(&book, arguments)?
    } else {
        published(&book, arguments)?
    };
    let machine = book.machine(&run.machine)?;
    let outcome = run.outcome(machine)?;
    let explanation = Explanation { run: &run, machine, outcome: &outcome };
    let text = match output.format {
        Format::Table => explanation.to_text(),
        Format::Markdown => explanation.to_markdown(),
        Format::Csv => explanation.time().to_csv(),
        Format::Json => explain::to_json(&explanation),
    };
    output.write(&text)?;
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
fn direct(book: &Book, arguments: &Arguments) -> Result<Run, Refused> {
    let Arguments { run, x, cpus, option, seed, .. } = arguments;
    let parts: Vec<&str> = run.split('/').collect();
    let [workload, machine, strategy] = parts.as_slice() else {
        return Err(Refused(format!("`{run}` is not of the form WORKLOAD/MACHINE/STRATEGY")));
    };
    workload::find(workload)?;
    let machine: &Machine = book.machine(machine)?;
    if !strategy::all().any(|entry| entry.name == *strategy) {
        return Err(names::unknown("strategy", strategy, strategy::all().map(|entry| entry.name)));
    }
    Ok(Run {
        machine: machine.key.clone(),
        workload: (*workload).to_owned(),
        strategy: (*strategy).to_owned(),
        options: super::options(book, workload, option)?,
        x: *x,
        cpus: *cpus,
        seed: *seed,
    })
}
