//! Why a file is no trace, and where it goes wrong.

use core::fmt;
use std::path::PathBuf;

/// Why a file is no trace.
#[derive(Debug)]
pub struct BadTrace {
    /// The file, as messages name it.
    pub file: PathBuf,
    /// Where it goes wrong.
    pub place: BadPlace,
    /// What is wrong there, in one sentence.
    pub why: String,
}

/// Where a file goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPlace {
    /// The file as a whole.
    Whole,
    /// In this line, from 1.
    Line(u64),
    /// At this byte, from 0.
    Byte(u64),
}

impl fmt::Display for BadTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.place {
            BadPlace::Whole => write!(f, "{file}: {}", self.why),
            BadPlace::Line(line) => write!(f, "{file}:{line}: {}", self.why),
            BadPlace::Byte(byte) => write!(f, "{file}: byte {byte}: {}", self.why),
        }
    }
}

impl core::error::Error for BadTrace {}
