//! Counts of the flushes of a kernel, in the terms of Linux.

use std::collections::BTreeMap;

use crate::{Pages, Reason};

/// Counts of events of a kernel, for validation: those of a trace, or those of a strategy that does what Linux does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Flushes by reason and pages. Those of [`Reason::Switch`] that happened in an interrupt are in
    /// `dropped` instead, and those that were no switches between spaces of programs in `patching`.
    pub flushes: BTreeMap<(Reason, Pages), u64>,
    /// Switches to a space whose tag was still good, where the space's flushes were recorded.
    pub hits: u64,
    /// Switches to a space that had to be flushed or had no tag, where its flushes were recorded.
    pub misses: u64,
    /// Switches to spaces of programs that were not recorded: their flushes are unknown.
    pub strange: u64,
    /// Lazy CPUs that left a space because of a request to flush it.
    pub dropped: u64,
    /// Switch flushes without a switch between threads: the kernel patches its own text through a temporary
    /// space when the recorder is switched on and off.
    pub patching: u64,
    /// Requests to flush that were sent to another CPU.
    pub sends: u64,
    /// Requests by outcome: flushed, dropped by a lazy CPU, another space was loaded, nothing to do.
    pub fates: [u64; 4],
}
