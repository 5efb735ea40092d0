//! Runs of the adversarial machine as traces.
//!
//! The format is that of a hypervisor: its first stage has one tree of tables, whose identifier is reserved and
//! zero (`TTBR0_EL2` without host extensions has no ASID), is invalidated by address or as a whole, and only by
//! broadcast. So a run becomes *one trace for each space*, which shows all that concerns the tables of that
//! space. In it `TLBI`s that name another ASID are left out, for they are nothing to its tables; those that name
//! its own, or none, are those of EL2. Loads of other spaces' roots are left out, too. Everything else is written
//! as it is: loads of the space's own root, barriers, and every write of a descriptor.
//!
//! Two things are added. The machine's tables have fewer levels and entries than the format's, so
//! they hang below tables that never change, and addresses are spread accordingly. Locks of tables
//! are the kernel's and not part of most runs: each write has the lock of the space around it.
//!
//! What has no form is not written, and counted: see [`Unwritten`].

use core::{fmt::Write as _, panic::Location};
use std::collections::BTreeMap;

use lookaside::arch::aarch64::{Dsb, Scope, Tlbi};
use lookaside_hardware::{Invalidation, Partial};

use crate::adversary::{
    Config,
    arm::decode_tlbi,
    format::{Decoded, decode},
    op::Arm,
    tables::FIRST_TABLE,
    tape::{Did, Tape},
};

/// A step that has no form, or none that means the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unwritten {
    /// An invalidation on one CPU only: to the protocol it is none. It is left out.
    Local,
    /// An invalidation of one address while a table that led there is unlinked: the protocol does not believe
    /// that it reaches walks to the table. It is written.
    TableByAddress,
    /// An invalidation of one address that says of which level the entry is: the form cannot. It is
    /// written without.
    Level,
    /// A range of too many pages. It is left out.
    Range,
    /// A barrier that the format has not: `DSB NSHST`. It is left out.
    Barrier,
    /// A load of a reserved root, which is no space's. It is left out.
    Reserved,
    /// A load of another space's root: the format's first stage has one tree. It is left out, and that no tag
    /// names two spaces is not judged.
    OtherSpace,
    /// A page was given back: the format knows tables only. Nothing is written.
    Page,
    /// A descriptor was written by hardware. It is left out.
    Hardware,
    /// A step after a space was given another tag, or a tag to another space: in the format they stay for
    /// ever, and the trace ends there.
    AfterNewTag,
}

impl Unwritten {
    /// Whether a trace that lacks it may be refused though the run is in order. The rest is what the format
    /// does not judge: that a trace is accepted says nothing of it.
    #[must_use]
    pub const fn matters(self) -> bool {
        !matches!(self, Self::Reserved | Self::OtherSpace | Self::Page)
    }

    /// In words, as many as there are.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Local => "invalidations on one CPU only",
            Self::TableByAddress => "invalidations of a table by address",
            Self::Level => "invalidations with a level",
            Self::Range => "invalidations of long ranges",
            Self::Barrier => "barriers of stores of one CPU",
            Self::Reserved => "loads of the reserved root",
            Self::OtherSpace => "loads of other spaces' roots",
            Self::Page => "pages given back",
            Self::Hardware => "writes by hardware",
            Self::AfterNewTag => "steps after a new tag",
        }
    }
}

/// A run, as it concerns the tables of one space.
#[derive(Clone, Debug)]
pub struct Written {
    /// The number of the root among the machine's tables.
    pub root: usize,
    /// The trace.
    pub text: String,
    /// How often something was not written, or not as it was.
    pub unwritten: BTreeMap<Unwritten, u64>,
}

impl Written {
    /// Whether a refusal of the trace is one of the run: nothing that matters is missing.
    #[must_use]
    pub fn is_faithful(&self) -> bool {
        !self.unwritten.keys().any(|what| what.matters())
    }
}

/// The format's tables have as many levels.
const LEVELS: u32 = 4;
/// A level resolves so many bits in the format.
const BITS: u32 = 9;
/// Where the tables above the machine's own lie, and those of other spaces.
const ABOVE: u64 = 0x8000;
/// Where locks lie.
const LOCKS: u64 = 0xf_0000_0000;
/// As many pages of a range are written one by one.
const MOST_PAGES: u64 = 64;

/// The traces of a run, one for each space that a CPU ran.
pub(crate) fn write(config: &Config, tape: &Tape) -> Vec<Written> {
    let loaded = tape.events.iter().filter_map(|event| match event.did {
        Did::Arm(Arm::WriteTtbr0(value)) => Some(value),
        _ => None,
    });
    let mut roots: Vec<usize> =
        tape.roots.iter().copied().chain(loaded).filter_map(|value| root_of(tape, value)).collect();
    roots.sort_unstable();
    roots.dedup();
    roots.retain(|&root| !tape.reserved[root]);
    roots.into_iter().map(|root| Writer::new(config, tape, root).write()).collect()
}

/// The table that a value of `TTBR0` names.
fn root_of(tape: &Tape, value: u64) -> Option<usize> {
    let frame = (value & 0x0000_ffff_ffff_f000) >> 12;
    let table = usize::try_from(frame.checked_sub(FIRST_TABLE)?).ok()?;
    (table < tape.reserved.len()).then_some(table)
}

