//! What instructions do to cached translations, stated once.
//!
//! Three engines execute the library's instructions in software: the [adversary], on which scenarios are
//! explored; the [litmus engine], which runs instructions out of order; and the CPU on which the sequences of
//! x86-64 are tested. Each of them decides *when* something happens. *What* happens is decided here, so
//! that they cannot disagree about it:
//!
//! | question | answered by |
//! | --- | --- |
//! | which cached walks does an invalidation remove? | [`Invalidation::names`] |
//! | what does the operand of an invalidation name? | [`arm::tlbi`], [`x86::invlpg`], [`x86::invpcid`], [`x86::invlpgb`], [`riscv::fenced`] |
//! | what does a write of a root register remove, and what does it load? | [`x86::mov_to_cr3`], [`x86::mov_to_cr4`], [`riscv::satp`], [`arm::loaded`] |
//! | which barrier orders stores before walks, and which completes invalidations? | [`arm::Barrier`], [`x86::Effect::serialising`], [`riscv::Order`] |
//! | which instruction faults? | [`x86::Fault`] |
//!
//! Everything is a pure function of register values and operands. They are decoded from the manuals, and not
//! with the library's encoders, of which this crate knows nothing.
//!
//! Where a manual lets an instruction remove more than it must, what is said here is the least: an engine that
//! removes more than that would hide a missing flush.
//!
//! [adversary]: ../lookaside_machine/adversary/index.html
//! [litmus engine]: ../lookaside_machine/litmus/index.html

#![no_std]
#![forbid(unsafe_code)]

pub mod arm;
mod invalidation;
pub mod riscv;
pub mod x86;

pub use invalidation::{Cached, Invalidation, Partial};
