//! Linux in the gate: built while other steps run, and booted in a step of its own.

use std::process::Command;

use super::{Architecture, source};
use crate::{beside, failure::Result, process, workspace::Workspace};

/// What is built: with the library's debug build.
const KERNEL: [&str; 4] = ["linux", "arm64", "--tests", "--checked"];
/// How it is booted, beside that.
const BOOT: [&str; 4] = ["--less", "100", "--tags", "16"];

/// The command that builds it. What it takes is installed first.
///
/// # Errors
///
/// Where a compiler or the emulator is missing and cannot be installed.
pub(crate) fn build() -> Result<Command> {
    source::tools(Architecture::Arm64)?;
    let mut build = Command::new(beside::this_program()?);
    build.args(KERNEL).arg("--build");
    Ok(build)
}

/// Boots the kernel that was built and runs the tests; false if Linux's source is not to be had here.
///
/// # Errors
///
/// If the build failed, or a test does.
pub(crate) fn test(workspace: &Workspace, built: Result<()>) -> Result<bool> {
    if built.is_err() && !source::is_here(workspace) {
        return Ok(false);
    }
    built?;
    process::run(Command::new(beside::this_program()?).args(KERNEL).args(BOOT))?;
    Ok(true)
}
