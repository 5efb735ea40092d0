//! The adapters on a machine of two threads: what deadlocks without them, and how they do as locks.

#[macro_use]
#[path = "../../../lookaside/tests/support/idle.rs"]
mod idle;

mod deadlock;
mod locks;
mod machine;
