//! The report's page in a browser, and timelines as Perfetto reads them.
//!
//! Pages are made of made-up results (`replay/examples/report.rs`), and one of a replay. Each is tried out by
//! a script (`probe.js`) that is put at its end: it sorts every table both ways, finds, unfolds. The browser must
//! have nothing to say on its console. Pictures of the pages are left for people to look at.

use std::{path::PathBuf, process::Command};

use crate::{
    browser,
    failure::{Failure, Result},
    optimised::Program,
    process, setup,
    workspace::Workspace,
};

const PROBE: &str = include_str!("probe.js");
const TIMELINE: &str = "xtask/src/report/timeline.py";

/// The pages: their names, and how many checks each has at least.
const PAGES: [(&str, usize); 5] =
    [("ordinary", 60), ("crowded", 60), ("idle", 40), ("hostile", 60), (REPLAYED, 60)];

/// The page of a replay, and the trace that is replayed.
const REPLAYED: &str = "replayed";
const TRACE: &str = "traces/sort.trace";

/// How wide the window is, how high, and whether it is dark.
const WINDOWS: [(&str, u32, u32, bool); 4] = [
    ("wide-light", 1200, 3000, false),
    ("wide-dark", 1200, 3000, true),
    ("narrow-light", 420, 4600, false),
    ("narrow-dark", 420, 4600, true),
];

/// Runs whose timelines are looked at: interrupts on x86, broadcasts on Arm.
const RUNS: [(&str, &[&str]); 3] = [
    ("linux", &["storm", "--machine", "zen4", "--strategy", "linux-ipi-2025", "--cpus", "8"]),
    ("library", &["madvise", "--machine", "haswell_desktop", "--strategy", "lookaside"]),
    ("arm", &["storm", "--machine", "altra_2node", "--strategy", "lookaside", "--cpus", "8"]),
];

/// Looks at everything, and leaves it in `target/report`.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let browser = browser::find("the report")?;
    let python = python(workspace)?;
    let folder = workspace.root().join("target/report");
    process::run(Program::Report.command(workspace)?.arg(&folder))?;
    let mut files = vec![folder.join(REPLAYED).with_extension("pftrace")];
    let mut replay = Program::Lookaside.command(workspace)?;
    replay.args(["replay", TRACE, "--report"]).arg(folder.join(REPLAYED));
    process::output(replay.arg("--force").arg("--perfetto").arg(&files[0]))?;
    for (page, checks) in PAGES {
        let path = folder.join(page).join("index.html");
        let probed = browser::probe(&browser, &path, PROBE, checks)?;
        println!("report: {page}: {probed} checks hold, the console is empty");
        for (name, width, height, dark) in WINDOWS {
            browser::picture(
                &browser,
                &path,
                &folder.join(page).join(name),
                (width, height, dark),
            )?;
        }
    }
    println!("report: pages and pictures are in {}", folder.display());
    for (name, arguments) in RUNS {
        let file = folder.join(name).with_extension("pftrace");
        let mut run = Program::Lookaside.command(workspace)?;
        run.arg("run").args(arguments).args(["--moments", "20000"]);
        process::output(run.arg("--perfetto").arg(&file))?;
        files.push(file);
    }
    process::run(Command::new(python).current_dir(workspace.root()).arg(TIMELINE).args(files))
}

/// A Python with Perfetto's package, in an environment of its own.
fn python(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.root().join("target/report-python");
    let python = folder.join("bin/python");
    let there = || process::succeeds(Command::new(&python).args(["-c", "import perfetto.protos"]));
    if there() {
        return Ok(python);
    }
    let make = || process::run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
    if make().is_err() {
        setup::debian("Python with environments", &["python3", "python3-venv"])?;
        make()?;
    }
    println!("setup: installing with pip: perfetto, protobuf");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "perfetto==0.59.1", "protobuf"]);
    process::run(&mut pip).map_err(|failure| {
        Failure::new(format!(
            "Perfetto's Python package is missing, by which timelines are read.\n({failure})"
        ))
    })?;
    Ok(python)
}
