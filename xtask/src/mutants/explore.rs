//! Running the explorer, and reading what it says.

use core::time::Duration;
use std::{
    io::Read,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Instant,
};

use crate::failure::{Context, Result};

/// Beyond its budget the explorer gets this long to come to an end. A mutant may well loop.
const PATIENCE: Duration = Duration::from_secs(30);
/// How a line with a schedule begins.
const SCHEDULE: &str = "schedule: ";
/// How a schedule begins.
const VERSION: &str = "v1:";

/// One run of the explorer.
#[derive(Debug)]
pub(super) struct Exploration {
    /// Its exit code; none if it was killed.
    pub(super) code: Option<i32>,
    /// What it printed.
    pub(super) output: String,
    /// How long it took.
    pub(super) seconds: f64,
}

/// What a run of the explorer says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No violation.
    Clean,
    /// A violation, and how to see it again.
    Found { schedule: String, schedules: Option<u64> },
    /// It did not do its work.
    Broken(String),
}

impl Exploration {
    pub(super) fn verdict(&self) -> Verdict {
        match self.code {
            Some(0) => Verdict::Clean,
            Some(1) => self.schedule().map_or_else(
                || self.broken("says it found a violation, but gives no schedule"),
                |schedule| Verdict::Found {
                    schedule: schedule.to_owned(),
                    schedules: count(&self.output),
                },
            ),
            Some(2) => self.broken("does not understand the command line"),
            Some(code) => self.broken(&format!("ended with exit code {code}")),
            None => self.broken("was killed, by a signal or because it ran far beyond its budget"),
        }
    }

    fn schedule(&self) -> Option<&str> {
        let schedules = self.output.lines().filter_map(|line| line.trim().strip_prefix(SCHEDULE));
        schedules
            .map(str::trim)
            .find(|schedule| schedule.strip_prefix(VERSION).is_some_and(|steps| !steps.is_empty()))
    }

    fn broken(&self, why: &str) -> Verdict {
        let last: Vec<&str> = self.output.lines().rev().take(20).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Verdict::Broken(format!("the explorer {why}. It printed:\n{}", last.join("\n")))
    }
}

/// The number before the first word `schedules`, which is how many were tried.
fn count(output: &str) -> Option<u64> {
    let words: Vec<&str> = output.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let is_word = pair[1].trim_matches(|c: char| !c.is_alphabetic()) == "schedules";
        let digits: String = pair[0].chars().filter(|c| !",_'(".contains(*c)).collect();
        if is_word { digits.parse().ok() } else { None }
    })
}

/// Runs the explorer to its end, or to ours of patience.
pub(super) fn run(command: &mut Command, budget: f64) -> Result<Exploration> {
    run_for(command, Duration::from_secs_f64(budget) + PATIENCE)
}

/// Runs a program to its end, or so long.
pub(super) fn run_for(command: &mut Command, longest: Duration) -> Result<Exploration> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(|| format!("starting {}", command.get_program().display()))?;
    let standard = collect(child.stdout.take());
    let error = collect(child.stderr.take());
    let status = wait(&mut child, started + longest)?;
    let mut output = standard.join().unwrap_or_default();
    output.push_str(&error.join().unwrap_or_default());
    let seconds = started.elapsed().as_secs_f64();
    Ok(Exploration { code: status.and_then(|status| status.code()), output, seconds })
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The status, or none if the child had to be killed.
fn wait(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait().context(|| "waiting for the explorer".to_owned())? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            child.kill().context(|| "ending the explorer".to_owned())?;
            child.wait().context(|| "waiting for the explorer".to_owned())?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(code: Option<i32>, output: &str) -> Verdict {
        Exploration { code, output: output.to_owned(), seconds: 0.0 }.verdict()
    }

    #[test]
    fn a_violation_needs_a_schedule() {
        let found = Verdict::Found { schedule: "v1:0a.1b".to_owned(), schedules: Some(12_345) };
        let output = "step | CPU\n1 | 0\nschedule: v1:0a.1b\nfound after 12,345 schedules.\n";
        assert_eq!(verdict(Some(1), output), found);
        for bad in ["", "schedule: \n", "schedule: v1:\n", "schedule: v2:00\n"] {
            assert!(matches!(verdict(Some(1), bad), Verdict::Broken(_)), "{bad}");
        }
    }

    #[test]
    fn only_exit_code_zero_is_clean() {
        assert_eq!(verdict(Some(0), "clean: 17 schedules, exhausted"), Verdict::Clean);
        for code in [Some(2), Some(101), None] {
            assert!(matches!(verdict(code, "schedule: v1:00"), Verdict::Broken(_)), "{code:?}");
        }
    }

    #[test]
    fn the_number_of_schedules_is_read_where_it_is_printed() {
        assert_eq!(count("tried 17 schedules in 3 s"), Some(17));
        assert_eq!(count("(1_000 schedules)"), Some(1000));
        assert_eq!(count("all schedules"), None);
    }

    #[test]
    fn an_explorer_that_hangs_is_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(wait(&mut child, Instant::now()).unwrap(), None);
    }
}
