//! The C interface of [`lookaside`]: what the functions of `include/lookaside.h` do.
//!
//! There are two layers:
//!
//! * This crate, generic over an [`Instance`]: [`Machine`] has one method for each function of the header, with the
//!   same arguments, the same checks of them and the same results. Scenarios run it on the adversarial machine.
//! * With the feature `exports`, the functions themselves. Each calls the method of its name on the one [`Machine`]
//!   of the target's hardware.
//!
//! `cargo xtask capi` builds the static libraries; `docs/from-c.md` is for those who use them.
#![no_std]
#![warn(missing_debug_implementations)]

mod batch;
mod cpus;
pub mod error;
#[cfg(feature = "exports")]
mod exports;
mod flush;
mod instance;
mod layout;
mod machine;
mod seal;
mod space;

pub use batch::Batch;
pub use cpus::MAX_CPUS;
pub use flush::Wait;
pub use instance::{Instance, Pins};
pub use layout::{Layout, VERSION, batch_words, space_words, wait_words};
pub use machine::{Machine, Roots};
pub use space::Space;
