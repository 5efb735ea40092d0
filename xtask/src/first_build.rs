//! What a newcomer waits for: a clean build of the README's first command, beside the build of crates that it depends on,
//! and the size of what is built, with all that the command line has and without.

use std::{fs, path::Path};

use crate::{
    failure::{Context, Failure, Result},
    optimised::Program,
    process, setup,
    workspace::Workspace,
};

/// What is built first and timed alone: crates of others that the first command needs with the same features, and so
/// does not build again. How fast a machine compiles is a property of the machine; how many times their part the whole
/// takes is one of this project.
const YARDSTICK: [&str; 3] = ["clap_builder", "indicatif", "rayon"];

/// The most times that the whole build may take of the CPU time of the yardstick. Today it takes 7.9 times; what else the
/// machine does has moved it by a tenth.
const TIMES: f64 = 8.8;

/// The most bytes of the first command.
const BYTES: u64 = 6_000_000;

/// The most bytes of the whole command line, which has 12.1 million today.
const WHOLE: u64 = 12_500_000;

/// Why the step is left out.
pub(crate) const NOT_LINUX: &str = "the time of child processes is read from /proc, on Linux";

/// Whether the time of child processes can be read.
pub(crate) fn is_measurable() -> bool {
    process::spent().is_ok()
}

/// Builds the first command where nothing is built yet, with all sources fetched before, and compares.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    process::run(setup::cargo().current_dir(workspace.root()).args(["fetch", "--locked"]))?;
    let is_clean = !workspace.target().join("release").exists();
    let apart = workspace.target().join("first-build");
    let folder = if is_clean { workspace.target() } else { &apart };
    if apart.exists() {
        fs::remove_dir_all(&apart).context(|| format!("removing {}", apart.display()))?;
    }
    let started = process::spent()?;
    let mut yardstick = setup::cargo();
    yardstick.current_dir(workspace.root()).env("CARGO_TARGET_DIR", folder);
    yardstick.args(["build", "--release", "--locked"]);
    process::run(yardstick.args(YARDSTICK.iter().flat_map(|name| ["--package", name])))?;
    let unit = process::spent()? - started;
    let mut command = setup::cargo();
    command.current_dir(workspace.root()).env("CARGO_TARGET_DIR", folder);
    process::run(command.args(["reproduce", "--help"]))?;
    let seconds = process::spent()? - started;
    let times = seconds / unit;
    let small = size(&folder.join("release/lookaside"))?;
    if !is_clean {
        fs::remove_dir_all(&apart).context(|| format!("removing {}", apart.display()))?;
    }
    println!(
        "first build: {seconds:.1} CPU-seconds, {times:.2} times those of {} ({unit:.1}), of {TIMES}; \
         a program of {small} bytes",
        YARDSTICK.join(", ")
    );
    if times > TIMES {
        return Err(Failure::new(format!(
            "a clean build of `cargo reproduce` takes {times:.2} times the CPU time of some of its dependencies, more \
             than {TIMES}; `cargo build --timings` shows of what"
        )));
    }
    hold("the first command", small, BYTES)?;
    let whole = size(&Program::Lookaside.build(workspace)?)?;
    println!("first build: the whole command line has {whole} bytes of {WHOLE}");
    hold("the whole command line", whole, WHOLE)
}

/// Fails if a program is larger than it may be.
fn hold(program: &str, bytes: u64, most: u64) -> Result<()> {
    if bytes > most {
        return Err(Failure::new(format!(
            "{program} has {bytes} bytes, more than {most}; `nm --print-size --size-sort` shows of what, if it \
             is built with `--config profile.release.strip=false`"
        )));
    }
    Ok(())
}

fn size(file: &Path) -> Result<u64> {
    let metadata = fs::metadata(file).context(|| format!("looking at {}", file.display()))?;
    Ok(metadata.len())
}
