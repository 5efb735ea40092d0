//! The reader.

use std::{
    io::{self, ErrorKind, Read},
    path::Path,
};

use super::{
    Block, FIRST_VERSION, HEAD, MAGIC, RATIO_MAX, RAW_MAX, VERSION,
    bytes::{Bytes, Malformed},
    event::Context,
    head::{self, Sums},
};
use crate::{
    BadPlace, BadTrace, Call, Trace,
    order::{cpus, order},
};

/// From this version on the recorder switches on the calls that write back ([`Call::WRITE_BACK`]).
const RECORDS_WRITE_BACK: u32 = 4;
/// The same of those that lock pages ([`Call::LOCKS`]).
const RECORDS_LOCKS: u32 = 5;
/// The same of [`Call::Close`].
const RECORDS_CLOSE: u32 = 6;

/// Reads a trace; `file` is what messages name.
///
/// Memory is at most in proportion to the file: 2 KiB for each of its bytes, if somebody has made it for
/// that; about 20 bytes for each in real ones.
///
/// # Errors
///
/// If it is no trace, of another version, or damaged. A file that ends early gives what is whole, and
/// says so in its [`crate::Losses`].
pub fn read(from: impl Read, file: &Path) -> Result<Trace, BadTrace> {
    let mut reader =
        Reader { from, at: 0, version: 0, context: Context::default(), trace: Trace::default() };
    reader.all().map_err(|Bad(byte, why)| BadTrace {
        file: file.to_owned(),
        place: BadPlace::Byte(byte),
        why,
    })?;
    let mut trace = reader.trace;
    // What its recorder did not know, it did not switch on either.
    let later = [
        (RECORDS_WRITE_BACK, &Call::WRITE_BACK[..]),
        (RECORDS_LOCKS, &Call::LOCKS),
        (RECORDS_CLOSE, &[Call::Close]),
    ];
    let absent = later.into_iter().filter(|(since, _)| reader.version < *since);
    if trace.origin.knows_absent() {
        let names = absent.flat_map(|(_, calls)| calls.iter().copied().flat_map(Call::events));
        trace.origin.absent.extend(names);
    }
    trace.origin.cpus = trace.origin.cpus.max(cpus(&trace.events));
    trace.origin.losses.reordered += order(&mut trace.events);
    Ok(trace)
}

/// What is wrong, and at which byte.
struct Bad(u64, String);

struct Reader<R> {
    from: R,
    /// How many bytes were read.
    at: u64,
    version: u32,
    context: Context,
    trace: Trace,
}

impl<R: Read> Reader<R> {
    fn all(&mut self) -> Result<(), Bad> {
        self.preamble()?;
        let (mut head, mut stored, mut raw) = ([0; HEAD], Vec::new(), Vec::new());
        let mut begun = false;
        loop {
            let start = self.at;
            if !self.fill(&mut head)? {
                return self.ends_early(begun);
            }
            let head = Head::of(&head).map_err(|why| Bad(start, why))?;
            stored.resize(head.stored, 0);
            if !self.fill(&mut stored)? {
                return self.ends_early(begun);
            }
            let mut bytes =
                Bytes(head.unpack(&stored, &mut raw).map_err(|why| Bad(start, why.to_owned()))?);
            if !begun && head.kind != Block::Origin {
                return Err(Bad(start, "the first block does not say where it comes from".into()));
            }
            begun = true;
            let malformed =
                |why: Malformed| Bad(start, format!("a block that is whole makes no sense: {why}"));
            self.block(head.kind, &mut bytes).map_err(malformed)?;
            if !bytes.is_empty() {
                return Err(malformed("it has bytes to spare"));
            }
            if head.kind == Block::End {
                let end = self.at;
                return match self.fill(&mut [0])? {
                    false if self.at == end => Ok(()),
                    _ => Err(Bad(end, "there is more after the end".into())),
                };
            }
        }
    }

