//! Shortening a schedule that fails, so that a person can read it.

use super::{Budget, End, Explorer, Failure, Recorded, Schedule, replay::Follow};
use crate::adversary::{Rule, Violation};

/// How bad a schedule is to read: pre-emptions, then deviations, then steps.
type Badness = (u32, usize, u64);

impl Explorer {
    /// Looks for a schedule that breaks the same rule with fewer pre-emptions, fewer deviations
    /// from the default, and an earlier end. Every candidate is replayed; the result fails.
    pub fn shrink(&mut self, failure: &Failure) -> Failure {
        let rule = failure.violation.rule;
        let Some((mut best, mut badness)) = self.attempt(&failure.schedule, rule) else {
            return failure.clone();
        };
        // The fewest pre-emptions with which it can fail at all, if that is quick to find.
        for bound in 0..badness.0.min(4) {
            let report = self.bounded(bound, Budget::schedules(20_000));
            if let Some(other) = report.failure
                && other.violation.rule == rule
                && let Some((shorter, less)) = self.attempt(&other.schedule, rule)
                && less < badness
            {
                (best, badness) = (shorter, less);
                break;
            }
        }
        // Then leave out what is not needed, in halves, quarters and so on.
        let mut size = best.schedule.deviations().len();
        while size > 0 {
            let mut from = 0;
            while from < best.schedule.deviations().len() {
                let mut fewer = best.schedule.deviations().to_vec();
                fewer.drain(from..(from + size).min(fewer.len()));
                match self.attempt(&best.schedule.with(fewer), rule) {
                    Some((shorter, less)) if less < badness => (best, badness) = (shorter, less),
                    _ => from += size,
                }
            }
            size /= 2;
        }
        best
    }

    /// Executes a schedule and, if it breaks `rule`, says how bad it is to read.
    fn attempt(&mut self, schedule: &Schedule, rule: Rule) -> Option<(Failure, Badness)> {
        let before = self.executor.steps;
        let mut recorded = Recorded::new(Follow::new(schedule));
        let end = self.executor.execute(&mut recorded);
        let End::Violated(violation @ Violation { .. }) = end else { return None };
        if violation.rule != rule {
            return None;
        }
        // What was chosen, and not what was asked for: deviations after the end are gone.
        let schedule = Schedule::new(schedule.scenario().to_owned(), &recorded.chosen);
        let badness =
            (recorded.preemptions, schedule.deviations().len(), self.executor.steps - before);
        Some((Failure { violation, schedule }, badness))
    }
}
