//! Explorers.
mod chance;
mod depth_first;
mod replay;
mod report;
mod schedule;
mod shrink;

use core::time::Duration;
use std::{collections::BTreeSet, time::Instant};

use crate::adversary::{
    Scenario, Violation,
    execution::{Choice, Chooser, End, Executor, Point},
};

pub use replay::Replay;
pub use schedule::{Schedule, ScheduleError};

/// When an explorer gives up.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// After how many executions.
    pub schedules: u64,
    /// After how much time.
    pub time: Duration,
}

impl Budget {
    /// No end.
    pub const UNLIMITED: Self = Self { schedules: u64::MAX, time: Duration::MAX };

    /// A number of executions.
    #[must_use]
    pub const fn schedules(schedules: u64) -> Self {
        Self { schedules, ..Self::UNLIMITED }
    }

    /// A time.
    #[must_use]
    pub const fn time(time: Duration) -> Self {
        Self { time, ..Self::UNLIMITED }
    }
}

/// An execution that broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it broke.
    pub violation: Violation,
    /// How to get there.
    pub schedule: Schedule,
}

/// What an explorer did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Executions, abandoned ones included.
    pub schedules: u64,
    /// Steps of all executions.
    pub steps: u64,
    /// Different states at which more than one thing could happen; 0 if none were counted.
    pub states: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether everything was explored that the explorer is for.
    pub complete: bool,
    /// What executions came to: see [`crate::adversary::outcome`].
    pub outcomes: BTreeSet<u64>,
    /// The first failure; exploration ends with it.
    pub failure: Option<Failure>,
}

impl Report {
    /// # Panics
    ///
    /// If exploration was not complete or found a failure.
    #[track_caller]
    pub fn assert_proved(&self) {
        if let Some(failure) = &self.failure {
            panic!("{}\n  schedule {}", failure.violation, failure.schedule);
        }
        assert!(self.complete, "gave up after {} schedules", self.schedules);
    }

    /// The rule that was broken.
    ///
    /// # Panics
    ///
    /// If none was.
    #[track_caller]
    #[must_use]
    pub fn broken(&self) -> crate::adversary::Rule {
        self.failure.as_ref().expect("a rule is broken").violation.rule
    }
}

/// A scenario that can be explored in several ways, one after the other.
///
/// An explorer belongs to one thread; several can run at the same time on several threads.
pub struct Explorer<S: Scenario> {
    executor: Executor<S>,
}

/// Remembers what was chosen.
struct Recorded<C> {
    chooser: C,
    chosen: Vec<u32>,
    /// How many of the choices were that a CPU that could go on did not.
    preemptions: u32,
}

impl<C> Recorded<C> {
    fn new(chooser: C) -> Self {
        Self { chooser, chosen: Vec::with_capacity(256), preemptions: 0 }
    }

    fn restart(&mut self) {
        self.chosen.clear();
        self.preemptions = 0;
    }
}

impl<C: Chooser> Chooser for Recorded<C> {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        let index = self.chooser.choose(point)?;
        self.chosen.push(index as u32);
        self.preemptions += u32::from(point.goes_on && index != 0);
        Some(index)
    }
}

/// Decides what every execution chooses, until nothing is left to explore.
trait Strategy: Chooser {
    /// Prepares the next execution; `false` if there is none.
    fn next(&mut self) -> bool;

    /// How many states it has seen.
    fn states(&self) -> u64 {
        0
    }
}

impl<S: Scenario> Explorer<S> {
    /// Builds the world of a scenario.
    pub fn new(scenario: S) -> Self {
        Self { executor: Executor::new(scenario) }
    }

    fn explore(&mut self, strategy: &mut impl Strategy, budget: Budget) -> Report {
        let begin = Instant::now();
        let (steps, executions) = (self.executor.steps, self.executor.executions);
        let mut outcomes = BTreeSet::new();
        let mut failure = None;
        let mut complete = false;
        loop {
            let done = self.executor.executions - executions;
            let late = done.is_multiple_of(64) && begin.elapsed() >= budget.time;
            if done >= budget.schedules || late {
                break;
            }
            if !strategy.next() {
                complete = true;
                break;
            }
            let mut recorded = Recorded::new(&mut *strategy);
            recorded.restart();
            match self.executor.execute(&mut recorded) {
                End::Abandoned => {}
                End::Done => outcomes.extend(self.executor.outcome()),
                End::Violated(violation) => {
                    let name = self.executor.scenario().name();
                    let schedule = Schedule::new(name, &recorded.chosen);
                    failure = Some(Failure { violation, schedule });
                    break;
                }
            }
        }
        Report {
            schedules: self.executor.executions - executions,
            steps: self.executor.steps - steps,
            states: strategy.states(),
            elapsed: begin.elapsed(),
            complete,
            outcomes,
            failure,
        }
    }
}

impl<C: Chooser + ?Sized> Chooser for &mut C {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        (**self).choose(point)
    }
}
