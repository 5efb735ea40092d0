//! The interfaces of the libraries beside those of the last release: what breaks a user's build needs a new version.

use std::process::Command;

use crate::{
    failure::{Failure, Result},
    gate,
    plugins::Plugin,
    process,
    workspace::Workspace,
};

const CHECKER: Plugin = Plugin {
    subcommand: "semver-checks",
    purpose: "compares the interfaces of two versions",
    cpu_minutes: 9,
};

/// Compares with a revision, or with the last tag that is a version.
pub(crate) fn run(workspace: &Workspace, revision: Option<&str>) -> Result<()> {
    let baseline = match revision {
        Some(revision) => revision.to_owned(),
        None => last_release(workspace)?,
    };
    let mut command = CHECKER.get(workspace)?();
    command.current_dir(workspace.root()).args(["--baseline-rev", &baseline]);
    process::run(command.args(gate::libraries().map(|package| format!("--package={package}"))))
}

fn last_release(workspace: &Workspace) -> Result<String> {
    let mut git = Command::new("git");
    git.current_dir(workspace.root());
    git.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD"]);
    let tag = process::output(&mut git).map_err(|_| {
        Failure::new(
            "there is no tag v… from which this commit comes: name what to compare with \
             (`cargo xtask semver --baseline-rev REVISION`), or fetch the tags of a shallow clone \
             (`git fetch --tags --unshallow`)",
        )
    })?;
    Ok(tag.trim().to_owned())
}
