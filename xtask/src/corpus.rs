//! The corpus: ordinary programs, recorded anew on this machine, alone and beside others, and the counts of them that the
//! reconstruction gets right.

use core::fmt;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde::Deserialize;

use crate::{
    failure::{Context, Failure, Result},
    optimised, process, setup,
    workspace::Workspace,
};

/// The programs, as data.
const PROGRAMS: &str = "traces/corpus/programs.toml";
/// The least part of the judged counts of the judged half that must hold.
const LEAST: f64 = 0.9;
/// What runs beside a program that is recorded under load, once for each processor: it makes processes and maps files.
const LOAD: &str = "while :; do ls -lR /usr/share/doc /usr/include | sort | tail -1; done";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Record only these programs.
    programs: Vec<String>,
}

#[derive(Deserialize)]
struct Corpus {
    program: Vec<Program>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    half: Half,
    #[serde(rename = "about")]
    _about: String,
    needs: Vec<String>,
    packages: Vec<String>,
    setup: String,
    command: String,
}

/// What a recording is for.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Half {
    Found,
    Judged,
}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Found => "found",
            Self::Judged => "judged",
        })
    }
}

/// The judged counts of recordings.
#[derive(Default)]
struct Tally {
    hold: usize,
    judged: usize,
    /// Those that do not: what, as recorded and as modelled.
    missed: Vec<String>,
}

/// What `lookaside replay --validate --format json` says, as far as it is read here.
#[derive(Deserialize)]
struct Validated {
    strategies: Vec<Strategy>,
}

#[derive(Deserialize)]
struct Strategy {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    what: String,
    recorded: f64,
    modelled: f64,
    limit: Option<f64>,
    within: Option<bool>,
}

/// Records, replays, and prints what holds. Fails if too little of the judged half does.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let programs = read(workspace, &options.programs)?;
    let lookaside = optimised::Program::Lookaside.build(workspace)?;
    let folder = workspace.target().join("corpus");
    let mut judged = Tally::default();
    let mut table =
        format!("{:<10} {:<7} {:<7} {}\n", "program", "half", "load", "counts that hold");
    let mut failed = Vec::new();
    for program in &programs {
        if let Err(error) = program.get() {
            failed.push(format!("{}: {error}", program.name));
            continue;
        }
        let work = program.prepare(workspace, &folder)?;
        for loaded in [false, true] {
            let load = if loaded { "beside" } else { "alone" };
            let trace = folder.join(format!("{}-{load}.trace", program.name));
            let tally = program
                .record(workspace, &lookaside, &work, &trace, loaded)
                .and_then(|()| validate(&lookaside, &trace));
            let tally = match tally {
                Ok(tally) => tally,
                Err(error) => {
                    failed.push(format!("{} {load}: {error}", program.name));
                    continue;
                }
            };
            table += &format!(
                "{:<10} {:<7} {load:<7} {} of {}\n",
                program.name, program.half, tally.hold, tally.judged
            );
            for missed in &tally.missed {
                table += &format!("{:27}{missed}\n", "");
            }
            if program.half == Half::Judged {
                judged.hold += tally.hold;
                judged.judged += tally.judged;
            }
        }
    }
    println!("\n{table}");
    if !failed.is_empty() {
        return Err(Failure::new(format!("not recorded or not judged: {}", failed.join("; "))));
    }
    if judged.judged == 0 {
        println!("corpus: no program of the judged half was recorded");
        return Ok(());
    }
    let part = judged.hold as f64 / judged.judged as f64;
    let said = format!(
        "of the judged half {} of {} counts hold, {:.1} %",
        judged.hold,
        judged.judged,
        part * 100.0
    );
    if part < LEAST {
        return Err(Failure::new(format!("{said}: less than {:.0} %", LEAST * 100.0)));
    }
    println!("corpus: {said}; the traces are in {}", folder.display());
    Ok(())
}

fn read(workspace: &Workspace, names: &[String]) -> Result<Vec<Program>> {
    let path = workspace.root().join(PROGRAMS);
    let text = fs::read_to_string(&path).context(|| format!("reading {PROGRAMS}"))?;
    let mut corpus: Corpus = toml::from_str(&text).context(|| format!("reading {PROGRAMS}"))?;
    let known: Vec<_> = corpus.program.iter().map(|program| program.name.clone()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        let known = known.join(", ");
        return Err(Failure::new(format!("{PROGRAMS} has no program `{unknown}`, but {known}")));
    }
    corpus.program.retain(|program| names.is_empty() || names.contains(&program.name));
    Ok(corpus.program)
}