struct Writer<'t> {
    config: &'t Config,
    tape: &'t Tape,
    /// The space that the trace is of.
    root: usize,
    text: String,
    records: u64,
    unwritten: BTreeMap<Unwritten, u64>,
    /// What memory holds, by table and index.
    memory: BTreeMap<(usize, usize), u64>,
    /// Which identifier each root has.
    ids: BTreeMap<usize, u64>,
    /// What the root register of each CPU names: the table and the identifier.
    named: Vec<Option<(usize, u64)>>,
    /// The pages below tables that were unlinked, and may still be walked to.
    unlinked: Vec<(u64, u64)>,
    /// The trace has ended before the run.
    over: bool,
}

impl<'t> Writer<'t> {
    fn new(config: &'t Config, tape: &'t Tape, root: usize) -> Self {
        Self {
            config,
            tape,
            root,
            text: String::new(),
            records: 0,
            unwritten: BTreeMap::new(),
            memory: tape
                .descriptors
                .iter()
                .map(|&(table, at, value)| ((table, at), value))
                .collect(),
            ids: BTreeMap::new(),
            named: vec![None; tape.roots.len()],
            unlinked: Vec::new(),
            over: false,
        }
    }

    fn write(mut self) -> Written {
        self.begin();
        let tape = self.tape;
        for event in &tape.events {
            self.event(event.cpu, event.location, event.did);
        }
        Written { root: self.root, text: self.text, unwritten: self.unwritten }
    }

    /// The tables and registers that the run begins with.
    #[track_caller]
    fn begin(&mut self) {
        let here = Location::caller();
        for table in 0..self.tape.reserved.len() {
            self.record(
                0,
                here,
                &format!("mem-init (address {:#x}) (size 0x1000)", address(table)),
            );
        }
        for &(table, index, value) in &self.tape.descriptors {
            self.store(0, here, address(table) + index as u64 * 8, value, false);
        }
        // The tables above those of this space.
        let mut below = address(self.root);
        for level in self.config.levels..LEVELS {
            let above = self.above(self.root, level);
            self.record(0, here, &format!("mem-init (address {above:#x}) (size 0x1000)"));
            self.store(0, here, above, below | 0b11, false);
            below = above;
        }
        let lock = LOCKS + self.root as u64 * 8;
        let top = self.top(self.root);
        self.record(
            0,
            here,
            &format!("hint (kind set_root_lock) (location {top:#x}) (value {lock:#x})"),
        );
        for cpu in 0..self.tape.roots.len() {
            self.load(cpu, here, self.tape.roots[cpu]);
        }
    }

    fn event(&mut self, cpu: usize, at: &Location<'_>, did: Did) {
        if self.over {
            return self.cannot(Unwritten::AfterNewTag);
        }
        match did {
            Did::Write { table, index, value, release } => {
                self.change(table, index, value);
                let lock = LOCKS + self.root as u64 * 8;
                self.record(cpu, at, &format!("lock (address {lock:#x})"));
                self.store(cpu, at, address(table) + index as u64 * 8, value, release);
                self.record(cpu, at, &format!("unlock (address {lock:#x})"));
            }
            Did::HardwareWrite => self.cannot(Unwritten::Hardware),
            Did::PageFreed => self.cannot(Unwritten::Page),
            Did::TableFreed(table) => {
                let location = if table == self.root { self.top(table) } else { address(table) };
                let hint =
                    format!("hint (kind release_table) (location {location:#x}) (value 0x0)");
                self.record(cpu, at, &hint);
            }
            Did::Arm(Arm::Isb) => self.record(cpu, at, "barrier isb"),
            Did::Arm(Arm::Dsb(kind)) => match kind {
                Dsb::Ish => self.record(cpu, at, "barrier dsb (kind ish)"),
                Dsb::Ishst => self.record(cpu, at, "barrier dsb (kind ishst)"),
                Dsb::Nsh => self.record(cpu, at, "barrier dsb (kind nsh)"),
                Dsb::Nshst => self.cannot(Unwritten::Barrier),
                // Loads are none of the events of a trace.
                Dsb::Ishld => {}
            },
            Did::Arm(Arm::WriteTtbr0(value)) => self.load(cpu, at, value),
            Did::Arm(Arm::Tlbi(tlbi)) => self.invalidate(cpu, at, tlbi),
            Did::Arm(_) => {}
        }
    }

    /// Notes whether a descriptor that is written unlinks a table.
    fn change(&mut self, table: usize, index: usize, value: u64) {
        let old = self.memory.insert((table, index), value).unwrap_or(0);
        for (level, first) in self.places(table) {
            let shift = self.config.index_bits * level;
            let first = first + ((index as u64) << shift);
            if value & 1 == 0
                && matches!(decode(self.config.arch, level, old), Decoded::Table { .. })
            {
                self.unlinked.push((first, first + (1 << shift) - 1));
            }
        }
    }

