//! Writes results to standard output, or atomically to a file.

use std::{
    borrow::Cow,
    env,
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use lookaside_terminal::{Refused, plain, print};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs; keys are stable.
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

/// Output options.
#[derive(Args)]
pub(crate) struct Output {
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    /// Write results to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl Output {
    /// Refuses an output file that cannot be written, before the work starts.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.output.as_deref().map_or(Ok(()), check)
    }

    /// Writes all of `text`.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        match &self.output {
            Some(path) => replace(path, text),
            None => print(&self.format.plain(text)),
        }
    }
}

/// Refuses a file that cannot be written to, one that the command line names for something else too, and a recorded
/// trace: it cannot be had again.
pub(crate) fn check(path: &Path) -> Result<(), Refused> {
    let shown = path.display();
    let words = || env::args_os().skip(1);
    if is_trace(path) {
        let why = "is a recorded trace, which is not replaced: remove it, or name another file";
        return Err(Refused(format!("`{shown}` {why}")));
    }
    if is_written_twice(path, words()) {
        let why = "is named by two options that write: each needs a file of its own";
        return Err(Refused(format!("`{shown}` {why}")));
    }
    if is_named_twice(path, words()) {
        let why = "is named twice: what is read is not replaced by what is written";
        return Err(Refused(format!("`{shown}` {why}")));
    }
    check_place(path)
}

/// Whether a file is a recorded trace.
fn is_trace(path: &Path) -> bool {
    #[cfg(feature = "traces")]
    let is_marked = lookaside_traces::import::is_marked;
    #[cfg(not(feature = "traces"))]
    let is_marked = |_: &Path| false;
    // To open a pipe would wait for its reader.
    !is_special(path) && is_marked(path)
}

/// The options that name a file or a folder to write.
const WRITE: [&str; 5] = ["-o", "--output", "--perfetto", "--raw", "--report"];
/// How the names of the files of a report end.
const REPORT: [&str; 4] = ["index.html", "report.json", ".csv", ".stacks"];

/// Whether two options among these words write this file, which need not be there yet.
fn is_written_twice(path: &Path, words: impl Iterator<Item = OsString>) -> bool {
    let place =
        |path: &Path| Some((fs::canonicalize(directory(path)).ok()?, path.file_name()?.to_owned()));
    let own = place(path);
    if own.is_none() || is_special(path) {
        return false;
    }
    // A report is a folder of files.
    let is_of_report = |folder: &str| {
        let folder = fs::canonicalize(folder).ok();
        own.as_ref().is_some_and(|(own, name)| {
            let name = name.to_string_lossy();
            folder.as_ref() == Some(own) && REPORT.iter().any(|ending| name.ends_with(ending))
        })
    };
    let (mut count, mut pending) = (0, None);
    for word in words {
        let word = word.to_string_lossy().into_owned();
        let (option, value) = match (pending.take(), word.split_once('=')) {
            (Some(option), _) => (option, Some(&*word)),
            (None, Some((option, value))) => (option.to_owned(), Some(value)),
            (None, None) => match word.strip_prefix("-o").filter(|value| !value.is_empty()) {
                Some(value) => ("-o".to_owned(), Some(value)),
                None => (word.clone(), None),
            },
        };
        if !WRITE.contains(&&*option) {
            continue;
        }
        match value {
            Some(value) => {
                let is_own = place(Path::new(value)) == own;
                count += u32::from(is_own || option == "--report" && is_of_report(value));
            }
            None => pending = Some(option),
        }
    }
    count > 1
}

/// Whether two of these words name this file, by whatever path: the word that it is written to is one of them.
fn is_named_twice(path: &Path, words: impl Iterator<Item = OsString>) -> bool {
    let Some(own) = identity(path) else { return false };
    let is_own = |name: &str| identity(Path::new(name)).as_ref() == Some(&own);
    // `--output=FILE`, `-oFILE`, and lists of traces.
    let names = |word: &OsString| {
        let word = word.to_string_lossy();
        let mut parts = word.split(['=', ',']).chain(word.strip_prefix("-o"));
        is_own(&word) || parts.any(is_own)
    };
    words.filter(names).count() > 1
}

/// What two paths of one file have in common.
#[cfg(unix)]
fn identity(path: &Path) -> Option<impl PartialEq + use<>> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<impl PartialEq + use<>> {
    fs::canonicalize(path).ok().filter(|path| path.is_file())
}

/// Refuses a name for a trace that promises another file than is written.
#[cfg(feature = "traces")]
pub(crate) fn check_ending(path: &Path) -> Result<(), Refused> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz" | "zst") => {
            let (shown, name) = (path.display(), path.with_extension(""));
            let why = "what is written is compressed inside, and no file of gzip or zstd";
            Err(Refused(format!("`{shown}`: {why}: name it `{}`", name.display())))
        }
        _ => Ok(()),
    }
}

/// Refuses a file that cannot be written to.
pub(crate) fn check_place(path: &Path) -> Result<(), Refused> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Refused(format!("`{shown}` is a directory")));
    }
    let directory = directory(path);
    if !directory.is_dir() {
        let directory = directory.display();
        return Err(Refused(format!("`{shown}`: there is no directory `{directory}`")));
    }
    if is_special(path) {
        return Ok(());
    }
    // Permissions say less: of a read-only file system, of a quota, and of `/proc`, where not even root makes files.
    match tempfile::Builder::new().prefix(PREFIX).tempfile_in(directory) {
        Ok(_) => Ok(()),
        Err(error) => {
            let (directory, why) = (directory.display(), error.kind());
            Err(Refused(format!("`{shown}`: no file can be made in `{directory}` ({why})")))
        }
    }
}