impl Program {
    /// Installs what it needs, where that is missing and may be installed.
    fn get(&self) -> Result<()> {
        let is_there = |name: &String| {
            process::succeeds(Command::new("sh").args(["-c", &format!("command -v {name}")]))
        };
        if self.needs.iter().all(is_there) {
            return Ok(());
        }
        let packages: Vec<_> = self.packages.iter().map(String::as_str).collect();
        setup::debian(
            &format!("for the program `{}`: {}", self.name, self.needs.join(", ")),
            &packages,
        )
    }

    /// Makes its folder, with its inputs.
    fn prepare(&self, workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
        let work = folder.join("work").join(&self.name);
        if work.exists() {
            fs::remove_dir_all(&work).context(|| format!("removing {}", work.display()))?;
        }
        fs::create_dir_all(&work).context(|| format!("creating {}", work.display()))?;
        let mut shell = Command::new("sh");
        shell.current_dir(&work).env("REPOSITORY", workspace.root()).args(["-ec", &self.setup]);
        process::run(&mut shell)?;
        Ok(work)
    }

    fn record(
        &self,
        workspace: &Workspace,
        lookaside: &Path,
        work: &Path,
        trace: &Path,
        loaded: bool,
    ) -> Result<()> {
        let beside = if loaded { Load::begin() } else { Load(Vec::new()) };
        let mut record = Command::new(lookaside);
        record.current_dir(work).env("REPOSITORY", workspace.root());
        record.args(["record", "--force", "--output"]).arg(trace);
        // What the program prints is of no use, and what the recorder says goes the same way.
        let done = process::output(record.args(["--", "sh", "-c", &self.command]));
        drop(beside);
        done.map(drop)
    }
}

/// Processes that keep the machine busy until they are dropped.
struct Load(Vec<Child>);

impl Load {
    fn begin() -> Self {
        let count = std::thread::available_parallelism().map_or(2, usize::from);
        let one = |_| {
            let mut shell = Command::new("setsid");
            shell.args(["sh", "-c", LOAD]).stdin(Stdio::null()).stdout(Stdio::null());
            shell.stderr(Stdio::null()).spawn().ok()
        };
        Self((0..count).filter_map(one).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Its session, with all that it has started.
            let group = format!("-{}", child.id());
            let _ = process::succeeds(Command::new("kill").args(["-KILL", "--", &group]));
            let _ = child.wait();
        }
    }
}

fn validate(lookaside: &Path, trace: &Path) -> Result<Tally> {
    let mut replay = Command::new(lookaside);
    replay.arg("replay").arg(trace).args(["--validate", "--format", "json"]);
    // It fails if a count does not hold, and says so all the same.
    let said = replay
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context(|| format!("starting `{}`", process::spelled(&replay)))?;
    let validated: Validated = serde_json::from_slice(&said.stdout)
        .context(|| format!("reading what `{}` says", process::spelled(&replay)))?;
    Ok(tally(&validated))
}

fn tally(validated: &Validated) -> Tally {
    let mut tally = Tally::default();
    for row in validated.strategies.iter().flat_map(|strategy| &strategy.rows) {
        if row.limit.is_none() {
            continue;
        }
        tally.judged += 1;
        if row.within == Some(true) {
            tally.hold += 1;
        } else {
            tally.missed.push(format!(
                "{}: {} recorded, {} modelled",
                row.what, row.recorded, row.modelled
            ));
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_corpus_says_how_it_is_made() {
        let programs = read(&Workspace::find().unwrap(), &[]).unwrap();
        let half = |half| programs.iter().filter(|program| program.half == half).count();
        assert!(half(Half::Found) >= 6 && half(Half::Judged) >= 6, "half for rules, half to judge");
        for program in &programs {
            assert!(!program.needs.is_empty() && !program.command.is_empty(), "{}", program.name);
        }
        let unknown = read(&Workspace::find().unwrap(), &["cobol".to_owned()]);
        assert!(unknown.err().unwrap().to_string().contains("no program `cobol`"));
    }

    #[test]
    fn counts_without_a_limit_are_not_judged() {
        let text = r#"{"strategies": [{"rows": [
            {"what": "a", "recorded": 10, "modelled": 10, "limit": 0.05, "within": true},
            {"what": "b", "recorded": 10, "modelled": 20, "limit": 0.05, "within": false},
            {"what": "c", "recorded": 10, "modelled": 90, "limit": null, "within": null}]}]}"#;
        let tally = tally(&serde_json::from_str(text).unwrap());
        assert_eq!((tally.hold, tally.judged), (1, 2));
        assert_eq!(tally.missed, ["b: 10 recorded, 20 modelled"]);
    }
}
