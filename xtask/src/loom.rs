//! The protocols of two CPUs under loom, in a target folder of their own: everything is compiled anew
//! with `--cfg loom`.

use crate::{failure::Result, process, setup, workspace::Workspace};

/// Runs every program of the crate `loom/`.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut command = setup::cargo();
    command.current_dir(workspace.root());
    command.env("RUSTFLAGS", "--cfg loom");
    command.env("CARGO_TARGET_DIR", workspace.root().join("target").join("loom"));
    command.args(["test", "--quiet", "--release", "--package", "lookaside-loom", "--tests"]);
    process::run(command.args(["--", "--nocapture"]))
}
