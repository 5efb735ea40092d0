//! A scenario that is open: the explorer with the depths of the catalogue.

use lookaside_machine::{
    adversary::Scenario,
    explore::{
        Budget, Explorer, Exported, Failure, Graph, Replay, Report, Schedule, ScheduleError,
    },
};

use super::Depth;

/// How many pre-emptions are explored before the exhaustive exploration.
const SHALLOW: u32 = 3;
/// How many orderings a bug may take that PCT is to find: most of the record take two to four.
const DEPTH: u32 = 4;

/// A scenario with its world, ready to be explored in several ways, one after the other.
pub struct Explored(Explorer);

impl Explored {
    /// Builds the world of a scenario.
    pub(crate) fn new(scenario: impl Scenario) -> Self {
        Self(Explorer::new(scenario))
    }

    /// Explores to `depth`, within the budget.
    pub fn explore(&mut self, depth: Depth, budget: Budget) -> Report {
        match depth {
            Depth::Exhaust => {
                // Most bugs need few pre-emptions: executions with few come first.
                let shallow = self.0.deepen(SHALLOW, budget);
                if shallow.failure.is_some() { shallow } else { self.0.exhaust(budget) }
            }
            Depth::Bounded(preemptions) => self.0.bounded(preemptions, budget),
            Depth::Random(schedules) => self.chance(1, schedules),
        }
    }

    /// Explores so many executions at random, and as many by PCT. The report counts both.
    pub fn chance(&mut self, seed: u64, schedules: u64) -> Report {
        let random = self.0.random(seed, schedules);
        if random.failure.is_some() {
            return random;
        }
        let mut both = self.0.pct(seed, DEPTH, schedules);
        both.schedules += random.schedules;
        both.steps += random.steps;
        both.elapsed += random.elapsed;
        both.outcomes.extend(random.outcomes);
        both.seen.extend(random.seen);
        both.sites.extend(random.sites);
        both
    }

    /// Shortens the schedule of a failure.
    pub fn shrink(&mut self, failure: &Failure) -> Failure {
        self.0.shrink(failure)
    }

    /// A failure as a table of steps.
    ///
    /// # Errors
    ///
    /// If the schedule is not one of this scenario.
    pub fn explain(&mut self, failure: &Failure) -> Result<String, ScheduleError> {
        self.0.explain(failure)
    }

    /// Runs a schedule and returns the failure that it leads to, if any.
    ///
    /// # Errors
    ///
    /// If the schedule is not one of this scenario.
    pub fn replay(&mut self, schedule: &Schedule) -> Result<Option<Failure>, ScheduleError> {
        let replay = self.0.replay(schedule)?;
        Ok(replay.violation.map(|violation| Failure { violation, schedule: schedule.clone() }))
    }

    /// Runs a schedule and returns all that happens.
    ///
    /// # Errors
    ///
    /// If the schedule is not one of this scenario.
    pub fn watch(&mut self, schedule: &Schedule) -> Result<Replay, ScheduleError> {
        self.0.replay(schedule)
    }

    /// The graph of all states, if there are at most `limit`.
    pub fn graph(&mut self, limit: usize) -> Option<Graph> {
        self.0.graph(limit)
    }

    /// The name that its schedules carry.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// The schedules of so many executions at random.
    pub fn at_random(&mut self, seed: u64, schedules: u64) -> Vec<Schedule> {
        self.0.at_random(seed, schedules)
    }

    /// Runs a schedule and writes what it did to page tables in the format of casemate; on Arm only.
    ///
    /// # Errors
    ///
    /// If the schedule is not one of this scenario.
    pub fn casemate(&mut self, schedule: &Schedule) -> Result<Exported, ScheduleError> {
        self.0.casemate(schedule)
    }
}
