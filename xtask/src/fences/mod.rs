//! Every fence has a name, and the name has a partner, a row, a test and a mutant.
//!
//! In the source of the library:
//!
//! ```text
//! // FENCE F-TURN (pairs with F-ENTER): the new epoch is visible before the active tags are
//! // read. Otherwise a CPU that ... keeps a tag that we hand out.
//! // ORDER O-PUBLISH (pairs with O-LOOK, walks): ...
//! ```
//!
//! `FENCE` names a barrier, `ORDER` an ordering of an atomic operation. Partners are other names
//! of this kind, `walks` (the page walks of the hardware, which have no line of their own) or
//! `caller` (what the documentation demands of the kernel), or, in
//! two words or more, whatever else it is. Words may follow a name. Elsewhere a name in a comment refers to the
//! definition. `docs/fences.md` has a row for each.

mod comments;
mod orderings;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use self::{comments::Definition, table::Row};
use crate::{
    failure::{Failure, Result},
    mutants,
    source::{self, Line},
    workspace::Workspace,
};

/// Where the rows are.
const TABLE: &str = "docs/fences.md";
/// The source whose fences are named.
const LIBRARY: &str = "lookaside/src/";
/// Partners that have no definition.
const OUTSIDE: [&str; 2] = ["walks", "caller"];

/// Something that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: &str, index: usize, what: String) -> Self {
        Self { file: file.to_owned(), line: index + 1, what }
    }
}

/// All that the check reads.
struct Inputs {
    /// Rust files: path and text.
    rust: Vec<(String, String)>,
    /// The text of the table.
    table: String,
    /// The names of the mutants.
    mutants: BTreeSet<String>,
}

/// Checks the workspace and prints what is wrong.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let rust = workspace.files()?.into_iter().filter(|file| file.ends_with(".rs"));
    let inputs = Inputs {
        rust: rust
            .map(|file| workspace.read(&file).map(|text| (file, text)))
            .collect::<Result<_>>()?,
        table: workspace.read(TABLE)?,
        mutants: mutants::names(workspace)?,
    };
    let (named, findings) = check(&inputs);
    if findings.is_empty() {
        println!("fences: {named} named in {LIBRARY}, each with its partner, row, test and mutant");
        return Ok(());
    }
    for Finding { file, line, what } in &findings {
        println!("{file}:{line}: {what}");
    }
    Err(Failure::new(format!("{} things wrong with the named fences", findings.len())))
}

/// How many names there are, and what is wrong.
fn check(inputs: &Inputs) -> (usize, Vec<Finding>) {
    let parsed: Vec<(&str, Vec<Line>)> =
        inputs.rust.iter().map(|(file, text)| (file.as_str(), source::lines(text))).collect();
    let mut findings = Vec::new();

    let mut definitions: BTreeMap<String, (&str, Definition)> = BTreeMap::new();
    for (file, lines) in library(&parsed) {
        let (found, bad) = comments::definitions(lines);
        findings.extend(bad.into_iter().map(|(line, what)| Finding::new(file, line, what)));
        for definition in found {
            let (id, line) = (definition.id.clone(), definition.line);
            if let Some((other, first)) = definitions.get(&id) {
                let what = format!("{id} is defined already, at {other}:{}", first.line + 1);
                findings.push(Finding::new(file, line, what));
            } else {
                definitions.insert(id, (file, definition));
            }
        }
    }
    let known: BTreeSet<String> = definitions.keys().cloned().collect();
    for (file, lines) in library(&parsed) {
        for (line, id) in comments::mentions(lines) {
            if !known.contains(&id) {
                let word = if id.starts_with('F') { "FENCE" } else { "ORDER" };
                let what = format!(
                    "{id} is mentioned but nowhere defined in {LIBRARY} by `{word} {id} (pairs ...`"
                );
                findings.push(Finding::new(file, line, what));
            }
        }
        if orderings::must_be_named(file) {
            let bad = orderings::unexplained(lines);
            findings.extend(bad.into_iter().map(|(line, what)| Finding::new(file, line, what)));
        }
    }
    check_partners(&definitions, &mut findings);

    let (rows, bad) = table::rows(&inputs.table);
    findings.extend(bad.into_iter().map(|(line, what)| Finding::new(TABLE, line, what)));
    let tests = tests(inputs, &parsed);
    check_rows(&rows, &definitions, &tests, inputs, &mut findings);
    findings.sort();
    findings.dedup();
    (definitions.len(), findings)
}

