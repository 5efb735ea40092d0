//! `lab litmus`: tests and traces of others, and whether the machine agrees.

use core::time::Duration;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use clap::ValueEnum;
use lookaside_lab::{
    litmus::{self, Bound, Case, Mode, Results, Suite, Traces},
    plain,
};

/// What is to be run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A folder with `.litmus` files and `.log` traces, or with the folders `aarch64-vmsa` and
    /// `casemate`.
    folder: PathBuf,
    /// FEAT_ETS2 off, on, or one after the other.
    #[arg(long, value_enum, default_value = "both")]
    mode: Modes,
    /// Only this test, in full: both sets, the differences, and how a state too many comes about.
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// A test that cannot be read, or has nothing to be compared with, counts as a difference.
    #[arg(long)]
    strict: bool,
    /// For how many seconds tests are run, all together. A test that is not finished then is named.
    #[arg(long, value_name = "SECONDS")]
    budget: Option<f64>,
    /// How many MiB the states of one test may take up. A test that needs more is not finished.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: usize,
    /// How the results are written.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Modes {
    Base,
    Ets2,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs; its keys stay.
    Json,
}

impl Modes {
    const fn list(self) -> &'static [Mode] {
        match self {
            Self::Base => &[Mode::Base],
            Self::Ets2 => &[Mode::Ets2],
            Self::Both => &Mode::ALL,
        }
    }
}

/// How the program ends if nothing differs, but a test was not finished.
const NOT_FINISHED: u8 = 3;

impl Arguments {
    fn bound(&self) -> Result<Bound, Box<dyn core::error::Error>> {
        let time = self.budget.map(Duration::try_from_secs_f64).transpose()?;
        let bytes = self.memory.checked_mul(1 << 20).ok_or("`--memory` is too large")?;
        // What no clock can reach is no bound.
        let until = time.and_then(|time| Instant::now().checked_add(time));
        Ok(Bound { bytes, until })
    }
}

/// Runs it. The program ends with 1 if anything differs from what is recorded, and with 3 if
/// nothing does but a test was not finished.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let shown = arguments.folder.display();
    let (suite, traces) = open(&arguments.folder)?;
    let modes = arguments.mode.list();
    let bound = arguments.bound()?;
    if let Some(name) = &arguments.test {
        let case = suite.cases.iter().find(|case| case.litmus.name == *name);
        let case = case.ok_or_else(|| format!("`{shown}` has no test `{name}` that can be run"))?;
        return Ok(one(case, modes, bound));
    }
    let results = Results::of(&suite, &traces, modes, bound);
    match arguments.format {
        Format::Table => print!("{}", plain::text(&results.to_text())),
        Format::Json => println!("{}", plain::json(&format!("{:#}", results.to_json()))),
    }
    Ok(code(results.agree(arguments.strict), results.is_finished()))
}

/// The tests and the traces of a folder that has any.
pub(super) fn open(folder: &Path) -> super::Result<(Suite, Traces)> {
    let shown = folder.display();
    let suite = Suite::open(folder).map_err(|error| format!("`{shown}`: {error}"))?;
    let traces = Traces::open(folder).map_err(|error| format!("`{shown}`: {error}"))?;
    if suite.cases.is_empty() && suite.skipped.is_empty() && traces.is_empty() {
        return Err(format!("`{shown}` has neither `.litmus` files nor `.log` traces").into());
    }
    Ok((suite, traces))
}

/// One test in full.
fn one(case: &Case, modes: &[Mode], bound: Bound) -> ExitCode {
    let (mut agrees, mut finished) = (true, true);
    for &mode in modes {
        match case.compare(mode, bound) {
            Some(compared) => {
                print!("{}", plain::text(&litmus::in_full(case, &compared, bound)));
                agrees &= compared.exact();
            }
            None => {
                let name = plain::line(&case.litmus.name);
                println!("{name} ({}): not finished", mode.word());
                finished = false;
            }
        }
    }
    code(agrees, finished)
}

fn code(agrees: bool, finished: bool) -> ExitCode {
    match (agrees, finished) {
        (false, _) => ExitCode::from(1),
        (true, false) => ExitCode::from(NOT_FINISHED),
        (true, true) => ExitCode::SUCCESS,
    }
}
