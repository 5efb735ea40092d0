//! The packages whose tests are run optimised, and their programs as those tests build them.
//!
//! Built alone, a program has fewer features of the crates that it depends on, so that cargo compiles these, and most of the
//! workspace, once more.

use std::{path::PathBuf, process::Command};

use crate::{failure::Result, process, setup, workspace::Workspace};

/// The explorer's package.
pub(crate) const EXPLORER: &str = "lookaside-explorer";
/// The command line's package.
pub(crate) const LAB: &str = "lookaside-cli";

/// The packages.
pub(crate) const PACKAGES: [&str; 10] = [
    "lookaside-machine",
    "lookaside-scenarios",
    EXPLORER,
    "lookaside-terminal",
    "lookaside-checking",
    "lookaside-traces",
    "lookaside-simulation",
    "lookaside-replay",
    "lookaside-playground",
    LAB,
];

/// A program of these packages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    /// The command line.
    Lookaside,
    /// What makes the site's pages.
    Playground,
    /// An example, which makes reports of made-up results.
    Report,
}

impl Program {
    /// Where cargo puts it, below `target`.
    const fn path(self) -> &'static str {
        match self {
            Self::Lookaside => "release/lookaside",
            Self::Playground => "release/lookaside-playground",
            Self::Report => "release/examples/report",
        }
    }

    /// Builds it with the others, and says where it is.
    pub(crate) fn build(self, workspace: &Workspace) -> Result<PathBuf> {
        let mut build = cargo(workspace, "build");
        // With an example cargo takes the features of the tests.
        build.args(["--quiet", "--bins", "--example", "report"]);
        process::run(&mut build)?;
        Ok(workspace.target().join(self.path()))
    }

    /// Builds it, and returns the command that starts it at the root of the workspace.
    pub(crate) fn command(self, workspace: &Workspace) -> Result<Command> {
        let mut command = Command::new(self.build(workspace)?);
        command.current_dir(workspace.root());
        Ok(command)
    }
}

/// `cargo COMMAND` of all the packages, optimised.
pub(crate) fn cargo(workspace: &Workspace, command: &str) -> Command {
    let mut cargo = setup::cargo();
    cargo.current_dir(workspace.root()).args([command, "--release"]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    cargo
}
