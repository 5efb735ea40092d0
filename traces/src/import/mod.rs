//! Reading traces of every kind: the project's own, files of `perf record` and of `trace-cmd record`, and the text of
//! tracefs, of `trace-cmd report` and of `perf script`.
//!
//! Kinds are told apart by what is in a file, not by its name. Each may be compressed with gzip or zstd.
//! Lines that cannot be read are passed over and counted; a file of which no event can be read is
//! refused.

mod body;
mod field;
mod head;
pub(super) mod lines;
mod perf;
mod tasks;
mod text;
mod tracecmd;

use std::{
    fs::File,
    io::{self, Cursor, ErrorKind, Read},
    path::Path,
};

pub(super) use field::decimal;

use super::{BadPlace, BadTrace, Names, Trace, binary::setup, file};

/// What is wrong with a file, and where.
pub(super) struct Bad(pub(super) BadPlace, pub(super) String);

impl Bad {
    /// A line could not be got.
    pub(super) fn reading(line: u64, error: &io::Error) -> Self {
        Self(BadPlace::Line(line), format!("it cannot be read: {error}"))
    }

    pub(super) fn of(self, file: &Path) -> BadTrace {
        BadTrace { file: file.to_owned(), place: self.0, why: self.1 }
    }
}

/// Reads a trace from a file in whatever format it has; from standard input for `-`.
///
/// Who was there when a text begins is read from a list that lies beside it, if there is one: for `a.txt`,
/// `a.tasks` or `a.txt.tasks`, as `grep -H . /proc/[0-9]*/task/[0-9]*/stat` makes it. A thread that is not in
/// it is taken from the column of processes, where the text has one.
///
/// # Errors
///
/// If it cannot be read, is of no known format, or holds no event that can be read.
pub fn open(file: &Path) -> Result<Trace, BadTrace> {
    let from: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(|error| cannot(&error).of(file))?)
    };
    let (start, from) = unpacked(from).map_err(|error| cannot(&error).of(file))?;
    // One that is cut within its first bytes is not text either.
    let cut = !start.is_empty() && file::MAGIC.starts_with(&start);
    if cut || start.starts_with(file::MAGIC) {
        return file::read(from, file);
    }
    if let Some(why) = other(&start) {
        return Err(Bad(BadPlace::Whole, why.into()).of(file));
    }
    if start.starts_with(perf::MAGIC) {
        return perf::read(from).map_err(|bad| bad.of(file));
    }
    let mut names = Names::default();
    let list = tasks::beside(file);
    let (tasks, damaged) = match list {
        Some(list) => tasks::read(&list, &mut names)?,
        None => (Vec::new(), 0),
    };
    let read = match start.starts_with(setup::MAGIC) {
        true => tracecmd::read(from, tasks, names),
        false => text::read(from, tasks, names),
    };
    let mut trace = read.map_err(|bad| bad.of(file))?;
    trace.origin.losses.damaged += damaged;
    Ok(trace)
}

/// Whether a file is a trace of a kind that begins with a mark: one of `lookaside record`, of `perf record` or of `trace-cmd
/// record`, compressed or not.
#[must_use]
pub fn is_marked(file: &Path) -> bool {
    let start = File::open(file).and_then(unpacked).map(|(start, _)| start).unwrap_or_default();
    [file::MAGIC, perf::MAGIC, setup::MAGIC].iter().any(|mark| start.starts_with(mark))
}

/// Reads the text of tracefs, of `trace-cmd report` or of `perf script`; `file` is what messages name.
///
/// # Errors
///
/// If it cannot be read, or holds no event that can be read.
pub fn read_text(from: impl Read, file: &Path) -> Result<Trace, BadTrace> {
    text::read(from, Vec::new(), Names::default()).map_err(|bad| bad.of(file))
}

fn cannot(error: &io::Error) -> Bad {
    Bad(BadPlace::Whole, format!("it cannot be read: {error}"))
}

/// What a file begins with, and all of it, decompressed if need be.
pub(super) fn unpacked(mut from: impl Read + 'static) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    let start = beginning(&mut from)?;
    let whole = Cursor::new(start.clone()).chain(from);
    let mut inner: Box<dyn Read> = match start[..] {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::new(whole)?),
        _ => return Ok((start, Box::new(whole))),
    };
    let start = beginning(&mut inner)?;
    Ok((start.clone(), Box::new(Cursor::new(start).chain(inner))))
}

/// The first bytes: enough to know a format by.
fn beginning(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    match from.take(64).read_to_end(&mut start) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(start),
    }
}

/// Formats that are known and not read here, with what to do instead.
fn other(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(b"==") && start.windows(7).any(|part| part == b" Lackey") {
        Some("it is a memory trace of valgrind's lackey, which has no events")
    } else if start.starts_with(b"2ELIFREP") {
        Some(
            "it is a recording of perf on a machine with the other order of bytes: use `perf script` there",
        )
    } else if start.is_empty() {
        Some("it is empty")
    } else {
        None
    }
}
