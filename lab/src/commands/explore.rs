//! `lab explore`: scenarios on the adversarial machine.

use core::time::Duration;
use std::{io, process::ExitCode};

use lookaside_lab::{
    explore::{self, Verdict},
    scenario::{self, Depth, Entry},
};
use lookaside_machine::explore::Schedule;

/// What is to be explored.
#[derive(clap::Args)]
pub(crate) struct Arguments {
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
}

/// Explores it.
pub(crate) fn run(arguments: Arguments) -> super::Result {
    let Arguments { scenario, schedule, budget, preemptions, random } = arguments;
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
