//! The simulation: machine files, strategies, workloads and calibration, against rules and published measurements.

mod arm;
mod calibrate;
mod contended_lines;
mod data;
mod experiments;
mod measurements;
mod workload_language;
