//! Time: the time stamp counter, which CPUs count together, measured by the old timer of PCs.

use core::{
    arch::x86_64::_rdtsc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{apic, port};

/// In nanoseconds.
pub(super) const MILLISECOND: u64 = 1_000_000;

/// Nanoseconds in a count, times 2 to the 32; 0 until it is known.
static SCALE: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds since the counter was 0.
pub(crate) fn now() -> u64 {
    // Relaxed: the boot CPU stored it at boot.
    ((u128::from(count()) * u128::from(SCALE.load(Relaxed))) >> 32) as u64
}

/// Waits for some nanoseconds.
pub(super) fn wait(nanoseconds: u64) {
    let start = now();
    while now() - start < nanoseconds {
        super::relax();
    }
}

/// Measures this clock, and that of local APICs.
pub(super) fn calibrate() {
    apic::calibrate(50, || {
        let start = count();
        wait_for_old_timer();
        // Relaxed: other CPUs are started later.
        SCALE.store(((50 * MILLISECOND) << 32) / (count() - start), Relaxed);
    });
}

/// Waits for 50 milliseconds.
///
/// The third counter of the timer counts down once, and then raises its output (Intel 8254, mode 0).
/// Two bits of another port turn it on, and one shows the output.
fn wait_for_old_timer() {
    const COUNTER: u16 = 0x42;
    const MODE: u16 = 0x43;
    const GATE: u16 = 0x61;
    const ON: u8 = 1 << 0;
    const SPEAKER: u8 = 1 << 1;
    const OUTPUT: u8 = 1 << 5;
    /// Of 1193182 in a second.
    const COUNTS: u16 = 59_659;
    let [low, high] = COUNTS.to_le_bytes();
    // SAFETY: nobody else uses this counter, and the speaker is off.
    unsafe {
        port::write(GATE, port::read(GATE) & !SPEAKER | ON);
        port::write(MODE, 2 << 6 | 3 << 4);
        port::write(COUNTER, low);
        port::write(COUNTER, high);
        while port::read(GATE) & OUTPUT == 0 {}
    }
}

fn count() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { _rdtsc() }
}
