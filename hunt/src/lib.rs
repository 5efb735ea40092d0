//! Runs a kernel under the TLB sanitizer and tells what it found. `docs/hunt.md` is its manual.

mod arguments;
mod bochs;
mod console;
mod cpio;
mod emulator;
mod interrupted;
mod kernel;
mod linux;
mod qemu;
mod render;
mod run;
mod setup;
mod skip;
mod symbols;

pub use arguments::{Arguments, hunt};
