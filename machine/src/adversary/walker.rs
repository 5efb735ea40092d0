//! Walks: every one that hardware may begin, as soon as it may.
//!
//! The set of a CPU is closed under walking: from each root that the CPU may be using and from
//! each partial walk that it may have cached under a tag it may be using, every descriptor that
//! memory holds now has been read. So a change of one descriptor is followed from that descriptor
//! only, and the load of a root from that root and from the partial walks it makes usable.

use lookaside_hardware::{arm, riscv};

use super::{
    block,
    cpu::{Cpu, Live},
    deviations::Deviations,
    format::{Decoded, Frame, decode},
    machine::Machine,
    replaced::Cause,
    tlb::Entry,
};
use crate::adversary::config::Arch;

/// Each table of a list with the tag of another value of the list.
fn mixed(roots: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    roots.iter().flat_map(|&base| roots.iter().map(move |&tag| (base, tag)))
}

/// The state of a walk: the table it reads next, and the attributes it has collected.
#[derive(Clone, Copy)]
struct Walk {
    table: usize,
    level: u32,
    /// The prefix of the page number that leads to the table.
    vpn: u64,
    tag: u16,
    owner: u32,
    flags: u8,
    /// The partial walk that it goes on from; nothing if it began at a root.
    parent: Option<Entry>,
}

/// The use that is made of walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// The CPU may cache them.
    Cache,
    /// They are recorded as walks that were possible until now.
    Replace(Cause),
}

impl Machine {
    /// Reads the registers of `cpu` and brings what it may walk from up to date. Walks begin.
    pub(crate) fn registers_changed(&mut self, cpu: usize) {
        self.cpus[cpu].rehash();
        let mut live = core::mem::take(&mut self.cpus[cpu].live);
        let old = self.invalidates_early().then(|| live.clone());
        live.clear();
        let walks = self.read_registers(cpu, &mut live);
        if let Some(mut left) = old
            && self.cpus[cpu].walks
        {
            left.retain(|root| !walks || !live.contains(root));
            if !left.is_empty() {
                for root in &left {
                    self.root_left(cpu, root.owner, root.tag);
                }
                self.cpus[cpu].live = left;
                self.walk_live(cpu, Pass::Replace(Cause::Root));
            }
        }
        self.cpus[cpu].live = live;
        self.cpus[cpu].walks = walks;
        self.walk_all(cpu);
        self.check_loaded(cpu);
    }

    fn read_registers(&self, cpu: usize, live: &mut Vec<Live>) -> bool {
        let registers = &self.cpus[cpu].registers;
        let mask = self.tags_kept();
        let mut name = |root: u64, tag: u16, shared: bool| {
            if let Some(table) = self.tables.index(Frame::holding(root)) {
                let entry = Live {
                    table: table as u32,
                    owner: self.tables.owner(table),
                    tag: tag & mask,
                    shared: shared && self.config.cnp,
                    reserved: self.tables.reserved(table),
                };
                if !live.contains(&entry) {
                    live.push(entry);
                }
            }
        };
        match self.config.arch {
            Arch::Arm => {
                let mut walks = false;
                if self.config.deviations.contains(Deviations::MIXED_ROOTS) {
                    for &control in &registers.control {
                        for (base, tag) in mixed(&registers.root).filter(|(_, tag)| tag >> 48 != 0)
                        {
                            let root = base & !(0xffff << 48) | tag & 0xffff << 48;
                            let loaded = arm::loaded(root, 0, control & !(1 << 22));
                            name(loaded.base, loaded.asid, loaded.shared);
                        }
                    }
                }
                for loaded in registers.of_arm() {
                    walks |= loaded.walks;
                    name(loaded.base, loaded.asid, loaded.shared);
                }
                walks
            }
            Arch::X86 => {
                let registers = self.control_of(cpu);
                name(registers.base(), registers.pcid(), false);
                true
            }
            Arch::Riscv => {
                if let Some((base, asid)) = riscv::root(Cpu::newest(&registers.root)) {
                    name(base, asid, false);
                }
                true
            }
        }
    }

    /// The tags that walks of `cpu` may be caching under. On Arm there are several until the context is
    /// synchronised.
    pub(crate) fn tags_in_effect(&self, cpu: usize) -> Vec<u16> {
        let kept = self.tags_kept();
        self.cpus[cpu].registers.of_arm().map(|loaded| loaded.asid & kept).collect()
    }

    /// The bits of a tag that the hardware keeps.
    pub(crate) fn tags_kept(&self) -> u16 {
        ((1u32 << self.config.tag_bits) - 1) as u16
    }