    fn preamble(&mut self) -> Result<(), Bad> {
        let mut magic = [0; MAGIC.len()];
        if !self.fill(&mut magic)? {
            let read = self.at as usize;
            let ours = magic[..read] == MAGIC[..read];
            return Err(if ours && read > 0 { self.cut_in_its_head() } else { not_ours() });
        }
        if &magic != MAGIC {
            return Err(not_ours());
        }
        let mut version = [0; 4];
        if !self.fill(&mut version)? {
            return Err(self.cut_in_its_head());
        }
        match u32::from_le_bytes(version) {
            version @ FIRST_VERSION..=VERSION => {
                self.version = version;
                Ok(())
            }
            other => Err(Bad(
                MAGIC.len() as u64,
                format!(
                    "it is of version {other}; this program reads versions {FIRST_VERSION} to {VERSION}"
                ),
            )),
        }
    }

    /// The file ends before the first block is whole: it is a trace, and nothing of it can be used.
    fn cut_in_its_head(&self) -> Bad {
        let why = format!(
            "it is a trace of which only the first {} bytes are there: they hold no event; copy or record it again",
            self.at
        );
        Bad(self.at, why)
    }

    /// The file ends where a block is expected or within one.
    fn ends_early(&mut self, begun: bool) -> Result<(), Bad> {
        if !begun {
            return Err(self.cut_in_its_head());
        }
        self.trace.origin.losses.truncated = true;
        Ok(())
    }

    fn block(&mut self, kind: Block, bytes: &mut Bytes<'_>) -> Result<(), Malformed> {
        let Trace { origin, tasks, names, events } = &mut self.trace;
        let known = u32::try_from(names.len()).map_err(|_| "there are too many names")?;
        match kind {
            Block::Origin => *origin = head::origin(bytes, self.version)?,
            Block::Names => {
                while !bytes.is_empty() {
                    names.push(bytes.text()?.to_owned());
                }
            }
            Block::Tasks => {
                while !bytes.is_empty() {
                    tasks.push(head::task(bytes, known)?);
                }
            }
            Block::Events => {
                self.context.begin();
                while !bytes.is_empty() {
                    events.push(self.context.take(bytes, known)?);
                }
            }
            Block::End => {
                *origin = head::origin(bytes, self.version)?;
                let found = [names.len(), tasks.len(), events.len()].map(|sum| sum as u64);
                let [names, tasks, events] = found;
                if Sums::take(bytes)? != (Sums { names, tasks, events }) {
                    return Err("something is missing before the end");
                }
            }
        }
        Ok(())
    }

    /// Reads as much as there is room for; false if the file ends before.
    fn fill(&mut self, mut room: &mut [u8]) -> Result<bool, Bad> {
        while !room.is_empty() {
            match self.from.read(room) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    self.at += read as u64;
                    room = &mut room[read..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // So says a decoder whose own file ends early.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
                Err(error) => return Err(Bad(self.at, unreadable(&error))),
            }
        }
        Ok(true)
    }
}

fn not_ours() -> Bad {
    Bad(0, "it does not begin as a trace does".into())
}

fn unreadable(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

/// What stands before a block.
struct Head {
    kind: Block,
    raw: usize,
    stored: usize,
    checksum: u32,
}

impl Head {
    /// Reads it, and refuses sizes that no writer writes.
    fn of(bytes: &[u8; HEAD]) -> Result<Self, String> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if word(HEAD - 4) != crc32fast::hash(&bytes[..HEAD - 4]) {
            return Err("the head of a block is damaged".into());
        }
        let kind = Block::ALL.into_iter().find(|&kind| kind as u8 == bytes[0]);
        let kind = kind.ok_or_else(|| format!("a block is of the unknown kind {}", bytes[0]))?;
        let (raw, stored) = (word(1) as usize, word(5) as usize);
        if raw > RAW_MAX || stored > raw || raw > stored * RATIO_MAX {
            return Err(format!("a block of {stored} bytes claims to hold {raw}"));
        }
        Ok(Self { kind, raw, stored, checksum: word(9) })
    }

    fn unpack<'b>(&self, stored: &'b [u8], room: &'b mut Vec<u8>) -> Result<&'b [u8], Malformed> {
        if crc32fast::hash(stored) != self.checksum {
            return Err("a block is damaged: copy the file again, if there is another copy");
        }
        if self.stored == self.raw {
            return Ok(stored);
        }
        *room = zstd::bulk::decompress(stored, self.raw)
            .map_err(|_| "a block cannot be decompressed, though it is whole")?;
        if room.len() == self.raw { Ok(room) } else { Err("a block has not the size that it says") }
    }
}
