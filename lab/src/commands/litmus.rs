//! `lab litmus`: tests and traces of others, and whether the machine agrees.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::ValueEnum;
use lookaside_lab::litmus::{self, Case, Mode, Results, Suite, Traces};

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

/// Runs it. The program ends with 1 if anything differs from what is recorded.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let shown = arguments.folder.display();
    let (suite, traces) = open(&arguments.folder)?;
    let modes = arguments.mode.list();
    if let Some(name) = &arguments.test {
        let case = suite.cases.iter().find(|case| case.litmus.name == *name);
        let case = case.ok_or_else(|| format!("`{shown}` has no test `{name}` that can be run"))?;
        return Ok(code(one(case, modes)));
    }
    let results = Results::of(&suite, &traces, modes);
    match arguments.format {
        Format::Table => print!("{}", results.to_text()),
        Format::Json => println!("{:#}", results.to_json()),
    }
    Ok(code(results.agree(arguments.strict)))
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

/// One test in full; whether it agrees.
fn one(case: &Case, modes: &[Mode]) -> bool {
    let mut agrees = true;
    for &mode in modes {
        match case.compare(mode) {
            Some(compared) => {
                print!("{}", litmus::in_full(case, &compared));
                agrees &= compared.exact();
            }
            None => {
                println!("{} ({}): too many states", case.litmus.name, mode.word());
                agrees = false;
            }
        }
    }
    agrees
}

fn code(agree: bool) -> ExitCode {
    ExitCode::from(u8::from(!agree))
}
