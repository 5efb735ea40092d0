//! The kernel under the TLB sanitizer: `hunt`, in a QEMU whose plugins can read registers.

use std::{path::PathBuf, process::Command};

use crate::{
    boot::{Architecture, build},
    failure::Result,
    process, setup,
    setup::BareMetal,
    workspace::Workspace,
};

/// For how long one kernel is watched, in seconds.
const SECONDS: &str = "60";

/// Why the step was left out.
pub(crate) const NOT_HERE: &str =
    "there is no QEMU 10, and it could not be unpacked from Debian's packages";

/// The architectures of the kernel that the plugin can watch.
pub(crate) const ARCHITECTURES: [Architecture; 3] =
    [Architecture::Riscv64, Architecture::Aarch64, Architecture::X86_64];

/// Builds `hunt` with its plugin, and gets QEMU if it may. Nothing if there is none.
pub(crate) fn get(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let mut command = setup::cargo();
    command.current_dir(workspace.root()).args(["build", "--release", "--quiet"]);
    command.args(["--package", "lookaside-watch-qemu", "--package", "lookaside-hunt"]);
    process::run(&mut command)?;
    let hunt = workspace.target().join("release/lookaside-hunt");
    let ready = || process::succeeds(command_of(workspace, &hunt).arg("--check"));
    if ready() {
        return Ok(Some(hunt));
    }
    // Without network, or elsewhere than on Debian, it says why.
    let unpacked = process::run(command_of(workspace, &hunt).arg("--setup")).is_ok();
    Ok((unpacked && ready()).then_some(hunt))
}

/// Why the run in Bochs was left out: to build it takes minutes.
pub(crate) const NO_BOCHS: &str =
    "there is no Bochs with the instrumentation: `lookaside hunt --setup bochs` builds one";

/// Watches the kernel in Bochs, which has PCIDs. Whether there is such a Bochs.
pub(crate) fn run_in_bochs(
    workspace: &Workspace,
    bare: &BareMetal,
    hunt: &std::path::Path,
) -> Result<bool> {
    let mut command = setup::cargo();
    command.current_dir(workspace.root()).args(["build", "--release", "--quiet"]);
    process::run(command.args(["--package", "lookaside-watch-bochs"]))?;
    let bochs = ["--emulator", "bochs"];
    if !process::succeeds(command_of(workspace, hunt).args(bochs).arg("--check")) {
        return Ok(false);
    }
    let user = build::user(workspace, bare, Architecture::X86_64)?;
    build::kernel(workspace, bare, Architecture::X86_64, &user, None)?;
    let mut command = command_of(workspace, hunt);
    command.arg("lookaside-x86_64").args(bochs).arg("--from").arg(workspace.root());
    process::run_and_repeat(&mut command).map(|()| true)
}

/// Watches the kernel. It fails on a certain finding, and if nothing was put to the test.
pub(crate) fn run(
    workspace: &Workspace,
    bare: &BareMetal,
    hunt: &std::path::Path,
    architecture: Architecture,
) -> Result<()> {
    let user = build::user(workspace, bare, architecture)?;
    build::kernel(workspace, bare, architecture, &user, None)?;
    let mut command = command_of(workspace, hunt);
    command.arg(format!("lookaside-{architecture}")).args(["--seconds", SECONDS, "--from"]);
    process::run_and_repeat(command.arg(workspace.root()))
}

fn command_of(workspace: &Workspace, hunt: &std::path::Path) -> Command {
    let mut command = Command::new(hunt);
    command.current_dir(workspace.root()).env("CARGO_TARGET_DIR", workspace.target());
    command
}
