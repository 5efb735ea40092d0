//! What a CPU may have cached: a set, not a cache.
//!
//! The set of a CPU holds every walk, whole and partial, that its hardware could be holding now.
//! Changing a descriptor or loading a root only adds walks; only an invalidation removes them. So
//! fills and evictions need not be scheduled, and a stale entry is found even if no program
//! touches the page.

use super::{
    config::Arch,
    format::{Decoded, Frame, decode},
    hash::{mix, mix3},
    machine::Machine,
};

/// A cached walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    /// The page number without the bits that the levels below resolve.
    pub(crate) vpn: u64,
    /// The descriptor at the end of the walk.
    pub(crate) descriptor: u64,
    /// The space that it belongs to: ghost state.
    pub(crate) owner: u32,
    pub(crate) tag: u16,
    pub(crate) level: u8,
    pub(crate) flags: u8,
    /// The CPUs that have issued, and not completed, an invalidation on all CPUs that names it.
    pub(crate) doomed: u64,
}

impl Entry {
    /// It holds under every tag.
    pub(crate) const GLOBAL: u8 = 1;
    /// It is a partial walk: the descriptor names a table.
    pub(crate) const TABLE: u8 = 2;
    /// Other CPUs may use it.
    pub(crate) const SHARED: u8 = 4;
    /// Ghost: it is a translation that has been reported as revoked.
    pub(crate) const REVOKED: u8 = 8;
    /// Its own CPU has issued, and not completed, an invalidation on itself that names it.
    pub(crate) const DOOMED_HERE: u8 = 16;
    /// Ghost: no program may use it, though it may remain cached.
    pub(crate) const QUIET: u8 = 32;
    /// Ghost: it is a kernel's, so that a lazy CPU may use it, too.
    pub(crate) const KERNEL: u8 = 64;

    const WHAT: u8 = Self::GLOBAL | Self::TABLE | Self::SHARED;
    /// The reasons why it must not be used, which a new walk clears.
    const AGAINST: u8 = Self::REVOKED | Self::DOOMED_HERE | Self::QUIET | Self::KERNEL;

    pub(crate) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether two entries are the same walk.
    #[inline]
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.descriptor == other.descriptor
            && self.vpn == other.vpn
            && self.owner == other.owner
            && self.tag == other.tag
            && self.level == other.level
            && (self.flags ^ other.flags) & Self::WHAT == 0
    }

    /// A number for what [`Self::same`] compares.
    pub(crate) fn identity(&self) -> u64 {
        let small = u64::from(self.owner) << 32
            | u64::from(self.tag) << 16
            | u64::from(self.level) << 8
            | u64::from(self.flags & Self::WHAT);
        mix3(self.vpn, self.descriptor, small)
    }

    /// The same, as if `by` had invalidated nothing: on all CPUs, or on itself.
    pub(crate) fn undoomed(mut self, by: usize, everywhere: bool) -> Self {
        if everywhere {
            self.doomed &= !(1 << by);
        } else {
            self.flags &= !Self::DOOMED_HERE;
        }
        self
    }

    /// Whether there is no reason against using it.
    pub(crate) fn clean(&self) -> bool {
        self.doomed == 0 && self.flags & (Self::REVOKED | Self::DOOMED_HERE) == 0
    }

    #[inline]
    pub(crate) fn hash(&self, cpu: usize) -> u64 {
        let small = u64::from(self.owner) << 32
            | u64::from(self.tag) << 16
            | u64::from(self.level) << 8
            | u64::from(self.flags);
        mix(mix3(self.vpn, self.descriptor, small), mix(self.doomed, cpu as u64 + 1))
    }

    /// Where it leads.
    pub(crate) fn target(&self, arch: Arch) -> Frame {
        match decode(arch, u32::from(self.level), self.descriptor) {
            Decoded::Leaf { frame, .. } | Decoded::Table { frame, .. } => frame,
            Decoded::Invalid => Frame(0),
        }
    }

    /// Whether it translates `vpn`, or leads to what does.
    pub(crate) fn covers(&self, vpn: u64, index_bits: u32) -> bool {
        vpn >> (u32::from(self.level) * index_bits) == self.vpn
    }
}

impl Machine {
    /// Where the entry leads.
    pub(crate) fn target(&self, entry: &Entry) -> Frame {
        entry.target(self.config.arch)
    }

    /// Adds a walk to what `cpu` may have cached. An entry that is there already and was doomed or
    /// revoked is derivable anew: it is as good as a new one. Returns whether anything changed.
    pub(crate) fn add(&mut self, cpu: usize, entry: Entry) -> bool {
        if entry.clean() {
            self.forget_replaced(cpu, &entry);
        }
        for index in 0..self.cpus[cpu].tlb.len() {
            let old = &mut self.cpus[cpu].tlb[index];
            if old.same(&entry) {
                let merged = Entry {
                    doomed: old.doomed & entry.doomed,
                    flags: old.flags & !(Entry::AGAINST & !entry.flags),
                    ..*old
                };
                if merged == *old {
                    return false;
                }
                self.tlb_hash ^= old.hash(cpu) ^ merged.hash(cpu);
                *old = merged;
                return true;
            }
        }
        self.tlb_hash ^= entry.hash(cpu);
        self.cpus[cpu].tlb.push(entry);
        if self.trace.is_some() {
            let text = format!("+ {}", self.describe_entry(&entry));
            self.note(cpu, text);
        }
        self.check_added(cpu, &entry);
        true
    }

    /// Replaces an entry by one that differs in the reasons against using it.
    pub(crate) fn amend(&mut self, cpu: usize, index: usize, entry: Entry) {
        let old = &mut self.cpus[cpu].tlb[index];
        self.tlb_hash ^= old.hash(cpu) ^ entry.hash(cpu);
        *old = entry;
    }

    /// Removes the entries of `cpu` that `remove` names; returns whether there were any.
    pub(crate) fn remove(&mut self, cpu: usize, mut remove: impl FnMut(&Entry) -> bool) -> bool {
        let before = self.cpus[cpu].tlb.len();
        let mut index = 0;
        while index < self.cpus[cpu].tlb.len() {
            let entry = self.cpus[cpu].tlb[index];
            if remove(&entry) {
                self.tlb_hash ^= entry.hash(cpu);
                self.cpus[cpu].tlb.swap_remove(index);
                self.forget_replaced(cpu, &entry);
                if self.trace.is_some() {
                    let text = format!("- {}", self.describe_entry(&entry));
                    self.note(cpu, text);
                }
            } else {
                index += 1;
            }
        }
        self.cpus[cpu].tlb.len() != before
    }

    /// Describes an entry in words.
    pub(crate) fn describe_entry(&self, entry: &Entry) -> String {
        let bits = self.config.index_bits * u32::from(entry.level) + 12;
        let kind = if entry.is(Entry::TABLE) { "table" } else { "page" };
        let tag = if entry.is(Entry::GLOBAL) {
            "global".to_owned()
        } else {
            format!("tag {}", entry.tag)
        };
        format!(
            "TLB {tag} va {:#x} level {} -> {kind} {:#x} (root {:#x})",
            entry.vpn << bits,
            entry.level,
            self.target(entry).0,
            self.tables.frame(entry.owner & 0xffff).0,
        )
    }
}
