//! Scenarios: kernels of a few lines that run the library on the adversarial machine.
//!
//! [`scenario`] has the catalogue, [`explore`] explores one of them, and [`generate`] draws random programs
//! of the same acts; [`zoo`] has the protocols of other systems on the same machine. This is a crate of its
//! own because it takes longest to build: the library is compiled once for each machine of a scenario.

pub mod explore;
pub mod generate;
pub mod scenario;
pub mod zoo;
