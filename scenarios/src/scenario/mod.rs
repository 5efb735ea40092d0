//! Scenarios: small kernels that use the library on the adversarial machine.
//!
//! A scenario is a machine, a strategy, a few spaces and a script for each CPU. It states no expectations:
//! the machine's oracle checks the rules in every execution.

pub(crate) mod act;
pub(crate) mod blocks;
mod c;
mod catalogue;
mod explored;
pub(crate) mod hardware;
mod kept;
pub(crate) mod machine;
pub(crate) mod pairs;
pub(crate) mod program;
pub(crate) mod script;
mod world;

use hardware::More;

pub use catalogue::{RELIED_ON, TOPICS, Topic, all, find};
pub use explored::Explored;
pub use kept::read_kept;
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
    By(fn() -> Explored),
    /// About spaces, on a machine with these options.
    With(fn(More) -> Explored),
    Of(Program),
}

impl Entry {
    /// Builds its world.
    #[must_use]
    pub fn open(&self) -> Explored {
        match &self.open {
            Open::By(open) => open(),
            Open::With(open) => open(More::NONE),
            Open::Of(program) => program.open_as(self.name),
        }
    }

    /// As [`Self::open`], with the same allocator, but chosen at run time ([`lookaside::tags::Asids`]). None if the
    /// scenario is about blocks of entries or about the trampoline.
    #[must_use]
    pub fn open_chosen(&self) -> Option<Explored> {
        match &self.open {
            Open::By(_) => None,
            Open::With(open) => Some(open(More::CHOSEN)),
            Open::Of(program) => program.open_chosen(self.name),
        }
    }
}
