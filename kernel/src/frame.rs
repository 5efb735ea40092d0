//! Frames of physical memory. One that is freed is poisoned: whoever still reads it sees that.

use alloc::vec::Vec;
use core::{
    ops::Range,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use crate::{
    arch::{self, PAGE, Table},
    lock::{Lock, Once},
};

/// What every word of a free frame holds.
pub(crate) const POISON: u64 = 0xdead_beef_f4ee_f4ee;

/// A frame of physical memory, by its address. Whoever has it may use it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame(u64);

struct Frames {
    first: u64,
    /// How many mappings each frame has beyond the first.
    shared: Vec<AtomicU32>,
    free: Lock<Vec<u64>>,
}

static FRAMES: Once<Frames> = Once::new();

/// Makes `memory` the frames that there are.
pub(crate) fn open(memory: Range<u64>) {
    let page = PAGE as u64;
    let numbers = memory.start / page..memory.end / page;
    let free: Vec<u64> = numbers.rev().map(|number| number * page).collect();
    let shared = free.iter().map(|_| AtomicU32::new(0)).collect();
    free.iter().for_each(|&address| fill(address, POISON));
    FRAMES.set(Frames { first: memory.start, shared, free: Lock::new(free) });
}

/// How many frames are free.
pub(crate) fn count_free() -> usize {
    FRAMES.get().free.lock().len()
}

fn words(address: u64) -> &'static Table {
    // SAFETY: all memory is mapped at OFFSET, and only ever seen as atomic words.
    unsafe { &*((arch::OFFSET + address as usize) as *const Table) }
}

fn fill(address: u64, value: u64) {
    words(address).iter().for_each(|word| word.store(value, Ordering::Relaxed));
}

impl Frame {
    /// A frame of zeros, if there is one.
    ///
    /// # Panics
    ///
    /// If somebody has written to a free frame: through a translation that should be gone.
    pub(crate) fn new() -> Option<Self> {
        let address = FRAMES.get().free.lock().pop()?;
        for word in words(address) {
            let found = word.swap(0, Ordering::Relaxed);
            assert!(found == POISON, "frame {address:#x} was written to while it was free");
        }
        Some(Self(address))
    }

    /// The frame that an entry names, which the caller has taken out of the table.
    pub(crate) fn named(address: u64) -> Self {
        Self(address)
    }

    pub(crate) fn address(&self) -> u64 {
        self.0
    }

    /// Its contents. Page tables are seen like this, too.
    pub(crate) fn words(&self) -> &'static Table {
        words(self.0)
    }

    /// One more mapping of the same frame.
    pub(crate) fn share(&self) -> Self {
        self.sharers().fetch_add(1, Ordering::Relaxed); // Relaxed: a sharer exists, us.
        Self(self.0)
    }

    /// Whether this is the only mapping.
    pub(crate) fn is_alone(&self) -> bool {
        self.sharers().load(Ordering::Acquire) == 0 // Acquire: what former sharers did is done.
    }

    /// Gives up this mapping; the last one frees and poisons the frame.
    pub(crate) fn free(self) {
        // AcqRel: what any sharer did is done before it is poisoned.
        let sharers = self.sharers();
        let mut now = sharers.load(Ordering::Acquire);
        while now > 0 {
            match sharers.compare_exchange(now, now - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) => now = found,
            }
        }
        fill(self.0, POISON);
        FRAMES.get().free.lock().push(self.0);
    }

    fn sharers(&self) -> &'static AtomicU32 {
        let frames = FRAMES.get();
        &frames.shared[((self.0 - frames.first) / PAGE as u64) as usize]
    }
}

/// The word at a physical address.
pub(crate) fn word(address: u64) -> &'static AtomicU64 {
    &words(address & !(PAGE as u64 - 1))[(address as usize % PAGE) / 8]
}