fn library<'a>(parsed: &'a [(&'a str, Vec<Line>)]) -> impl Iterator<Item = (&'a str, &'a [Line])> {
    parsed
        .iter()
        .filter(|(file, _)| file.starts_with(LIBRARY))
        .map(|(file, lines)| (*file, &lines[..]))
}

fn check_partners(definitions: &BTreeMap<String, (&str, Definition)>, findings: &mut Vec<Finding>) {
    for (id, (file, definition)) in definitions {
        for partner in &definition.partners {
            if !comments::is_id(partner) {
                continue;
            }
            let what = match definitions.get(partner) {
                None => format!("{id} pairs with {partner}, which is nowhere defined"),
                Some((place, other)) if !other.partners.contains(id) => format!(
                    "{id} pairs with {partner}, which does not name it back ({place}:{})",
                    other.line + 1
                ),
                Some(_) => continue,
            };
            findings.push(Finding::new(file, definition.line, what));
        }
    }
}

fn check_rows(
    rows: &[Row],
    definitions: &BTreeMap<String, (&str, Definition)>,
    tests: &BTreeSet<String>,
    inputs: &Inputs,
    findings: &mut Vec<Finding>,
) {
    let mut seen = BTreeSet::new();
    for row in rows {
        let mut wrong = |what: String| findings.push(Finding::new(TABLE, row.line, what));
        if !seen.insert(&row.id) {
            wrong(format!("{} has a row already", row.id));
        }
        match definitions.get(&row.id) {
            None => wrong(format!("{} is nowhere defined in {LIBRARY}", row.id)),
            Some((file, definition)) => {
                let place = [row.place.clone(), format!("{LIBRARY}{}", row.place)];
                if !place.iter().any(|place| place == file) {
                    wrong(format!("{} is in {file}, not in `{}`", row.id, row.place));
                }
                if let Some(function) = &row.function
                    && Some(function) != definition.function.as_ref()
                {
                    let found = definition.function.as_deref().unwrap_or("no function");
                    wrong(format!("{} is in `{found}`, not in `{function}`", row.id));
                }
                let partners: BTreeSet<&String> = definition.partners.iter().collect();
                if partners != row.partners.iter().collect() {
                    let said = definition.partners.join(", ");
                    wrong(format!("{} pairs with {said} in the source", row.id));
                }
            }
        }
        if row.orders.is_empty() {
            wrong(format!("{} does not say what it orders", row.id));
        }
        if row.tests.is_empty() {
            wrong(format!("{} names no test", row.id));
        }
        for test in row.tests.iter().filter(|test| !tests.contains(*test)) {
            wrong(format!("{}: there is no test or scenario `{test}`", row.id));
        }
        match &row.mutants {
            Err(reason) if reason.is_empty() => {
                wrong(format!("{} names no mutant: name one, or write `- (reason)`", row.id));
            }
            Err(_) => {}
            Ok(mutants) => {
                for mutant in mutants.iter().filter(|mutant| !inputs.mutants.contains(*mutant)) {
                    wrong(format!("{}: there is no mutant `{mutant}` in mutants/", row.id));
                }
            }
        }
    }
    for (id, (file, definition)) in definitions {
        if !seen.contains(id) {
            let place = file.strip_prefix(LIBRARY).unwrap_or(file);
            let partners = definition.partners.join(", ");
            let what = format!(
                "{id} has no row in {TABLE}: fill in\n| {id} | `{place}` | {partners} | | | |"
            );
            findings.push(Finding::new(file, definition.line, what));
        }
    }
}

/// Everything that may stand in the table as a test: functions anywhere in the workspace, and
/// strings in the machine and the lab, which is how scenarios are named.
fn tests(inputs: &Inputs, parsed: &[(&str, Vec<Line>)]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, lines) in parsed {
        let functions = lines.iter().filter_map(|line| source::function_name(&line.code));
        names.extend(functions.map(str::to_owned));
    }
    for (file, text) in &inputs.rust {
        if ["machine/", "scenarios/", "lab/"].iter().any(|root| file.starts_with(root)) {
            let plain = |word: &&str| {
                !word.is_empty()
                    && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_/".contains(c))
            };
            names.extend(text.split('"').filter(plain).map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests;
