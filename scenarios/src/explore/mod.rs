//! Exploring one scenario and saying what was found.

mod casemate;

use core::time::Duration;
use std::io::{self, Write};

use lookaside_machine::{
    adversary::oracle::CLAIM,
    explore::{Budget, Failure, Report, Schedule},
};

pub use self::casemate::export;
use crate::scenario::{Depth, Entry, Explored};

/// What exploration came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No rule was broken.
    Clean,
    /// A rule was broken, or nothing was claimed that could have been.
    Broken,
}

/// Explores `entry`, as deep as `depth` says or else as its own, and writes what was found.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn explore(
    entry: &Entry,
    depth: Option<Depth>,
    budget: Option<Duration>,
    out: &mut impl Write,
) -> io::Result<Verdict> {
    let mut explored = entry.open();
    let budget = budget.map_or(Budget::UNLIMITED, Budget::time);
    let depth = depth.unwrap_or(entry.depth);
    let report = explored.explore(depth, budget);
    match &report.failure {
        None if report.complete && !report.seen.contains(CLAIM) => {
            writeln!(out, "empty: {} schedules, and nothing was claimed in any", report.schedules)?;
            Ok(Verdict::Broken)
        }
        None => {
            writeln!(out, "{}", summary(depth, &report))?;
            Ok(Verdict::Clean)
        }
        Some(failure) => {
            broken(&mut explored, failure, out)?;
            let seconds = report.elapsed.as_secs_f64();
            let Report { schedules, steps, .. } = report;
            writeln!(out, "found after {schedules} schedules, {steps} steps, {seconds:.1} s")?;
            Ok(Verdict::Broken)
        }
    }
}

/// Runs one schedule and writes what it leads to.
///
/// # Errors
///
/// If the schedule does not fit the scenario, or `out` cannot be written.
pub fn replay(
    entry: &Entry,
    schedule: &Schedule,
    out: &mut impl Write,
) -> Result<Verdict, Box<dyn core::error::Error>> {
    let mut explored = entry.open();
    match explored.replay(schedule)? {
        None => {
            writeln!(out, "clean: this schedule breaks no rule")?;
            Ok(Verdict::Clean)
        }
        Some(failure) => {
            broken(&mut explored, &failure, out)?;
            Ok(Verdict::Broken)
        }
    }
}

/// Writes a failure: the steps of a shortened schedule, and how to see them again.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn broken(explored: &mut Explored, failure: &Failure, out: &mut impl Write) -> io::Result<()> {
    let failure = explored.shrink(failure);
    match explored.explain(&failure) {
        Ok(table) => writeln!(out, "{table}")?,
        Err(error) => writeln!(out, "{}\n(no table: {error})", failure.violation)?,
    }
    writeln!(out, "schedule: {}", failure.schedule)
}

/// One line on an exploration that found nothing. Only what was explored to its end is called clean.
fn summary(depth: Depth, report: &Report) -> String {
    let seconds = report.elapsed.as_secs_f64();
    let rate = report.steps as f64 / seconds.max(1e-9) / 1e6;
    let seen = report.seen.iter().copied().filter(|&what| what != CLAIM);
    let mut seen = seen.collect::<Vec<_>>().join(", ");
    if !seen.is_empty() {
        seen.insert_str(0, "; seen: ");
    }
    let extent = match (report.complete, depth) {
        (true, Depth::Exhaust) => "clean: everything explored",
        (true, Depth::Bounded(0)) => "clean without a pre-emption: all of these explored",
        (true, Depth::Bounded(1)) => "clean with at most 1 pre-emption: all of these explored",
        (true, Depth::Bounded(most)) => {
            &*format!("clean with at most {most} pre-emptions: all of these explored")
        }
        (true, Depth::Random(_)) => {
            "no rule was broken in these schedules at random, which prove nothing of others"
        }
        (false, _) => "not finished: no rule was broken so far",
    };
    format!(
        "{extent}; {} schedules, {} steps, {} states, {seconds:.1} s, {rate:.1} million \
         steps/s; epochs reached {:?}{seen}",
        report.schedules, report.steps, report.states, report.outcomes,
    )
}
