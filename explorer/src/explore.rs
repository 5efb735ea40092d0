//! `lookaside explore`: scenarios on the adversarial machine.

use core::time::Duration;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use lookaside_machine::explore::Schedule;
use lookaside_scenarios::{
    explore::{self, Verdict},
    scenario::{self, Depth, Entry, Program, ProgramError},
    zoo::{self, Form},
};
use lookaside_terminal::{Stdout, say};

/// Arguments of `lookaside explore`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The scenario, or a program as `lookaside check --generate` prints it. Without it, all scenarios are listed.
    #[arg(conflicts_with = "schedule")]
    scenario: Option<String>,
    /// Replay this schedule, as a failure prints it.
    #[arg(long, value_name = "v1:...", conflicts_with_all = ["budget", "preemptions", "random"])]
    schedule: Option<String>,
    /// Stop after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = lookaside_terminal::seconds)]
    budget: Option<Duration>,
    /// Explore all schedules with at most this many pre-emptions.
    #[arg(long, value_name = "N", conflicts_with = "random")]
    preemptions: Option<u32>,
    /// Explore this many random schedules and as many PCT schedules.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    random: Option<u64>,
    /// Do not explore; write page-table traces into this folder, in the format of casemate, which
    /// `lookaside litmus` reads. The traces are of the default schedule, of `--schedule`, or of `--random` schedules. For Arm
    /// scenarios and for protocols of the zoo (`zoo/NAME`).
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["budget", "preemptions"])]
    casemate: Option<PathBuf>,
}

/// Runs `lookaside explore`. The exit status is 1 if a rule is broken.
///
/// # Errors
///
/// If there is no such scenario, an argument or a schedule does not fit, or the output cannot be written.
pub fn run(arguments: Arguments) -> crate::Result {
    let Arguments { scenario, schedule, budget, preemptions, random, casemate } = arguments;
    if let Some(folder) = casemate {
        return export(scenario, schedule, random, &folder);
    }
    if let Some(text) = schedule {
        let schedule: Schedule = text.parse()?;
        let entry = named(schedule.scenario())?;
        return Ok(code(explore::replay(entry, &schedule, &mut Stdout)?));
    }
    let Some(name) = scenario else {
        for entry in scenario::all() {
            say!("{:24} {}\n", entry.name, entry.about)?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let entry = named(&name)?;
    let depth = preemptions.map(Depth::Bounded).or(random.map(Depth::Random));
    Ok(code(explore::explore(entry, depth, budget, &mut Stdout)?))
}

/// Writes schedules as casemate traces.
fn export(
    scenario: Option<String>,
    schedule: Option<String>,
    random: Option<u64>,
    folder: &Path,
) -> crate::Result {
    let schedule = match (schedule, &scenario) {
        (Some(text), _) => text.parse()?,
        (None, Some(name)) => Schedule::default_of(name.as_str()),
        (None, None) => return Err("`--casemate` needs a scenario or a schedule".into()),
    };
    let mut explored = match zoo::of(&schedule) {
        Some(protocol) => protocol.open(Form::Described),
        None => named(schedule.scenario())?.open(),
    };
    let schedules = match random {
        Some(count) => explored.at_random(1, count),
        None => vec![schedule],
    };
    let verdict = explore::export(&mut explored, &schedules, folder, &mut Stdout);
    Ok(code(verdict.map_err(|error| format!("`{}`: {error}", folder.display()))?))
}

fn named(name: &str) -> Result<&'static Entry, String> {
    // Only generated programs contain a script in brackets; names of scenarios do not.
    if name.contains('[') {
        return name
            .parse()
            .map(Program::into_entry)
            .map_err(|error: ProgramError| error.to_string());
    }
    scenario::find(name)
        .ok_or_else(|| format!("there is no scenario `{name}`; `lookaside explore` lists them"))
}

fn code(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Clean => ExitCode::SUCCESS,
        Verdict::Broken => ExitCode::from(1),
    }
}
