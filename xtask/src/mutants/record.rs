//! What a mutant is, as data.

use std::{collections::BTreeSet, fs, io, path::Path};

use serde::Deserialize;

use super::{
    ledger::{EXCUSED, HINTS},
    teeth::TEETH,
};
use crate::{
    failure::{Context, Failure, Result},
    workspace::Workspace,
};

/// Where the records are.
pub(super) const DIRECTORY: &str = "mutants";
/// Only what is shipped is mutated: the library, and its interface to C.
pub(super) const SHIPPED: [&str; 2] = ["lookaside/src/", C_INTERFACE];
/// The interface to C.
pub(super) const C_INTERFACE: &str = "capi/src/";
/// The architectures that a record may name.
const ARCHITECTURES: [&str; 3] = ["aarch64", "riscv64", "x86_64"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// [`Mutant::beyond`] of those that say nothing themselves.
    beyond: Option<String>,
    #[serde(default)]
    mutant: Vec<Mutant>,
}

/// One bug, as a change of the shipped source.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    /// What reports call it.
    pub(super) name: String,
    /// The bug it repeats, with a reference.
    pub(super) record: String,
    /// What goes wrong.
    pub(super) why: String,
    /// Where it can go wrong; everywhere if empty.
    #[serde(default)]
    architectures: Vec<String>,
    /// The file it changes.
    pub(super) file: String,
    /// The text it takes out.
    find: String,
    /// The text it puts there instead.
    replace: String,
    /// The scenarios that must find it.
    #[serde(default)]
    pub(super) scenario: Vec<String>,
    /// The tests that must find it, where no scenario can: `program:name`.
    #[serde(default)]
    pub(super) test: Vec<String>,
    /// The operation, machine or rule that it takes and that no generated program has; none if programs can
    /// show it.
    pub(super) beyond: Option<String>,
    /// Seconds that each of them has.
    #[serde(default = "budget")]
    pub(super) budget: u64,
}

const fn budget() -> u64 {
    60
}

impl Mutant {
    pub(super) fn architectures(&self) -> String {
        if self.architectures.is_empty() {
            "every architecture".to_owned()
        } else {
            self.architectures.join(", ")
        }
    }

    /// The text of the file with the bug put back.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let wrong = match text.matches(&self.find).count() {
            1 => return Ok(text.replacen(&self.find, &self.replace, 1)),
            0 => "does not occur".to_owned(),
            count => format!("occurs {count} times"),
        };
        Err(Failure::new(format!(
            "the mutant {}: its `find` {wrong} in {}; it must occur exactly once:\n{}",
            self.name, self.file, self.find
        )))
    }

    fn check(&self) -> core::result::Result<(), String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return Err("a name has small letters, digits and dashes".to_owned());
        }
        let Some(below) = SHIPPED.iter().find_map(|folder| self.file.strip_prefix(folder)) else {
            let folders = SHIPPED.join(" or ");
            return Err(format!("`file` must be below {folders}: only what is shipped is mutated"));
        };
        if below.split('/').any(|part| part == "..") {
            return Err("`file` must not climb".to_owned());
        }
        if self.find.trim().is_empty() || self.find == self.replace {
            return Err("`find` and `replace` change nothing".to_owned());
        }
        let mut finders = self.scenario.iter().chain(&self.test).peekable();
        if finders.peek().is_none() || finders.any(String::is_empty) {
            return Err("`scenario` and `test` name nothing that must find it".to_owned());
        }
        if let Some(odd) = self.test.iter().find(|test| !test.contains(':')) {
            return Err(format!("the test `{odd}` is not of the form `program:name`"));
        }
        if self.record.trim().is_empty() || self.why.trim().is_empty() {
            return Err("`record` and `why` must say something".to_owned());
        }
        if let Some(odd) = self.architectures.iter().find(|a| !ARCHITECTURES.contains(&a.as_str()))
        {
            return Err(format!("`{odd}` is none of {}", ARCHITECTURES.join(", ")));
        }
        Ok(())
    }
}

/// The mutants in one file.
pub(super) fn parse(text: &str) -> core::result::Result<Vec<Mutant>, String> {
    let mut file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for mutant in &mut file.mutant {
        mutant.check().map_err(|why| format!("the mutant `{}`: {why}", mutant.name))?;
        if mutant.beyond.is_none() {
            mutant.beyond.clone_from(&file.beyond);
        }
    }
    Ok(file.mutant)
}

/// All mutants, by file and then in the order of the file.
pub(super) fn read(workspace: &Workspace) -> Result<Vec<Mutant>> {
    let directory = workspace.root().join(DIRECTORY);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = fs::read_dir(&directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>())
        .context(|| format!("listing {}", directory.display()))?;
    let beside = [EXCUSED, HINTS, TEETH].map(|name| directory.join(name));
    files.retain(|file| {
        file.extension().is_some_and(|extension| extension == "toml") && !beside.contains(file)
    });
    files.sort();
    let mut mutants: Vec<Mutant> = Vec::new();
    for file in &files {
        mutants.extend(read_file(file)?);
    }
    let mut seen = BTreeSet::new();
    match mutants.iter().find(|mutant| !seen.insert(&mutant.name)) {
        Some(twice) => Err(Failure::new(format!("two mutants are called {}", twice.name))),
        None => Ok(mutants),
    }
}

fn read_file(file: &Path) -> Result<Vec<Mutant>> {
    fs::read_to_string(file)
        .map_err(|error| error.to_string())
        .and_then(|text| parse(&text))
        .context(|| file.display().to_string())
}
