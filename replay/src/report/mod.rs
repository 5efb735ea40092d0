//! Reports of the results of a replay, for people and for other programs.
//!
//! [`Document`] has everything, as plain data; the rest are forms of it: a page ([`html`]), collapsed
//! stacks for flame graphs ([`stacks`]), tables ([`csv`]) and one object for programs ([`json`]).
//! [`write()`] puts all of them into a folder. `docs/report.md` describes the forms.

mod answer;
pub mod csv;
mod document;
mod figure;
pub mod html;
pub mod json;
mod scale;
pub mod stacks;
mod units;

use std::{fs, io, path::Path};

pub use answer::{Crossover, answer, crossovers};
pub use document::{
    About, Assumptions, Curve, CurvePoint, Document, Loss, Plausible, Question, Sensitivity, Swing,
    medians,
};

/// The name of the page.
pub const PAGE: &str = "index.html";

/// Whether a folder holds a report: a page that says that this program made it.
#[must_use]
pub fn is_report(folder: &Path) -> bool {
    let page = fs::read_to_string(folder.join(PAGE));
    page.is_ok_and(|page| page.contains(r#"<meta name="generator" content="lookaside lab "#))
}

/// Writes all forms of a report into a folder, which is made if it is not there, and returns the names
/// of the files. What an earlier report there has and this one has not is removed, so that the folder
/// does not mix two.
///
/// # Errors
///
/// If the folder or a file cannot be written.
///
/// # Panics
///
/// If the document has no results.
pub fn write(document: &Document, folder: &Path) -> io::Result<Vec<String>> {
    fs::create_dir_all(folder)?;
    let former = former(folder);
    let mut files = vec![
        (PAGE.to_owned(), html::to_html(document)),
        ("report.json".to_owned(), json::to_json(document)),
        ("strategies.csv".to_owned(), csv::strategies(document)),
        ("initiators.csv".to_owned(), csv::initiators(document)),
    ];
    if !document.scaling.is_empty() {
        files.push(("scaling.csv".to_owned(), csv::scaling(document)));
    }
    if document.sensitivity.is_some() {
        files.push(("sensitivity.csv".to_owned(), csv::sensitivity(document)));
    }
    for result in &document.results {
        files.push((stacks_of(&result.strategy), stacks::to_stacks(result)));
    }
    for (name, text) in &files {
        let mut file = tempfile::Builder::new().prefix(".lab-").tempfile_in(folder)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        readable(file.as_file())?;
        file.persist(folder.join(name)).map_err(|error| error.error)?;
    }
    for old in former.iter().filter(|old| files.iter().all(|(name, _)| name != *old)) {
        match fs::remove_file(folder.join(old)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(files.into_iter().map(|(name, _)| name).collect())
}

/// The files that an earlier report in a folder may have and a later one need not.
fn former(folder: &Path) -> Vec<String> {
    if !is_report(folder) {
        return Vec::new();
    }
    let text = fs::read_to_string(folder.join("report.json")).unwrap_or_default();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let results = document["results"].as_array().into_iter().flatten();
    let strategies = results.filter_map(|result| result["strategy"].as_str());
    let stacks = strategies.map(stacks_of);
    ["scaling.csv", "sensitivity.csv"].map(str::to_owned).into_iter().chain(stacks).collect()
}

fn stacks_of(strategy: &str) -> String {
    format!("{}.stacks", units::file_name(strategy))
}

/// Files are as any other program would make them, not private as temporary ones are.
fn readable(file: &fs::File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
    }
    let _ = file;
    Ok(())
}

#[cfg(test)]
pub(crate) mod sample;
