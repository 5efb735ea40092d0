//! Generated scenarios: short random programs over every operation that a kernel may request of the library,
//! on every kind of hardware, each run on the adversary.
//!
//! No program has expectations of its own. Its acts are what a kernel may do at any time ([`Program`] refuses
//! what the library does not allow), and the claims to the oracle follow from each gather: the entries that
//! it removed, and those that others had removed before. So every violation is a defect of the library, of
//! the machine, or of an act.
//!
//! A program is drawn from the seed and from the programs before it (`draw`): a third has a pair of
//! operations that no program has had on one space (`pairs`), and a third is a mutation (`mutate`) of a
//! program that reached a source location of the library which few reach (`corpus`). It is explored for a
//! number of steps (`explore`). A failing program is shortened, operations first and then the schedule
//! (`shorten`). A run of a given number of programs has the same result on any machine, with any number of
//! threads.

mod corpus;
mod draw;
mod draw_blocks;
mod draw_pairs;
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
