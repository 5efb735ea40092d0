//! The claims of a flush: the entries that its gather has removed, and those that others had removed before.

use lookaside::{
    Gather,
    arch::Mmu,
    flush::Flushed,
    platform::{Ordering, Word as _},
};
use lookaside_machine::adversary::{Access, Frame, Platform, Word, oracle, tables};

use super::{
    Strategy, World,
    cell::{SLOTS, VAS, page_at},
};

/// How many CPUs change an entry, which decides how it may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writers {
    /// One act at most: what the entry holds is known, and a store will do.
    Once,
    /// One CPU: it loads, then stores.
    OneCpu,
    /// Several: only an atomic operation can take the old value.
    Several,
}

/// The removals from each entry of a space that a flush completes.
#[derive(Clone, Copy, Default)]
pub(super) struct Removals {
    serials: [u64; SLOTS],
    /// The entries that are busy until then.
    busy: [bool; SLOTS],
}

/// In [`super::cell::SpaceCell::busy`]: a CPU maps a page there.
const MAPPING: u64 = 1 << 32;

impl Removals {
    /// Adds those from an entry up to the one of this number.
    fn add(&mut self, slot: usize, serial: u64) {
        self.serials[slot] = self.serials[slot].max(serial);
    }
}

impl<M: Mmu + 'static, T: Strategy<Platform<M>>> World<M, T> {
    /// Empties an entry and records that in the gather; the gather relies on its absence if it was empty.
    /// Returns the old value.
    pub(super) fn take<F>(
        &self,
        gather: &mut Gather<'_, Platform<M>, F>,
        number: usize,
        slot: usize,
        removals: &mut Removals,
    ) -> Option<Frame> {
        let old = self.empty(number, slot, removals);
        let range = page_at(VAS[slot]);
        if old == 0 {
            gather.relies_on(range);
        } else {
            gather.revoke(range);
        }
        tables::frame(old)
    }

    /// Empties an entry, and returns what it held.
    pub(super) fn empty(&self, number: usize, slot: usize, removals: &mut Removals) -> u64 {
        self.occupy(number, slot, removals);
        let cell = &self.spaces[number];
        let entry = cell.entries[slot];
        let old = match cell.writers[slot] {
            Writers::Once => cell.initial[slot],
            Writers::OneCpu => entry.load(Ordering::Relaxed), // Relaxed: this CPU's own stores.
            // Acquire: with the empty entry, the gather of the CPU that emptied it.
            Writers::Several if entry.load(Ordering::Acquire) == 0 => 0,
            Writers::Several => entry.swap(0, Ordering::AcqRel),
        };
        if old != 0 && cell.writers[slot] != Writers::Several {
            // Release: a CPU that finds the entry empty sees the gather.
            entry.store(0, Ordering::Release);
        }
        Self::note(entry, slot, old, old != 0, removals);
        old
    }

    /// Replaces the value of an entry by what `change` makes of it, and returns the old and the new value; 0
    /// if it was left alone.
    pub(super) fn exchange(
        &self,
        number: usize,
        slot: usize,
        change: impl Fn(u64) -> Option<u64>,
    ) -> (u64, u64) {
        let cell = &self.spaces[number];
        let entry = cell.entries[slot];
        let mut old = match cell.writers[slot] {
            Writers::Once => cell.initial[slot],
            Writers::OneCpu => entry.load(Ordering::Relaxed), // Relaxed: as above.
            Writers::Several => entry.load(Ordering::Acquire), // Acquire: as above.
        };
        loop {
            let Some(new) = change(old) else { return (old, 0) };
            if cell.writers[slot] != Writers::Several {
                entry.store(new, Ordering::Release); // Release: as above.
                return (old, new);
            }
            match entry.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (old, new),
                Err(found) => old = found,
            }
        }
    }

    /// Makes a page read-only and records that in the gather, which relies on it if it is read-only already.
    pub(super) fn weaken(
        &self,
        gather: &mut Gather<'_, Platform<M>>,
        number: usize,
        slot: usize,
        removals: &mut Removals,
    ) {
        let writable = |frame| tables::page(frame, Access::WRITE);
        let (old, new) = self.exchange(number, slot, |old| {
            let frame = tables::frame(old).filter(|&frame| old == writable(frame))?;
            Some(tables::page(frame, Access::READ))
        });
        let range = page_at(VAS[slot]);
        if new == 0 {
            gather.relies_on(range);
        } else {
            gather.revoke(range);
        }
        Self::note(self.spaces[number].entries[slot], slot, old, new != 0, removals);
    }

    /// Records that an entry's value was removed, or that it was read and left alone.
    pub(super) fn note(entry: Pte, slot: usize, held: u64, removed: bool, removals: &mut Removals) {
        let serial = if removed {
            oracle::removed(entry, held)
        } else {
            oracle::removals_before(entry, held)
        };
        removals.add(slot, serial);
    }

    /// Everything that was removed from the entries of a space so far.
    pub(super) fn removals(&self, number: usize) -> Removals {
        let mut removals = Removals::default();
        for (slot, entry) in self.spaces[number].entries.into_iter().enumerate() {
            removals.add(slot, oracle::removals(entry));
        }
        removals
    }

    /// Claims that the flush is complete: no CPU can use any of these.
    pub(super) fn claim<F>(&self, number: usize, removals: Removals, _: &Flushed<F>) {
        self.claim_removals(number, removals);
    }

    /// As [`Self::claim`], after a flush that hands nothing back.
    pub(super) fn claim_removals(&self, number: usize, removals: Removals) {
        let cell = &self.spaces[number];
        for (slot, serial) in
            removals.serials.into_iter().enumerate().filter(|(_, serial)| *serial > 0)
        {
            oracle::revoked_until(cell.root, VAS[slot], cell.entries[slot], serial);
        }
        for (slot, _) in removals.busy.iter().enumerate().filter(|(_, busy)| **busy) {
            if let Some(busy) = &cell.busy[slot] {
                busy.fetch_add(1u64.wrapping_neg(), Ordering::Release); // Release: it is flushed.
            }
        }
    }

    /// Keeps other CPUs from mapping a page here until the entry that is about to be removed is flushed.
    fn occupy(&self, number: usize, slot: usize, removals: &mut Removals) {
        if let Some(busy) = &self.spaces[number].busy[slot]
            && !removals.busy[slot]
        {
            // Acquire: what is mapped there.
            busy.fetch_add(1, Ordering::AcqRel);
            removals.busy[slot] = true;
        }
    }

    /// Maps a page where there is none, and no flush is pending.
    pub(super) fn map(&self, number: usize, slot: usize, page: u64) {
        let cell = &self.spaces[number];
        let put = || self.exchange(number, slot, |old| (old == 0).then_some(page));
        let Some(busy) = &cell.busy[slot] else {
            put();
            return;
        };
        // Acquire: what was there is flushed.
        if busy.compare_exchange(0, MAPPING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        // A CPU that removes a page from here on removes the new one, or was seen.
        let empty = cell.entries[slot].load(Ordering::Acquire) == 0;
        if empty && busy.load(Ordering::Acquire) == MAPPING {
            put();
        }
        busy.fetch_add(MAPPING.wrapping_neg(), Ordering::Release); // Release: with the page.
    }

    /// A descriptor of a page that only the act of this number maps.
    pub(super) fn fresh(&self, ordinal: usize) -> Frame {
        Frame(FRESH + ordinal as u64)
    }

    /// The space that a frame belongs to.
    pub(super) fn owner_of(&self, frame: Frame) -> Option<usize> {
        let fresh = frame.0.checked_sub(FRESH).and_then(|ordinal| {
            let (cpu, index) =
                (ordinal as usize / super::LONGEST, ordinal as usize % super::LONGEST);
            self.cpus.get(cpu)?.get(index)?.space()
        });
        let initial = self.spaces.iter().position(|cell| cell.frames.contains(&frame));
        fresh.or(initial)
    }
}

/// The first of the frames of pages that come later.
const FRESH: u64 = 0x700;

/// A word of the machine, as the entry of a page.
pub(super) type Pte = &'static Word;
