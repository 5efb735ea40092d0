//! `lookaside litmus`: compares the machine with published litmus tests and traces.

use core::time::Duration;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use clap::ValueEnum;
use lookaside_checking::litmus::{self, Bound, Case, Mode, Results, Suite, Traces};
use lookaside_terminal::{plain, say};

/// Arguments of `lookaside litmus`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A folder with `.litmus` files and `.log` traces, or with the folders `aarch64-vmsa` and
    /// `casemate`.
    folder: PathBuf,
    /// FEAT_ETS2 off, on, or both in turn.
    #[arg(long, value_enum, default_value = "both")]
    mode: Modes,
    /// Show only this test, in detail: both sets of final states, the differences, and an execution that
    /// reaches each state that should not be reachable.
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// Count a test that cannot be read, or that has no recorded result, as a difference.
    #[arg(long)]
    strict: bool,
    /// Stop all tests after this many seconds. Unfinished tests are named.
    #[arg(long, value_name = "SECONDS", value_parser = lookaside_terminal::seconds)]
    budget: Option<Duration>,
    /// Memory for the states of one test, in MiB. A test that needs more is left unfinished.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,
    /// Output format.
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
    /// For programs; keys are stable.
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

/// The exit status if nothing differs but a test is unfinished.
const NOT_FINISHED: u8 = 3;

impl Arguments {
    fn bound(&self) -> Result<Bound, Box<dyn core::error::Error>> {
        let bytes = (self.memory as usize).checked_mul(1 << 20).ok_or("`--memory` is too large")?;
        // A time beyond the clock's range is no limit.
        let until = self.budget.and_then(|time| Instant::now().checked_add(time));
        Ok(Bound { bytes, until })
    }
}

/// Runs `lookaside litmus`. The exit status is 1 if anything differs from the recorded results, and 3 if nothing
/// differs but a test is unfinished.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let shown = arguments.folder.display();
    let (suite, traces) = open(&arguments.folder)?;
    let modes = arguments.mode.list();
    let bound = arguments.bound()?;
    if let Some(name) = &arguments.test {
        let case = suite.cases.iter().find(|case| case.litmus.name == *name);
        let case = case.ok_or_else(|| format!("`{shown}` has no test `{name}` that can be run"))?;
        return one(case, modes, bound);
    }
    let results = Results::of(&suite, &traces, modes, bound);
    match arguments.format {
        Format::Table => say!("{}", plain::text(&results.to_text()))?,
        Format::Json => say!("{}\n", plain::json(&format!("{:#}", results.to_json())))?,
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
    if suite.cases.is_empty() && traces.is_empty() {
        let first = suite.skipped.first().map(|one| format!("{}: {}", one.place, one.why));
        let why = first.unwrap_or_default();
        return Err(format!("`{shown}` has no test that can be read; the first: {why}").into());
    }
    Ok((suite, traces))
}

/// Shows one test in detail.
fn one(case: &Case, modes: &[Mode], bound: Bound) -> super::Result {
    let (mut agrees, mut finished) = (true, true);
    for &mode in modes {
        match case.compare(mode, bound) {
            Some(compared) => {
                say!("{}", plain::text(&litmus::in_full(case, &compared, bound)))?;
                agrees &= compared.exact();
            }
            None => {
                let name = plain::line(&case.litmus.name);
                say!("{name} ({}): not finished\n", mode.word())?;
                finished = false;
            }
        }
    }
    Ok(code(agrees, finished))
}

fn code(agrees: bool, finished: bool) -> ExitCode {
    match (agrees, finished) {
        (false, _) => ExitCode::from(1),
        (true, false) => ExitCode::from(NOT_FINISHED),
        (true, true) => ExitCode::SUCCESS,
    }
}
