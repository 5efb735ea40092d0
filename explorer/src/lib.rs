//! The commands that explore scenarios and generated programs.
//!
//! `lab` has them among its commands. The program `explorer` has only these: `cargo xtask mutants` builds it
//! again for each bug that it puts back, and so it must build quickly.

pub mod explore;
pub mod generate;

use core::error::Error;
use std::process::ExitCode;

/// The result of a command: how the program ends, or why it could not do what was requested.
pub type Result<T = ExitCode> = core::result::Result<T, Box<dyn Error>>;
