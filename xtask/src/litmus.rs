//! Litmus tests of others, where they are: the machine must agree with what is recorded of each.

use std::{env, path::PathBuf};

use crate::{failure::Result, optimised::Program, process, workspace::Workspace};

/// Names the folder with the tests.
const VARIABLE: &str = "LOOKASIDE_LITMUS";
/// Where they are looked for, beside the workspace, if nothing is named.
const BESIDE: &str = "../shared/litmus";

/// Why the step is left out.
pub(crate) const NOT_HERE: &str =
    "no tests are here: LOOKASIDE_LITMUS names a folder (docs/litmus.md says where to get one)";

/// The folder with the tests. One that was named need not exist: then the run says so, and fails.
pub(crate) fn folder(workspace: &Workspace) -> Option<PathBuf> {
    env::var_os(VARIABLE).map(PathBuf::from).or_else(|| {
        let beside = workspace.root().join(BESIDE);
        beside.is_dir().then_some(beside)
    })
}

/// Runs the tests of a folder. A single state too few or too many fails, and so does
/// a test that cannot be read.
pub(crate) fn run(workspace: &Workspace, folder: &PathBuf) -> Result<()> {
    let mut command = Program::Lookaside.command(workspace)?;
    process::run(command.args(["litmus", "--strict"]).arg(folder))
}
