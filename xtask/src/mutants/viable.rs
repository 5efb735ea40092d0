//! Which generated mutants are Rust.
//!
//! Code that is executed in another place may use what was moved away, or lives too short. Instead of
//! guessing, the compiler is asked: sites in which it finds fault are left out, until it finds none.

use core::hash::{Hash as _, Hasher as _};
use std::{
    collections::BTreeSet,
    fs,
    hash::DefaultHasher,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde::Deserialize;

use super::{
    instrument::{self, Instrumented},
    record::Mutant,
};
use crate::{
    failure::{Context, Failure, Result},
    setup,
    workspace::Workspace,
};

/// The package in which the sites are.
const LIBRARY: &str = "lookaside";
/// So often the compiler is asked. It looks for some faults only when there are no others.
const ROUNDS: usize = 12;

/// Instruments all mutants that compile into the workspace's source.
pub(super) fn instrument(workspace: &Workspace, mutants: &[Mutant]) -> Result<Instrumented> {
    let directory = workspace.target().join("mutants");
    let mut instrumented = instrument::instrument(workspace, mutants, BTreeSet::new())?;
    if instrumented.inserted.values().all(Vec::is_empty) {
        return Ok(instrumented);
    }
    let known = Known { path: directory.join("unviable"), hash: hash(&instrumented) };
    if let Some(unviable) = known.read() {
        return instrument::instrument(workspace, mutants, unviable);
    }
    let source = directory.join("viable");
    let mut unviable = BTreeSet::new();
    for _ in 0..ROUNDS {
        workspace.copy_with(&source, &instrumented.files)?;
        let more = refused(&source, &directory.join("target-viable"), &instrumented)?;
        if more.is_empty() {
            known.write(&unviable)?;
            return Ok(instrumented);
        }
        unviable.extend(more);
        instrumented = instrument::instrument(workspace, mutants, unviable.clone())?;
    }
    Err(Failure::new("the compiler finds ever new faults in mutants that move code"))
}

/// The names of the sites that the compiler refuses.
fn refused(source: &Path, target: &Path, instrumented: &Instrumented) -> Result<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Line {
        message: Option<Message>,
    }
    #[derive(Deserialize)]
    struct Message {
        level: String,
        rendered: Option<String>,
        spans: Vec<Span>,
    }
    #[derive(Deserialize)]
    struct Span {
        file_name: String,
        byte_start: usize,
        byte_end: usize,
    }
    let mut command = setup::cargo();
    command.current_dir(source).env("CARGO_TARGET_DIR", target).env("RUSTFLAGS", "-Awarnings");
    command.args(["check", "--quiet", "--message-format=json", "--package", LIBRARY]);
    let output = command.stdin(Stdio::null()).output().context(|| "starting cargo".to_owned())?;
    let mut names = BTreeSet::new();
    let mut other = String::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let line: Line = serde_json::from_str(line).context(|| "cargo's answer".to_owned())?;
        let Some(message) = line.message.filter(|message| message.level == "error") else {
            continue;
        };
        let before = names.len();
        for span in &message.spans {
            let inserted =
                instrumented.inserted.get(&span.file_name).map_or(&[][..], Vec::as_slice);
            let within = inserted
                .iter()
                .filter(|(place, _)| place.start < span.byte_end && span.byte_start < place.end);
            for (_, number) in within {
                let site = instrumented.sites.iter().find(|site| site.first == *number);
                names.insert(site.expect("every insertion has a site").id.clone());
            }
        }
        if names.len() == before && !message.spans.is_empty() {
            other += &message.rendered.unwrap_or_default();
        }
    }
    match (output.status.success(), names.is_empty()) {
        (true, _) => Ok(BTreeSet::new()),
        (false, false) => Ok(names),
        (false, true) => Err(Failure::new(format!(
            "the library does not compile with its mutants:\n{other}{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        ))),
    }
}

fn hash(instrumented: &Instrumented) -> u64 {
    let mut hasher = DefaultHasher::new();
    instrumented.files.hash(&mut hasher);
    hasher.finish()
}

/// What the compiler said of this source the last time.
struct Known {
    path: PathBuf,
    hash: u64,
}

impl Known {
    fn read(&self) -> Option<BTreeSet<String>> {
        let text = fs::read_to_string(&self.path).ok()?;
        let mut lines = text.lines().map(str::to_owned);
        (lines.next()? == self.hash.to_string()).then(|| lines.collect())
    }

    fn write(&self, unviable: &BTreeSet<String>) -> Result<()> {
        let lines: String = unviable.iter().map(|name| format!("{name}\n")).collect();
        fs::write(&self.path, format!("{}\n{lines}", self.hash))
            .context(|| format!("writing {}", self.path.display()))
    }
}
