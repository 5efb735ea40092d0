//! Traces of a live system: what its kernel did that concerns address spaces and TLBs, event by event.
//!
//! A trace comes from `record` (on Linux), from the text that other tools print, or from a file in the
//! project's own format ([`mod@file`]). [`import`] tells them apart and reads them all into one type,
//! [`Trace`]. Nothing is interpreted there: which address space an event is about is found out by
//! [`mod@reconstruct`].
//!
//! What the events mean on Linux, and the traps in them, is in `docs/traces.md`.

mod bad_trace;
#[cfg(feature = "files")]
mod binary;
#[cfg(feature = "files")]
mod bytes;
mod call;
#[cfg(feature = "files")]
mod callers;
mod event;
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

pub use bad_trace::{BadPlace, BadTrace};
pub use call::Call;
pub use event::{CLONE_THREAD, CLONE_VFORK, CLONE_VM, Event, Kind, Pages, Purpose, Reason, fault};
pub use halted::HALT_POLL;
pub use kernel_counts::KernelCounts;
pub use names::Names;
pub use summary::Summary;
pub use trace::{Hardware, Losses, NameId, Origin, Task, Trace};
