//! What the command line is made of.
//!
//! For correctness: scenarios in which the library runs on the adversarial machine ([`scenario`]), how one
//! of them is explored ([`explore`]) or all ([`check`]); the protocols of other systems on the same machine
//! ([`zoo`]); litmus tests of others and of our own ([`litmus`]). For time: machines and published results
//! as data ([`data`]), a model kernel ([`kernel`]) with strategies to keep TLBs coherent ([`strategy`]),
//! programs that run on it ([`workload`]), and the comparison of what was published with what comes out
//! ([`reproduce`]). Results become pages and timelines in [`present`]. All but scenarios, the zoo and their
//! explorer is behind the feature `clock`, so that bugs put back are built and explored quickly.

#[cfg(all(feature = "clock", target_os = "linux"))]
pub mod calibrate;
#[cfg(feature = "clock")]
pub mod check;
#[cfg(feature = "clock")]
pub mod data;
#[cfg(feature = "clock")]
pub mod kernel;
#[cfg(feature = "clock")]
pub mod litmus;
#[cfg(feature = "clock")]
pub mod names;
pub mod plain;
#[cfg(feature = "clock")]
pub mod present;
#[cfg(feature = "clock")]
pub mod reconstruct;
#[cfg(all(feature = "clock", target_os = "linux"))]
pub mod record;
#[cfg(feature = "clock")]
pub mod replay;
#[cfg(feature = "clock")]
pub mod reproduce;
#[cfg(feature = "clock")]
pub mod strategy;
#[cfg(feature = "clock")]
pub mod trace;
#[cfg(feature = "clock")]
pub mod workload;

pub use lookaside_scenarios::{explore, generate, scenario, zoo};
