//! Time: the generic timer. The virtual one, which every kernel may use.

use super::register::{read_register, synchronise, write_register};

const TICKS_PER_SECOND: u64 = 100;
const NS: u64 = 1_000_000_000;

/// This CPU's timer interrupts from here on.
pub(crate) fn start_ticks() {
    set();
    // SAFETY: the timer only interrupts. 1: enabled, not masked.
    unsafe { write_register!("cntv_ctl_el0", 1u64) };
}

/// The next interrupt is a tick from now.
pub(super) fn set() {
    let tick = read_register!("cntfrq_el0") / TICKS_PER_SECOND;
    // SAFETY: as above.
    unsafe { write_register!("cntv_tval_el0", tick) };
    // The timer takes its request back before the interrupt ends.
    synchronise();
}

/// Nanoseconds since the machine was reset: all CPUs see one counter.
pub(crate) fn now() -> u64 {
    synchronise(); // Without it the counter may be read early.
    let (count, frequency) = (read_register!("cntvct_el0"), read_register!("cntfrq_el0"));
    count / frequency * NS + count % frequency * NS / frequency
}
