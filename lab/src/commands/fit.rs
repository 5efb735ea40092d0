//! `lab fit`: the fitted numbers of machine files.

use std::process::ExitCode;

use lookaside_lab::reproduce::{
    Book, Run, fit,
    grid::{Grid, percent},
};

use super::progress;

/// What is to be fitted.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names of machines, as `lab list machines` shows them; all if there are none.
    machines: Vec<String>,
    /// Write the new numbers into the machine files.
    #[arg(long)]
    write: bool,
    /// What pseudo-random numbers begin with.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Fits it. The program ends with 1 if a published value is not met.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let book = Book::shipped()?;
    let bar = progress::count();
    let execute = |machine: &_, run: &Run| {
        bar.inc(1);
        run.measure(machine)
    };
    let fitted = fit(&book, &arguments.machines, &execute, arguments.seed)?;
    bar.finish_and_clear();
    let header = ["machine", "number", "fitted to", "old", "new", "unit", "error", "problem"];
    let mut grid = Grid::new(header, &[0, 1, 2, 5, 7]);
    for number in &fitted {
        grid.row([
            number.machine.clone(),
            number.name.clone(),
            number.to.clone(),
            number.old.to_string(),
            number.new.to_string(),
            number.unit.clone(),
            number.error.map(percent).unwrap_or_default(),
            number.problem.clone().unwrap_or_default(),
        ]);
    }
    print!("{}", grid.to_text());
    let met = fitted.iter().all(lookaside_lab::reproduce::Fitted::is_met);
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
