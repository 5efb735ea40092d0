//! The kernel's own counts, beside the library's.

use core::sync::atomic::{AtomicU64, Ordering};

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
