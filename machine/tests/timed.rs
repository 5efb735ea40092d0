//! The timed machine, rule by rule, against times worked out by hand.

#[path = "../benches/support/mod.rs"]
mod storm;
#[path = "timed/support.rs"]
mod support;

#[path = "timed/bills.rs"]
mod bills;
#[path = "timed/broadcasts.rs"]
mod broadcasts;
#[path = "timed/instructions.rs"]
mod instructions;
#[path = "timed/interrupts.rs"]
mod interrupts;
#[path = "timed/runs.rs"]
mod runs;
#[path = "timed/siblings.rs"]
mod siblings;
#[path = "timed/timeline.rs"]
mod timeline;
#[path = "timed/tlb.rs"]
mod tlb;
#[path = "timed/words.rs"]
mod words;
