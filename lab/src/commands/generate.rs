//! `lab check --generate`: programs that nobody has written, on the adversarial machine.

use core::{num::NonZero, time::Duration};
use std::{path::PathBuf, process::ExitCode, thread};

use lookaside_lab::generate::{self, Outcome, Progress, Request};

/// What is to be generated.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Check programs that are generated instead of the catalogue's.
    #[arg(long)]
    generate: bool,
    /// End after so many generated programs. Then the result does not depend on the clock, nor on the number of
    /// threads, if the budget suffices.
    #[arg(long, value_name = "N", requires = "generate")]
    scripts: Option<u64>,
    /// Explore each generated program for about so many steps.
    #[arg(long, value_name = "N", requires = "generate", default_value_t = 20_000)]
    effort: u64,
    /// End after so many generated programs that fail.
    #[arg(long, value_name = "N", requires = "generate", default_value_t = 1)]
    failures: usize,
    /// Write each that fails into this folder, as an entry of the catalogue.
    #[arg(long, value_name = "FOLDER", requires = "generate")]
    keep: Option<PathBuf>,
}

impl Arguments {
    /// Whether programs are generated.
    pub(crate) const fn is_asked(&self) -> bool {
        self.generate
    }
}

/// How long a run takes that nothing else ends.
const SECONDS: f64 = 60.0;

/// What ends a run, and how it is done.
pub(crate) struct Limits {
    pub(crate) seed: u32,
    pub(crate) budget: Option<f64>,
    pub(crate) steps: Option<u64>,
    pub(crate) threads: Option<NonZero<usize>>,
}

/// Generates programs, explores them, and keeps what is to be kept.
pub(crate) fn run(
    arguments: &Arguments,
    limits: &Limits,
    progress: &(dyn Fn(Progress) + Sync),
) -> super::Result<Outcome> {
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
        budget => {
            let seconds = budget.unwrap_or(SECONDS);
            Duration::try_from_secs_f64(seconds)
                .map_err(|error| format!("`--budget {seconds}`: {error}"))?
        }
    };
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
pub(crate) fn to_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    for failing in &outcome.failures {
        text.push_str(&format!(
            "program {} breaks a rule: {}: {}\n  {}\nschedule: {}\n    see it: cargo lab explore --schedule \
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
        "{verdict}: {scripts} programs, {:.1} million steps in {seconds:.1} s ({:.1} million a second)\n{} of {} \
         pairs of operations on one space, operations at {} places of the library; seen: {seen}\n",
        *steps as f64 / 1e6,
        *steps as f64 / seconds.max(1e-9) / 1e6,
        pairs.covered,
        pairs.total,
        outcome.sites.len(),
    )
}

/// How the program ends.
pub(crate) fn code(outcome: &Outcome) -> ExitCode {
    if outcome.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// All there is of `lab check` where only scenarios and their explorer are built.
#[cfg(not(feature = "clock"))]
#[derive(clap::Args)]
pub(crate) struct Alone {
    #[command(flatten)]
    generate: Arguments,
    /// End after so many seconds: 60 if nothing else says when it ends.
    #[arg(long, value_name = "SECONDS")]
    budget: Option<f64>,
    /// End when so many steps were explored.
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// What the random numbers begin with.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// On how many threads; as many as there are processors if not given.
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

/// Checks generated programs. The program ends with 1 if a rule is broken.
#[cfg(not(feature = "clock"))]
pub(crate) fn alone(arguments: &Alone) -> super::Result {
    let Alone { generate, budget, steps, seed, threads } = arguments;
    if !generate.is_asked() {
        return Err("the catalogue is checked by a build with the feature `clock`".into());
    }
    let limits = Limits { seed: *seed, budget: *budget, steps: *steps, threads: *threads };
    let outcome = run(generate, &limits, &|_| ())?;
    print!("{}", to_text(&outcome));
    Ok(code(&outcome))
}