/// How the names of files begin that are not complete yet.
const PREFIX: &str = ".lab-";

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Replaces a file atomically: readers see the old file or the complete new one.
pub(crate) fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace_with(path, |file| file.write_all(content.as_ref()))
}

/// Whether a path names something that is written to and never replaced: a device, a pipe, a socket.
pub(crate) fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file())
}

/// Replaces a file atomically with the output of `write`; a device or a pipe gets it. Errors name the file.
pub(crate) fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    replaced(path, write)
        .map_err(|error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display())))
}

fn replaced(path: &Path, write: impl FnOnce(&mut fs::File) -> io::Result<()>) -> io::Result<()> {
    if is_special(path) {
        return write(&mut fs::OpenOptions::new().write(true).open(path)?);
    }
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A new file has the usual permissions; a replaced one keeps its own.
        let mode = fs::metadata(path).map_or(0o666, |old| old.permissions().mode());
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    let mut file = builder.prefix(PREFIX).tempfile_in(directory(path))?;
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

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_written_to_and_stays() {
        use std::os::unix::fs::FileTypeExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        check(&path).unwrap(); // Without a reader.
        let read = path.clone();
        let reader = std::thread::spawn(move || fs::read_to_string(read).unwrap());
        replace(&path, "results").unwrap();
        // A pipe that was replaced has no writer: the reader would wait for ever.
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(reader.join().unwrap(), "results");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_read_is_not_written_to_by_whatever_name() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["a.txt", "b.txt"].map(|name| directory.path().join(name));
        fs::write(&one, "text").unwrap();
        fs::hard_link(&one, &other).unwrap();
        let [read, written] = [&one, &other].map(|path| path.display().to_string());
        let named = |words: &[String]| is_named_twice(&other, words.iter().map(OsString::from));
        assert!(!named(&["import".into(), "-o".into(), written.clone()]), "it is written alone");
        for word in [&written, &format!("--output={written}"), &format!("-o{written}")] {
            assert!(named(&[read.clone(), word.clone()]), "{word}");
        }
        assert!(named(&[format!("c.txt,{read}"), written]));
    }

    #[test]
    fn a_file_that_two_options_write_is_refused_before_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let shown = directory.path().join("new").display().to_string();
        let other = directory.path().join(".").join("new").display().to_string();
        let twice = |words: &[&str]| {
            let words = words.iter().map(OsString::from);
            is_written_twice(&directory.path().join("new"), words)
        };
        let joined = [format!("--perfetto={other}"), format!("-o{shown}"), format!("-o={other}")];
        for second in [&["--perfetto", &other][..], &["-o", &shown], &["--report", &shown]] {
            assert!(twice(&[&["--output", &shown], second].concat()), "{second:?}");
        }
        for second in &joined {
            assert!(twice(&["--output", &shown, second]), "{second}");
        }
        let folder = directory.path().display().to_string();
        let csv = directory.path().join("scaling.csv");
        let of_report = |path: &Path| {
            let path = path.display().to_string();
            let words = ["--report", &folder, "--output", &path].map(OsString::from);
            is_written_twice(Path::new(&path), words.into_iter())
        };
        assert!(of_report(&csv), "a report has a file of that name");
        assert!(!of_report(&directory.path().join("mine.txt")), "others stay");
        // A workload, or a machine, may be called as a file is.
        assert!(!twice(&["run", &shown, "--machine", &shown, "--output", &shown]));
        assert!(!twice(&["--output", &shown, "--perfetto", "new"]), "in another folder");
    }

    #[cfg(feature = "traces")]
    #[test]
    fn a_recorded_trace_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.csv");
        // The first bytes of a trace, compressed by `gzip` and by `zstd`.
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0\x02\x03\xcb\xc9\xcf\xcf\x4e\x2c\xce\x4c\x49\x55\x28\x29\x4a\x4c\x4e\xe5\x02\
            \0\x19\xde\x14\xda\x10\0\0\0";
        let zstd = b"\x28\xb5\x2f\xfd\0\x58\x81\0\0lookaside trace\n";
        for (content, is_refused) in [
            (&b"lookaside trace\n\x04"[..], true),
            (b"PERFILE2", true),
            (gzip, true),
            (zstd, true),
            (&zstd[..9], false),
            (b"a,b", false),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(check(&path).is_err(), is_refused, "{content:?}");
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_to_is_refused_first() {
        let directory = tempfile::tempdir().unwrap();
        let to = |path: PathBuf| Output { format: Format::Table, output: Some(path) };
        assert!(to(directory.path().join("new.json")).check().is_ok());
        assert!(to(directory.path().to_owned()).check().is_err());
        let Refused(why) = to(directory.path().join("no/new.json")).check().unwrap_err();
        assert!(why.contains("there is no directory"), "{why}");
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            0,
            "nothing is left by the trial"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_in_which_nothing_can_be_made_is_refused_first_and_an_error_names_the_file() {
        let Refused(why) = check(Path::new("/proc/x")).unwrap_err();
        assert!(why.starts_with("`/proc/x`: no file can be made in `/proc`"), "{why}");
        let error = replace(Path::new("/dev/full"), "results").unwrap_err();
        assert!(error.to_string().starts_with("`/dev/full`: No space left"), "{error}");
    }
}
