//! Traces in the format of casemate, and the protocol that they must follow.
//!
//! casemate checks what a hypervisor did to its page tables, one record at a time: that a valid
//! descriptor is replaced by break-before-make only, under the lock of its tree, and that no
//! identifier (VMID or ASID) stands for two trees. This is a checker of our own from the published
//! description of the format, for two uses: to see that it accepts and refuses what others say it
//! must, and so that runs of our own can be written in a form which others judge.
//!
//! # Not checked
//!
//! * That a read gives what was written: the values of `mem-read` are not looked at.
//! * Sizes of address spaces: a tree has four levels from level 0, whatever `vtcr_el2` says.
//! * What a lock protects but the tables: `lock` and `unlock` decide about table writes only.
//! * `set_pte_thread_owner`, and writes by a CPU that owns a descriptor without its tree's lock.

mod check;
mod record;
mod write;

pub(crate) use write::write;
pub use write::{Unwritten, Written};

pub use check::{Checker, Refusal};
pub use record::{Record, Tlbi, What, Word, read};

use core::fmt;

/// How a trace ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It follows the protocol.
    Accepted {
        /// How many records it has.
        records: usize,
    },
    /// It does not.
    Refused {
        /// The line of the offending record, counted from 1.
        line: usize,
        /// Why.
        why: Refusal,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { records } => write!(f, "accepted after {records} records"),
            Self::Refused { line, why } => write!(f, "refused at line {line}: {why}"),
        }
    }
}

/// Checks a trace. A line that begins with `!` ends it.
///
/// # Errors
///
/// If a line is no record: its number, counted from 1, and what is wrong with it.
pub fn check(trace: &str) -> Result<Verdict, (usize, String)> {
    let mut checker = Checker::default();
    let mut records = 0;
    for (index, line) in trace.lines().enumerate() {
        let number = index + 1;
        let line = line.trim();
        if line.starts_with('!') {
            break;
        }
        if line.is_empty() {
            continue;
        }
        let record = read(line).map_err(|what| (number, what))?;
        if let Err(why) = checker.apply(&record) {
            return Ok(Verdict::Refused { line: number, why });
        }
        records += 1;
    }
    Ok(Verdict::Accepted { records })
}
