//! The CPUs that may hold stale entries of a space: one bit each, as many as the kernel is built for.

use core::cell::Cell;

use lookaside::platform::{
    Ordering::{AcqRel, Relaxed},
    Word as _,
};
use lookaside_machine::timed::{self, Arena, Word};

/// The kernel of the publication was built for so many CPUs.
const NR_CPUS: usize = 4096;
const WORDS: usize = NR_CPUS / 64;

/// The bits of one space.
pub(super) struct Stale<'a> {
    words: &'a [Word],
    /// Whether a bit has been set since the space was made.
    used: Cell<bool>,
}

impl<'a> Stale<'a> {
    pub(super) fn new(arena: &'a Arena) -> Self {
        let words = arena.fill(WORDS, |_| Word::ZERO);
        timed::name(words, "stale CPUs");
        Self { words, used: Cell::new(false) }
    }

    /// No CPU holds stale entries.
    pub(super) fn clear(&self) {
        // A new space's record is clean already, and is not charged for it.
        if self.used.replace(false) {
            self.words.iter().for_each(|word| word.store(0, Relaxed));
        }
    }

    /// Whether every bit is set, `but` aside. Each word is charged as an access of its own, as all
    /// words are, those of the library's sets too: real loads would overlap.
    fn all_set(&self, but: Option<usize>) -> bool {
        self.words.iter().enumerate().all(|(i, word)| {
            let own = but.map_or(0, |cpu| if cpu / 64 == i { 1 << (cpu % 64) } else { 0 });
            word.load(Relaxed) | own == u64::MAX
        })
    }

    /// Sets every bit, unless all but perhaps that of `but` are set.
    pub(super) fn set_all(&self, but: Option<usize>) {
        if !self.all_set(but) {
            self.used.set(true);
            self.words.iter().for_each(|word| word.store(u64::MAX, Relaxed));
        }
    }

    /// Clears the bit of a CPU, and returns whether it was set.
    pub(super) fn take(&self, cpu: usize) -> bool {
        let (word, bit) = (&self.words[cpu / 64], 1 << (cpu % 64));
        let set = word.load(Relaxed) & bit != 0;
        if set {
            let _ = word.fetch_and(!bit, AcqRel);
        }
        set
    }
}
