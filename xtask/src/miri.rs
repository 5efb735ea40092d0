//! What only the nightly toolchain can check, where it is installed: the library's own tests under Miri, which finds undefined
//! behaviour, and that programs which must not compile fail with the error that they name.

use std::process::Command;

use crate::{failure::Result, process, workspace::Workspace};

/// Why the step is left out.
pub(crate) const NOT_HERE: &str =
    "no Miri component (`rustup component add --toolchain nightly miri rust-src`)";

/// Whether Miri can be run.
pub(crate) fn is_here() -> bool {
    process::succeeds(cargo().args(["miri", "--version"]))
}

/// Runs the tests that stand beside the library's source. They execute no instructions of the host.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut command = cargo();
    command.current_dir(workspace.root());
    command.env("CARGO_TARGET_DIR", workspace.root().join("target").join("miri"));
    command.args(["miri", "test", "--quiet", "--package", "lookaside", "--lib"]);
    // Encoders are tried on so many inputs that Miri would take hours, and have nothing unsafe.
    process::run(command.args(["--", "--skip", "arch::"]))?;
    misuse(workspace)
}

/// Runs the programs of `tests/compile_fail`. The stable toolchain does not compare their errors.
fn misuse(workspace: &Workspace) -> Result<()> {
    let mut command = cargo();
    command.current_dir(workspace.root());
    command.env("CARGO_TARGET_DIR", workspace.root().join("target").join("miri"));
    process::run(command.args(["test", "--quiet", "--package", "lookaside", "--doc", "misuse"]))
}

/// Cargo of the nightly toolchain: Miri is part of no other.
fn cargo() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]);
    command
}
