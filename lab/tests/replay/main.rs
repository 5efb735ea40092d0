//! Replay: scripts made by hand and at random, on modelled machines.
#![cfg(feature = "clock")]

mod attribution;
mod command;
mod observed;
mod random;
mod report;
mod rules;
mod script;
mod shipped;
