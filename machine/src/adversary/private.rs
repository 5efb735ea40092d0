//! Which words belong to one CPU: those that it has touched with `get` or `set`.

use super::{hash::mix, op::Address};

#[derive(Clone, Copy, Debug)]
struct Slot {
    word: Address,
    /// The execution in which the slot was filled.
    run: u64,
    cpu: usize,
}

/// A table of words and owners that is emptied by counting up.
#[derive(Debug)]
pub(crate) struct Private {
    slots: Vec<Slot>,
    run: u64,
    used: usize,
}

impl Private {
    pub(crate) fn new() -> Self {
        let empty = Slot { word: core::ptr::null_mut(), run: 0, cpu: 0 };
        Self { slots: vec![empty; 1024], run: 1, used: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.run += 1;
        self.used = 0;
    }

    /// The slot of a word, or the free slot where it belongs.
    #[inline]
    fn find(&self, word: Address) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = mix(word as u64, 1) as usize & mask;
        while self.slots[at].run == self.run && self.slots[at].word != word {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    pub(crate) fn owner(&self, word: Address) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let slot = &self.slots[self.find(word)];
        (slot.run == self.run).then_some(slot.cpu)
    }

    /// The owner of a word, which is `cpu` if it had none; and whether it had none.
    pub(crate) fn claim(&mut self, word: Address, cpu: usize) -> (usize, bool) {
        let at = self.find(word);
        if self.slots[at].run == self.run {
            return (self.slots[at].cpu, false);
        }
        self.slots[at] = Slot { word, run: self.run, cpu };
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            let empty = Slot { word: core::ptr::null_mut(), run: 0, cpu: 0 };
            let size = self.slots.len() * 2;
            let old = core::mem::replace(&mut self.slots, vec![empty; size]);
            for slot in old.into_iter().filter(|slot| slot.run == self.run) {
                let at = self.find(slot.word);
                self.slots[at] = slot;
            }
        }
        (cpu, true)
    }
}
