//! A step of the gate: how it is run, how it ends, and the table of all.

use core::{fmt::Write as _, time::Duration};
use std::{sync::mpsc, thread, time::Instant};

use crate::{
    failure::{Failure, Result},
    process,
    stage::Selection,
};

/// Runs work, and says every minute that it is still running: a build that prints nothing looks like one that hangs.
fn audibly<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let (ended, wait) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let started = Instant::now();
            while let Err(mpsc::RecvTimeoutError::Timeout) =
                wait.recv_timeout(Duration::from_secs(60))
            {
                println!("== {name}: running for {}", seconds(started.elapsed()));
            }
        });
        let result = work();
        drop(ended);
        result
    })
}

/// How a step ended, if it did not fail.
pub(crate) enum Outcome {
    Passed,
    Skipped(&'static str),
}

/// The steps that have been run.
pub(crate) struct Gate {
    pub(crate) selection: Selection,
    passed: usize,
    skipped: usize,
    failed: Vec<String>,
    started: Instant,
    table: String,
}

impl Gate {
    /// None yet; those of `selection` will be.
    pub(crate) fn new(selection: Selection) -> Self {
        Self {
            selection,
            passed: 0,
            skipped: 0,
            failed: Vec::new(),
            started: Instant::now(),
            table: String::new(),
        }
    }

    /// Runs a step, if it is selected. A failure does not keep the next steps from running: the whole run tells
    /// all there is to mend.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<Outcome>) {
        if !self.selection.contains(name) {
            return;
        }
        println!("\n== {name}");
        let (started, spent) = (Instant::now(), process::spent());
        let outcome = audibly(name, work);
        let time = seconds(started.elapsed());
        let of_processors = match (spent, process::spent()) {
            (Ok(before), Ok(after)) => format!("{:8.1} s", after - before),
            _ => String::new(),
        };
        let word = match outcome {
            Ok(Outcome::Passed) => {
                self.passed += 1;
                "ok".to_owned()
            }
            Ok(Outcome::Skipped(reason)) => {
                self.skipped += 1;
                format!("skipped: {reason}")
            }
            Err(failure) => {
                self.failed.push(format!("the step `{name}` failed: {failure}"));
                format!("FAILED: {failure}")
            }
        };
        println!("== {name}: {word} ({time})");
        let _ = writeln!(self.table, "{time:>9} {of_processors}  {name}: {word}");
    }

    /// Prints the table of the steps, and fails if one of them did.
    pub(crate) fn close(self) -> Result<()> {
        let failed = self.failed.len();
        println!(
            "\n     time, and of processors\n{}{:>9}  in all",
            self.table,
            seconds(self.started.elapsed())
        );
        println!("steps: {} passed, {failed} failed, {} skipped", self.passed, self.skipped);
        if self.failed.is_empty() {
            return Ok(());
        }
        Err(Failure::new(self.failed.join("\n")))
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(only: &[&str]) -> Gate {
        let only = only.iter().map(|text| (*text).to_owned()).collect();
        Gate::new(Selection { stage: 3, only })
    }

    #[test]
    fn a_failing_step_is_named_and_the_next_one_runs() {
        let mut gate = gate(&[]);
        gate.step("good", || Ok(Outcome::Passed));
        gate.step("bad", || Err(Failure::new("why")));
        gate.step("left out", || Ok(Outcome::Skipped("reason")));
        assert_eq!((gate.passed, gate.skipped), (1, 1));
        assert!(gate.table.contains("bad: FAILED: why"), "{}", gate.table);
        assert!(gate.table.contains("left out: skipped: reason"), "{}", gate.table);
        assert_eq!(gate.close(), Err(Failure::new("the step `bad` failed: why")));
    }

    #[test]
    fn only_the_steps_that_are_asked_for_run() {
        let mut gate = gate(&["boot, x86"]);
        gate.step("lint, kernel, x86_64", || Err(Failure::new("not asked for")));
        gate.step("boot, x86_64", || Ok(Outcome::Passed));
        assert_eq!((gate.passed, gate.close()), (1, Ok(())));
    }
}
