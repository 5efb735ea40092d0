//! Writing a fitted number back into a machine file.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use lookaside_terminal::Refused;
use toml_edit::{DocumentMut, Value};

use super::{Machine, Origin, Text};

/// Writes a new number, in the unit that the file has, over the fitted one called `name`
/// (`prices.walk`) of the machine file at `path`. All else in the file stays as it is. The file is
/// replaced at once: a reader, or a run after an interruption, finds the old one or the new one.
///
/// # Errors
///
/// If the file has no such number, if that number is not a fitted one, if the new one cannot stand
/// there, or if the file cannot be written.
pub fn rewrite(path: &Path, name: &str, number: f64) -> Result<(), Refused> {
    let failed = |error: io::Error| Refused(format!("{}: {error}", path.display()));
    // A link is followed: its target is replaced, not the link.
    let path = fs::canonicalize(path).map_err(failed)?;
    let old = Machine::open(&path)?;
    let Some(value) = old.values.iter().find(|value| value.name == name) else {
        let names = old.values.iter().map(|value| value.name.as_str());
        return Err(lookaside_terminal::names::unknown("number", name, names));
    };
    if !matches!(value.origin, Origin::Fitted { .. }) {
        let why = "has a source: only fitted numbers are written";
        return Err(Refused(format!("{}:{}: `{name}` {why}", old.file, value.line)));
    }
    let text = fs::read_to_string(&path).map_err(failed)?;
    let new = replaced(&text, name, number)
        .ok_or_else(|| Refused(format!("{}: `{name}` cannot be found again", old.file)))?;
    Machine::read(&Text::new(old.file, new.as_str()))?;
    replace(&path, new.as_bytes()).map_err(failed)
}

/// The text of a file with another number.
fn replaced(text: &str, name: &str, number: f64) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let (table, key) = name.split_once('.')?;
    let table = document.get_mut(table)?.as_table_like_mut()?;
    let value = table.get_mut(key)?.as_table_like_mut()?.get_mut("value")?.as_value_mut()?;
    let decor = value.decor().clone();
    // An integer of the file stays one where that is exact.
    *value = if value.is_integer() && number.fract() == 0.0 && number.abs() < 1e15 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    };
    *value.decor_mut() = decor;
    Some(document.to_string())
}

/// Replaces a file by another one, which is written beside it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".lab-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(fs::metadata(path)?.permissions())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
