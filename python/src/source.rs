//! Machines and workloads by name, or with the text of their file: a job is run where the file is not.

use std::fs;

use lookaside_simulation::{
    data::{Machine, Text},
    reproduce::Book,
    workload,
};
use lookaside_terminal::Refused;
use serde::{Deserialize, Serialize};

/// A machine or a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Source {
    /// One that the package has.
    Named(String),
    /// A file.
    File {
        /// Its path, for messages.
        name: String,
        /// What is in it.
        text: String,
    },
}

fn file(path: &str) -> Result<Source, Refused> {
    let text = fs::read_to_string(path).map_err(|why| Refused(format!("{path}: {why}")))?;
    Ok(Source::File { name: path.to_owned(), text })
}

/// The machine of that name or path.
pub(crate) fn machine(name: &str) -> Result<Source, Refused> {
    let is_path = name.contains('/') || name.ends_with(".toml");
    if is_path { file(name) } else { Ok(Source::Named(name.to_owned())) }
}

/// The workload of that name or path.
pub(crate) fn workload(name: &str) -> Result<Source, Refused> {
    if workload::file::is_path(name) { file(name) } else { Ok(Source::Named(name.to_owned())) }
}

impl Source {
    /// The key of the machine, which is in the book from here on.
    pub(crate) fn machine(&self, book: &mut Book) -> Result<String, Refused> {
        match self {
            Self::Named(name) => book.machine(name).map(|machine| machine.key.clone()),
            Self::File { name, text } => {
                let text = Text { name: name.clone(), text: text.clone() };
                let machine = Machine::read(&text)?;
                let key = machine.key.clone();
                book.machines.retain(|other| other.key != key);
                book.machines.push(machine);
                Ok(key)
            }
        }
    }

    /// The name under which the workload is run.
    pub(crate) fn workload(&self) -> Result<String, Refused> {
        match self {
            Self::Named(name) => Ok(name.clone()),
            Self::File { name, text } => {
                workload::admit(&Text { name: name.clone(), text: text.clone() })
            }
        }
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Named(name) | Self::File { name, .. } => name,
        }
    }
}
