//! The Python package: its wheel is built by maturin, and its tests run in an environment of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// Why the step is left out.
pub(crate) const NOT_HERE: &str =
    "no Python from 3.10 on with `venv` and `pip`, or pip could not install maturin and Dask";

/// What the tests need besides the wheel: its extra `test`, and maturin.
const PACKAGES: [&str; 8] = [
    "maturin>=1.7,<2",
    "distributed>=2024.1",
    "ipykernel",
    "mypy",
    "nbclient",
    "pandas>=2",
    "pyarrow>=14",
    "pytest",
];

/// Says whether all of them are there.
const THERE: &str =
    "import distributed, ipykernel, maturin, mypy, nbclient, pandas, pyarrow, pytest";

/// The smallest use of a wheel, where none of its extras is installed.
const ALONE: &str = "import lookaside; print(lookaside.sweep('storm', over='cpus=2', machines='zen5', \
                     options={'operations': 8}).summary.to_csv(), end='')";

/// Where all of it goes.
fn folder(workspace: &Workspace) -> PathBuf {
    workspace.root().join("target/python")
}

/// A Python with what builds and tests the package, in an environment of its own.
pub(crate) fn get(workspace: &Workspace) -> Option<PathBuf> {
    let environment = folder(workspace).join("tools");
    let python = environment.join("bin/python");
    let there = || process::succeeds(Command::new(&python).args(["-c", THERE]));
    if there() {
        return Some(python);
    }
    let fits = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";
    if !process::succeeds(Command::new("python3").args(["-c", fits])) {
        return None;
    }
    println!("setup: installing with pip: {}", PACKAGES.join(", "));
    let make = || -> Result<()> {
        process::run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(&python);
        process::run(pip.args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))
    };
    if let Err(failure) = make() {
        println!("setup: {failure}");
    }
    there().then_some(python)
}

/// Builds the wheel. Not in the folder of the other programs: it has other features of nearly all crates, and would wait for them.
pub(crate) fn build(workspace: &Workspace, python: &Path) -> Result<()> {
    let wheels = folder(workspace).join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).context(|| format!("removing {}", wheels.display()))?;
    }
    let mut maturin = Command::new(python);
    maturin.current_dir(workspace.root().join("python"));
    maturin.env("CARGO_TARGET_DIR", folder(workspace).join("build"));
    maturin.args(["-m", "maturin", "build", "--release", "--locked", "--out"]).arg(&wheels);
    process::run(&mut maturin)
}

/// Installs the wheel alone into a fresh environment, and runs its tests.
pub(crate) fn run(workspace: &Workspace, python: &Path) -> Result<()> {
    let folder = folder(workspace);
    let source = workspace.root().join("python");
    let cargo = |arguments: &[&str]| {
        let mut cargo = setup::cargo();
        // What both workspaces depend on is compiled once.
        cargo.current_dir(&source).env("CARGO_TARGET_DIR", workspace.target());
        process::run(cargo.args(arguments))
    };
    cargo(&["fmt", "--check"])?;
    cargo(&["clippy", "--locked", "--", "-Dwarnings"])?;
    let wheel = wheel(&folder.join("wheels"))?;

    let fresh = folder.join("fresh");
    process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&fresh))?;
    let alone = fresh.join("bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--no-index"];
    process::run(Command::new(&alone).args(install).arg(&wheel))?;
    process::run(Command::new(&alone).args(["-I", "-c", ALONE]))?;

    let again = ["--force-reinstall", "--no-deps"];
    process::run(Command::new(python).args(install).args(again).arg(&wheel))?;
    let mut tests = Command::new(python);
    tests.current_dir(&source).args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    let tool = workspace.target().join("release/lookaside");
    if tool.is_file() {
        // The numbers of the command line are compared where it was built before.
        tests.env("LOOKASIDE_TOOL", tool);
    }
    process::run(&mut tests)
}

fn wheel(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).context(|| format!("reading {}", folder.display()))?;
    let found = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut wheels = found.filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
    wheels.next().ok_or_else(|| {
        Failure::new(format!("no wheel is in {}: `python, wheel` builds it", folder.display()))
    })
}
