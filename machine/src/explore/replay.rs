//! Replay: one schedule again, with everything that happens written down.

use super::{Chooser, End, Explorer, Point, Recorded, Schedule, ScheduleError};
use crate::adversary::{Line, View, Violation};

/// What a schedule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// What it breaks, if anything.
    pub violation: Option<Violation>,
    /// What happens.
    pub lines: Vec<Line>,
    /// How often a CPU that could have gone on does not.
    pub preemptions: u32,
    /// What the machine is at the end.
    pub end: View,
}

/// Chooses as a schedule says.
pub(super) struct Follow<'a> {
    deviations: &'a [(u32, u32)],
    point: u32,
    pub(super) stale: Option<(u32, u32)>,
}

impl<'a> Follow<'a> {
    pub(super) fn new(schedule: &'a Schedule) -> Self {
        Self { deviations: schedule.deviations(), point: 0, stale: None }
    }
}

impl Chooser for Follow<'_> {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        let at = self.point;
        self.point += 1;
        let Some((&(next, choice), rest)) = self.deviations.split_first() else { return Some(0) };
        if next != at {
            return Some(0);
        }
        self.deviations = rest;
        if choice as usize >= point.choices.len() {
            self.stale.get_or_insert((at, point.choices.len() as u32));
            return Some(0);
        }
        Some(choice as usize)
    }
}

impl Explorer {
    /// Whether a schedule is one of this scenario.
    pub(super) fn check_name(&self, schedule: &Schedule) -> Result<(), ScheduleError> {
        let expected = self.name();
        if expected == schedule.scenario() {
            return Ok(());
        }
        Err(ScheduleError::Scenario { expected, found: schedule.scenario().to_owned() })
    }

    /// Executes a schedule again.
    ///
    /// # Errors
    ///
    /// * [`ScheduleError::Scenario`] if it is of another scenario.
    /// * [`ScheduleError::Stale`] if it chooses what cannot happen.
    pub fn replay(&mut self, schedule: &Schedule) -> Result<Replay, ScheduleError> {
        self.check_name(schedule)?;
        let mut recorded = Recorded::new(Follow::new(schedule));
        let (end, lines) = self.executor.trace(&mut recorded);
        if let Some((point, choices)) = recorded.chooser.stale {
            return Err(ScheduleError::Stale { point, choices });
        }
        let violation = if let End::Violated(violation) = end { Some(violation) } else { None };
        let end = self.executor.seen_machine().see();
        Ok(Replay { violation, lines, preemptions: recorded.preemptions, end })
    }
}
