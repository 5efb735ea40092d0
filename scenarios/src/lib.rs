//! What the library does on the adversarial machine.
//!
//! Small kernels that use the library ([`scenario`]), how one of them is explored ([`explore`]), and
//! programs of the same acts that are drawn at random ([`generate`]); the protocols of other systems on the
//! same machine ([`zoo`]). They are a crate of their own because they take longest to build: the library is
//! compiled once for each machine that a scenario has.

pub mod explore;
pub mod generate;
pub mod scenario;
pub mod zoo;
