//! Scenarios that were generated once and are kept, as text: see `lab/kept/README.md`.

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
        .map(|(name, text)| match parse(text) {
            Ok((about, depth, program)) => program::entry(name, &about, depth, program),
            Err(why) => panic!("lab/kept/{name}{SUFFIX}: {why}"),
        })
        .collect();
    entries.sort_by_key(|entry| entry.name);
    entries
}

/// What a file says: what it is about, how deep it is explored, and the program.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_and_what_is_none_is_refused() {
        let text =
            "# why\nabout = a page goes\ndepth = 1\nprogram = arm epochs(3) [Run(A) Unmap(A)]\n";
        let (about, depth, program) = parse(text).expect("a scenario");
        assert_eq!((about.as_str(), depth), ("a page goes", Depth::Bounded(1)));
        assert_eq!(program.to_string(), "arm epochs(3) [Run(A) Unmap(A)]");
        for (wrong, why) in [
            ("program = arm epochs(3) [Run(A)]", "about"),
            ("about = x", "no program"),
            ("about = x\nprogram = arm", "looks like"),
            ("about = x\ndepth = many\n", "pre-emptions"),
            ("colour = red", "none of"),
            ("nothing", "says nothing"),
        ] {
            let error = parse(wrong).expect_err(wrong);
            assert!(error.contains(why), "{wrong}: {error}");
        }
        let _ = entries();
    }
}
