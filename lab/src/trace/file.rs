//! The project's own format of traces: compact, versioned, compressed.

use std::{
    io::{Read, Write},
    path::Path,
};

use super::{BadTrace, Trace};

/// Writes a trace.
///
/// # Errors
///
/// If the writer fails.
pub fn write(_trace: &Trace, _to: impl Write) -> std::io::Result<()> {
    unimplemented!()
}

/// Reads a trace; `file` is what messages name.
///
/// # Errors
///
/// If it is no trace, of another version, or damaged. A file that ends early gives what is whole, and
/// says so in its [`super::Losses`].
pub fn read(_from: impl Read, _file: &Path) -> Result<Trace, BadTrace> {
    unimplemented!()
}
