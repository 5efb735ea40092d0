//! The project's own format of traces: compact, versioned, compressed. Files end in `.trace`.
//!
//! `docs/traces.md` has it byte by byte.

mod bytes;
mod event;
mod head;
mod read;
mod write;

use std::io::{self, Write};

pub use read::read;
pub use write::Writer;

use super::Trace;

/// What every file begins with.
pub const MAGIC: &[u8; 16] = b"lookaside trace\n";

/// The version of the format that is written.
pub const VERSION: u32 = 6;

/// The first version that is read. It says nothing of the hardware; before version 3 no processes are followed, and no
/// functions are known; before version 4 no calls that write back are recorded,
/// and before version 5 none that lock pages.
pub const FIRST_VERSION: u32 = 1;

/// How long the head of a block is.
const HEAD: usize = 17;

/// How much a block holds at most, in bytes.
const RAW_MAX: usize = 1 << 20;

/// By how much compression may shrink a block; what would shrink more is stored as it is. So no file
/// makes its reader take very much more memory than the file has bytes.
const RATIO_MAX: usize = 64;

/// A kind of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Origin = 1,
    Names = 2,
    Tasks = 3,
    Events = 4,
    End = 5,
}

impl Block {
    const ALL: [Self; 5] = [Self::Origin, Self::Names, Self::Tasks, Self::Events, Self::End];
}

/// Writes a trace.
///
/// # Errors
///
/// If the writer fails, or a name is used that is not there.
pub fn write(trace: &Trace, to: impl Write) -> io::Result<()> {
    let Trace { origin, tasks, names, events } = trace;
    let mut writer = Writer::new(to, origin)?;
    writer.names(names)?;
    tasks.iter().try_for_each(|task| writer.task(task))?;
    events.iter().try_for_each(|event| writer.event(event))?;
    writer.finish(origin).map(|_| ())
}
