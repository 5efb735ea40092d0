//! The interfaces of the libraries beside those of the last release: what breaks a user's build needs a new version.

use std::process::Command;

use crate::{
    failure::{Failure, Result},
    package, process, setup,
    workspace::Workspace,
};

/// Compares with the last tag that is a version.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(workspace.root());
    git.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD"]);
    let Ok(tag) = process::output(&mut git) else {
        return Err(Failure::new(
            "there is no tag v… yet, so nothing is released that could be broken; \
             in a shallow clone, `git fetch --tags --unshallow` brings the tags",
        ));
    };
    if !process::succeeds(setup::cargo().args(["semver-checks", "--version"])) {
        return Err(Failure::new(
            "cargo-semver-checks is missing: cargo install --locked cargo-semver-checks",
        ));
    }
    let mut command = setup::cargo();
    command.current_dir(workspace.root());
    command.args(["semver-checks", "--baseline-rev", tag.trim()]);
    process::run(command.args(package::LIBRARIES.map(|package| format!("--package={package}"))))
}
