//! Keeping what was found: a failing program as an entry of the catalogue.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::Failing;

/// Writes a file for a program that failed, in the form in which the catalogue reads its own
/// (`scenario/kept.rs`). Returns its path.
///
/// # Errors
///
/// If the folder cannot be made, or the file cannot be written.
pub fn keep(failing: &Failing, folder: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("generated-{:016x}.scenario", failing.seed));
    let text = format!(
        "# {}: {}\n# {}\nabout = it was generated, and broke a rule: {}\nprogram = {}\n",
        failing.rule, failing.message, failing.schedule, failing.rule, failing.script
    );
    fs::write(&path, text)?;
    Ok(path)
}
