//! A copy of the workspace in which one worker mutates, builds and explores.

use std::{fs, path::PathBuf, process::Command};

use super::{
    explore::{self, Exploration},
    record::Mutant,
};
use crate::{
    failure::{Context, Result},
    process, setup,
    workspace::Workspace,
};

/// The package whose program is the explorer.
pub(super) const PACKAGE: &str = "lookaside-explorer";
/// The package whose tests are asked.
const LIBRARY: &str = "lookaside";
/// The name of that program.
pub(super) const PROGRAM: &str = "lookaside-explorer";

/// The copy has a target directory of its own, so that only what a mutant changes is built again.
#[derive(Debug)]
pub(super) struct WorkTree {
    source: PathBuf,
    target: PathBuf,
}

impl WorkTree {
    /// A fresh copy of the source, beside the outputs of earlier builds.
    pub(super) fn open(workspace: &Workspace, number: usize) -> Result<Self> {
        let directory = workspace.target().join("mutants");
        let source = directory.join(format!("src-{number}"));
        workspace.copy_to(&source)?;
        Ok(Self { source, target: directory.join(format!("target-{number}")) })
    }

    /// Builds the explorer on the source as it is in the copy now.
    pub(super) fn build(&self) -> Result<()> {
        let mut command = setup::cargo();
        command
            .current_dir(&self.source)
            .env("CARGO_TARGET_DIR", &self.target)
            // One mutant changes a few functions: without this all of the explorer is built anew.
            .envs([("CARGO_INCREMENTAL", "1"), ("CARGO_PROFILE_RELEASE_DEBUG", "0")])
            .args(["build", "--quiet", "--release", "--package", PACKAGE]);
        process::output(&mut command).map(drop)
    }

    /// Whether a test of the library fails, of a program that compiles.
    pub(super) fn fails(&self, program: &str, test: &str) -> Result<bool> {
        let test_with = |arguments: &[&str]| {
            let mut command = setup::cargo();
            command
                .current_dir(&self.source)
                .env("CARGO_TARGET_DIR", &self.target)
                .args(["test", "--quiet", "--package", LIBRARY, "--test", program])
                .args(arguments);
            command
        };
        process::output(&mut test_with(&["--no-run"]))?;
        Ok(!process::succeeds(&mut test_with(&["--", "--exact", test])))
    }

    /// Explores one scenario.
    pub(super) fn explore(&self, scenario: &str, budget: f64) -> Result<Exploration> {
        let mut command = Command::new(self.target.join("release").join(PROGRAM));
        command
            .current_dir(&self.source)
            .args(["explore", scenario, "--budget"])
            .arg(budget.to_string());
        explore::run(&mut command, budget)
    }

    /// Shows a schedule again.
    pub(super) fn replay(&self, schedule: &str) -> Result<()> {
        let mut command = Command::new(self.target.join("release").join(PROGRAM));
        command.current_dir(&self.source).args(["explore", "--schedule", schedule]);
        println!("$ {}", process::spelled(&command));
        command.status().map(drop).context(|| "starting the explorer".to_owned())
    }

    /// Does `work` with the mutant in the copy, and takes it out again.
    pub(super) fn with<T>(&self, mutant: &Mutant, work: impl FnOnce() -> T) -> Result<T> {
        let path = self.source.join(&mutant.file);
        let good = fs::read_to_string(&path).context(|| format!("reading {}", path.display()))?;
        let writing = || format!("writing {}", path.display());
        fs::write(&path, mutant.apply(&good)?).context(writing)?;
        let done = work();
        fs::write(&path, good).context(writing)?;
        Ok(done)
    }
}