    /// Whether `cpu` may use `entry`, which `holder` cached, for what runs under `live`.
    pub(crate) fn usable(live: &Live, cpu: usize, holder: usize, entry: &Entry) -> bool {
        (entry.is(Entry::GLOBAL) || entry.tag == live.tag)
            && (cpu == holder || (live.shared && entry.is(Entry::SHARED)))
    }

    /// Begins every walk that `cpu` may begin.
    pub(crate) fn walk_all(&mut self, cpu: usize) {
        if self.cpus[cpu].walks && !self.cpus[cpu].live.is_empty() {
            self.walk_live(cpu, Pass::Cache);
        }
    }

    fn walk_live(&mut self, cpu: usize, pass: Pass) {
        if self.config.cnp && pass == Pass::Cache {
            self.copy_shared(cpu);
        }
        let top = self.config.levels - 1;
        for index in 0..self.cpus[cpu].live.len() {
            let live = self.cpus[cpu].live[index];
            self.read_table(cpu, Self::started(&live, top), pass);
        }
        // From the top down, so that a partial walk that is good again is so before it is used.
        for level in (1..=top).rev() {
            for holder in 0..self.cpus.len() {
                if holder != cpu && !self.config.cnp {
                    continue;
                }
                let mut index = 0;
                while index < self.cpus[holder].tlb.len() {
                    let entry = self.cpus[holder].tlb[index];
                    if u32::from(entry.level) == level
                        && let Some(walk) = self.continued(cpu, holder, &entry)
                    {
                        self.read_table(cpu, walk, pass);
                    }
                    index += 1;
                }
            }
        }
    }

    /// Copies what `cpu` may use of others: a small TLB of its own may hold what it hit in the one that is shared, and keeps
    /// it when its first holder invalidates its own copies only.
    fn copy_shared(&mut self, cpu: usize) {
        for holder in (0..self.cpus.len()).filter(|&holder| holder != cpu) {
            let mut index = 0;
            while index < self.cpus[holder].tlb.len() {
                let mut entry = self.cpus[holder].tlb[index];
                let mut live = self.cpus[cpu].live.iter();
                if live.any(|live| Self::usable(live, cpu, holder, &entry)) {
                    entry.flags &= !Entry::DOOMED_HERE;
                    self.add(cpu, entry);
                }
                index += 1;
            }
        }
    }

    /// Follows a descriptor that has just reached memory.
    pub(crate) fn descriptor_landed(&mut self, table: usize, index: usize) {
        self.follow(table, index, Pass::Cache);
    }

    /// Records the walks that were possible through a descriptor that is about to be replaced.
    pub(crate) fn descriptor_replaced(&mut self, table: usize, index: usize, cause: Cause) {
        self.follow(table, index, Pass::Replace(cause));
    }

    fn follow(&mut self, table: usize, index: usize, pass: Pass) {
        let top = self.config.levels - 1;
        for cpu in 0..self.cpus.len() {
            if !self.cpus[cpu].walks {
                continue;
            }
            for live in 0..self.cpus[cpu].live.len() {
                let live = self.cpus[cpu].live[live];
                if live.table as usize == table {
                    self.read_descriptor(cpu, &Self::started(&live, top), index, pass);
                }
            }
            for holder in 0..self.cpus.len() {
                if holder != cpu && !self.config.cnp {
                    continue;
                }
                let mut at = 0;
                while at < self.cpus[holder].tlb.len() {
                    let entry = self.cpus[holder].tlb[at];
                    if entry.is(Entry::TABLE)
                        && let Some(walk) = self.continued(cpu, holder, &entry)
                        && walk.table == table
                    {
                        self.read_descriptor(cpu, &walk, index, pass);
                    }
                    at += 1;
                }
            }
        }
    }

    fn started(live: &Live, top: u32) -> Walk {
        Walk {
            table: live.table as usize,
            level: top,
            vpn: 0,
            tag: live.tag,
            owner: live.owner,
            flags: if live.shared { Entry::SHARED } else { 0 },
            parent: None,
        }
    }

    /// The walk that `cpu` may continue from `entry` of `holder`, if any.
    fn continued(&self, cpu: usize, holder: usize, entry: &Entry) -> Option<Walk> {
        if !entry.is(Entry::TABLE) {
            return None;
        }
        let live =
            self.cpus[cpu].live.iter().find(|live| Self::usable(live, cpu, holder, entry))?;
        Some(Walk {
            table: self.tables.index(self.target(entry))?,
            level: u32::from(entry.level) - 1,
            vpn: entry.vpn,
            tag: if entry.is(Entry::GLOBAL) { live.tag } else { entry.tag },
            owner: entry.owner,
            flags: entry.flags & Entry::GLOBAL | if live.shared { Entry::SHARED } else { 0 },
            parent: Some(*entry),
        })
    }

