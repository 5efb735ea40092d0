//! The protocol.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use crate::adversary::{
    config::Arch,
    format::{Decoded, decode},
};

use super::record::{Record, Tlbi, What, Word};

/// Why a trace is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A valid descriptor was replaced by another without being invalid in between.
    ValidToValid,
    /// A descriptor became valid before what it was had been invalidated.
    UncleanToValid,
    /// A table was written without the lock of its tree.
    Unlocked,
    /// A second plain write of a valid descriptor under a lock.
    NotReleased,
    /// A table is in two trees, or twice in one.
    DoubleUse,
    /// An identifier stands for two trees.
    DuplicateId,
    /// A tree has two identifiers.
    SecondId,
    /// `TTBR0_EL2` is loaded with an ASID: at EL2 without host extensions the field is reserved, and zero.
    ReservedAsid,
    /// A table was given back while TLBs may lead to it.
    ReleasedUnclean,
    /// Memory of a tree is not tracked any more.
    FreedInUse,
    /// A table lies in memory that is not tracked.
    Untracked,
    /// A lock that is held was taken, or one that is not held was given back.
    Lock,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ValidToValid => "BBM valid->valid",
            Self::UncleanToValid => "BBM invalid unclean->valid",
            Self::Unlocked => "must write to pte while holding owner lock",
            Self::NotReleased => "a second plain write of a valid pte needs a release or a DSB",
            Self::DoubleUse => "double-use pte",
            Self::DuplicateId => "duplicate (VM/AS)ID",
            Self::SecondId => "a root has a second (VM/AS)ID",
            Self::ReservedAsid => "TTBR0_EL2 ASID is reserved 0",
            Self::ReleasedUnclean => "cannot release table where children are still unclean",
            Self::FreedInUse => "memory of a tree is freed",
            Self::Untracked => "a table lies in memory that is not tracked",
            Self::Lock => "a lock is taken twice, or given back by who does not hold it",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    One,
    Two,
}

/// How far a CPU has come in making a descriptor clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Written,
    /// The write has been waited for.
    Ordered,
    /// An invalidation by address of stage 2 was issued; of stage 1 what was combined with it stays.
    Address,
    /// It has been completed.
    AddressDone,
    /// All that is needed was issued.
    Issued,
}

/// A descriptor that is invalid and may still be in TLBs.
#[derive(Clone, Copy, Debug)]
struct Unclean {
    cpu: usize,
    progress: Progress,
    /// What it was.
    old: Word,
}

/// A table of a tree.
#[derive(Clone, Copy, Debug)]
struct Table {
    root: Word,
    level: u32,
    /// The first address that it translates.
    base: Word,
}

#[derive(Clone, Copy, Debug)]
struct Tree {
    stage: Stage,
    id: u16,
}

/// The state of a trace.
#[derive(Debug, Default)]
pub struct Checker {
    memory: BTreeMap<Word, Word>,
    tables: BTreeMap<Word, Table>,
    trees: BTreeMap<Word, Tree>,
    unclean: BTreeMap<Word, Unclean>,
    locks: BTreeMap<Word, Word>,
    held: BTreeMap<Word, usize>,
    /// The VMID that each CPU has loaded.
    current: BTreeMap<usize, u16>,
    /// The CPUs that have written a valid descriptor since they took a lock or passed a `DSB`.
    written: BTreeSet<usize>,
}

const TABLE_BYTES: Word = 0x1000;
const PAGE_BITS: u32 = 12;
const INDEX_BITS: u32 = 9;
const TOP: u32 = 3;
const ADDRESS: Word = 0x0000_ffff_ffff_f000;

type Result<T = ()> = core::result::Result<T, Refusal>;

