//! From small traces, written by hand, to scripts: every rule and every trap of
//! `docs/reconstruction.md` once.

mod any;
mod calls;
mod counts;
mod mlock;
mod page_out;
mod recorded;
mod spaces;
mod story;
mod write_back;
