//! Descriptors that programs have removed, numbered word by word, so that a claim can cover those that
//! were removed before a certain moment and no others.

use super::super::{
    flags,
    format::Frame,
    hash::{mix, mix3},
    machine::Machine,
    op::Address,
    tlb::Entry,
    violation::Rule,
};

/// A descriptor that was taken out of a word, and which of the word's removals that was. One that was put
/// back and removed again counts for its last removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removed {
    word: Address,
    descriptor: u64,
    serial: u64,
    /// How many changes of memory there had been.
    time: usize,
}

impl Removed {
    fn hash(self) -> u64 {
        mix(mix3(self.word as u64, self.descriptor, self.serial), 0x6011e)
    }
}

impl Machine {
    /// How many descriptors were removed from a word, as far as the CPU that runs can know: a store that
    /// waits in the buffer of another CPU has removed nothing yet.
    pub(super) fn removals(&self, word: Address) -> u64 {
        let held = super::super::memory::read(word);
        let own = self.view(self.running, word) != held;
        let seen = |removed: &&Removed| own || !self.is_same(removed.descriptor, held);
        let of_word = self.ghost.removed.iter().filter(|removed| removed.word == word);
        of_word.filter(seen).map(|removed| removed.serial).max().unwrap_or(0)
    }

    /// How many descriptors were removed from a word when it held what the CPU that runs has just read there,
    /// perhaps early.
    pub(super) fn removals_before(&self, word: Address, read: u64) -> u64 {
        let until = self.last_read_until(self.running, word);
        let seen =
            |removed: &&Removed| !self.is_same(removed.descriptor, read) && removed.time <= until;
        let of_word = self.ghost.removed.iter().filter(|removed| removed.word == word);
        of_word.filter(seen).map(|removed| removed.serial).max().unwrap_or(0)
    }

    /// Records that a descriptor was removed from a word.
    pub(super) fn note_removed(&mut self, word: Address, descriptor: u64) -> u64 {
        let of_word = self.ghost.removed.iter().filter(|removed| removed.word == word);
        let serial = of_word.map(|removed| removed.serial).max().unwrap_or(0) + 1;
        let same = |removed: &Removed| removed.word == word && removed.descriptor == descriptor;
        if let Some(at) = self.ghost.removed.iter().position(same) {
            self.ghost_hash ^= self.ghost.removed.swap_remove(at).hash();
        }
        let time = self.memory.changes().len();
        let removed = Removed { word, descriptor, serial, time };
        self.ghost_hash ^= removed.hash();
        self.ghost.removed.push(removed);
        serial
    }

    /// Marks the cached entries of a space for `va` whose descriptors were removed from `word` up to
    /// `serial`.
    pub(super) fn revoke_until(&mut self, root: Frame, va: u64, word: Address, serial: u64) {
        let Some(table) = self.tables.index(root) else {
            return self.fail(Rule::Misuse, format!("{:#x} is no table", root.0));
        };
        let owner = self.tables.owner(table);
        let own = self.view(self.running, word);
        let held = super::super::memory::read(word);
        let before: Vec<u64> = self
            .ghost
            .removed
            .iter()
            .filter(|removed| removed.word == word && removed.serial <= serial)
            .map(|removed| removed.descriptor)
            .collect();
        if own != held && before.iter().any(|&gone| self.is_same(gone, held)) {
            let name = self.name_of(word);
            let text = format!(
                "va {va:#x} of root {:#x} is reported as revoked by CPU {} while its store to {name} is \
                 still in its store buffer",
                root.0, self.running
            );
            return self.fail(Rule::StaleTranslation, text);
        }
        let (page, bits) = (va >> 12, self.config.index_bits);
        for cpu in 0..self.cpus.len() {
            for index in 0..self.cpus[cpu].tlb.len() {
                let entry = self.cpus[cpu].tlb[index];
                if entry.owner == owner
                    && !entry.is(Entry::TABLE)
                    && entry.covers(page, bits)
                    && !self.is_same(entry.descriptor, held)
                    && before.iter().any(|&gone| self.is_same(gone, entry.descriptor))
                {
                    self.mark(cpu, index, Entry::REVOKED, Rule::StaleTranslation);
                }
            }
        }
    }

    /// Whether two descriptors differ only in flags that hardware may have set.
    fn is_same(&self, one: u64, other: u64) -> bool {
        one == other
            || (one != 0
                && other != 0
                && !self.tables.writes.is_empty()
                && flags::alike(self.config.arch, one, other))
    }
}
