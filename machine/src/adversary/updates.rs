//! Hardware that writes descriptors: when it may, and what the oracle remembers of it.
//!
//! A scenario names the descriptors that hardware writes. Two things can happen to them. At any
//! step, as a choice of its own, hardware sets the accessed bit of one that a CPU can walk to,
//! once for each descriptor and execution. And an access of user code sets what it needs: accessed
//! on a walk, dirty on a store. Both are atomic read-modify-writes of memory. In a block of
//! contiguous entries either may happen to any entry of the block.

use super::{
    block,
    config::Updates,
    cpu::Live,
    flags::{self, Flag},
    format::{Decoded, Frame, decode},
    hash::mix3,
    machine::Machine,
    replaced::Cause,
    tape::Did,
    tlb::Entry,
};

/// Tells the hashes of what this module remembers from others.
const SPENT: u64 = 0x5e7a;
const NOTED: u64 = 0x07ed;

impl Machine {
    /// Whether hardware may cache the leaf of the last level that memory holds at an index. One
    /// that it does not write counts as accessed.
    #[inline]
    pub(crate) fn cacheable(&self, table: usize, index: usize, leaf: u64) -> bool {
        self.tables.writes.is_empty()
            || self.tables.written(table, index).is_none()
            || flags::read(self.config.arch, leaf).accessed
    }

    /// What a descriptor that hardware writes holds, if it is a leaf but for its accessed bit; and
    /// how many bits of the page number it leaves open.
    pub(crate) fn written_leaf(&self, word: usize) -> Option<(u64, u32)> {
        let (table, index) = self.tables.writes[word];
        self.leaf_of(self.tables.read(table, index))
    }

    fn leaf_of(&self, descriptor: u64) -> Option<(u64, u32)> {
        let arch = self.config.arch;
        let leaf = decode(arch, 0, flags::set(arch, descriptor, Flag::Accessed));
        let bits = block::bits(&self.config, descriptor)?;
        matches!(leaf, Decoded::Leaf { .. }).then_some((descriptor, bits))
    }

    /// The descriptor that hardware writes among those that memory holds for `page`.
    pub(crate) fn written_for(&self, live: &Live, page: u64) -> Option<usize> {
        if self.tables.writes.is_empty() {
            return None;
        }
        let word = self.descriptor(live.table as usize, page, 0)?;
        let (table, index) = self.tables.locate(word.address())?;
        self.tables.written(table, index)
    }

    /// The descriptors in which hardware may set a bit when it means one: those of its block.
    pub(crate) fn aliases(&self, word: usize) -> Vec<usize> {
        let Some((_, bits)) = self.written_leaf(word) else { return Vec::new() };
        let (table, index) = self.tables.writes[word];
        let same = |&other: &usize| {
            let (other_table, other_index) = self.tables.writes[other];
            other_table == table
                && other_index >> bits == index >> bits
                && self.written_leaf(other).is_some_and(|(_, other)| other == bits)
        };
        (0..self.tables.writes.len()).filter(same).collect()
    }

    /// Calls `each` with every descriptor whose accessed bit hardware may set now, without an access.
    pub(crate) fn settable(&self, mut each: impl FnMut(usize)) {
        if self.config.updates < Updates::Accessed {
            return;
        }
        for word in 0..self.tables.writes.len() {
            if self.spent & 1 << word == 0
                && let Some((leaf, _)) = self.written_leaf(word)
                && !flags::read(self.config.arch, leaf).accessed
                && self.walks_to(self.tables.writes[word].0).is_some()
            {
                each(word);
            }
        }
    }

