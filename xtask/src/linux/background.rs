//! Linux in the gate: built while other steps run, and booted in a step of its own.

use std::{
    env,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use super::{Architecture, source};
use crate::{
    failure::{Context, Failure, Result},
    process,
    workspace::Workspace,
};

/// What is built: with the library's debug build.
const KERNEL: [&str; 4] = ["linux", "arm64", "--tests", "--checked"];
/// How it is booted, beside that.
const BOOT: [&str; 4] = ["--less", "100", "--tags", "16"];
/// How much of what the build said is repeated if it failed.
const LINES: usize = 30;

/// A build of Linux that takes what other programs leave of the processors. The gate ends after it.
pub(crate) struct Background {
    child: Child,
    log: PathBuf,
}

impl Background {
    /// Installs what it takes, and begins.
    ///
    /// # Errors
    ///
    /// Where a compiler or the emulator is missing and cannot be installed.
    pub(crate) fn begin(workspace: &Workspace) -> Result<Self> {
        source::tools(Architecture::Arm64)?;
        let folder = workspace.target().join("linux");
        fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
        let log = folder.join("build.log");
        let file = File::create(&log).context(|| format!("writing {}", log.display()))?;
        let errors = file.try_clone().context(|| "a second handle of the log".to_owned())?;
        let mut build = Command::new("nice");
        build.args(["-n", "19"]).arg(this_program()?).args(KERNEL).arg("--build");
        println!("linux: built beside the other steps: $ {}", process::spelled(&build));
        build.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = build.spawn().context(|| "starting the build of Linux".to_owned())?;
        Ok(Self { child, log })
    }

    /// Waits for the build, boots the kernel and runs the tests; false if Linux's source is not to be had here.
    ///
    /// # Errors
    ///
    /// If the build or a test fails.
    pub(crate) fn test(mut self, workspace: &Workspace) -> Result<bool> {
        let built = self.child.wait().context(|| "waiting for the build of Linux".to_owned())?;
        if !built.success() {
            if !source::is_here(workspace) {
                return Ok(false);
            }
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<_> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
            return Err(Failure::new(format!("Linux was not built ({built}):\n{last}")));
        }
        process::run(Command::new(this_program()?).args(KERNEL).args(BOOT))?;
        Ok(true)
    }
}

/// The program that this is.
fn this_program() -> Result<PathBuf> {
    env::current_exe().context(|| "finding the program that runs".to_owned())
}
