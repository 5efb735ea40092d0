//! `lookaside check`: explores every protocol on the adversarial machine, in ever deeper rounds, within a budget.

use core::{num::NonZero, time::Duration};
use std::{
    env, fs,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    thread,
};

use lookaside_checking::{
    check::{self, Outcome, Request, Shard, Until},
    litmus::{Bound, Mode, Results},
};
use lookaside_explorer::generate::{self, Limits};
use lookaside_machine::explore::Budget;
use lookaside_scenarios::{generate::Outcome as Generated, zoo};
use lookaside_terminal::Refused;
use serde_json::json;

use super::{
    output::{Format, Output},
    progress,
};

/// Arguments of `lookaside check`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Protocols, or scenarios that `lookaside explore` lists; all if none is given.
    #[arg(value_name = "PROTOCOL")]
    protocols: Vec<String>,
    /// Stop after this many seconds. Default: 60, unless another limit is given.
    #[arg(long, value_name = "SECONDS", value_parser = lookaside_terminal::seconds)]
    budget: Option<Duration>,
    /// Stop after this many steps, which the scenarios share equally.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Explore all schedules with this many pre-emptions in every scenario (one fewer where there are three
    /// CPUs), however many steps and rounds that takes; then stop, unless `--steps`, `--rounds` or `--budget`
    /// leave more. Not reaching this depth is a failure.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(check::DEEPEST)))]
    preemptions: Option<u32>,
    /// Stop when every scenario has had this many rounds. The result then does not depend on the clock if
    /// the budget suffices.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// Explore only this part of the rounds: part I of N, counted from 0.
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    shard: Shard,
    /// Number of threads. Default: the number of processors.
    #[arg(long, value_name = "N", value_parser = lookaside_terminal::threads)]
    threads: Option<NonZero<usize>>,
    /// Also judge the protocols of other systems (`lookaside zoo`).
    #[arg(long)]
    zoo: bool,
    /// Also run the litmus tests and traces of this folder (`lookaside litmus`).
    #[arg(long, value_name = "FOLDER")]
    litmus: Option<PathBuf>,
    /// Also run the mutants: `cargo xtask mutants` in the current workspace.
    #[arg(long)]
    mutants: bool,
    /// Check nothing; merge the results of all shards, as `--format json` wrote them.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with_all = ["protocols", "shard", "preemptions", "zoo", "litmus", "mutants"]
    )]
    merge: Vec<PathBuf>,
    #[command(flatten)]
    generate: generate::Arguments,
    #[command(flatten)]
    output: Output,
}

