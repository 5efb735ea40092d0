//! Replay by the program: from a trace to what it prints and writes.

mod advise;
mod command;
mod plausible;
mod report;
mod settings;
mod shipped;
