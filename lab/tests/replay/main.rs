//! Replay: scripts made by hand and at random, on modelled machines.

mod attribution;
mod command;
mod observed;
mod random;
mod report;
mod rules;
mod script;
mod shipped;
