//! Traces of a live system: what its kernel did that concerns address spaces and TLBs, event by event.
//!
//! A trace comes from `record` (on Linux), from the text that other tools print, or from a file in the
//! project's own format ([`mod@file`]). [`import`] tells them apart and reads them all into one type,
//! [`Trace`]. Nothing is interpreted there: which address space an event is about is found out by
//! [`mod@reconstruct`].
//!
//! What the events mean on Linux, and the traps in them, is in `docs/traces.md`.

#[cfg(feature = "files")]
mod binary;
#[cfg(feature = "files")]
mod bytes;
#[cfg(feature = "files")]
mod callers;
#[cfg(feature = "files")]
pub mod file;
#[cfg(feature = "files")]
mod functions;
mod halted;
#[cfg(feature = "files")]
pub mod import;
mod kernel_counts;
#[cfg(feature = "files")]
pub mod lackey;
mod missing;
mod names;
#[cfg(feature = "files")]
mod order;
#[cfg(feature = "files")]
pub mod reconstruct;
#[cfg(all(feature = "files", target_os = "linux"))]
pub mod record;
mod summary;
mod trace;

pub use halted::HALT_POLL;
pub use kernel_counts::KernelCounts;
pub use names::Names;
pub use summary::Summary;
pub use trace::{
    BadPlace, BadTrace, CLONE_THREAD, CLONE_VFORK, CLONE_VM, Call, Event, Hardware, Kind, Losses,
    NameId, Origin, Pages, Purpose, Reason, Task, Trace, fault,
};
