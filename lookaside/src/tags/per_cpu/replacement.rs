//! Replacement: which slot a CPU gives to a space that no slot holds.

/// Chooses the slot to be reused, with a state of one word for each CPU.
///
/// Pure, so that policies can be compared by simulation before one is put into a kernel.
pub trait Replacement {
    /// Whether [`Self::hit`] changes the word.
    const NOTES_HITS: bool;

    /// The state after a space was found in `slot`.
    #[inline]
    fn hit(word: u64, slot: usize) -> u64 {
        let _ = slot;
        word
    }

    /// The slot to reuse, out of `slots` many, and the state afterwards. `current` is the slot of the
    /// space that the CPU is leaving.
    fn victim(word: u64, slots: usize, current: usize) -> (usize, u64);
}

/// Round robin that skips the slot of the space that the CPU is leaving.
///
/// A CPU that switches from A to B and back finds A again, if there are two slots or more. Plain round robin
/// evicts A whenever the turn of its slot has come, once in as many times as there are slots.
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
