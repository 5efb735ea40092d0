//! What Linux keeps of each CPU: the space that it runs, and its slots for the spaces that it ran last. Each slot has
//! the space whose translations are under the slot's PCID, and the generation that the CPU has caught up with.

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::Word;

/// The number of slots that fit two cache lines together with the rest of the CPU's state.
pub(super) const SLOTS: usize = 6;
/// Bit 63 of a value for CR3: entries under the PCID stay.
pub(super) const KEEP: u64 = 1 << 63;

/// The value of [`Cpu::loaded`] while a CPU switches between two spaces.
pub(super) const SWITCHING: u64 = u64::MAX;
/// The context of the kernel's own space, in which nothing is ever flushed.
pub(super) const KERNEL_CONTEXT: u64 = u64::MAX - 1;

/// A space that a CPU ran, and the generation that the CPU has caught up with.
struct Slot {
    context: Word,
    generation: Word,
}

impl Slot {
    const fn new() -> Self {
        Self { context: Word::ZERO, generation: Word::ZERO }
    }
}

/// The state of a CPU, which other CPUs may read. The first two slots are in the line of what is before them, as in
/// Linux's `tlb_state`.
#[repr(align(64))]
pub(super) struct Cpu {
    /// The context of the space that is loaded.
    pub(super) loaded: Word,
    /// The slot that is loaded, and the one to be given out next.
    current: Word,
    next: Word,
    /// 1 while it runs no user code, if that is not kept apart.
    pub(super) lazy: Word,
    slots: [Slot; SLOTS],
    /// The slot of a space that has a tag on all CPUs, and the tag.
    shared: Slot,
    tag: Word,
}

impl Cpu {
    pub(super) const fn new() -> Self {
        Self {
            loaded: Word::ZERO,
            current: Word::ZERO,
            next: Word::ZERO,
            lazy: Word::ZERO,
            slots: [const { Slot::new() }; SLOTS],
            shared: Slot::new(),
            tag: Word::ZERO,
        }
    }

    /// The CPU starts with the kernel's own space, in slot 0 of so many that are in use.
    pub(super) fn start(&self, in_use: usize) {
        self.next.set((1 % in_use) as u64);
        self.slots[0].context.set(KERNEL_CONTEXT);
        self.loaded.set(KERNEL_CONTEXT);
    }

    fn current(&self) -> &Slot {
        self.slots.get(self.current.get() as usize).unwrap_or(&self.shared)
    }

    /// Whether the space that is loaded has its tag on all CPUs.
    pub(super) fn is_shared(&self) -> bool {
        self.current.get() as usize == SLOTS
    }

    /// The same, as other CPUs see it.
    pub(super) fn is_seen_shared(&self) -> bool {
        self.current.load(Ordering::Acquire) as usize == SLOTS
    }

    /// The PCID that is loaded.
    pub(super) fn pcid(&self) -> u64 {
        if self.is_shared() { self.tag.get() } else { self.current.get() }
    }

    /// The generation that this CPU has caught up with in the space that is loaded.
    pub(super) fn generation(&self) -> u64 {
        self.current().generation.get()
    }

    /// Notes that this CPU has caught up with a generation of the space that is loaded.
    pub(super) fn reached(&self, generation: u64) {
        // Others may have read the line.
        self.current().generation.store(generation, Ordering::Relaxed);
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

    /// A space under a tag that it has on all CPUs is the current one.
    pub(super) fn share(&self, tag: u64, context: u64, generation: u64) {
        self.set_current(SLOTS);
        self.tag.set(tag);
        self.shared.context.set(context);
        self.shared.generation.set(generation);
    }
}
