//! x86 as kernels have kept its TLBs coherent: with interrupts, and with the invalidations that newer
//! CPUs broadcast.

mod call;
mod concurrent;
mod freebsd;
mod host;
mod invlpgb;
mod lazy;
mod linux;
mod pcid;
mod requests;
mod slots;
mod untagged;

pub use host::INTERRUPT_HOLD;
pub use lazy::SWITCH_LOOK;

use super::Entry;

/// All of them.
pub(super) const STRATEGIES: &[&[Entry]] = &[
    untagged::STRATEGIES,
    pcid::STRATEGIES,
    lazy::STRATEGIES,
    freebsd::STRATEGIES,
    concurrent::STRATEGIES,
    invlpgb::STRATEGIES,
];
