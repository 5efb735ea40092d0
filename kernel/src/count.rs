//! The kernel's own counts, and the library's.

use core::sync::atomic::{AtomicU64, Ordering};

use lookaside::{
    counts::{Counts, Event, Outcome},
    platform::CpuId,
    tags::Switched,
};

use crate::arch;

/// A count.
pub(crate) struct Count(AtomicU64);

/// Pages that were taken back, moved or protected.
pub(crate) static PAGES: Count = Count::new();
/// Page faults.
pub(crate) static FAULTS: Count = Count::new();
/// Page faults on entries that allowed the access.
pub(crate) static SPURIOUS: Count = Count::new();

impl Count {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed); // Relaxed: a count.
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed) // Relaxed: a count.
    }
}

/// What the library counts, of each CPU.
static COUNTS: [Counts<AtomicU64>; arch::MAX_CPUS] = [const { Counts::new() }; arch::MAX_CPUS];
/// Switches by result: unchanged, entries kept, fresh tag, rollover, flush.
static SWITCHES: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// Counts an event of the library.
pub(crate) fn event(cpu: CpuId, event: Event) {
    COUNTS[cpu.index()].count(event);
}

/// Counts a switch.
pub(crate) fn switch(switched: Switched) {
    let kind = match switched {
        Switched::Unchanged => 0,
        Switched::Kept => 1,
        Switched::Fresh => 2,
        Switched::RolledOver => 3,
        Switched::CaughtUp | Switched::Flushed => 4,
    };
    SWITCHES[kind].fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
}

/// The number of switches by result: unchanged, entries kept, fresh tag, rollover, flush.
pub(crate) fn switches() -> [u64; 5] {
    core::array::from_fn(|kind| SWITCHES[kind].load(Ordering::Relaxed)) // Relaxed: counts.
}

/// How many flushes ended in this way, on all CPUs.
pub(crate) fn flushes(outcome: Outcome) -> u64 {
    COUNTS.iter().map(|counts| counts.flushes(outcome)).sum()
}

/// How many CPUs were interrupted for flushes.
pub(crate) fn interrupted() -> u64 {
    COUNTS.iter().map(Counts::interrupted).sum()
}
