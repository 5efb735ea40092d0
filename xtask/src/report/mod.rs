//! The report's page in a browser, and timelines as Perfetto reads them.
//!
//! Pages are made of made-up results (`replay/examples/report.rs`), and one of a replay. Each is tried out by
//! a script (`probe.js`) that is put at its end: it sorts every table both ways, finds, unfolds. The browser must
//! have nothing to say on its console. Pictures of the pages are left for people to look at.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    failure::{Context, Failure, Result},
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

/// The package that makes pages of made-up results, and the package whose program replays and runs.
const REPLAY: &str = "lookaside-replay";
const LAB: &str = "lookaside-cli";

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
    let browser = browser()?;
    let python = python(workspace)?;
    let folder = workspace.root().join("target/report");
    process::run(cargo(workspace, REPLAY, &["--example", "report"]).arg("--").arg(&folder))?;
    let mut files = vec![folder.join(REPLAYED).with_extension("pftrace")];
    let mut lab = cargo(workspace, LAB, &["--bin", "lookaside"]);
    lab.args(["--", "replay", TRACE, "--report"]).arg(folder.join(REPLAYED));
    process::output(lab.arg("--force").arg("--perfetto").arg(&files[0]))?;
    for (page, checks) in PAGES {
        let path = folder.join(page).join("index.html");
        let probed = probe(&browser, &path, checks)?;
        println!("report: {page}: {probed} checks hold, the console is empty");
        for (name, width, height, dark) in WINDOWS {
            picture(&browser, &path, &folder.join(page).join(name), (width, height, dark))?;
        }
    }
    println!("report: pages and pictures are in {}", folder.display());
    for (name, arguments) in RUNS {
        let file = folder.join(name).with_extension("pftrace");
        let mut lab = cargo(workspace, LAB, &["--bin", "lookaside"]);
        lab.args(["--", "run"]).args(arguments).args(["--moments", "20000"]);
        process::output(lab.arg("--perfetto").arg(&file))?;
        files.push(file);
    }
    process::run(Command::new(python).current_dir(workspace.root()).arg(TIMELINE).args(files))
}

/// What the tests of these packages have built already.
fn cargo(workspace: &Workspace, package: &str, what: &[&str]) -> Command {
    let mut command = setup::cargo();
    command.current_dir(workspace.root());
    command.args(["run", "--quiet", "--release", "--package", package]).args(what);
    command
}

/// The browser: Debian's or another build of Chromium.
fn browser() -> Result<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = || names.iter().find(|name| process::succeeds(Command::new(name).arg("--version")));
    if found().is_none() {
        setup::debian("Chromium, in which the report is looked at,", &["chromium"])?;
    }
    let found = found().ok_or_else(|| Failure::new("chromium is installed but does not start"))?;
    Ok(PathBuf::from(found))
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

/// A browser without a window, that keeps to itself, with a profile that nobody has used.
fn headless(browser: &Path, profile: &Path, size: (u32, u32)) -> Command {
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--enable-logging=stderr",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("--window-size={},{}", size.0, size.1));
    command
}

/// Starts the browser on a page, and returns what it prints on standard output and on its console.
fn browse(
    browser: &Path,
    page: &Path,
    size: (u32, u32),
    arguments: &[String],
) -> Result<(String, Vec<String>)> {
    let profile = page.with_extension("profile");
    let _ = fs::remove_dir_all(&profile);
    let mut command = headless(browser, &profile, size);
    command.args(arguments).arg(format!("file://{}", page.display()));
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(|| format!("starting `{}`", process::spelled(&command)))?;
    let _ = fs::remove_dir_all(&profile);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        let status = output.status;
        return Err(Failure::new(format!("the browser failed ({status})\n{errors}")));
    }
    let console = errors.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), console.collect()))
}

/// Tries a page out in a wide window and in a narrow one, and says how many checks were made.
fn probe(browser: &Path, page: &Path, least: usize) -> Result<usize> {
    let text = fs::read_to_string(page).context(|| format!("reading {}", page.display()))?;
    let probed = page.with_file_name("probed.html");
    let whole = text.replace("</body>", &format!("<script>\n{PROBE}</script>\n</body>"));
    fs::write(&probed, whole).context(|| format!("writing {}", probed.display()))?;
    let mut checks = 0;
    for size in [(1200, 900), (420, 900)] {
        let (document, console) = browse(browser, &probed, size, &["--dump-dom".to_owned()])?;
        if !console.is_empty() {
            let said = console.join("\n");
            return Err(Failure::new(format!("{}: the console says\n{said}", page.display())));
        }
        checks += judge(&document)
            .map_err(|failure| Failure::new(format!("{}: {failure}", page.display())))?;
    }
    if checks < least {
        return Err(Failure::new(format!("{}: only {checks} checks were made", page.display())));
    }
    Ok(checks)
}

/// How many checks hold according to the verdict in a document.
fn judge(document: &str) -> Result<usize> {
    let verdict = document.split_once("<pre id=\"verdict\">").map(|(_, rest)| rest);
    let verdict = verdict.and_then(|rest| rest.split_once("</pre>")).map(|(verdict, _)| verdict);
    let Some(verdict) = verdict else {
        return Err(Failure::new("the script that tries the page out did not come to its end"));
    };
    let failed: Vec<&str> = verdict.lines().filter(|line| line.starts_with("FAIL")).collect();
    if !failed.is_empty() {
        return Err(Failure::new(failed.join("\n")));
    }
    let passed = verdict.lines().filter(|line| line.starts_with("PASS")).count();
    if passed == 0 || !verdict.contains(&format!("END of {passed}")) {
        return Err(Failure::new("the verdict is not whole"));
    }
    Ok(passed)
}

/// Takes a picture of a page.
fn picture(
    browser: &Path,
    page: &Path,
    name: &Path,
    (width, height, dark): (u32, u32, bool),
) -> Result<()> {
    let picture = name.with_extension("png");
    let _ = fs::remove_file(&picture);
    let mut arguments = vec![format!("--screenshot={}", picture.display())];
    if dark {
        arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
    }
    browse(browser, page, (width, height), &arguments)?;
    // A page that is not drawn compresses to nearly nothing.
    match fs::metadata(&picture) {
        Ok(file) if file.len() > 20_000 => Ok(()),
        _ => Err(Failure::new(format!("{}: there is nothing on the picture", picture.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(verdict: &str) -> String {
        format!("<body><script>'<pre>'</script><pre id=\"verdict\">{verdict}</pre></body>")
    }

    #[test]
    fn a_verdict_is_good_only_if_it_is_whole_and_nothing_failed() {
        assert_eq!(judge(&document("\nPASS a\nPASS b\nEND of 2\n")), Ok(2));
        assert!(judge(&document("\nPASS a\nFAIL b\nEND of 2\n")).is_err());
        assert!(judge(&document("\nPASS a\nEND of 2\n")).is_err());
        assert!(judge(&document("\nEND of 0\n")).is_err());
        assert!(judge("<body></body>").is_err());
    }
}
