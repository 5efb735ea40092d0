//! Where results go: to standard output, or to a file that is there as a whole or not at all.

use std::{
    borrow::Cow,
    fs,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use lookaside_lab::{data::Refused, plain};

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs; its keys stay.
    Json,
    /// For spreadsheets.
    Csv,
    /// For documents.
    Markdown,
}

impl Format {
    /// The text of a document in this format, fit for a terminal.
    pub(crate) fn plain(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Json => plain::json(text),
            Self::Table | Self::Csv | Self::Markdown => plain::text(text),
        }
    }
}

/// Options that say how and where results are written.
#[derive(Args)]
pub(crate) struct Output {
    /// How results are written.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    /// Write them to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl Output {
    /// Refuses a place that cannot be written to, before the work is done.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.output.as_deref().map_or(Ok(()), check)
    }

    /// Writes all of `text`.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        match &self.output {
            Some(path) => replace(path, text),
            None => match io::stdout().write_all(self.format.plain(text).as_bytes()) {
                // Whoever reads has read enough.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                result => result,
            },
        }
    }
}

/// Refuses a file that cannot be written to.
pub(crate) fn check(path: &Path) -> Result<(), Refused> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Refused(format!("`{shown}` is a directory")));
    }
    let directory = directory(path);
    if !directory.is_dir() {
        let directory = directory.display();
        return Err(Refused(format!("`{shown}`: there is no directory `{directory}`")));
    }
    Ok(())
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Replaces a file at once: whoever looks finds the old one or all of the new one.
pub(crate) fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace_with(path, |file| file.write_all(content.as_ref()))
}

/// The same with what `write` writes.
pub(crate) fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A new file is as any other program would make it; an old one keeps what it had.
        let mode = fs::metadata(path).map_or(0o666, |old| old.permissions().mode());
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    let mut file = builder.prefix(".lab-").tempfile_in(directory(path))?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.json");
        replace(&path, "old").unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_to_is_refused_first() {
        let directory = tempfile::tempdir().unwrap();
        let to = |path: PathBuf| Output { format: Format::Table, output: Some(path) };
        assert!(to(directory.path().join("new.json")).check().is_ok());
        assert!(to(directory.path().to_owned()).check().is_err());
        let Refused(why) = to(directory.path().join("no/new.json")).check().unwrap_err();
        assert!(why.contains("there is no directory"), "{why}");
    }
}
