//! Replay by the program: from a trace to what it prints and writes.

mod advise;
mod command;
mod headlines;
mod plausible;
mod report;
mod settings;
mod shipped;
mod tables;

use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What the program prints of the traces of the repository, and on standard error.
fn lab(words: &[&str]) -> (Option<i32>, String, String) {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    let output = lab.current_dir(ROOT).args(words).output().expect("the program can be started");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}