    fn read_table(&mut self, cpu: usize, walk: Walk, pass: Pass) {
        if self.config.invalid_entries && pass == Pass::Cache {
            for index in 0..1 << self.config.index_bits {
                self.read_descriptor(cpu, &walk, index, pass);
            }
            return;
        }
        for word in 0..self.tables.map_words() {
            let mut present = self.tables.map(walk.table, word);
            while present != 0 {
                let index = word * 64 + present.trailing_zeros() as usize;
                present &= present - 1;
                self.read_descriptor(cpu, &walk, index, pass);
            }
        }
    }

    fn read_descriptor(&mut self, cpu: usize, walk: &Walk, index: usize, pass: Pass) {
        let descriptor = self.tables.read(walk.table, index);
        let (frame, kind, global) = match decode(self.config.arch, walk.level, descriptor) {
            Decoded::Invalid if pass == Pass::Cache => return self.read_invalid(cpu, walk, index),
            Decoded::Invalid => return,
            Decoded::Table { frame, global } => (frame, Entry::TABLE, global),
            Decoded::Leaf { frame, global } => (frame, 0, global && self.globals_on(cpu)),
        };
        let mut open = 0;
        if kind == 0 && walk.level == 0 {
            if !self.cacheable(walk.table, index, descriptor) {
                return;
            }
            let Some(bits) = block::bits(&self.config, descriptor) else { return };
            open = bits;
        }
        let inherited = walk.flags & Entry::GLOBAL != 0;
        let flags = walk.flags | kind | if global || inherited { Entry::GLOBAL } else { 0 };
        let mut entry = Entry {
            vpn: walk.vpn << self.config.index_bits | index as u64,
            descriptor,
            owner: walk.owner,
            tag: if flags & Entry::GLOBAL != 0 { 0 } else { walk.tag },
            level: walk.level as u8,
            flags,
            doomed: 0,
        };
        if open > 0 {
            return self.read_block(cpu, walk, entry, open, pass);
        }
        // What lies below an entry that was there, and good, has been followed before.
        if self.arrive(cpu, walk, &mut entry, pass)
            && kind == Entry::TABLE
            && let Some(table) = self.tables.index(frame)
        {
            let below = Walk {
                table,
                level: walk.level - 1,
                vpn: entry.vpn,
                parent: Some(entry),
                flags: flags & (Entry::GLOBAL | Entry::SHARED),
                ..*walk
            };
            self.read_table(cpu, below, pass);
        }
    }

    /// A walk ends at an entry. Returns whether it is to be followed below.
    #[inline]
    fn arrive(&mut self, cpu: usize, walk: &Walk, entry: &mut Entry, pass: Pass) -> bool {
        match pass {
            Pass::Cache => {
                if let Some(parent) = &walk.parent {
                    self.inherit_doom(cpu, parent, entry);
                }
                self.add(cpu, *entry)
            }
            Pass::Replace(cause) => {
                self.note_replaced(cpu, *entry, walk.parent, cause);
                true
            }
        }
    }

    /// A walk that ends at an invalid descriptor.
    #[inline]
    fn read_invalid(&mut self, cpu: usize, walk: &Walk, index: usize) {
        if !self.config.invalid_entries {
            return;
        }
        let flags = walk.flags & (Entry::GLOBAL | Entry::SHARED);
        let entry = Entry {
            vpn: walk.vpn << self.config.index_bits | index as u64,
            descriptor: 0,
            owner: walk.owner,
            tag: if flags & Entry::GLOBAL != 0 { 0 } else { walk.tag },
            level: walk.level as u8,
            flags,
            doomed: 0,
        };
        self.note_absent(cpu, entry);
    }

    /// A walk that ends at a contiguous entry may cache a translation for every page of the block,
    /// made from that entry alone.
    #[cold]
    fn read_block(&mut self, cpu: usize, walk: &Walk, entry: Entry, open: u32, pass: Pass) {
        let first = entry.vpn & !((1 << open) - 1);
        for vpn in first..first + (1 << open) {
            let descriptor = block::for_page(self.config.arch, open, entry.descriptor, vpn);
            let mut entry = Entry { vpn, descriptor, ..entry };
            self.arrive(cpu, walk, &mut entry, pass);
        }
    }

    /// The table that `cpu` may walk on to from `entry` of `holder`, if any.
    pub(crate) fn walk_leads(&self, cpu: usize, holder: usize, entry: &Entry) -> Option<usize> {
        self.continued(cpu, holder, entry).map(|walk| walk.table)
    }

    fn globals_on(&self, cpu: usize) -> bool {
        self.config.arch != Arch::X86 || self.control_of(cpu).has_globals()
    }
}
