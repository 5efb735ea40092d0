//! How much memory a front end takes, which is nearly all the shadow's.

use core::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use std::alloc::System;

/// The system's allocator, which counts bytes. A front end makes it its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

static NOW: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

/// The most that was taken at one time, in bytes; 0 if [`Counting`] is not the allocator.
#[must_use]
pub fn most_bytes() -> u64 {
    // Relaxed: this number, as those below, orders nothing.
    MOST.load(Relaxed)
}

// SAFETY: everything is left to the system's allocator; only numbers are kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let bytes = layout.size() as u64;
        let now = NOW.fetch_add(bytes, Relaxed) + bytes;
        if now > MOST.load(Relaxed) {
            MOST.fetch_max(now, Relaxed);
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}
