//! The library's protocols of two and three CPUs under [loom](https://docs.rs/loom).
//!
//! The library is generic over the machine, so its source runs here as it is: `Word` is one of loom's
//! atomics, `Hardware` a TLB that holds whatever it may, and `explore` has loom try every
//! interleaving, and every value that C11 lets a load find, up to a bound of pre-emptions.
//! `docs/loom.md` lists what is checked and what is not.
//!
//! Without `--cfg loom` this crate is empty: `cargo xtask loom` sets it.

#![cfg(loom)]

mod arena;
mod explore;
mod hardware;
mod machine;
mod word;

pub use self::{
    arena::keep,
    explore::{Exploration, explore},
    hardware::Hardware,
    machine::{Machine, World, on},
    word::{Reading, Word},
};