/// Runs `lookaside check`. The exit status is 1 if a rule is broken.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let output = &arguments.output;
    output.check()?;
    if !matches!(output.format, Format::Table | Format::Json) {
        return Err(Refused("`lookaside check` writes `table` and `json`".to_owned()).into());
    }
    if arguments.generate.is_asked() {
        return generate(arguments);
    }
    let outcome = if arguments.merge.is_empty() { explore(arguments)? } else { merge(arguments)? };
    output.write(&match output.format {
        Format::Json => outcome.to_json(),
        _ => check::to_text(&outcome),
    })?;
    Ok(if outcome.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Checks generated programs.
fn generate(arguments: &Arguments) -> super::Result {
    let Arguments { protocols, merge, zoo, mutants, litmus, rounds, preemptions, shard, .. } =
        arguments;
    if !(protocols.is_empty() && merge.is_empty() && litmus.is_none())
        || *zoo
        || *mutants
        || rounds.is_some()
        || preemptions.is_some()
        || *shard != Shard::WHOLE
    {
        let why = "`--generate` checks generated programs only: it combines with `--budget`, `--steps`, \
                   `--seed`, `--threads` and the options that need it";
        return Err(Refused(why.to_owned()).into());
    }
    let limits = Limits {
        seed: arguments.seed,
        budget: arguments.budget,
        steps: arguments.steps,
        threads: arguments.threads,
    };
    let bar = progress::checking();
    let outcome = generate::run(&arguments.generate, &limits, &|now| {
        let message = format!(
            "{} programs, {} of {} pairs, {} broken",
            now.scripts, now.pairs.covered, now.pairs.total, now.failures
        );
        bar.set_position(now.steps / 1_000_000);
        bar.set_message(message);
    })?;
    bar.finish_and_clear();
    arguments.output.write(&match arguments.output.format {
        Format::Json => to_json(&outcome),
        _ => generate::to_text(&outcome),
    })?;
    Ok(generate::code(&outcome))
}

/// The outcome of generated programs as JSON.
fn to_json(outcome: &Generated) -> String {
    let failures: Vec<_> = outcome
        .failures
        .iter()
        .map(|failing| {
            json!({
                "script": failing.script, "schedule": failing.schedule, "rule": failing.rule,
            })
        })
        .collect();
    let document = json!({
        "version": 1,
        "scripts": outcome.scripts,
        "steps": outcome.steps,
        "seconds": outcome.seconds,
        "stale": outcome.stale(),
        "panics": outcome.panics(),
        "pairs": { "covered": outcome.pairs.covered, "total": outcome.pairs.total },
        "failures": failures,
    });
    format!("{document:#}\n")
}

fn explore(arguments: &Arguments) -> Result<Outcome, Box<dyn core::error::Error>> {
    let request = Request {
        subjects: check::select(&arguments.protocols)?,
        seed: arguments.seed.into(),
        shard: arguments.shard,
        until: until(arguments),
        threads: arguments
            .threads
            .or_else(|| thread::available_parallelism().ok())
            .map_or(1, NonZero::get),
    };
    let bar = progress::checking();
    let mut outcome = check::run(&request, &|now| {
        bar.set_position(now.steps / 1_000_000);
        bar.set_message(format!(
            "round {}: {} of {} scenarios explored in full, {} broken",
            now.round, now.exhausted, now.scenarios, now.stale
        ));
    });
    bar.finish_and_clear();
    if arguments.zoo {
        outcome.add_zoo(zoo::all().map(|protocol| zoo::judge(protocol, Budget::UNLIMITED)));
    }
    if let Some(folder) = &arguments.litmus {
        let (suite, traces) = super::litmus::open(folder)?;
        outcome.add_litmus(&Results::of(&suite, &traces, &Mode::ALL, Bound::default()));
    }
    if arguments.mutants {
        outcome.add_mutants(mutants()?);
    }
    Ok(outcome)
}

/// The limits of the run. `--preemptions` without another limit ends the run at that depth.
fn until(arguments: &Arguments) -> Until {
    let Arguments { budget, steps, rounds, preemptions: least, .. } = *arguments;
    let otherwise = if least.is_none() { Duration::from_secs(60) } else { Duration::MAX };
    let more = least.is_none() || budget.is_some() || steps.is_some() || rounds.is_some();
    Until {
        time: budget.unwrap_or(otherwise),
        steps: steps.unwrap_or(if more { u64::MAX } else { 0 }),
        rounds: rounds.unwrap_or(u32::MAX),
        least,
    }
}

/// The result of `cargo xtask mutants`.
fn mutants() -> Result<serde_json::Value, Box<dyn core::error::Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = Command::new(cargo)
        .args(["xtask", "mutants", "--format", "json"])
        .stderr(Stdio::inherit())
        .output()?;
    serde_json::from_slice(&run.stdout).map_err(|error| {
        let why = match run.stdout.is_empty() {
            true => "run this in a folder of Lookaside's repository".to_owned(),
            false => error.to_string(),
        };
        format!("`cargo xtask mutants` gave no result ({}): {why}", run.status).into()
    })
}

fn merge(arguments: &Arguments) -> Result<Outcome, Box<dyn core::error::Error>> {
    let read = |path: &PathBuf| -> Result<Outcome, Box<dyn core::error::Error>> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("`{shown}`: {error}"))?;
        let what = "nothing that `lookaside check --format json` has written";
        Ok(serde_json::from_str(&text).map_err(|error| format!("`{shown}`: {what}: {error}"))?)
    };
    let parts = arguments.merge.iter().map(read).collect::<Result<_, _>>()?;
    Ok(Outcome::merge(parts)?)
}
