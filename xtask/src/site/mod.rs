//! The documentation site: the chapters are the Markdown files of the repository, built into `target/site`.
//!
//! `docs/SUMMARY.md` lists the chapters. They are copied into `target/site-source` with their links rewritten
//! ([`assemble`]), drawings and the playground are made from runs, mdBook makes the pages, and every link within the
//! site is followed ([`check`]). A link to the outside is not fetched.

mod assemble;
mod browse;
mod check;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) use browse::run as try_out;

use crate::{
    failure::{Context, Failure, Result},
    optimised::Program,
    process, setup,
    workspace::Workspace,
};

/// The release of mdBook that builds the site.
const MDBOOK: &str = "0.5.4";

/// What a step says where mdBook cannot be had.
pub(crate) const NOT_HERE: &str = "mdBook is missing, and cargo could not install it";

/// mdBook, if it is here or can be installed into `target/tools`.
pub(crate) fn mdbook(workspace: &Workspace) -> Option<PathBuf> {
    let ours = workspace.target().join("tools/bin/mdbook");
    let is_right = |program: &Path| {
        process::output(Command::new(program).arg("--version"))
            .is_ok_and(|printed| printed.trim().trim_start_matches("mdbook v") == MDBOOK)
    };
    if let Some(found) = [PathBuf::from("mdbook"), ours.clone()].into_iter().find(|it| is_right(it))
    {
        return Some(found);
    }
    println!("setup: building mdBook {MDBOOK}, which takes a minute or two");
    let mut install = setup::cargo();
    install.args(["install", "mdbook", "--version", MDBOOK, "--locked", "--quiet", "--root"]);
    install.arg(workspace.target().join("tools"));
    // It runs for seconds, and takes minutes to optimise.
    install.args(["--debug", "--no-default-features", "--features", "search"]);
    if let Err(failure) = process::run(&mut install) {
        println!("setup: {failure}");
    }
    is_right(&ours).then_some(ours)
}

/// Builds the site, or says what is missing for it.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mdbook = mdbook(workspace).ok_or_else(|| {
        Failure::new(format!(
            "{NOT_HERE}.\nWith network access: cargo install mdbook --version {MDBOOK} --locked"
        ))
    })?;
    build(workspace, &mdbook)
}

/// Builds the site, and follows its links.
pub(crate) fn build(workspace: &Workspace, mdbook: &Path) -> Result<()> {
    let source = workspace.root().join("target/site-source");
    let site = workspace.root().join("target/site");
    for folder in [&source, &site] {
        if folder.exists() {
            fs::remove_dir_all(folder).context(|| format!("clearing {}", folder.display()))?;
        }
    }
    let chapters = assemble::run(workspace, &source)?;
    println!("site: {chapters} chapters");
    process::run(Program::Playground.command(workspace)?.arg(&source))?;
    process::run(Command::new(mdbook).arg("build").arg(workspace.root()))?;
    let checked = check::run(&site)?;
    println!("site: {checked} links within the site lead somewhere; see {}", site.display());
    Ok(())
}
