//! The TLB sanitizer as a plugin of QEMU 10 or later.
//!
//! QEMU loads this library and tells it of every load, store and translated block. What matters is handed to
//! [`lookaside_watch`]; at its end the run is written down as a [`Report`](lookaside_watch::front_end::Report).
//!
//! The declarations of QEMU's interface in `ffi.rs` are our own, written from its public documentation. QEMU is
//! GPL-2.0: loaded into it, this library is used under its MIT licence.

#![cfg_attr(test, allow(dead_code, reason = "the plugin itself is not built for tests"))]

mod arm;
mod guest;
mod riscv;
mod special;
mod x86;

// The symbols of QEMU and glib are there only when QEMU has loaded the library, so not in a test.
#[cfg(not(test))]
mod ffi;
#[cfg(not(test))]
mod plugin;
#[cfg(not(test))]
mod registers;
