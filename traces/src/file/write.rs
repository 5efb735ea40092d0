//! The writer.

use std::io::{self, ErrorKind, Write};

use super::{
    Block, MAGIC, RATIO_MAX, RAW_MAX, VERSION,
    bytes::put_text,
    event::{self, Context},
    head::{Sums, put_origin, put_task},
};
use crate::{Event, NameId, Origin, Task};

/// How full a block is when it is written.
const FULL: usize = 256 << 10;

/// How hard to compress. Higher levels of zstd gain little on what is encoded already.
const LEVEL: i32 = 3;

/// Writes a trace piece by piece.
///
/// Names come before the threads and events that bear them. Events of one CPU come in the order in which
/// they happened; those of different CPUs may come in any order, for the reader sorts them.
pub struct Writer<W: Write> {
    to: W,
    names: Vec<u8>,
    tasks: Vec<u8>,
    events: Vec<u8>,
    context: Context,
    sums: Sums,
}

impl<W: Write> Writer<W> {
    /// Begins a file. What is not known yet of the origin may be said at the end.
    ///
    /// # Errors
    ///
    /// If `to` fails.
    pub fn new(mut to: W, origin: &Origin) -> io::Result<Self> {
        to.write_all(MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        let mut first = Vec::new();
        put_origin(&mut first, origin);
        block(&mut to, Block::Origin, &first)?;
        let mut context = Context::default();
        context.begin();
        Ok(Self {
            to,
            names: Vec::new(),
            tasks: Vec::new(),
            events: Vec::new(),
            context,
            sums: Sums::default(),
        })
    }

    /// Adds names; the first of all is number 0.
    ///
    /// # Errors
    ///
    /// If `to` fails, or a name is longer than 1 MiB.
    pub fn names(&mut self, names: &[String]) -> io::Result<()> {
        for name in names {
            put_text(&mut self.names, name);
            self.sums.names += 1;
            if self.names.len() >= FULL {
                flush(&mut self.to, Block::Names, &mut self.names)?;
            }
        }
        Ok(())
    }

    /// Adds a thread that existed when the trace began.
    ///
    /// # Errors
    ///
    /// If `to` fails, or the name is not there yet.
    pub fn task(&mut self, task: &Task) -> io::Result<()> {
        self.check(task.name)?;
        put_task(&mut self.tasks, task);
        self.sums.tasks += 1;
        if self.tasks.len() >= FULL { self.flush() } else { Ok(()) }
    }

    /// Adds an event.
    ///
    /// # Errors
    ///
    /// If `to` fails, or it bears a name that is not there yet.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        if let Some(name) = event::name(&event.kind) {
            self.check(name)?;
        }
        self.context.put(&mut self.events, event);
        self.sums.events += 1;
        if self.events.len() >= FULL { self.flush() } else { Ok(()) }
    }

    /// Writes what has come so far. Who reads a file that ends here gets all of it.
    ///
    /// # Errors
    ///
    /// If `to` fails.
    pub fn flush(&mut self) -> io::Result<()> {
        // Names first: events bear them.
        flush(&mut self.to, Block::Names, &mut self.names)?;
        flush(&mut self.to, Block::Tasks, &mut self.tasks)?;
        flush(&mut self.to, Block::Events, &mut self.events)?;
        self.context.begin();
        self.to.flush()
    }

    /// Ends the file. The origin replaces that of the beginning: losses are known now.
    ///
    /// # Errors
    ///
    /// If `to` fails.
    pub fn finish(mut self, origin: &Origin) -> io::Result<W> {
        self.flush()?;
        let mut last = Vec::new();
        put_origin(&mut last, origin);
        self.sums.put(&mut last);
        block(&mut self.to, Block::End, &last)?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn check(&self, name: NameId) -> io::Result<()> {
        if u64::from(name.0) < self.sums.names {
            return Ok(());
        }
        Err(io::Error::new(ErrorKind::InvalidInput, format!("there is no name {}", name.0)))
    }
}

/// Writes a block, if there is anything to write.
fn flush(to: &mut impl Write, kind: Block, raw: &mut Vec<u8>) -> io::Result<()> {
    if !raw.is_empty() {
        block(to, kind, raw)?;
        raw.clear();
    }
    Ok(())
}

/// Writes a block.
fn block(to: &mut impl Write, kind: Block, raw: &[u8]) -> io::Result<()> {
    if raw.len() > RAW_MAX {
        return Err(io::Error::new(ErrorKind::InvalidInput, "a text is too long for a trace"));
    }
    let packed = zstd::bulk::compress(raw, LEVEL)?;
    let worthwhile = packed.len() < raw.len() && raw.len() <= packed.len() * RATIO_MAX;
    let stored = if worthwhile { &packed } else { raw };
    let mut head = vec![kind as u8];
    for number in [raw.len() as u32, stored.len() as u32, crc32fast::hash(stored)] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    to.write_all(&head)?;
    to.write_all(stored)
}
