//! Footprints: what happened between two choices, to decide whether two such transitions commute.

use super::op::Address;

/// The number of words that are distinguished; a transition that touches more counts as touching everything.
const WORDS: usize = 8;

/// Words, in no order.
#[derive(Clone, Copy, Debug)]
struct Words {
    words: [Address; WORDS],
    count: usize,
}

impl Words {
    const NONE: Self = Self { words: [core::ptr::null_mut(); WORDS], count: 0 };

    fn as_slice(&self) -> &[Address] {
        &self.words[..self.count]
    }

    /// Whether there was room.
    #[inline]
    fn add(&mut self, word: Address) -> bool {
        if self.as_slice().contains(&word) {
            return true;
        }
        let room = self.count < WORDS;
        if room {
            self.words[self.count] = word;
            self.count += 1;
        }
        room
    }

    fn meets(&self, other: &Self) -> bool {
        self.as_slice().iter().any(|word| other.as_slice().contains(word))
    }
}

/// The CPUs that went on and the words in memory that they read and wrote, or that there was more to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// As a mask. A CPU goes on when its program does, and when what it has stored reaches memory.
    cpus: u64,
    reads: Words,
    writes: Words,
    /// Something else happened, too: hardware, claims, interrupts, waiting.
    more: bool,
}

impl Footprint {
    pub(crate) const NONE: Self =
        Self { cpus: 0, reads: Words::NONE, writes: Words::NONE, more: false };

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.cpus = 0;
        self.reads.count = 0;
        self.writes.count = 0;
        self.more = false;
    }

    #[inline]
    pub(crate) fn goes_on(&mut self, cpu: usize) {
        self.cpus |= 1 << cpu;
    }

    #[inline]
    pub(crate) fn read(&mut self, word: Address) {
        if !self.more {
            self.more = !self.reads.add(word);
        }
    }

    #[inline]
    pub(crate) fn write(&mut self, word: Address) {
        if !self.more {
            self.more = !self.writes.add(word);
        }
    }

    #[inline]
    pub(crate) fn more(&mut self) {
        self.more = true;
    }

    /// Whether it was words and nothing else.
    pub(crate) fn is_words(&self) -> bool {
        !self.more
    }

    /// Whether two transitions that could both be chosen come to the same in either order, and neither
    /// keeps the other from being chosen. If this is not known, they do not.
    pub(crate) fn commutes(&self, other: &Self) -> bool {
        self.is_words()
            && other.is_words()
            && self.cpus & other.cpus == 0
            && !self.writes.meets(&other.writes)
            && !self.writes.meets(&other.reads)
            && !self.reads.meets(&other.writes)
    }
}
