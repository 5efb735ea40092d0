//! What the tools depend on: licences, sources, and advisories where their database can be had (`deny.toml`).

use std::process::Command;

use crate::{failure::Result, process, setup, workspace::Workspace};

/// Why the step is left out.
pub(crate) const NOT_HERE: &str = "no cargo-deny (`cargo install --locked cargo-deny`)";

/// Whether the program is here that checks them.
pub(crate) fn is_checkable() -> bool {
    process::succeeds(setup::cargo().args(["deny", "--version"]))
}

/// Checks licences, bans and sources, and then advisories, unless their database cannot be fetched.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    process::run(deny(workspace).args(["check", "bans", "licenses", "sources"]))?;
    if !process::succeeds(deny(workspace).args(["fetch", "db"])) {
        println!("dependencies: the database of advisories cannot be fetched; not looked at");
        return Ok(());
    }
    process::run(deny(workspace).args(["check", "advisories"]))
}

fn deny(workspace: &Workspace) -> Command {
    let mut command = setup::cargo();
    command.current_dir(workspace.root()).arg("deny");
    command
}
