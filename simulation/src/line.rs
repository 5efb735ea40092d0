//! A word that shares its cache line with nothing.

use lookaside_machine::timed::Word;

/// A word in a cache line of its own.
#[repr(align(64))]
#[derive(Debug)]
pub(crate) struct Line(pub(crate) Word);
