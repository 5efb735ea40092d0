//! The program that all these tests start.

use std::{
    process::{Command, Output},
    sync::OnceLock,
};

/// What it says and writes.
pub(crate) fn lab(arguments: &[&str]) -> Output {
    let lab = env!("CARGO_BIN_EXE_lookaside");
    Command::new(lab).args(arguments).output().expect("the program can be started")
}

/// What it says of all published results: a run that takes long, and that several tests look at.
pub(crate) fn reproduced() -> &'static Output {
    static REPRODUCED: OnceLock<Output> = OnceLock::new();
    REPRODUCED.get_or_init(|| lab(&["reproduce"]))
}

/// What it says about arguments that it refuses.
#[track_caller]
pub(crate) fn refused(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).expect("messages are text")
}

/// What it writes.
#[track_caller]
pub(crate) fn written(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("results are text")
}
