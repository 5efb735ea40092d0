//! The command line of Lookaside.

mod commands;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use lookaside_lab::data::Files;

/// TLB coherence for kernels: the laboratory.
#[derive(Parser)]
#[command(name = "lab", version)]
struct Arguments {
    /// Reads `machines/` and `published/` from this folder instead of using those that the program was
    /// built with.
    #[arg(long, global = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs what was published, on modelled machines, and shows both beside each other.
    Reproduce(commands::reproduce::Arguments),
    /// Runs a workload with one strategy or several, beside each other.
    Run(commands::run::Arguments),
    /// Shows where the time of a run went: by cause, by cache line, by CPU.
    Explain(commands::explain::Arguments),
    /// Shows what there is: machines, workloads, strategies, results.
    List(commands::list::Arguments),
    /// Sets the fitted numbers of machine files so that the model gives what they are fitted to.
    Fit(commands::fit::Arguments),
    /// Runs the library on a machine that does everything hardware may do, and looks for harm.
    Explore(commands::explore::Arguments),
}

fn main() -> ExitCode {
    let Arguments { data, command } = Arguments::parse();
    if let Some(Err(error)) = data.as_deref().map(Files::replace_own) {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    let result = match command {
        Command::Reproduce(arguments) => commands::reproduce::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Explain(arguments) => commands::explain::run(&arguments),
        Command::List(arguments) => commands::list::run(&arguments),
        Command::Fit(arguments) => commands::fit::run(&arguments),
        Command::Explore(arguments) => commands::explore::run(arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}
