//! The command line of Lookaside.

mod commands;

#[cfg(not(all(feature = "checks", feature = "traces", target_os = "linux")))]
use std::ffi::OsString;
use std::{path::PathBuf, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(feature = "checks")]
use lookaside_explorer::explore;
use lookaside_simulation::data::Files;
use lookaside_terminal::{plain, tell};

/// TLB coherence for kernels: the laboratory.
#[derive(Parser)]
#[command(name = "lookaside", version, after_help = EXAMPLES)]
struct Arguments {
    /// Reads `machines/` and `published/` from this folder instead of using those that the program was
    /// built with.
    #[arg(long, global = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// What one begins with.
const EXAMPLES: &str = "Examples:
  lookaside record -- make -j8                 record a command (as root)
  lookaside record --pid 4711 --duration 10    record a server that runs already
  lookaside replay make.trace                  what TLB flushes and switches cost it
  lookaside advise make.trace --machine genoa  which way of flushing, and how sure that is
  lookaside what-if make.trace                 which setting of Linux would save most
  lookaside diff before.trace after.trace      what changed
  lookaside reproduce                          published benchmarks beside the model

`lookaside help COMMAND` has the options of a command, and examples.";

#[derive(Subcommand)]
enum Command {
    /// Runs published benchmarks on modelled machines and shows published and modelled values side by side.
    Reproduce(commands::reproduce::Arguments),
    /// Runs a workload with one or several strategies and compares them.
    Run(commands::run::Arguments),
    /// Runs a workload over many values of something, and shows curves, bands, and where curves cross.
    #[command(name = "sweep")]
    Vary(commands::sweep::Arguments),
    /// Shows what others published of workload files beside what the model predicts without being fitted to it.
    Experiments(commands::experiments::Arguments),
    /// Shows how the time of a run is distributed: by cause, by cache line, by CPU.
    Explain(commands::explain::Arguments),
    /// Lists machines, workloads, strategies and published results.
    List(commands::list::Arguments),
    /// Fits the fitted numbers of machine files to the published values that they name.
    Fit(commands::fit::Arguments),
    #[cfg(all(feature = "traces", target_os = "linux"))]
    #[command(flatten)]
    Record(commands::record::Command),
    /// Counts flushes by reason, pages, interrupts and time of processes, for Prometheus. Needs root.
    #[cfg(all(feature = "traces", target_os = "linux"))]
    Watch(commands::watch::Arguments),
    /// Reads a trace of a live system in any supported format and summarises it.
    #[cfg(feature = "traces")]
    Import(commands::import::Arguments),
    /// Replays a trace of a live system under several strategies, on a modelled machine.
    #[cfg(feature = "traces")]
    Replay(commands::replay::Arguments),
    /// Says which mechanism of flushing a machine should use for a recorded program, how certain that is, and what
    /// would settle it: on one page.
    #[cfg(feature = "traces")]
    Advise(commands::advise::Arguments),
    /// Shows what changed between two traces, or for one trace between two settings: by cause, by process and function.
    #[cfg(feature = "traces")]
    Diff(commands::diff::Arguments),
    /// Shows what a recorded program would spend under other settings of Linux.
    #[cfg(feature = "traces")]
    WhatIf(commands::what_if::Arguments),
    /// Replays traces under Linux's strategy and the library's, on every machine: the part of Linux's time that the
    /// library takes.
    #[cfg(feature = "traces")]
    AgainstLinux(commands::against_linux::Arguments),
    /// Measures this machine and writes a machine file.
    #[cfg(all(feature = "traces", target_os = "linux"))]
    Calibrate(commands::calibrate::Arguments),
    /// Runs litmus tests of address translation, checks traces, and compares both with recorded results.
    #[cfg(feature = "checks")]
    Litmus(commands::litmus::Arguments),
    /// Runs every small instruction program on two software machines and compares the possible outcomes.
    #[cfg(feature = "checks")]
    Differential(commands::differential::Arguments),
    /// Explores one scenario of the library on the adversarial machine, which does all that hardware may do.
    #[cfg(feature = "checks")]
    Explore(explore::Arguments),
    /// Explores all scenarios of the library on the adversarial machine, each round deeper than the last.
    #[cfg(feature = "checks")]
    Check(commands::check::Arguments),
    /// Explores the protocols of other systems on the adversarial machine, and shows which break and where.
    #[cfg(feature = "checks")]
    Zoo(commands::zoo::Arguments),
    /// Runs somebody's kernel under the TLB sanitizer: which fence is missing.
    #[cfg(feature = "checks")]
    Hunt(commands::hunt::Arguments),
    /// Prints completions of all commands for a shell.
    #[cfg(feature = "traces")]
    Completions(commands::shell::Completions),
    /// Writes pages of the manual for `man`.
    #[cfg(feature = "traces")]
    Man(commands::shell::Manual),
    /// What other systems and builds have, and this one has not.
    #[cfg(not(all(feature = "checks", feature = "traces", target_os = "linux")))]
    #[command(external_subcommand)]
    Absent(Vec<OsString>),
}

/// The commands. Where a number is wanted, `-1` is a number that is refused with the reason, and no unknown option.
fn commands() -> clap::Command {
    fn numbers(command: clap::Command) -> clap::Command {
        let takes = |argument: &clap::Arg| argument.get_action().takes_values();
        command
            .mut_args(|arg| if takes(&arg) { arg.allow_negative_numbers(true) } else { arg })
            .mut_subcommands(numbers)
    }
    numbers(Arguments::command())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_arg_matches(&commands().get_matches());
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    if let Some(Err(error)) = arguments.data.as_deref().map(Files::replace_own) {
        tell!("error: {}", plain::text(&error.to_string()));
        return ExitCode::from(2);
    }
    let result = match arguments.command {
        Command::Reproduce(arguments) => commands::reproduce::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Vary(arguments) => commands::sweep::run(&arguments),
        Command::Experiments(arguments) => commands::experiments::run(&arguments),
        Command::Explain(arguments) => commands::explain::run(&arguments),
        Command::List(arguments) => commands::list::run(&arguments),
        Command::Fit(arguments) => commands::fit::run(&arguments),
        #[cfg(all(feature = "traces", target_os = "linux"))]
        Command::Record(command) => commands::record::run(&command),
        #[cfg(all(feature = "traces", target_os = "linux"))]
        Command::Watch(arguments) => commands::watch::run(&arguments),
        #[cfg(feature = "traces")]
        Command::Import(arguments) => commands::import::run(&arguments),
        #[cfg(feature = "traces")]
        Command::Replay(arguments) => commands::replay::run(&arguments),
        #[cfg(feature = "traces")]
        Command::Advise(arguments) => commands::advise::run(&arguments),
        #[cfg(feature = "traces")]
        Command::Diff(arguments) => commands::diff::run(&arguments),
        #[cfg(feature = "traces")]
        Command::WhatIf(arguments) => commands::what_if::run(&arguments),
        #[cfg(feature = "traces")]
        Command::AgainstLinux(arguments) => commands::against_linux::run(&arguments),
        #[cfg(all(feature = "traces", target_os = "linux"))]
        Command::Calibrate(arguments) => commands::calibrate::run(&arguments),
        #[cfg(feature = "checks")]
        Command::Litmus(arguments) => commands::litmus::run(&arguments),
        #[cfg(feature = "checks")]
        Command::Differential(arguments) => commands::differential::run(&arguments),
        #[cfg(feature = "checks")]
        Command::Explore(arguments) => explore::run(arguments),
        #[cfg(feature = "checks")]
        Command::Check(arguments) => commands::check::run(&arguments),
        #[cfg(feature = "checks")]
        Command::Zoo(arguments) => commands::zoo::run(&arguments),
        #[cfg(feature = "checks")]
        Command::Hunt(arguments) => return commands::hunt::hunt(&arguments),
        #[cfg(feature = "traces")]
        Command::Completions(arguments) => {
            commands::shell::completions(&arguments, Arguments::command())
        }
        #[cfg(feature = "traces")]
        Command::Man(arguments) => commands::shell::manual(&arguments, Arguments::command()),
        #[cfg(not(all(feature = "checks", feature = "traces", target_os = "linux")))]
        Command::Absent(words) => Err(commands::absent::why(&words).into()),
    };
    result.unwrap_or_else(|error| {
        tell!("error: {}", plain::text(&error.to_string()));
        ExitCode::from(2)
    })
}
