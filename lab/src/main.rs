//! The command line of Lookaside.

use core::time::Duration;
use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};
use lookaside_lab::{
    explore::{self, Verdict},
    scenario::{self, Depth},
};

/// TLB coherence for kernels: the laboratory.
#[derive(Parser)]
#[command(name = "lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the library on a machine that does everything hardware may do, and looks for harm.
    Explore {
        /// The scenario; without one, all of them are listed.
        scenario: Option<String>,
        /// Give up after so many seconds.
        #[arg(long, value_name = "SECONDS")]
        budget: Option<f64>,
        /// Explore everything with at most so many pre-emptions.
        #[arg(long, value_name = "N", conflicts_with = "random")]
        preemptions: Option<u32>,
        /// Explore so many executions at random and as many by PCT.
        #[arg(long, value_name = "N")]
        random: Option<u64>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Box<dyn core::error::Error>> {
    let Command::Explore { scenario, budget, preemptions, random } = command;
    let Some(name) = scenario else {
        for entry in scenario::all() {
            println!("{:24} {}", entry.name, entry.about);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(entry) = scenario::find(&name) else {
        return Err(format!("there is no scenario `{name}`; `lab explore` lists them").into());
    };
    let depth = preemptions.map(Depth::Bounded).or(random.map(Depth::Random));
    let budget = budget.map(Duration::try_from_secs_f64).transpose()?;
    match explore::explore(entry, depth, budget, &mut io::stdout())? {
        Verdict::Clean => Ok(ExitCode::SUCCESS),
        Verdict::Broken => Ok(ExitCode::from(1)),
    }
}
