//! The runner of the TLB sanitizer as a program of its own; `lookaside hunt` is the same.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    lookaside_hunt::hunt(&lookaside_hunt::Arguments::parse())
}
