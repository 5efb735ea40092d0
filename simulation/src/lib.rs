//! Simulation: how long TLB coherence takes, on modelled machines.
//!
//! Machines and published results are [`data`]. A model [`kernel`] runs on the
//! [timed machine](lookaside_machine::timed), with a [`strategy`] to keep its TLBs coherent: the library's own, or
//! one that it was measured against. A [`workload`] is a program on that kernel. [`reproduce`] compares published
//! values with those of the model, [`experiment`] does so for workload files, [`sensitivity`] says how sure an answer is, [`perfetto`] writes the timeline of a run, and `calibrate` (on Linux) measures
//! the machine that this runs on.

#[cfg(all(feature = "calibrate", target_os = "linux"))]
pub mod calibrate;
mod calls;
pub mod data;
pub mod experiment;
pub mod kernel;
mod line;
pub mod perfetto;
pub mod reproduce;
pub mod seeds;
pub mod sensitivity;
pub mod strategy;
pub mod sweep;
pub mod workload;
