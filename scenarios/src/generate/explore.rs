//! Exploring one program: half of the steps with bounded pre-emptions, and half at random.

use core::panic::Location;
use std::collections::BTreeSet;

use lookaside_machine::explore::{Budget, Failure, Report};

use crate::scenario::{Depth, Program};

/// The size of a round of executions: so many at random, and as many by PCT.
const CHANCES: u64 = 8;

/// The result of exploring a program.
pub(super) struct Found {
    /// Steps of all executions.
    pub(super) steps: u64,
    /// The events that were observed.
    pub(super) seen: Vec<&'static str>,
    /// Where in the source operations were executed.
    pub(super) sites: BTreeSet<&'static Location<'static>>,
    /// The first failure.
    pub(super) failure: Option<Failure>,
}

/// How many steps a program is explored for, by its seed: on average about as many as `effort` says. Most bugs show
/// soon, and a few hide where few schedules come.
pub(super) const fn effort_for(seed: u64, effort: u64) -> u64 {
    match seed % 100 {
        0..60 => effort / 2,
        60..90 => effort,
        90..99 => effort.saturating_mul(4),
        _ => effort.saturating_mul(25),
    }
}

/// The most pre-emptions that are tried systematically.
const DEEPEST: u32 = 4;

/// Explores a program for about so many steps: half of them with one pre-emption, with two, and so on, as far as that
/// goes; and the rest by chance. It is the same every time.
pub(super) fn explore(program: &Program, seed: u64, effort: u64) -> Found {
    let mut explored = program.open();
    let mut found = Found { steps: 0, seen: Vec::new(), sites: BTreeSet::new(), failure: None };
    let add = |found: &mut Found, report: Report| {
        found.steps += report.steps;
        found.seen.extend(report.seen);
        found.sites.extend(report.sites);
        found.failure = report.failure;
    };
    for preemptions in 1..=DEEPEST {
        let rest = (effort / 2).saturating_sub(found.steps);
        let report = explored.explore(Depth::Bounded(preemptions), Budget::steps(rest));
        let complete = report.complete;
        add(&mut found, report);
        if !complete {
            break;
        }
    }
    let mut round = 0;
    while found.failure.is_none() && found.steps < effort {
        let report = explored.chance(seed.wrapping_add(round), CHANCES);
        // One CPU alone may have nothing to choose.
        let idle = report.steps == 0;
        add(&mut found, report);
        round += 1;
        if idle {
            break;
        }
    }
    found
}
