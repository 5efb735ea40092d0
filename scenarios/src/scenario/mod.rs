//! Scenarios: small kernels that use the library on the adversarial machine.
//!
//! A scenario is a machine, a strategy, a few spaces and a script for each CPU. What the library
//! must not do is not said in a scenario: the machine's oracle sees it.

pub(crate) mod act;
pub(crate) mod blocks;
mod catalogue;
pub(crate) mod hardware;
mod kept;
pub(crate) mod machine;
mod pairs;
pub(crate) mod program;
pub(crate) mod script;
mod world;

pub use catalogue::{RELIED_ON, TOPICS, Topic, all, find};
pub use kept::read_kept;
use lookaside_machine::explore::{Budget, Exported, Failure, Report, Schedule, ScheduleError};
pub use program::{Program, ProgramError};

/// How a scenario is explored when nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Everything that can happen.
    Exhaust,
    /// Everything with so many pre-emptions.
    Bounded(u32),
    /// So many executions at random, and as many by PCT.
    Random(u64),
}

/// A scenario of the catalogue.
pub struct Entry {
    /// Its name, on the command line and in schedules.
    pub name: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    /// How it is explored.
    pub depth: Depth,
    open: Open,
}

/// How the world of a scenario is built.
enum Open {
    By(fn() -> Box<dyn Explored>),
    Of(Program),
}

impl Entry {
    /// Builds its world.
    #[must_use]
    pub fn open(&self) -> Box<dyn Explored> {
        match &self.open {
            Open::By(open) => open(),
            Open::Of(program) => program.open_as(self.name),
        }
    }
}

/// An explorer whose scenario's type is forgotten.
pub trait Explored {
    /// Explores as deep as is said, within the budget.
    fn explore(&mut self, depth: Depth, budget: Budget) -> Report;

    /// Explores so many executions at random, and as many by PCT. The report counts both.
    fn chance(&mut self, seed: u64, schedules: u64) -> Report;

    /// Shortens the schedule of a failure.
    fn shrink(&mut self, failure: &Failure) -> Failure;

    /// A failure as a table of steps.
    ///
    /// # Errors
    ///
    /// If the schedule is not one of this scenario.
    fn explain(&mut self, failure: &Failure) -> Result<String, ScheduleError>;

    /// Runs a schedule and returns the failure that it leads to, if any.
    ///
    /// # Errors
    ///
    /// If the schedule is not one of this scenario.
    fn replay(&mut self, schedule: &Schedule) -> Result<Option<Failure>, ScheduleError>;

    /// The name that its schedules carry.
    fn name(&self) -> String;

    /// The schedules of so many executions at random.
    fn at_random(&mut self, seed: u64, schedules: u64) -> Vec<Schedule>;

    /// Runs a schedule and writes what it did to page tables in the format of casemate; on Arm only.
    ///
    /// # Errors
    ///
    /// If the schedule is not one of this scenario.
    fn casemate(&mut self, schedule: &Schedule) -> Result<Exported, ScheduleError>;
}
