//! Generated scenarios that are kept as text: see `scenarios/kept/README.md`.

use include_dir::{Dir, include_dir};

use super::{Depth, Entry, Program, program};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/kept");

/// How a file of them ends.
const SUFFIX: &str = ".scenario";
/// How many pre-emptions they are explored with.
const DEPTH: u32 = 2;

/// All of them, by name.
///
/// # Panics
///
/// If a file is not as it should be.
pub(super) fn entries() -> Vec<Entry> {
    let mut entries: Vec<_> = FILES
        .files()
        .filter_map(|file| {
            Some((file.path().to_str()?.strip_suffix(SUFFIX)?, file.contents_utf8()?))
        })
        .map(|(name, text)| match read_kept(name, text) {
            Ok(entry) => entry,
            Err(why) => panic!("scenarios/kept/{name}{SUFFIX}: {why}"),
        })
        .collect();
    entries.sort_by_key(|entry| entry.name);
    entries
}

/// The scenario of this name that a file describes, which lives for ever.
///
/// # Errors
///
/// What is wrong with the text.
pub fn read_kept(name: &str, text: &str) -> Result<Entry, String> {
    let (about, depth, program) = parse(text)?;
    Ok(program::entry(name, &about, depth, program))
}

/// Parses a file: its one line of description, its depth, and the program.
fn parse(text: &str) -> Result<(String, Depth, Program), String> {
    let (mut about, mut depth, mut program) = (None, DEPTH, None);
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| format!("`{line}` says nothing"))?;
        let value = value.trim();
        match key.trim() {
            "about" => about = Some(value.to_owned()),
            "depth" => {
                depth =
                    value.parse().map_err(|_| format!("`{value}` is no number of pre-emptions"))?;
            }
            "program" => {
                program = Some(value.parse::<Program>().map_err(|error| error.to_string())?);
            }
            key => return Err(format!("`{key}` is none of about, depth and program")),
        }
    }
    let about = about.ok_or("it does not say what it is about")?;
    Ok((about, Depth::Bounded(depth), program.ok_or("there is no program")?))
}
