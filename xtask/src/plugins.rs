//! Plugins of cargo that few commands need: found, or built into `target/tools`, or named.

use std::process::Command;

use crate::{
    failure::{Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// A plugin: its subcommand, what it is for, and how long it takes to build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plugin {
    pub(crate) subcommand: &'static str,
    pub(crate) purpose: &'static str,
    pub(crate) cpu_minutes: u32,
}

impl Plugin {
    /// Makes a command of the plugin, which is built if it is missing.
    pub(crate) fn get(self, workspace: &Workspace) -> Result<impl Fn() -> Command> {
        let find = |it: Self| {
            it.commands(workspace).find(|make| process::succeeds(make().arg("--version")))
        };
        if let Some(found) = find(self) {
            return Ok(found);
        }
        let package = format!("cargo-{}", self.subcommand);
        let Self { purpose, cpu_minutes, .. } = self;
        println!(
            "setup: building {package}, which {purpose}: about {cpu_minutes} CPU-minutes, once"
        );
        let mut install = setup::cargo();
        install.args(["install", "--locked", "--quiet", &package, "--root"]);
        let built = process::run(install.arg(workspace.target().join("tools")));
        built.ok().and_then(|()| find(self)).ok_or_else(|| {
            Failure::new(format!(
                "{package}, which {purpose}, is missing and could not be built; with network \
                 access: cargo install --locked {package}"
            ))
        })
    }

    /// The plugin that cargo finds, and the one of this workspace.
    fn commands(self, workspace: &Workspace) -> impl Iterator<Item = impl Fn() -> Command> {
        let ours = workspace.target().join("tools/bin").join(format!("cargo-{}", self.subcommand));
        [None, Some(ours)].into_iter().map(move |program| {
            move || {
                let mut command = program.as_ref().map_or_else(setup::cargo, Command::new);
                command.arg(self.subcommand);
                command
            }
        })
    }
}
