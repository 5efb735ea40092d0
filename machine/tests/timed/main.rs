//! The timed machine, rule by rule, against times worked out by hand.

#[path = "../../benches/support/mod.rs"]
mod storm;
mod support;

mod bills;
mod broadcasts;
mod instructions;
mod interrupts;
mod runs;
mod siblings;
mod timeline;
mod tlb;
mod words;
