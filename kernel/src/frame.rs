//! Frames of physical memory. A freed frame is poisoned, so that a later access through a stale translation
//! shows.

use alloc::vec::Vec;
use core::{
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{
    arch::{self, PAGE, Table},
    lock::{Lock, Once},
};

/// The value of every word of a free frame.
pub(crate) const POISON: u64 = 0xdead_beef_f4ee_f4ee;

/// The most frames that are taken together.
pub(crate) const LARGEST: usize = 512;

/// A frame of physical memory, by its address. The owner of the value owns the frame.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame(u64);

struct Frames {
    first: u64,
    /// How many mappings each frame has beyond the first.
    shared: Vec<AtomicU32>,
    free: Lock<Free>,
}

/// Which frames are free: a bit for each.
struct Free {
    bits: Vec<u64>,
    count: usize,
    /// Where the last frame was found.
    last: usize,
}

impl Free {
    /// Takes `count` frames, a power of two, that follow each other and are aligned to their number.
    fn take(&mut self, count: usize) -> Option<usize> {
        let words = count.div_ceil(64);
        let mask = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
        let begin = self.last / words * words;
        let places = (begin..self.bits.len()).step_by(words).chain((0..begin).step_by(words));
        for word in places {
            let Some(group) = self.bits.get_mut(word..word + words) else { continue };
            let fits = |&shift: &usize| group.iter().all(|bits| bits >> shift & mask == mask);
            let Some(shift) = (0..64).step_by(count.min(64)).find(fits) else { continue };
            group.iter_mut().for_each(|bits| *bits &= !(mask << shift));
            self.count -= count;
            self.last = word;
            return Some(word * 64 + shift);
        }
        None
    }

    fn give(&mut self, index: usize) {
        assert!(self.bits[index / 64] & 1 << (index % 64) == 0, "frame {index} is free already");
        self.bits[index / 64] |= 1 << (index % 64);
        self.count += 1;
    }
}

static FRAMES: Once<Frames> = Once::new();

/// Makes `memory` the frames that there are.
pub(crate) fn open(memory: Range<u64>) {
    // Blocks and large pages need frames that are aligned: so is the first.
    let first = memory.start.next_multiple_of(LARGEST as u64 * PAGE as u64);
    let count = (memory.end.saturating_sub(first) as usize / PAGE) & !63;
    let bits = (0..count / 64).map(|_| u64::MAX).collect();
    (0..count).for_each(|index| fill(first + (index * PAGE) as u64, POISON));
    let shared = (0..count).map(|_| AtomicU32::new(0)).collect();
    FRAMES.set(Frames { first, shared, free: Lock::new(Free { bits, count, last: 0 }) });
}

/// How many frames are free.
pub(crate) fn count_free() -> usize {
    FRAMES.get().free.lock().count
}

/// The words of the frame at an address: a page table, for example.
pub(crate) fn words(address: u64) -> &'static Table {
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
    /// If a free frame has been written to: through a translation that should be gone.
    pub(crate) fn new() -> Option<Self> {
        Self::run(1).map(Self)
    }

    /// The address of the first of `count` frames of zeros that follow each other: a power of two, at
    /// most [`LARGEST`].
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    pub(crate) fn run(count: usize) -> Option<u64> {
        let frames = FRAMES.get();
        let index = frames.free.lock().take(count)?;
        let start = frames.first + (index * PAGE) as u64;
        for address in (start..start + (count * PAGE) as u64).step_by(PAGE) {
            for word in words(address) {
                let found = word.swap(0, Ordering::Relaxed);
                assert!(found == POISON, "frame {address:#x} was written to while it was free");
            }
        }
        Some(start)
    }

    /// The frame that an entry names, which the caller has taken out of the table.
    pub(crate) fn named(address: u64) -> Self {
        Self(address)
    }

    pub(crate) fn address(&self) -> u64 {
        self.0
    }

    /// Its address, for an entry that has the frame from now on.
    pub(crate) fn into_address(self) -> u64 {
        self.0
    }

    /// Its contents. Page tables are seen like this, too.
    pub(crate) fn words(&self) -> &'static Table {
        words(self.0)
    }

    /// Makes the contents those of another frame.
    pub(crate) fn copy_from(&self, other: &Self) {
        for (to, from) in self.words().iter().zip(other.words()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed); // Relaxed, both: no CPU writes to it.
        }
    }

    /// Counts one more mapping of the frame, which has an entry of its own.
    pub(crate) fn share(self) {
        self.sharers().fetch_add(1, Ordering::Relaxed); // Relaxed: a sharer exists, us.
    }

    /// Whether this is the only mapping.
    pub(crate) fn is_alone(&self) -> bool {
        self.sharers().load(Ordering::Acquire) == 0 // Acquire: the accesses of former sharers are done.
    }

    /// Gives up this mapping; the last one frees and poisons the frame.
    pub(crate) fn free(self) {
        // AcqRel: the accesses of all sharers are done before it is poisoned.
        let sharers = self.sharers();
        let mut now = sharers.load(Ordering::Acquire);
        while now > 0 {
            match sharers.compare_exchange(now, now - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) => now = found,
            }
        }
        fill(self.0, POISON);
        FRAMES.get().free.lock().give(self.index());
    }

    fn index(&self) -> usize {
        (self.0 - FRAMES.get().first) as usize / PAGE
    }

    fn sharers(&self) -> &'static AtomicU32 {
        &FRAMES.get().shared[self.index()]
    }
}
