//! `lookaside check --generate`: explores randomly generated programs on the adversarial machine.

use core::{num::NonZero, time::Duration};
use std::{fs, path::PathBuf, process::ExitCode, thread};

use lookaside_scenarios::generate::{self, Outcome, Progress, Request};
use lookaside_terminal::{counted, say};

/// Options of `--generate`.
#[derive(clap::Args)]
// `lookaside check` has them beside its own, whose group has the same name.
#[group(skip)]
pub struct Arguments {
    /// Check generated programs instead of the scenarios of the catalogue.
    #[arg(long)]
    generate: bool,
    /// Stop after this many generated programs. The result then depends neither on the clock nor on the
    /// number of threads if the budget suffices.
    #[arg(long, value_name = "N", requires = "generate", value_parser = clap::value_parser!(u64).range(1..))]
    scripts: Option<u64>,
    /// Explore each generated program for about this many steps.
    #[arg(long, value_name = "N", requires = "generate", default_value_t = 20_000)]
    effort: u64,
    /// Stop after this many failing programs.
    #[arg(long, value_name = "N", requires = "generate", default_value_t = 1)]
    failures: usize,
    /// Write each failing program into this folder, as an entry of the catalogue.
    #[arg(long, value_name = "FOLDER", requires = "generate")]
    keep: Option<PathBuf>,
}

impl Arguments {
    /// Whether programs are generated.
    pub const fn is_asked(&self) -> bool {
        self.generate
    }
}

/// Length of a run without any limit.
const MINUTE: Duration = Duration::from_secs(60);

/// Limits, seed and threads of a run.
pub struct Limits {
    /// Seed of the random numbers.
    pub seed: u32,
    /// The longest time.
    pub budget: Option<Duration>,
    /// The most steps.
    pub steps: Option<u64>,
    /// The number of threads; without it, that of the processors.
    pub threads: Option<NonZero<usize>>,
}

/// Generates and explores programs, and keeps failing ones if `--keep` is given.
///
/// # Errors
///
/// If an argument is 0 that must not be, or a failing program cannot be written.
pub fn run(
    arguments: &Arguments,
    limits: &Limits,
    progress: &(dyn Fn(Progress) + Sync),
) -> crate::Result<Outcome> {
    let refuse = |what: &str| Err(format!("`{what} 0` asks for nothing").into());
    if arguments.effort == 0 {
        return refuse("--effort");
    }
    if arguments.failures == 0 {
        return refuse("--failures");
    }
    let bounded = arguments.scripts.is_some() || limits.steps.is_some();
    let time = match limits.budget {
        None if bounded => Duration::MAX,
        budget => budget.unwrap_or(MINUTE),
    };
    if let Some(folder) = &arguments.keep {
        // A failing program that took an hour to find must not be lost for a folder that cannot be made.
        fs::create_dir_all(folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    }
    let request = Request {
        seed: u64::from(limits.seed),
        scripts: arguments.scripts.unwrap_or(u64::MAX),
        steps: limits.steps.unwrap_or(u64::MAX),
        time,
        effort: arguments.effort,
        failures: arguments.failures,
        threads: limits
            .threads
            .or_else(|| thread::available_parallelism().ok())
            .map_or(1, NonZero::get),
    };
    let outcome = generate::run(&request, progress);
    if let Some(folder) = &arguments.keep {
        for failing in &outcome.failures {
            let path = generate::keep(failing, folder)
                .map_err(|error| format!("`{}`: {error}", folder.display()))?;
            eprintln!("kept as {}", path.display());
        }
    }
    Ok(outcome)
}

/// The outcome as text.
pub fn to_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    for failing in &outcome.failures {
        text.push_str(&format!(
            "program {} breaks a rule: {}: {}\n  {}\nschedule: {}\n    see it: lookaside explore --schedule \
             '{}'\n\n",
            failing.number,
            failing.rule,
            failing.message,
            failing.script,
            failing.schedule,
            failing.schedule
        ));
    }
    let Outcome { scripts, steps, seconds, pairs, .. } = outcome;
    let verdict = match outcome.failures.len() {
        0 => "clean: no rule was broken".to_owned(),
        1 => "A RULE WAS BROKEN in 1 program".to_owned(),
        count => format!("RULES WERE BROKEN in {count} programs"),
    };
    let seen = outcome.seen.iter().copied().collect::<Vec<_>>().join(", ");
    text + &format!(
        "{verdict}: {}, {:.1} million steps in {seconds:.1} s ({:.1} million a second)\n{} of {} \
         pairs of operations on one space, operations at {} places of the library; seen: {seen}\n",
        counted(*scripts as usize, "program", "programs"),
        *steps as f64 / 1e6,
        *steps as f64 / seconds.max(1e-9) / 1e6,
        pairs.covered,
        pairs.total,
        outcome.sites.len(),
    )
}

/// The exit status: 1 if a program failed.
pub fn code(outcome: &Outcome) -> ExitCode {
    if outcome.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Arguments of `explorer check`.
#[derive(clap::Args)]
pub struct Alone {
    #[command(flatten)]
    generate: Arguments,
    /// Stop after this many seconds. Default: 60, unless another limit is given.
    #[arg(long, value_name = "SECONDS", value_parser = lookaside_terminal::seconds)]
    budget: Option<Duration>,
    /// Stop after this many steps.
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// Number of threads. Default: the number of processors.
    #[arg(long, value_name = "N", value_parser = lookaside_terminal::threads)]
    threads: Option<NonZero<usize>>,
}

/// Checks generated programs. The exit status is 1 if a rule is broken.
///
/// # Errors
///
/// Without `--generate`, and as [`run`].
pub fn alone(arguments: &Alone) -> crate::Result {
    let Alone { generate, budget, steps, seed, threads } = arguments;
    if !generate.is_asked() {
        return Err("this program checks generated programs (`--generate`); `lookaside check` checks the catalogue".into());
    }
    let limits = Limits { seed: *seed, budget: *budget, steps: *steps, threads: *threads };
    let outcome = run(generate, &limits, &|_| ())?;
    say!("{}", to_text(&outcome))?;
    Ok(code(&outcome))
}
