//! Generated scenarios: short random programs over all that a kernel may ask of the library, on every kind of
//! hardware, each run on the adversary.
//!
//! Nothing is expected of a program in particular. Its acts are what a kernel may do at any time
//! ([`Program`] refuses what the library does not allow), and what the oracle is told is taken from each
//! gather: what it has taken away, and what others had taken away before. So whatever is found is a defect of
//! the library, of the machine, or of an act.
//!
//! A program is drawn from the seed and from the programs before it (`draw`): a third has a pair of operations
//! that no program has had on one space (`pairs`), and a third is a change (`mutate`) of one that came to a
//! place of the library which few come to (`corpus`). It is explored for a number of steps (`explore`). What
//! fails is shortened, operations first and then the schedule (`shorten`). A run of so many programs comes
//! to the same on any machine, whatever the number of threads.

mod corpus;
mod draw;
mod draw_blocks;
mod explore;
mod halting;
mod keep;
mod mutate;
mod pairs;
mod random;
mod run;
mod shorten;

pub use self::{
    keep::keep,
    pairs::{Pairs, Tally},
    run::{Failing, Outcome, Progress, Request, Site, run},
    shorten::shortest,
};
pub use crate::scenario::{Program, ProgramError};
