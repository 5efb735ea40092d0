//! Litmus tests: the rules of the adversary on a CPU that runs out of order.
//!
//! A litmus test is a few instructions on a few CPUs and a question about the end. Arm's own model answers
//! such questions, and its answers are published: complete sets of final states. This machine
//! computes the same sets by running the tests, so that a reader who doubts a rule of the
//! [adversary](crate::adversary) can see it held against what Arm's model says of it.
//!
//! The adversary runs programs in order, as its scenarios are compiled code. Litmus tests ask for more: loads
//! that overtake each other, and walks that were made long before the access they serve. So the
//! instructions of a thread run here in any order that Arm's preserved program order allows, each in
//! up to three parts: a walk, an update of the descriptor by hardware, and the access or the fault.
//! Everything that may happen next is tried ([`explore`]); states that were met before are not gone
//! into again. A state that cannot end, because some part waits for ever, is no execution.
//!
//! # What is the adversary's, and what is not
//!
//! | | whose |
//! | --- | --- |
//! | what a descriptor means, and which may be cached (A1) | the adversary's (`adversary/format.rs`, `flags.rs`) |
//! | the TLB as a set of all that it may hold | the same entry (`adversary/tlb.rs`); sets of its own, which are plain data here |
//! | what a `TLBI` names (A4), what a `DSB` waits for and completes (A5, A6) | that of [`lookaside_hardware`], for both |
//! | that it dooms, and a full `DSB` of the same CPU completes (A6) | its own, after the same rule |
//! | that completion waits for what is on its way (A7) | its own: loads and faults are on their way here, too |
//! | what a CPU may still use after its own `DSB` (A8) | its own: a walk that was made early; the adversary's CPUs run in order and keep what a completion removes until they synchronise |
//! | break-before-make (A10) | the adversary's (`adversary/clash.rs`), and that read-only pages of different contents clash, which the adversary does not look at |
//! | what hardware writes into descriptors (A14) | its own around the adversary's bits (`adversary/flags.rs`) |
//! | store buffers | none: a store happens when it reaches memory, and loads of its thread may read it before |
//!
//! So a test that fails when a shared part is broken speaks for the adversary directly; one of the other
//! rules speaks for the rule as the adversary's documentation states it. `docs/litmus.md` has a table of
//! which tests fail when which rule is broken.
//!
//! With [`Hardware::in_order`] instructions execute in order, as the explorer's CPUs do; then both must find the same
//! sets ([`differential`](crate::differential)).
//!
//! # Not modelled
//!
//! * One level of table, no ASIDs, no contiguous bit, no root registers, one stage, as in the published
//!   tests. Memory is one word for each variable.
//! * Exclusives and exception returns: a test with one is not read. Executions in which a branch leads
//!   backwards to one instruction more than twice are not counted.
//! * What a condition selects is guessed before it is known, as Arm's model has it; what is *forwarded* from
//!   a store whose data was guessed, and ordered by a barrier before a store, does not wait for the guess.
//! * A descriptor that leads to no frame of the test, or has bits that no field names, is walked by
//!   nobody; executions that need it to be do not end, and are not counted.
//! * An access to an address that names nothing does not happen, and its execution is not counted.

mod access;
mod coherence;
mod descriptor;
mod explore;
mod order;
mod run;
mod state;
mod test;
mod translate;

use crate::adversary::config::Config;

pub use descriptor::Descriptor;
pub use explore::{Effort, Outcomes, explore, witness};
pub use test::*;

/// The hardware that a test runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// FEAT_ETS2.
    pub ets2: bool,
    /// CPUs execute in order, and only stores wait: each instruction begins when the one before it is over, or is a
    /// store that has been translated. So the explorer's CPUs do. What differs from Arm's own order is what
    /// running out of order adds.
    pub in_order: bool,
}

impl Hardware {
    fn config(self) -> Config {
        let mut config = Config::arm(1);
        config.ets2 = self.ets2;
        config
    }
}
