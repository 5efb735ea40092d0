//! A TLB sanitizer: it follows a running kernel and says which CPU may still use a translation that was revoked,
//! and which fence is missing.
//!
//! Ordinary emulators forget translations too early, so a kernel that lacks a flush works in them. This crate is
//! fed with what the CPUs of an emulator do (accesses, stores, fences, writes of root registers, changes of mode)
//! and keeps for each CPU the translations that it *may still hold*: those that it has used and that no fence has
//! removed since, or, with [`Strength::Permitted`], all that hardware is permitted to have cached. What a fence removes is asked of [`lookaside_hardware`], on which the model machine runs, too.
//!
//! | event | method |
//! | --- | --- |
//! | a load or store by virtual address | [`Shadow::access`] |
//! | a store to physical memory, whether it changes a page table or not | [`Shadow::store`] |
//! | a fence, or a barrier that completes earlier ones | [`Shadow::fence`], [`Shadow::complete`] |
//! | a write of a root register | [`Shadow::load_roots`] |
//! | a CPU enters or leaves user mode | [`Shadow::enter_mode`] |
//!
//! Page tables are read through [`Memory`]. Findings are in [`Shadow::findings`], each once with a count.
//!
//! What it does not see is listed in `docs/hunt.md`. In the direction of missed errors: without
//! [`Strength::Permitted`], translations that a CPU may have cached without using them; instruction fetches; stores
//! by devices.
#![no_std]

extern crate alloc;
#[cfg(feature = "front-end")]
extern crate std;

mod fence;
mod finding;
mod format;
#[cfg(feature = "front-end")]
pub mod front_end;
mod held;
mod lane;
mod memory;
mod permitted;
mod remedy;
mod shadow;
mod site;
mod store;
mod task;
mod watched;

pub use fence::{Fence, Form, Reach};
pub use finding::{Criterion, Fill, Finding, Place, Revoked};
pub use format::{Regime, Rights, Root, Roots, Walk};
pub use lane::Lane;
pub use memory::Memory;
pub use permitted::Strength;
pub use remedy::Remedy;
pub use shadow::{Access, Counts, Hit, Limits, Mode, Shadow};
pub use site::Site;
pub use watched::FrameMarks;

/// The size of a page of the smallest kind, as a power of two.
pub const PAGE_SHIFT: u32 = 12;
