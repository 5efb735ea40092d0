//! The CPUs that access each word, in all executions so far.

use super::{hash::mix, op::Address};

/// A table of words and the CPUs that have touched them.
#[derive(Debug)]
pub(crate) struct Sharers {
    /// Words and masks of CPUs; null where there is none.
    slots: Vec<(Address, u64)>,
    used: usize,
    /// How often a word was touched by a CPU after another had been alone with it, or others.
    pub(crate) news: u64,
}

impl Sharers {
    pub(crate) fn new() -> Self {
        Self { slots: vec![(core::ptr::null_mut(), 0); 1024], used: 0, news: 0 }
    }

    /// The slot of a word, or the free slot where it belongs.
    #[inline]
    fn find(&self, word: Address) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = mix(word as u64, 1) as usize & mask;
        while !self.slots[at].0.is_null() && self.slots[at].0 != word {
            at = (at + 1) & mask;
        }
        at
    }

    /// A CPU touches a word.
    #[inline]
    pub(crate) fn note(&mut self, word: Address, cpu: usize) {
        let at = self.find(word);
        let (known, cpus) = &mut self.slots[at];
        if *cpus & 1 << cpu != 0 {
            return;
        }
        self.news += u64::from(*cpus != 0);
        *cpus |= 1 << cpu;
        if known.is_null() {
            *known = word;
            self.used += 1;
            if self.used * 2 > self.slots.len() {
                self.grow();
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let empty = vec![(core::ptr::null_mut(), 0); self.slots.len() * 2];
        for slot in core::mem::replace(&mut self.slots, empty) {
            if !slot.0.is_null() {
                let at = self.find(slot.0);
                self.slots[at] = slot;
            }
        }
    }

    /// Whether no other CPU has ever touched a word.
    pub(crate) fn is_alone(&self, word: Address, cpu: usize) -> bool {
        self.slots[self.find(word)].1 & !(1 << cpu) == 0
    }
}
