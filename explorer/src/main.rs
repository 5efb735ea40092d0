//! `explorer`: explores one scenario, or generated programs, and has nothing else of the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lookaside_explorer::{explore, generate};
use lookaside_terminal::plain;

/// The explorer of Lookaside alone. `lab` has all commands.
#[derive(Parser)]
#[command(name = "lookaside-explorer", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explores one scenario of the library on the adversarial machine, which does all that hardware may do.
    Explore(explore::Arguments),
    /// Explores generated programs on the adversarial machine.
    Check(generate::Alone),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Explore(arguments) => explore::run(arguments),
        Command::Check(arguments) => generate::alone(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {}", plain::text(&error.to_string()));
        ExitCode::from(2)
    })
}