impl Checker {
    /// Takes one record more.
    ///
    /// # Errors
    ///
    /// If it breaks the protocol.
    pub fn apply(&mut self, record: &Record) -> Result {
        let cpu = record.cpu;
        match record.what {
            What::Read { .. } | What::Isb | What::Register | What::Hint => {}
            What::Write { release, address, value } => self.write(cpu, release, address, value)?,
            What::Set { address, size, value } => {
                let value = Word::from_ne_bytes([value; 8]);
                for at in words(address, size) {
                    self.write(cpu, false, at, value)?;
                }
            }
            What::Init { address, size } => {
                for at in words(address, size) {
                    if self.tables.contains_key(&(at & !(TABLE_BYTES - 1))) {
                        self.write(cpu, false, at, 0)?;
                    } else {
                        self.memory.insert(at, 0);
                    }
                }
            }
            What::Free { address, size } => {
                for at in words(address, size) {
                    if self.tables.contains_key(&(at & !(TABLE_BYTES - 1))) {
                        return Err(Refusal::FreedInUse);
                    }
                    self.memory.remove(&at);
                }
            }
            What::DsbStores | What::DsbLocal => self.barrier(cpu, false),
            What::DsbFull => self.barrier(cpu, true),
            What::Tlbi(tlbi) => self.invalidate(cpu, tlbi),
            What::Vttbr(value) => {
                self.current.insert(cpu, (value >> 48) as u16);
                self.load(Stage::Two, value)?;
            }
            What::Ttbr(value) => self.load(Stage::One, value)?,
            What::RootLock { root, lock } => {
                self.locks.insert(root, lock);
            }
            What::Release { table } => self.release(table)?,
            What::Lock(lock) => {
                if self.held.insert(lock, cpu).is_some() {
                    return Err(Refusal::Lock);
                }
                self.written.remove(&cpu);
            }
            What::Unlock(lock) => {
                if self.held.remove(&lock) != Some(cpu) {
                    return Err(Refusal::Lock);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, cpu: usize, release: bool, address: Word, value: Word) -> Result {
        let at = address & !(TABLE_BYTES - 1);
        if let Some(&table) = self.tables.get(&at) {
            self.write_descriptor(cpu, release, address, value, table)?;
        }
        if let Some(word) = self.memory.get_mut(&address) {
            *word = value;
        }
        Ok(())
    }

    fn write_descriptor(
        &mut self,
        cpu: usize,
        release: bool,
        address: Word,
        value: Word,
        table: Table,
    ) -> Result {
        let lock = self.locks.get(&table.root);
        if lock.is_none_or(|lock| self.held.get(lock) != Some(&cpu)) {
            return Err(Refusal::Unlocked);
        }
        let old = self.memory.get(&address).copied().unwrap_or(0);
        let (was, is) = (valid(old), valid(value));
        if was || is {
            let first = self.written.insert(cpu);
            if !first && !release {
                return Err(Refusal::NotReleased);
            }
        }
        match (was, is) {
            (true, true) if needs_break(table.level, old, value) => Err(Refusal::ValidToValid),
            (true, false) => {
                let unclean = Unclean { cpu, progress: Progress::Written, old };
                self.unclean.insert(address, unclean);
                Ok(())
            }
            (false, true) if self.unclean.contains_key(&address) => Err(Refusal::UncleanToValid),
            (false, true) => self.add_child(address, value, table),
            _ => Ok(()),
        }
    }

    /// Puts the table that a new descriptor names, and all below, into the tree.
    fn add_child(&mut self, address: Word, value: Word, parent: Table) -> Result {
        let Decoded::Table { frame, .. } = decode(Arch::Arm, parent.level, value) else {
            return Ok(());
        };
        let index = address % TABLE_BYTES / 8;
        let base = parent.base + (index << (PAGE_BITS + INDEX_BITS * parent.level));
        self.add_table(frame.address(), Table { level: parent.level - 1, base, ..parent })
    }

    fn add_table(&mut self, at: Word, table: Table) -> Result {
        if self.tables.insert(at, table).is_some() {
            return Err(Refusal::DoubleUse);
        }
        for address in words(at, TABLE_BYTES) {
            let Some(&value) = self.memory.get(&address) else { return Err(Refusal::Untracked) };
            if valid(value) {
                self.add_child(address, value, table)?;
            }
        }
        Ok(())
    }

    /// A root is loaded.
    fn load(&mut self, stage: Stage, value: Word) -> Result {
        let (id, root) = ((value >> 48) as u16, value & ADDRESS);
        if stage == Stage::One && id != 0 {
            return Err(Refusal::ReservedAsid);
        }
        let other =
            |(&of, tree): (&Word, &Tree)| of != root && tree.stage == stage && tree.id == id;
        if self.trees.iter().any(other) {
            return Err(Refusal::DuplicateId);
        }
        if let Some(tree) = self.trees.get(&root) {
            let same = tree.stage == stage && tree.id == id;
            return if same { Ok(()) } else { Err(Refusal::SecondId) };
        }
        self.trees.insert(root, Tree { stage, id });
        self.add_table(root, Table { root, level: TOP, base: 0 })
    }

    fn barrier(&mut self, cpu: usize, full: bool) {
        self.written.remove(&cpu);
        let mut clean = Vec::new();
        for (&address, unclean) in &mut self.unclean {
            if unclean.cpu != cpu {
                continue;
            }
            match unclean.progress {
                Progress::Written => unclean.progress = Progress::Ordered,
                Progress::Address if full => unclean.progress = Progress::AddressDone,
                Progress::Issued if full => clean.push(address),
                _ => {}
            }
        }
        for address in clean {
            let Some(Unclean { old, .. }) = self.unclean.remove(&address) else { continue };
            let level = self.tables.get(&(address & !(TABLE_BYTES - 1))).map(|of| of.level);
            if let Some(level) = level
                && let Decoded::Table { frame, .. } = decode(Arch::Arm, level, old)
            {
                self.remove(frame.address());
            }
        }
    }

    fn invalidate(&mut self, cpu: usize, tlbi: Tlbi) {
        let vmid = self.current.get(&cpu).copied();
        for (&address, unclean) in &mut self.unclean {
            let Some(table) = self.tables.get(&(address & !(TABLE_BYTES - 1))) else { continue };
            let Some(tree) = self.trees.get(&table.root) else { continue };
            if unclean.cpu != cpu {
                continue;
            }
            let own = tree.stage == Stage::Two && Some(tree.id) == vmid;
            let first = table.base
                + ((address % TABLE_BYTES / 8) << (PAGE_BITS + INDEX_BITS * table.level));
            let span = 1 << (PAGE_BITS + INDEX_BITS * table.level);
            let leaf = matches!(decode(Arch::Arm, table.level, unclean.old), Decoded::Leaf { .. })
                || !is_table(table.level, unclean.old);
            let covers = |at: Word| leaf && (first..first + span).contains(&at);
            use Progress::{Address, AddressDone, Issued, Ordered};
            unclean.progress = match (unclean.progress, tlbi) {
                (Ordered, Tlbi::Everything) if tree.stage == Stage::Two => Issued,
                (Ordered, Tlbi::BothStages) if own => Issued,
                (Ordered, Tlbi::StageTwoAddress(at)) if own && covers(at) => Address,
                (AddressDone, Tlbi::StageOne) if own => Issued,
                (Ordered, Tlbi::Hypervisor) if tree.stage == Stage::One => Issued,
                (Ordered, Tlbi::HypervisorAddress(at))
                    if tree.stage == Stage::One && covers(at) =>
                {
                    Issued
                }
                (progress, _) => progress,
            };
        }
    }

    fn release(&mut self, at: Word) -> Result {
        if !self.tables.contains_key(&at) {
            return Ok(());
        }
        let subtree = self.subtree(at);
        let inside = |table: &Word| subtree.contains(table);
        let leads_here = |(&address, unclean): (&Word, &Unclean)| {
            let own = address & !(TABLE_BYTES - 1);
            let level = self.tables.get(&own).map_or(0, |table| table.level);
            let target = match decode(Arch::Arm, level, unclean.old) {
                Decoded::Table { frame, .. } => Some(frame.address()),
                _ => None,
            };
            inside(&own) || target.as_ref().is_some_and(inside)
        };
        if self.unclean.iter().any(leads_here) {
            return Err(Refusal::ReleasedUnclean);
        }
        self.remove(at);
        self.trees.remove(&at);
        Ok(())
    }

    /// Takes a table, and all below, out of its tree.
    fn remove(&mut self, at: Word) {
        for table in self.subtree(at) {
            self.tables.remove(&table);
        }
    }

    /// A table and all that are below it.
    fn subtree(&self, at: Word) -> BTreeSet<Word> {
        let mut found = BTreeSet::new();
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            let Some(table) = self.tables.get(&at) else { continue };
            if !found.insert(at) {
                continue;
            }
            for address in words(at, TABLE_BYTES) {
                let word = self.memory.get(&address).copied().unwrap_or(0);
                if let Decoded::Table { frame, .. } = decode(Arch::Arm, table.level, word) {
                    open.push(frame.address());
                }
            }
        }
        found
    }
}

fn words(address: Word, size: Word) -> impl Iterator<Item = Word> {
    (0..size / 8).map(move |index| address.wrapping_add(index * 8))
}

fn valid(descriptor: Word) -> bool {
    descriptor & 1 != 0
}

fn is_table(level: u32, descriptor: Word) -> bool {
    matches!(decode(Arch::Arm, level, descriptor), Decoded::Table { .. })
}

/// Software bits (58:55), and those that say what is permitted: AF, AP or S2AP, XN, DBM.
const FREE: Word = 0xf << 55 | 0b11 << 53 | 1 << 51 | 1 << 10 | 0b11 << 6;

/// Whether a change of a valid descriptor needs break-before-make.
fn needs_break(level: u32, old: Word, new: Word) -> bool {
    if is_table(level, old) || is_table(level, new) {
        return old != new;
    }
    (old ^ new) & !FREE != 0
}
