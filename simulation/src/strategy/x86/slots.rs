//! Linux's per-CPU slots for the spaces that the CPU ran last: for each slot the space whose
//! translations are under the slot's PCID, and the generation that the CPU has caught up with.

use lookaside::platform::Word as _;
use lookaside_machine::timed::Word;

/// The number of slots that fit two cache lines together with the rest of the CPU's state.
pub(super) const SLOTS: usize = 6;
/// Bit 63 of a value for CR3: entries under the PCID stay.
pub(super) const KEEP: u64 = 1 << 63;

/// A space that a CPU ran, and the generation that the CPU has caught up with.
pub(super) struct Slot {
    pub(super) context: Word,
    pub(super) generation: Word,
}

/// The state of a CPU, which other CPUs may read.
#[repr(align(64))]
pub(super) struct Cpu {
    /// The context of the space that is loaded; 0 for none.
    pub(super) loaded: Word,
    /// The slot that is loaded, and the one to be given out next.
    current: Word,
    next: Word,
    slots: [Slot; SLOTS],
}

impl Cpu {
    pub(super) const fn new() -> Self {
        let slots = [const { Slot { context: Word::ZERO, generation: Word::ZERO } }; SLOTS];
        Self { loaded: Word::ZERO, current: Word::ZERO, next: Word::ZERO, slots }
    }

    /// The CPU starts in slot 0 of so many that are in use.
    pub(super) fn start(&self, in_use: usize) -> &Slot {
        self.next.set((1 % in_use) as u64);
        &self.slots[0]
    }

    /// The slot that is loaded.
    pub(super) fn current(&self) -> &Slot {
        &self.slots[self.number() as usize]
    }

    /// The number of the slot that is loaded, which is its PCID.
    pub(super) fn number(&self) -> u64 {
        self.current.get()
    }

    pub(super) fn set_current(&self, slot: usize) {
        self.current.set(slot as u64);
    }

    /// The slot of a space among those in use, and the generation that it has caught up with; or the slot to
    /// replace next.
    pub(super) fn find(&self, context: u64, in_use: usize) -> (usize, Option<u64>) {
        let mut slots = self.slots[..in_use].iter();
        if let Some(slot) = slots.position(|slot| slot.context.get() == context) {
            return (slot, Some(self.slots[slot].generation.get()));
        }
        let slot = self.next.get() as usize;
        self.next.set(((slot + 1) % in_use) as u64);
        (slot, None)
    }

    /// Gives a slot to a space.
    pub(super) fn give(&self, slot: usize, context: u64, generation: u64) {
        self.slots[slot].context.set(context);
        self.slots[slot].generation.set(generation);
    }
}
