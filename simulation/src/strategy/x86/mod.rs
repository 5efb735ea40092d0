//! x86 as kernels have kept its TLBs coherent: with interrupts, and with the invalidations that newer
//! CPUs broadcast.

mod freebsd;
mod linux;

pub use linux::{FLUSH_ASK, INTERRUPT_HOLD, SWITCH_LOOK};

pub(super) use linux::BROADCAST;

use super::Entry;

/// All of them.
pub(super) const STRATEGIES: &[&[Entry]] = &[linux::STRATEGIES, freebsd::STRATEGIES];