    /// A CPU that may read a table of the last level in a walk.
    fn walks_to(&self, table: usize) -> Option<usize> {
        (0..self.cpus.len()).find(|&cpu| {
            let root = |live: &Live| self.config.levels == 1 && live.table as usize == table;
            let holders = if self.config.cnp { 0..self.cpus.len() } else { cpu..cpu + 1 };
            let leads = |holder: usize, entry: &Entry| {
                entry.level == 1 && self.walk_leads(cpu, holder, entry) == Some(table)
            };
            self.cpus[cpu].walks
                && (self.cpus[cpu].live.iter().any(root)
                    || holders.into_iter().any(|holder| {
                        self.cpus[holder].tlb.iter().any(|entry| leads(holder, entry))
                    }))
        })
    }

    /// Hardware sets the accessed bit of a descriptor, unasked.
    pub(crate) fn set_unasked(&mut self, word: usize) {
        let Some((leaf, bits)) = self.written_leaf(word) else { return };
        let by = self.walks_to(self.tables.writes[word].0).unwrap_or(0);
        self.spent |= 1 << word;
        self.ghost_hash ^= mix3(word as u64, 1, SPENT);
        // Any page of the block may be the one that was looked up.
        for page in 0..1 << bits {
            let leaf = block::for_page(self.config.arch, bits, leaf, page);
            if let Decoded::Leaf { frame, .. } =
                decode(self.config.arch, 0, flags::set(self.config.arch, leaf, Flag::Accessed))
            {
                self.note_flag(frame, Flag::Accessed);
            }
        }
        if self.trace.is_some() {
            let (table, index) = self.tables.writes[word];
            let name = self.name_of(self.tables.address(table, index));
            self.trace_event(by, format!("its walker sets the accessed bit of {name}"));
        }
        self.write_descriptor(word, flags::set(self.config.arch, leaf, Flag::Accessed));
    }

    /// Hardware writes a descriptor.
    pub(crate) fn write_descriptor(&mut self, word: usize, value: u64) {
        let (table, index) = self.tables.writes[word];
        let address = self.tables.address(table, index);
        if self.trace.is_some() {
            let name = self.name_of(address);
            self.note(self.running, format!("hardware writes {name} <- {value:#x}"));
        }
        self.note_did(self.running, Did::HardwareWrite);
        // A CPU that waits may have waited for this.
        self.changed |= u64::MAX >> (64 - self.cpus.len());
        self.land_because(0, address, value, Cause::Hardware);
    }

    /// Remembers that hardware has noted something about a frame, or should have.
    pub(crate) fn note_flag(&mut self, frame: Frame, flag: Flag) {
        if !self.ghost.noted.contains(&(frame, flag)) {
            self.ghost.noted.push((frame, flag));
            self.ghost_hash ^= mix3(frame.0, flag as u64, NOTED);
        }
    }

    /// Forgets what was noted, where `forget` says so.
    pub(crate) fn forget_flags(&mut self, forget: impl Fn(Frame, Flag) -> bool) {
        let hash = &mut self.ghost_hash;
        self.ghost.noted.retain(|&(frame, flag)| {
            let keep = !forget(frame, flag);
            if !keep {
                *hash ^= mix3(frame.0, flag as u64, NOTED);
            }
            keep
        });
    }

    /// Whether a descriptor that hardware writes says of a frame that a flag is set; as memory is,
    /// or as a CPU sees it.
    pub(crate) fn is_flagged(&self, frame: Frame, flag: Flag, view: Option<usize>) -> bool {
        let arch = self.config.arch;
        self.tables.writes.iter().any(|&(table, index)| {
            let address = self.tables.address(table, index);
            let held =
                view.map_or_else(|| self.tables.read(table, index), |cpu| self.view(cpu, address));
            let Some((leaf, bits)) = self.leaf_of(held) else { return false };
            let found = flags::read(arch, leaf);
            let set = match flag {
                Flag::Accessed => found.accessed,
                Flag::Dirty => found.dirty,
            };
            let own = block::for_page(arch, bits, leaf, frame.0);
            set && decode(arch, 0, flags::set(arch, own, Flag::Accessed)).leads_to(frame)
        })
    }
}
