//! The command line of Lookaside.

use core::time::Duration;
use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};
use lookaside_lab::{
    explore::{self, Verdict},
    scenario::{self, Depth, Entry},
};
use lookaside_machine::explore::Schedule;

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
        #[arg(conflicts_with = "schedule")]
        scenario: Option<String>,
        /// Run this one schedule again, as a failure prints it.
        #[arg(long, value_name = "v1:...", conflicts_with_all = ["budget", "preemptions", "random"])]
        schedule: Option<String>,
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
    let Command::Explore { scenario, schedule, budget, preemptions, random } = command;
    if let Some(text) = schedule {
        let schedule: Schedule = text.parse()?;
        let entry = named(schedule.scenario())?;
        return Ok(code(explore::replay(entry, &schedule, &mut io::stdout())?));
    }
    let Some(name) = scenario else {
        for entry in scenario::all() {
            println!("{:24} {}", entry.name, entry.about);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let entry = named(&name)?;
    let depth = preemptions.map(Depth::Bounded).or(random.map(Depth::Random));
    let budget = budget.map(Duration::try_from_secs_f64).transpose()?;
    Ok(code(explore::explore(entry, depth, budget, &mut io::stdout())?))
}

fn named(name: &str) -> Result<&'static Entry, String> {
    scenario::find(name)
        .ok_or_else(|| format!("there is no scenario `{name}`; `lab explore` lists them"))
}

fn code(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Clean => ExitCode::SUCCESS,
        Verdict::Broken => ExitCode::from(1),
    }
}
