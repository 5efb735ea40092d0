//! What a newcomer waits for: a clean build of the README's first command, beside the build of crates that it depends on,
//! and the size of what is built, with all that the command line has and without.

use std::{fs, path::Path};

use crate::{
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// What is built first and timed alone: crates of others that the first command needs with the same features, and so
/// does not build again. How fast a machine compiles is a property of the machine; how many times their part the whole
/// takes is one of this project.
const YARDSTICK: [&str; 3] = ["clap_builder", "indicatif", "rayon"];

/// The most times that the whole build may take of the CPU time of the yardstick. Today it takes 7.2 times; what else the
/// machine does has moved it by a tenth.
const TIMES: f64 = 8.0;

/// The most bytes of the first command.
const BYTES: u64 = 6_000_000;

/// The most bytes of the whole command line.
const WHOLE: u64 = 12_000_000;

/// Why the step is left out.
pub(crate) const NOT_LINUX: &str = "the time of child processes is read from /proc, on Linux";

/// Whether the time of child processes can be read.
pub(crate) fn is_measurable() -> bool {
    spent().is_ok()
}

/// Builds the first command into an empty folder, with all sources fetched before, and compares.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    process::run(setup::cargo().current_dir(workspace.root()).args(["fetch", "--locked"]))?;
    let folder = workspace.target().join("first-build");
    if folder.exists() {
        fs::remove_dir_all(&folder).context(|| format!("removing {}", folder.display()))?;
    }
    let started = spent()?;
    let mut yardstick = setup::cargo();
    yardstick.current_dir(workspace.root()).env("CARGO_TARGET_DIR", &folder);
    yardstick.args(["build", "--release", "--locked"]);
    process::run(yardstick.args(YARDSTICK.iter().flat_map(|name| ["--package", name])))?;
    let unit = spent()? - started;
    let mut command = setup::cargo();
    command.current_dir(workspace.root()).env("CARGO_TARGET_DIR", &folder);
    process::run(command.args(["reproduce", "--help"]))?;
    let seconds = spent()? - started;
    let times = seconds / unit;
    let small = size(&folder.join("release/lookaside"))?;
    fs::remove_dir_all(&folder).context(|| format!("removing {}", folder.display()))?;
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
    // The workspace's own, which other steps run: it is built here only if this step is the first to ask for it.
    let mut whole = setup::cargo();
    whole.current_dir(workspace.root()).args(["build", "--release", "--package", "lookaside-cli"]);
    process::run(&mut whole)?;
    let whole = size(&workspace.target().join("release/lookaside"))?;
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

/// Seconds of CPU of all children that have ended, and of theirs.
fn spent() -> Result<f64> {
    let stat =
        fs::read_to_string("/proc/self/stat").context(|| "reading /proc/self/stat".into())?;
    children(&stat)
        .ok_or_else(|| Failure::new("/proc/self/stat has another form than proc(5) says"))
}

/// The fields `cutime` and `cstime`, which count in hundredths of a second (`USER_HZ`).
fn children(stat: &str) -> Option<f64> {
    // The name of the program is in parentheses, and may have blanks and parentheses in it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(13);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_found_behind_any_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 250 50 20 0";
        assert_eq!(children(stat), Some(3.0));
        assert_eq!(children("7 a S"), None);
    }
}
