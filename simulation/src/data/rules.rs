//! The rules for numbers, which keep the comparison honest.
//!
//! That a number has a unit and a source, or else names what it is fitted to or in which range it is assumed to lie, is
//! checked when a file is read. Here is what concerns several files:
//!
//! * What a number is fitted to is a published value of that machine whose role is `fit`. It may be
//!   one of another machine, if that machine has the very same number, fitted to it: there it counts.
//! * No two numbers of a machine are fitted to the same value, which could set only one of them.
//! * A machine has fewer fitted numbers than published values, so that something is always predicted.
//!   The baseline of a result in percent is no published value: it is 0 by definition.
//! * Every source is used, or a note speaks of it.

use std::collections::BTreeMap;

use lookaside_terminal::Refused;
use toml_edit::Item;

use super::{
    Files, Machine, Origin, Published, Role, Value,
    read::Text,
    target::{Found, Target},
};

/// What is against the rules, a sentence each.
pub(super) fn breaches(files: &Files) -> Vec<String> {
    let mut breaches = Vec::new();
    let (machines, bad): (Vec<_>, Vec<_>) =
        files.machines.iter().map(Machine::read).partition(Result::is_ok);
    let machines: Vec<_> = machines.into_iter().flatten().collect();
    breaches.extend(bad.into_iter().filter_map(Result::err).map(|Refused(why)| why));
    let mut fallen = |Refused(why)| breaches.push(why);
    let published = files.published().map_err(&mut fallen).unwrap_or_default();
    let parameters = files.parameters().map_err(&mut fallen).unwrap_or_default();
    // What others are fitted to and share is only known if all files can be read.
    if breaches.is_empty() {
        let mut fits = Fits { machines: &machines, published: &published, breaches };
        for machine in &machines {
            fits.machine(machine);
        }
        for value in parameters.workloads.values().flatten() {
            fits.parameter(value);
        }
        breaches = fits.breaches;
    }
    for file in files.machines.iter().chain(&files.published) {
        breaches.extend(unused_sources(file));
    }
    breaches
}

/// The rules for what is fitted.
struct Fits<'a> {
    machines: &'a [Machine],
    published: &'a [Published],
    breaches: Vec<String>,
}

impl<'a> Fits<'a> {
    fn breach(&mut self, file: &str, value: &Value, why: &str) {
        self.breaches.push(format!("{file}:{}: `{}` {why}", value.line, value.name));
    }

    /// The value that a number is fitted to, if it may be.
    fn found(&mut self, file: &str, value: &Value, to: &str) -> Option<Found<'a>> {
        let found = to.parse::<Target>().and_then(|target| target.find(self.published));
        let wrong = match found {
            Err(Refused(why)) => format!("is fitted to nothing: {why}"),
            Ok(found) if found.result.is_reference(found.series) => {
                format!("is fitted to `{to}`, which is 0 by definition")
            }
            Ok(found) if found.point.role != Role::Fit => {
                format!("is fitted to `{to}`, which is to be predicted")
            }
            Ok(found) => return Some(found),
        };
        self.breach(file, value, &wrong);
        None
    }

    fn machine(&mut self, machine: &Machine) {
        let mut taken = BTreeMap::new();
        let mut fitted = 0;
        for value in &machine.values {
            let Origin::Fitted { to } = &value.origin else { continue };
            let same = to.parse::<Target>().map_or_else(|_| to.clone(), |to| to.to_string());
            if let Some(other) = taken.insert(same, value.name.as_str()) {
                let why = format!("is fitted to `{to}`, and so is `{other}`");
                self.breach(&machine.file, value, &why);
            }
            let Some(found) = self.found(&machine.file, value, to) else { continue };
            if found.machine == machine.key {
                fitted += 1;
                continue;
            }
            let shared = self.machines.iter().any(|other| {
                other.key == found.machine
                    && other.values.iter().any(|others| {
                        (&others.name, others.number, &others.unit, &others.origin)
                            == (&value.name, value.number, &value.unit, &value.origin)
                    })
            });
            if !shared {
                let why = format!(
                    "is fitted to `{to}`, which is a value of `{}`, where this is another number",
                    found.machine
                );
                self.breach(&machine.file, value, &why);
            }
        }
        let values = self.published.iter().map(|result| result.values_on(&machine.key)).sum();
        let values: usize = values;
        if fitted > 0 && fitted >= values {
            self.breaches.push(format!(
                "{}: {fitted} numbers are fitted and {values} values are published: nothing is predicted",
                machine.file
            ));
        }
    }

    fn parameter(&mut self, value: &Value) {
        if let Origin::Fitted { to } = &value.origin {
            self.found("published/workloads.toml", value, to);
        }
    }
}

impl Published {
    /// Whether a series is what the others are given in percent of, and hence 0 by definition.
    fn is_reference(&self, series: &super::Series) -> bool {
        self.relative && *series == self.baseline
    }

    /// How many values were published of a machine.
    fn values_on(&self, machine: &str) -> usize {
        let series = self.series().filter(|series| !self.is_reference(series));
        series
            .map(|series| (0..series.points.len()).filter(|&i| self.machine(i) == machine).count())
            .sum()
    }
}

/// The sources of a file that nothing in it uses.
fn unused_sources(file: &Text) -> Vec<String> {
    let Ok(document) = file.parse() else { return Vec::new() };
    let root = file.root(&document);
    let Ok(Some(sources)) = root.section("sources") else { return Vec::new() };
    let mut texts = Vec::new();
    for (_, item) in document.iter().filter(|(key, _)| *key != "sources") {
        collect(item, &mut texts);
    }
    sources
        .keys()
        .filter(|&key| !texts.iter().any(|text| mentions(text, key)))
        .map(|key| sources.refuse(key, "is used by nothing").0)
        .collect()
}

/// Whether a text has a word in it.
fn mentions(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').any(|part| part == word)
}

/// All texts in an item.
fn collect<'i>(item: &'i Item, texts: &mut Vec<&'i str>) {
    texts.extend(item.as_str());
    if let Some(table) = item.as_table_like() {
        for (_, item) in table.iter() {
            collect(item, texts);
        }
    }
    for table in item.as_array_of_tables().into_iter().flatten() {
        for (_, item) in table.iter() {
            collect(item, texts);
        }
    }
}
