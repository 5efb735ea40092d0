//! The kernel and its user programs, built for one architecture.
//!
//! Neither is part of our workspace: they have one of their own, in which cargo runs. The programs
//! are one file, which the kernel holds: it is told at build time where that file is.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use clap::ValueEnum;

use super::Architecture;
use crate::{failure::Result, process, setup::BareMetal, workspace::Workspace};

/// A package with one program, which has the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package {
    /// Relative to the root.
    pub(crate) directory: &'static str,
    name: &'static str,
}

/// The kernel. The root of its workspace is the same directory.
pub(crate) const KERNEL: Package = Package { directory: "kernel", name: "lookaside-kernel" };
/// The programs that it runs.
pub(crate) const USER: Package = Package { directory: "kernel/user", name: "lookaside-user" };

/// Names the file of user programs to the kernel's build.
pub(crate) const USER_VARIABLE: &str = "LOOKASIDE_USER";

/// A fault that is put into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// The remote part of every shootdown is missing.
    NoRemote,
    /// Pages are unmapped without a flush.
    NoFlush,
    /// Every space has one tag, and invalidations do nothing. For Arm64: elsewhere QEMU forgets all
    /// translations when the root changes.
    OneTag,
    /// The page-fault handler does not tell the library of spurious faults.
    NoSpurious,
    /// One CPU runs without having come online.
    OneOffline,
    /// The platform sends no IPI.
    NoIpi,
}

impl Fault {
    /// The kernel's feature.
    fn feature(self) -> &'static str {
        match self {
            Self::NoRemote => "no-remote",
            Self::NoFlush => "no-flush",
            Self::OneTag => "one-tag",
            Self::NoSpurious => "no-spurious",
            Self::OneOffline => "one-offline",
            Self::NoIpi => "no-ipi",
        }
    }

    /// How the library's conformance tests call it, where they are what finds it.
    pub(super) fn is_called(self) -> Option<&'static str> {
        match self {
            Self::NoRemote => None,
            Self::NoFlush => Some("reads an unmapped page"),
            Self::OneTag => Some("reads the page of another space"),
            Self::NoSpurious => Some("handles a spurious fault without `spurious_fault`"),
            Self::OneOffline => Some("CPU 1 is not online"),
            Self::NoIpi => Some("CPU 1 is up and does not answer"),
        }
    }

    /// Where the conformance tests find it. A page fault of x86 removes the entry by itself.
    pub(crate) fn shows_on(self, architecture: Architecture) -> bool {
        match self {
            Self::NoRemote => false,
            Self::NoFlush | Self::OneOffline | Self::NoIpi => true,
            Self::OneTag => architecture == Architecture::Aarch64,
            Self::NoSpurious => architecture != Architecture::X86_64,
        }
    }
}

/// A cargo command for one of the packages.
pub(crate) fn cargo(
    workspace: &Workspace,
    bare: &BareMetal,
    subcommand: &str,
    package: Package,
    architecture: Architecture,
) -> Command {
    let mut command = bare.cargo_for(package.name, "core,alloc", subcommand, architecture.target());
    command
        .current_dir(workspace.root().join(package.directory))
        .env("CARGO_TARGET_DIR", workspace.target())
        // Flags of the environment would take the place of those that the packages set themselves.
        .env_remove("RUSTFLAGS");
    command
}

/// Builds the user programs, and says where they are.
pub(crate) fn user(
    workspace: &Workspace,
    bare: &BareMetal,
    architecture: Architecture,
) -> Result<PathBuf> {
    process::run(cargo(workspace, bare, "build", USER, architecture).arg("--release"))?;
    Ok(program(workspace.target(), architecture, USER))
}

/// Builds the kernel around the programs, and says where it is.
pub(crate) fn kernel(
    workspace: &Workspace,
    bare: &BareMetal,
    architecture: Architecture,
    user: &Path,
    fault: Option<Fault>,
) -> Result<PathBuf> {
    let mut command = cargo(workspace, bare, "build", KERNEL, architecture);
    command.arg("--release").env(USER_VARIABLE, user);
    let mut target = workspace.target().to_path_buf();
    if let Some(fault) = fault {
        // A directory of its own, so that nobody boots this kernel by accident.
        target.push(fault.feature());
        command.args(["--features", fault.feature()]).env("CARGO_TARGET_DIR", &target);
    }
    process::run(&mut command)?;
    Ok(program(&target, architecture, KERNEL))
}

/// Where cargo puts a program.
fn program(target: &Path, architecture: Architecture, package: Package) -> PathBuf {
    target.join(architecture.target()).join("release").join(package.name)
}
