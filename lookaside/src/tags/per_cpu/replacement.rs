//! Which slot a CPU gives to a space it does not know.

/// Chooses the slot to be reused, from what it packs into one word for each CPU.
///
/// Pure, so that policies can be compared by simulation before one is put into a kernel.
pub trait Replacement {
    /// Whether [`Self::hit`] does anything.
    const NOTES_HITS: bool;

    /// The word after a space was found in `slot`.
    #[inline]
    fn hit(word: u64, slot: usize) -> u64 {
        let _ = slot;
        word
    }

    /// The slot to reuse, out of `slots`, and the word afterwards. `current` is the slot of the
    /// space that the CPU is leaving.
    fn victim(word: u64, slots: usize, current: usize) -> (usize, u64);
}

/// Slots in turn, passing over the one that is being left.
///
/// A CPU that goes from A to B and back finds A, however few slots there are: plain round robin
/// throws A out whenever its turn has come, once in as many times as there are slots.
#[derive(Debug)]
pub enum RoundRobin {}

impl Replacement for RoundRobin {
    const NOTES_HITS: bool = false;

    #[inline]
    fn victim(word: u64, slots: usize, current: usize) -> (usize, u64) {
        let mut slot = word as usize % slots;
        if slot == current {
            slot = (slot + 1) % slots;
        }
        (slot, ((slot + 1) % slots) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_the_slot_that_is_left_and_all_others_in_turn() {
        for slots in 2..8 {
            for current in 0..slots {
                let (mut word, mut seen) = (0, 0_u32);
                for _ in 0..slots - 1 {
                    let slot;
                    (slot, word) = RoundRobin::victim(word, slots, current);
                    assert_ne!(slot, current);
                    seen |= 1 << slot;
                }
                assert_eq!(seen.count_ones() as usize, slots - 1);
            }
        }
    }

    #[test]
    fn one_slot_is_always_the_victim() {
        assert_eq!(RoundRobin::victim(0, 1, 0), (0, 0));
    }
}