    /// Where a table hangs in the tree: its level, and the first page that it translates.
    fn places(&self, table: usize) -> Vec<(u32, u64)> {
        let mut open = vec![(self.root, self.config.levels - 1, 0)];
        let mut found = Vec::new();
        while let Some((at, level, first)) = open.pop() {
            if at == table {
                found.push((level, first));
            }
            for (&(_, index), &value) in self.memory.range((at, 0)..(at + 1, 0)) {
                if level > 0
                    && let Decoded::Table { frame, .. } = decode(self.config.arch, level, value)
                    && let Some(below) = frame.0.checked_sub(FIRST_TABLE)
                {
                    let shift = self.config.index_bits * level;
                    open.push((below as usize, level - 1, first + ((index as u64) << shift)));
                }
            }
        }
        found
    }

    /// A CPU loads a root.
    fn load(&mut self, cpu: usize, at: &Location<'_>, value: u64) {
        let Some(root) = root_of(self.tape, value) else { return };
        if self.tape.reserved[root] {
            self.named[cpu] = None;
            return self.cannot(Unwritten::Reserved);
        }
        let id = value >> 48;
        self.named[cpu] = None;
        let changed = self.ids.get(&root).is_some_and(|&old| old != id);
        let another = |(&other, &of): (&usize, &u64)| other != root && of == id;
        // A tag that nobody names may have been given anew. Two CPUs that name two spaces by one tag are for the
        // machine's own oracle to judge.
        let anew = self.ids.iter().find(|&entry| another(entry)).map(|(&other, _)| other);
        let anew = anew.is_some_and(|other| !self.named.contains(&Some((other, id))));
        if changed || anew {
            self.over = true;
            return self.cannot(Unwritten::AfterNewTag);
        }
        self.ids.insert(root, id);
        self.named[cpu] = Some((root, id));
        if root != self.root {
            return self.cannot(Unwritten::OtherSpace);
        }
        let value = self.top(root);
        self.record(cpu, at, &format!("sysreg-write (sysreg ttbr0_el2) (value {value:#x})"));
    }

    fn invalidate(&mut self, cpu: usize, at: &Location<'_>, tlbi: Tlbi) {
        let Some(what) = decode_tlbi(tlbi, self.config.tag_bits, &[]) else { return };
        let own = self.ids.get(&self.root).copied();
        if what.tag.is_some_and(|tag| Some(u64::from(tag)) != own) {
            return; // It is nothing to the tables of this space.
        }
        if tlbi.scope == Scope::Local {
            return self.cannot(Unwritten::Local);
        }
        if what.pages == Invalidation::EVERYWHERE && what.partial == Partial::All {
            self.unlinked.clear();
            return self.record(cpu, at, "tlbi alle2is");
        }
        let (first, last) = what.pages;
        let end = 1 << (self.config.index_bits * self.config.levels);
        if last.min(end) - first.min(end) >= MOST_PAGES {
            return self.cannot(Unwritten::Range);
        }
        let below = |&(from, to): &(u64, u64)| first <= to && from <= last;
        if what.partial != Partial::No && self.unlinked.iter().any(below) {
            self.cannot(Unwritten::TableByAddress);
        }
        if what.level.is_some() {
            self.cannot(Unwritten::Level);
        }
        let name = if what.partial == Partial::No { "vale2is" } else { "vae2is" };
        for page in first..=last.min(end - 1) {
            let operand = self.spread(page);
            self.record(cpu, at, &format!("tlbi {name} (value {operand:#x})"));
        }
    }

    /// The page number that stands for one of the machine's, which has fewer bits a level.
    fn spread(&self, page: u64) -> u64 {
        let bits = self.config.index_bits;
        let digit = |level: u32| page >> (bits * level) & ((1 << bits) - 1);
        (0..self.config.levels).fold(0, |all, level| all | digit(level) << (BITS * level))
    }

    /// The table of `level` above the machine's own of a space.
    fn above(&self, root: usize, level: u32) -> u64 {
        (ABOVE + root as u64 * u64::from(LEVELS) + u64::from(level)) << 12
    }

    /// The root of a space in the trace.
    fn top(&self, root: usize) -> u64 {
        if self.config.levels < LEVELS { self.above(root, LEVELS - 1) } else { address(root) }
    }

    fn store(&mut self, cpu: usize, at: &Location<'_>, address: u64, value: u64, release: bool) {
        let order = if release { "release" } else { "plain" };
        let text =
            format!("mem-write (mem-order {order}) (address {address:#x}) (value {value:#x})");
        self.record(cpu, at, &text);
    }

    /// Adds a record: its kind, and what follows the number and the CPU.
    fn record(&mut self, cpu: usize, at: &Location<'_>, text: &str) {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (id, file, line) = (self.records, at.file(), at.line());
        let _ =
            writeln!(self.text, "({kind} (id {id}) (tid {cpu}) {rest} (src \"{file}:{line}\"))");
        self.records += 1;
    }

    fn cannot(&mut self, what: Unwritten) {
        *self.unwritten.entry(what).or_default() += 1;
    }
}

fn address(table: usize) -> u64 {
    (FIRST_TABLE + table as u64) << 12
}
