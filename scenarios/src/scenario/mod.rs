//! Scenarios: small kernels that use the library on the adversarial machine.
//!
//! A scenario is a machine, a strategy, a few spaces and a script for each CPU. It states no expectations:
//! the machine's oracle checks the rules in every execution.

pub(crate) mod act;
pub(crate) mod blocks;
mod c;
mod catalogue;
pub(crate) mod hardware;
mod kept;
pub(crate) mod machine;
mod pairs;
pub(crate) mod program;
pub(crate) mod script;
mod world;

use hardware::More;

pub use catalogue::{RELIED_ON, TOPICS, Topic, all, find};
pub use kept::read_kept;
use lookaside_machine::explore::{
    Budget, Exported, Failure, Graph, Replay, Report, Schedule, ScheduleError,
};
pub use program::{Program, ProgramError};

/// How a scenario is explored by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every execution.
    Exhaust,
    /// Every execution with at most so many pre-emptions.
    Bounded(u32),
    /// So many executions at random, and as many by PCT.
    Random(u64),
}

/// A scenario of the catalogue.
pub struct Entry {
    /// Its name, on the command line and in schedules.
    pub name: &'static str,
    /// What it exercises, in one line.
    pub about: &'static str,
    /// How it is explored by default.
    pub depth: Depth,
    open: Open,
}

/// How a scenario is built.
enum Open {
    By(fn() -> Box<dyn Explored>),
    /// About spaces, on a machine with these options.
    With(fn(More) -> Box<dyn Explored>),
    Of(Program),
}

impl Entry {
    /// Builds its world.
    #[must_use]
    pub fn open(&self) -> Box<dyn Explored> {
        match &self.open {
            Open::By(open) => open(),
            Open::With(open) => open(More::NONE),
            Open::Of(program) => program.open_as(self.name),
        }
    }

    /// As [`Self::open`], with the same allocator, but chosen at run time ([`lookaside::tags::Asids`]). None if the
    /// scenario is about blocks of entries or about the trampoline.
    #[must_use]
    pub fn open_chosen(&self) -> Option<Box<dyn Explored>> {
        match &self.open {
            Open::By(_) => None,
            Open::With(open) => Some(open(More::CHOSEN)),
            Open::Of(program) => program.open_chosen(self.name),
        }
    }
}

/// An explorer whose scenario's type is forgotten.
pub trait Explored {
    /// Explores to `depth`, within the budget.
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

    /// Runs a schedule and returns all that happens.
    ///
    /// # Errors
    ///
    /// If the schedule is not one of this scenario.
    fn watch(&mut self, schedule: &Schedule) -> Result<Replay, ScheduleError>;

    /// The graph of all states, if there are at most `limit`.
    fn graph(&mut self, limit: usize) -> Option<Graph>;

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
