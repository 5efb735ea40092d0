//! The command line: what it prints, writes and refuses, and that documents say what it says.

mod bad_input;
mod cli;
mod commands;
mod program;
mod readme;
mod replay;
mod schemas;
mod template;
mod workloads;
