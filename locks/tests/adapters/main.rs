//! The adapters on a machine of two threads: what deadlocks without them, and how they do as locks.

mod deadlock;
mod locks;
mod machine;
