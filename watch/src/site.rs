//! The places of the kernel where it fences, and what each was good for.

use alloc::collections::BTreeMap;

use crate::Form;

/// A fence instruction of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Site {
    /// How often it was executed.
    pub executed: u64,
    /// How many of these removed an entry that somebody held.
    pub removing: u64,
    /// How many of these removed an entry that had been revoked: the others could have been left out in this run.
    pub needed: u64,
    /// How many entries it removed.
    pub removed: u64,
    /// How many of them had been revoked.
    pub settled: u64,
    /// It was ignored on request.
    pub ignored: bool,
}

/// All sites, by the instruction's address and the form that it had there.
pub(crate) type Sites = BTreeMap<(u64, Form), Site>;
