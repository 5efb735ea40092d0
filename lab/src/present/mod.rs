//! Reports: what a replay has shown, for people and for other programs.
//!
//! [`Document`] has everything, as plain data; the rest are forms of it: a page ([`html`]), collapsed
//! stacks for flame graphs ([`stacks`]), tables ([`csv`]) and one object for programs ([`json`]).
//! [`write()`] puts all of them into a folder. [`perfetto`] is a form of the timeline of any run.
//! `docs/report.md` describes the forms.

mod answer;
pub mod csv;
mod document;
mod figure;
pub mod html;
pub mod json;
pub mod perfetto;
mod scale;
pub mod stacks;
mod units;

use std::{fs, io, path::Path};

pub use answer::{Crossover, answer, crossovers};
pub use document::{
    About, Assumptions, Curve, CurvePoint, Document, Loss, Question, Sensitivity, Swing,
};

/// Writes all forms of a report into a folder, which is made if it is not there, and returns the names
/// of the files.
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
    let mut files = vec![
        ("report.html".to_owned(), html::to_html(document)),
        ("report.json".to_owned(), json::to_json(document)),
        ("strategies.csv".to_owned(), csv::strategies(document)),
        ("culprits.csv".to_owned(), csv::culprits(document)),
    ];
    if !document.scaling.is_empty() {
        files.push(("scaling.csv".to_owned(), csv::scaling(document)));
    }
    if document.sensitivity.is_some() {
        files.push(("sensitivity.csv".to_owned(), csv::sensitivity(document)));
    }
    for result in &document.results {
        let name = units::file_name(&result.strategy);
        files.push((format!("{name}.stacks"), stacks::to_stacks(result)));
    }
    for (name, text) in &files {
        let mut file = tempfile::Builder::new().prefix(".lab-").tempfile_in(folder)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        readable(file.as_file())?;
        file.persist(folder.join(name)).map_err(|error| error.error)?;
    }
    Ok(files.into_iter().map(|(name, _)| name).collect())
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
mod sample;
