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
    /// Runs what was published, on modelled machines, and shows both beside each other.
    #[cfg(feature = "clock")]
    Reproduce(commands::reproduce::Arguments),
    /// Runs a workload with one strategy or several, beside each other.
    #[cfg(feature = "clock")]
    Run(commands::run::Arguments),
    /// Shows where the time of a run went: by cause, by cache line, by CPU.
    #[cfg(feature = "clock")]
    Explain(commands::explain::Arguments),
    /// Shows what there is: machines, workloads, strategies, results.
    #[cfg(feature = "clock")]
    List(commands::list::Arguments),
    /// Sets the fitted numbers of machine files so that the model gives what they are fitted to.
    #[cfg(feature = "clock")]
    Fit(commands::fit::Arguments),
    /// Records what the kernel of this system does: for a command, or everywhere. Needs root.
    #[cfg(all(feature = "clock", target_os = "linux"))]
    Record(commands::record::Arguments),
    /// A part of a recording, which it starts itself.
    #[cfg(all(feature = "clock", target_os = "linux"))]
    #[command(hide = true)]
    RecordPart(commands::record::Part),
    /// Reads a trace of a live system, in whatever format it has, and says what it holds.
    #[cfg(feature = "clock")]
    Import(commands::import::Arguments),
    /// Replays a trace of a live system under several strategies, on a modelled machine.
    #[cfg(feature = "clock")]
    Replay(commands::replay::Arguments),
    /// Measures this machine, and writes a machine file.
    #[cfg(all(feature = "clock", target_os = "linux"))]
    Calibrate(commands::calibrate::Arguments),
    /// Runs litmus tests of address translation, and checks traces, and compares with what is recorded.
    #[cfg(feature = "clock")]
    Litmus(commands::litmus::Arguments),
    /// Runs every small program of instructions on two machines in software, and compares how they can end.
    #[cfg(feature = "clock")]
    Differential(commands::differential::Arguments),
    /// Runs one scenario of the library on a machine that does everything hardware may do.
    Explore(commands::explore::Arguments),
    /// Runs all scenarios of the library there, ever deeper, and looks for harm.
    #[cfg(feature = "clock")]
    Check(commands::check::Arguments),
    /// Runs generated programs there, and looks for harm.
    #[cfg(not(feature = "clock"))]
    Check(commands::generate::Alone),
    /// Runs the protocols of other systems on the same machine: where they break, or that they do not.
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
