//! `lookaside fit`: the fitted numbers of machine files.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use lookaside_simulation::{
    data,
    reproduce::{Book, Fitted, Run, fit},
};
use lookaside_terminal::{
    Refused,
    grid::{Grid, percent, wrapped},
    say,
};

use super::progress;

/// Arguments of `lookaside fit`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names of machines, as `lookaside list machines` shows them; all if none is given.
    machines: Vec<String>,
    /// Write the new numbers into the machine files.
    #[arg(long)]
    write: bool,
    /// Seed of the pseudo-random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs `lookaside fit`. The exit status is 1 if a published value is not met.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let book = Book::shipped()?;
    let bar = progress::styled(None, "{pos} runs, {elapsed}", "runs");
    let execute = |machine: &_, run: &Run| {
        bar.inc(1);
        run.measure(machine)
    };
    let fitted = fit(&book, &arguments.machines, &execute, arguments.seed)?;
    bar.finish_and_clear();
    let header = ["machine", "number", "fitted to", "old", "new", "unit", "off by"];
    let mut grid = Grid::new(header, &[0, 1, 2, 5]);
    for number in &fitted {
        grid.row([
            number.machine.clone(),
            number.name.clone(),
            number.to.clone(),
            number.old.to_string(),
            number.new.to_string(),
            number.unit.clone(),
            number.error.map(percent).unwrap_or_default(),
        ]);
    }
    say!("{}", grid.to_text())?;
    for Fitted { machine, name, problem, .. } in &fitted {
        if let Some(problem) = problem {
            say!("{}", wrapped(&format!("`{name}` of `{machine}`: {problem}"), 0))?;
        }
    }
    if arguments.write {
        for number in fitted.iter().filter(|number| number.new != number.old) {
            data::rewrite(&file(&book, number)?, &number.name, number.new)?;
        }
    }
    let met = fitted.iter().all(Fitted::is_met);
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The file of the machine of a number: its path from here, or from a directory above.
fn file(book: &Book, number: &Fitted) -> Result<PathBuf, Refused> {
    let name = &book.machine(&number.machine)?.file;
    let here = env::current_dir().unwrap_or_default();
    let found = here.ancestors().map(|above| above.join(name)).find(|path| Path::is_file(path));
    found.ok_or_else(|| Refused(format!("`{name}` is neither here nor in a directory above")))
}
