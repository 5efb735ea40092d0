//! The command line of Lookaside.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// TLB coherence for kernels: the laboratory.
#[derive(Parser)]
#[command(name = "lab", version)]
struct Arguments {
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
    let result = match Arguments::parse().command {
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
