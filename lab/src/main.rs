//! The command line of Lookaside.

mod commands;

#[cfg(feature = "clock")]
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
#[cfg(feature = "clock")]
use lookaside_lab::data::Files;
use lookaside_lab::plain;

/// TLB coherence for kernels: the laboratory.
#[derive(Parser)]
#[command(name = "lab", version)]
struct Arguments {
    /// Reads `machines/` and `published/` from this folder instead of using those that the program was
    /// built with.
    #[cfg(feature = "clock")]
    #[arg(long, global = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs published benchmarks on modelled machines and shows published and modelled values side by side.
    #[cfg(feature = "clock")]
    Reproduce(commands::reproduce::Arguments),
    /// Runs a workload with one or several strategies and compares them.
    #[cfg(feature = "clock")]
    Run(commands::run::Arguments),
    /// Shows how the time of a run is distributed: by cause, by cache line, by CPU.
    #[cfg(feature = "clock")]
    Explain(commands::explain::Arguments),
    /// Lists machines, workloads, strategies and published results.
    #[cfg(feature = "clock")]
    List(commands::list::Arguments),
    /// Fits the fitted numbers of machine files to the published values that they name.
    #[cfg(feature = "clock")]
    Fit(commands::fit::Arguments),
    /// Records what this system's kernel does, for one command or for all processes. Needs root.
    #[cfg(all(feature = "clock", target_os = "linux"))]
    Record(commands::record::Arguments),
    /// A helper process of `record`, which starts it.
    #[cfg(all(feature = "clock", target_os = "linux"))]
    #[command(hide = true)]
    RecordPart(commands::record::Part),
    /// Reads a trace of a live system in any supported format and summarises it.
    #[cfg(feature = "clock")]
    Import(commands::import::Arguments),
    /// Replays a trace of a live system under several strategies, on a modelled machine.
    #[cfg(feature = "clock")]
    Replay(commands::replay::Arguments),
    /// Measures this machine and writes a machine file.
    #[cfg(all(feature = "clock", target_os = "linux"))]
    Calibrate(commands::calibrate::Arguments),
    /// Runs litmus tests of address translation, checks traces, and compares both with recorded results.
    #[cfg(feature = "clock")]
    Litmus(commands::litmus::Arguments),
    /// Runs every small instruction program on two software machines and compares the possible outcomes.
    #[cfg(feature = "clock")]
    Differential(commands::differential::Arguments),
    /// Explores one scenario of the library on the adversarial machine, which does all that hardware may do.
    Explore(commands::explore::Arguments),
    /// Explores all scenarios of the library on the adversarial machine, each round deeper than the last.
    #[cfg(feature = "clock")]
    Check(commands::check::Arguments),
    /// Explores generated programs on the adversarial machine.
    #[cfg(not(feature = "clock"))]
    Check(commands::generate::Alone),
    /// Explores the protocols of other systems on the adversarial machine, and shows which break and where.
    #[cfg(feature = "clock")]
    Zoo(commands::zoo::Arguments),
    /// Runs somebody's kernel under the TLB sanitizer: which fence is missing.
    #[cfg(feature = "clock")]
    Hunt(commands::hunt::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(feature = "clock")]
    if let Some(Err(error)) = arguments.data.as_deref().map(Files::replace_own) {
        eprintln!("error: {}", plain::text(&error.to_string()));
        return ExitCode::from(2);
    }
    let result = match arguments.command {
        #[cfg(feature = "clock")]
        Command::Reproduce(arguments) => commands::reproduce::run(&arguments),
        #[cfg(feature = "clock")]
        Command::Run(arguments) => commands::run::run(&arguments),
        #[cfg(feature = "clock")]
        Command::Explain(arguments) => commands::explain::run(&arguments),
        #[cfg(feature = "clock")]
        Command::List(arguments) => commands::list::run(&arguments),
        #[cfg(feature = "clock")]
        Command::Fit(arguments) => commands::fit::run(&arguments),
        #[cfg(all(feature = "clock", target_os = "linux"))]
        Command::Record(arguments) => commands::record::run(&arguments),
        #[cfg(all(feature = "clock", target_os = "linux"))]
        Command::RecordPart(part) => commands::record::part(&part),
        #[cfg(feature = "clock")]
        Command::Import(arguments) => commands::import::run(&arguments),
        #[cfg(feature = "clock")]
        Command::Replay(arguments) => commands::replay::run(&arguments),
        #[cfg(all(feature = "clock", target_os = "linux"))]
        Command::Calibrate(arguments) => commands::calibrate::run(&arguments),
        #[cfg(feature = "clock")]
        Command::Litmus(arguments) => commands::litmus::run(&arguments),
        #[cfg(feature = "clock")]
        Command::Differential(arguments) => commands::differential::run(&arguments),
        Command::Explore(arguments) => commands::explore::run(arguments),
        #[cfg(feature = "clock")]
        Command::Check(arguments) => commands::check::run(&arguments),
        #[cfg(not(feature = "clock"))]
        Command::Check(arguments) => commands::generate::alone(&arguments),
        #[cfg(feature = "clock")]
        Command::Zoo(arguments) => commands::zoo::run(&arguments),
        #[cfg(feature = "clock")]
        Command::Hunt(arguments) => return commands::hunt::hunt(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {}", plain::text(&error.to_string()));
        ExitCode::from(2)
    })
}
