//! A folder of casemate traces with recorded verdicts.

use std::{collections::BTreeMap, fs, io, path::Path};

use lookaside_machine::casemate::{Verdict, check};

/// A trace and what came of it.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its name: the file's, without `.log`.
    pub name: String,
    /// `accepted`, or why it is refused, or why it cannot be read.
    pub found: String,
    /// The same as recorded by others, if it was.
    pub recorded: Option<String>,
}

impl Trace {
    /// Whether what was found is what was recorded.
    #[must_use]
    pub fn agrees(&self) -> Option<bool> {
        self.recorded.as_ref().map(|recorded| *recorded == self.found)
    }
}

/// The traces of a folder.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// What came of each.
    pub checked: Vec<Trace>,
}

const ACCEPTED: &str = "accepted";

impl Traces {
    /// Checks the traces of a folder, or of its folder `casemate`.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let inner = folder.join("casemate");
        let folder = if inner.is_dir() { &inner } else { folder };
        let recorded = recorded(&folder.join("expected.tsv"));
        let mut checked = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|kind| kind != "log") {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let found = match fs::read(&path).map(String::from_utf8) {
                Err(error) => format!("unreadable: {error}"),
                Ok(Err(_)) => "unreadable: not UTF-8".to_owned(),
                Ok(Ok(text)) => match check(&text) {
                    Ok(Verdict::Accepted { .. }) => ACCEPTED.to_owned(),
                    Ok(Verdict::Refused { why, .. }) => why.to_string(),
                    Err((line, what)) => format!("unreadable: line {line}: {what}"),
                },
            };
            let recorded = recorded.get(&name).cloned();
            checked.push(Trace { name, found, recorded });
        }
        checked.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { checked })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checked.is_empty()
    }
}

/// The table of verdicts: name, `accept` or `reject`, message.
fn recorded(table: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(table).unwrap_or_default();
    let rows = text.lines().skip(1).filter_map(|row| {
        let mut cells = row.split('\t');
        let (name, verdict, message) = (cells.next()?, cells.next()?, cells.next()?);
        let verdict = if verdict == "accept" { ACCEPTED } else { message };
        Some((name.to_owned(), verdict.to_owned()))
    });
    rows.collect()
}
