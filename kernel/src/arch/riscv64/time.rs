//! Time: one counter that all harts see, and a timer for each.

use core::arch::asm;

use super::{TIMER, sbi};
use crate::lock::Once;

/// How often ticks come, a second.
const TICKS: u64 = 100;

const NS: u64 = 1_000_000_000;

/// How often the counter counts, a second.
static TIMEBASE: Once<u64> = Once::new();

pub(super) fn open(timebase: u64) {
    TIMEBASE.set(timebase);
}

fn counter() -> u64 {
    let time;
    // SAFETY: it reads a counter.
    unsafe { asm!("rdtime {}", out(reg) time, options(nomem, nostack, preserves_flags)) };
    time
}

pub(crate) fn now() -> u64 {
    let (time, base) = (counter(), *TIMEBASE.get());
    // In two steps: nanoseconds times the base would overflow within the hour.
    time / base * NS + time % base * NS / base
}

pub(crate) fn start_ticks() {
    next_tick();
    // SAFETY: the kernel is ready for it.
    unsafe { asm!("csrs sie, {}", in(reg) TIMER, options(nostack)) };
}

/// Sets the timer for the next tick; the interrupt of the last one ends.
pub(super) fn next_tick() {
    if let Err(code) = sbi::set_timer(counter() + TIMEBASE.get() / TICKS) {
        panic!("the firmware does not set the timer: {code}");
    }
}
