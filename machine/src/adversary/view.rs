//! What the machine is at a moment, in words: for a reader who steps through an execution.

use super::{
    cpu::Cpu,
    format::{Decoded, decode},
    machine::Machine,
    memory,
    op::Address,
    tlb::Entry,
};

/// The machine at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Each CPU.
    pub cpus: Vec<CpuView>,
    /// The words that have names, and what memory holds in them, by name.
    pub memory: Vec<(String, String)>,
}

/// A CPU at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CpuView {
    /// What its root register names: the newest value.
    pub root: String,
    /// Whether it takes interrupts.
    pub takes_interrupts: bool,
    /// Whether an interrupt waits for it.
    pub is_interrupted: bool,
    /// Its stores that have not reached memory, the oldest first.
    pub stores: Vec<String>,
    /// What it may have cached.
    pub entries: Vec<EntryView>,
    /// How many of its invalidations are under way.
    pub pending: usize,
}

/// A translation, or a partial walk, that a CPU may have cached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryView {
    /// The tag, the address, and where it leads.
    pub text: String,
    /// Whether the page table says something else now.
    pub is_stale: bool,
    /// Whether the kernel relies on it being gone.
    pub is_revoked: bool,
}

impl Machine {
    /// The machine as it is now.
    pub(crate) fn see(&self) -> View {
        let cpus = self.cpus.iter().enumerate().map(|(index, cpu)| self.see_cpu(index, cpu));
        let named = self.names.iter().map(|(&word, name)| {
            let word = word as Address;
            (name.clone(), self.value_of(word, memory::read(word)))
        });
        let mut memory: Vec<_> = named.collect();
        memory.sort();
        View { cpus: cpus.collect(), memory }
    }

    fn see_cpu(&self, index: usize, cpu: &Cpu) -> CpuView {
        let bit = 1 << index;
        let mut entries: Vec<_> = cpu.tlb.iter().map(|entry| self.see_entry(entry)).collect();
        entries.sort_by(|a, b| a.text.cmp(&b.text));
        let root = cpu.live.last().map_or("none".to_owned(), |live| {
            let frame = self.tables.frame(live.table).0;
            if live.reserved { "empty".to_owned() } else { format!("{frame:#x}, tag {}", live.tag) }
        });
        let stores = cpu.buffer.iter().map(|store| {
            if store.word.is_null() {
                return "a barrier".to_owned();
            }
            let name = self.known_name(store.word);
            format!("{name} <- {}", self.value_of(store.word, store.value))
        });
        CpuView {
            root,
            takes_interrupts: self.open & bit != 0,
            is_interrupted: self.interrupted & bit != 0,
            stores: stores.collect(),
            entries,
            pending: cpu.pending.len(),
        }
    }

    fn see_entry(&self, entry: &Entry) -> EntryView {
        let bits = self.config.index_bits * u32::from(entry.level);
        let root = (entry.owner & 0xffff) as usize;
        let level = u32::from(entry.level);
        let now = self.descriptor(root, entry.vpn << bits, level);
        let tag =
            if entry.is(Entry::GLOBAL) { "global".into() } else { format!("tag {}", entry.tag) };
        let kind = if entry.is(Entry::TABLE) { "table" } else { "frame" };
        let va = entry.vpn << (bits + 12);
        EntryView {
            text: format!("{tag}, {va:#x}: {kind} {:#x}", self.target(entry).0),
            is_stale: now.is_none_or(|word| word.peek() != entry.descriptor),
            is_revoked: entry.is(Entry::REVOKED),
        }
    }

    fn known_name(&self, word: Address) -> String {
        if let Some(name) = self.names.get(&(word as usize)) {
            return name.clone();
        }
        match self.tables.data_frame(word) {
            Some(frame) => format!("frame {:#x}", frame.0),
            None => "a word".to_owned(),
        }
    }

    /// A value of a word: of a descriptor, where it leads.
    fn value_of(&self, word: Address, value: u64) -> String {
        if self.tables.locate(word).is_none() {
            return format!("{value:#x}");
        }
        // The last level and those above it differ in what names a table.
        for level in [0, 1] {
            match decode(self.config.arch, level, value) {
                Decoded::Table { frame, .. } => return format!("table {:#x}", frame.0),
                Decoded::Leaf { frame, .. } if self.tables.index(frame).is_none() => {
                    return format!("frame {:#x}", frame.0);
                }
                _ => {}
            }
        }
        "empty".to_owned()
    }
}
