//! What the command line is made of: scenarios in which the library runs on the adversarial
//! machine, and how they are explored.

pub mod explore;
pub mod scenario;
