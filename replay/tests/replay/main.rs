//! Replay: scripts made by hand and at random, on modelled machines.

mod attribution;
mod excerpt;
mod observed;
mod progress;
mod random;
mod rules;
mod script;
