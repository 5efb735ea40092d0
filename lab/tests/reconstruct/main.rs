//! From small traces, written by hand, to scripts: every rule and every trap of
//! `docs/reconstruction.md` once.
#![cfg(feature = "clock")]

mod any;
mod calls;
mod counts;
mod recorded;
mod spaces;
mod story;
