//! Other ways to read the sources of a machine: numbers among which somebody chose.

use std::collections::BTreeMap;

use lookaside_terminal::Refused;

use super::{
    Machine, Value,
    machine::kind,
    read::{Section, list},
    value,
};

/// A way to read the sources of a machine that the file's own numbers do not follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Its name.
    pub name: String,
    /// Which choice it is, and why the file made the other.
    pub note: String,
    /// The prices and paths that it changes.
    pub values: Vec<Value>,
}

const TABLES: [&str; 2] = ["prices", "paths"];

/// Reads the tables `[[reading]]` of a machine file with these numbers.
pub(super) fn read(
    root: &Section<'_>,
    sources: &BTreeMap<String, String>,
    known: &[Value],
) -> Result<Vec<Reading>, Refused> {
    let mut readings: Vec<Reading> = Vec::new();
    for section in root.sections("reading")? {
        section.only(&["name", "note", "prices", "paths"])?;
        let name = section.needed("name", section.text("name"))?.to_owned();
        let note = section.needed("note", section.text("note"))?.to_owned();
        if readings.iter().any(|other| other.name == name) {
            return Err(section.refuse("name", format!("is `{name}`, as that of another reading")));
        }
        let mut values = Vec::new();
        for table in TABLES {
            let Some(inner) = section.section(table)? else { continue };
            for key in inner.keys() {
                let kind = kind(table, key).map_err(|known| inner.unknown(key, &known))?;
                let value = value::value(&inner, key, kind, sources)?;
                values.push(Value { name: format!("{table}.{key}"), ..value });
            }
        }
        if !values.iter().any(|value| known.iter().any(|own| own.name == value.name)) {
            let why = format!("changes no number of the file in {}", list(&TABLES));
            return Err(section.refuse("name", why));
        }
        readings.push(Reading { name, note, values });
    }
    Ok(readings)
}

impl Machine {
    /// The machine as another reading of its sources has it.
    ///
    /// # Errors
    ///
    /// If the file has no such reading, with the nearest name.
    pub fn read_as(&self, name: &str) -> Result<Self, Refused> {
        let Some(reading) = self.readings.iter().find(|reading| reading.name == name) else {
            let known = self.readings.iter().map(|reading| reading.name.as_str());
            return Err(lookaside_terminal::names::unknown("reading", name, known));
        };
        let mut machine = Self { readings: Vec::new(), ..self.clone() };
        for value in &reading.values {
            machine.values.retain(|own| own.name != value.name);
            machine.values.push(value.clone());
            machine.set_number(&value.name, value.number)?;
        }
        Ok(machine)
    }
}
