//! The kernel's own, binary form of events: what tracefs hands out, and what `perf` and `trace-cmd` copy into their files.

pub(crate) mod events;
pub(crate) mod format;
pub(crate) mod page;
pub(crate) mod setup;
pub(crate) mod symbols;
