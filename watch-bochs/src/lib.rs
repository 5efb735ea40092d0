//! The TLB sanitizer for Bochs, whose x86-64 CPUs have PCIDs and `INVPCID`, and `INVLPGB` if it is asked for; QEMU's have none of them.
//!
//! Bochs calls functions of its *instrumentation* for each instruction and each access to memory. Those of
//! `hunt/bochs/instrument.cc` are compiled into it, load this library, and hand on what matters. Bochs executes all CPUs in
//! one thread, in turns, so events have one order.
//!
//! Bochs keeps fewer translations than the architecture permits (it ignores bit 63 of `CR3` and flushes at each load of a
//! root): the kernel runs as if nothing were wrong, and the shadow says what a CPU may still hold.
//!
//! Bochs is LGPL-2.0-or-later: this library is used with it under its MIT licence.

mod guest;
mod interface;
#[cfg(test)]
mod tests;
mod watch;
