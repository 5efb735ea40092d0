//! The checks of the oracle, over every entry that any CPU may have cached.

use super::{
    super::{
        config::Arch,
        cpu::Live,
        format::Frame,
        hash::mix3,
        machine::{Machine, Phase},
        tape::Did,
        tlb::Entry,
        violation::Rule,
    },
    FREED,
};

impl Machine {
    /// Whether what `holder` has cached can be used on `cpu`, for the space that the entry is of.
    pub(super) fn exposed(&self, cpu: usize, holder: usize, entry: &Entry) -> bool {
        if self.down & 1 << cpu != 0 && entry.is(Entry::KERNEL | Entry::GLOBAL) {
            return false;
        }
        if self.resting & 1 << cpu != 0 && !entry.is(Entry::TABLE | Entry::KERNEL) {
            return false;
        }
        // Without tags hardware takes a partial walk of any space for one of the root that is loaded.
        let untagged = self.config.tag_bits == 0 && entry.is(Entry::TABLE);
        self.cpus[cpu].live.iter().any(|live| {
            Self::usable(live, cpu, holder, entry)
                && (entry.is(Entry::GLOBAL) || untagged || entry.owner == live.owner)
        })
    }

    /// A CPU on which the entry can be used.
    fn exposed_somewhere(&self, holder: usize, entry: &Entry) -> Option<usize> {
        if self.config.cnp {
            (0..self.cpus.len()).find(|&cpu| self.exposed(cpu, holder, entry))
        } else {
            self.exposed(holder, holder, entry).then_some(holder)
        }
    }

    pub(super) fn free(&mut self, frame: Frame, table: bool) {
        if !self.ghost.freed.contains(&frame) {
            self.ghost.freed.push(frame);
            self.ghost_hash ^= mix3(frame.0, 1, FREED);
        }
        for cpu in 0..self.cpus.len() {
            for index in 0..self.cpus[cpu].tlb.len() {
                let entry = self.cpus[cpu].tlb[index];
                if entry.is(Entry::TABLE) == table && self.reaches(&entry, frame) {
                    self.mark(cpu, index, Entry::REVOKED, Rule::FreedFrame);
                    // A CPU that boots has to remove it before it is up: see `check_kernel`.
                    let walks = (self.stopped | self.booting) & 1 << cpu == 0;
                    if table && self.config.walks_outlive_tags && walks {
                        let why = "is held, under a tag that no root names";
                        self.fail_entry(Rule::FreedFrame, cpu, cpu, &entry, why);
                    }
                }
            }
        }
        if !table {
            self.check_in_flight(frame);
            self.note_did(self.running, Did::PageFreed);
        }
        if table && let Some(index) = self.tables.index(frame) {
            for cpu in 0..self.cpus.len() {
                if self.cpus[cpu].live.iter().any(|live| live.table as usize == index) {
                    self.fail(
                        Rule::FreedFrame,
                        format!(
                            "table {:#x} is given back while it is a root of CPU {cpu}",
                            frame.0
                        ),
                    );
                }
            }
            self.note_did(self.running, Did::TableFreed(index));
            self.tables.given_back(index);
            self.ghost_hash ^= mix3(frame.0, u64::from(self.tables.owner(index)), 0x11fe);
        }
    }

    /// Whether the entry leads into the frame.
    pub(super) fn reaches(&self, entry: &Entry, frame: Frame) -> bool {
        let Frame(first) = self.target(entry);
        let bits = if entry.is(Entry::TABLE) {
            0
        } else {
            u32::from(entry.level) * self.config.index_bits
        };
        first >> bits == frame.0 >> bits
    }

    /// Marks an entry as one that must not be usable any more.
    pub(super) fn mark(&mut self, cpu: usize, index: usize, flags: u8, rule: Rule) {
        let mut entry = self.cpus[cpu].tlb[index];
        entry.flags |= flags;
        self.amend(cpu, index, entry);
        if let Some(user) = self.exposed_somewhere(cpu, &entry) {
            self.fail_entry(rule, user, cpu, &entry, "is still usable");
        }
    }

    pub(super) fn fail_entry(
        &mut self,
        rule: Rule,
        user: usize,
        holder: usize,
        entry: &Entry,
        why: &str,
    ) {
        let whose =
            if user == holder { String::new() } else { format!(" (cached by CPU {holder})") };
        let text = format!("CPU {user}: {}{whose} {why}", self.describe_entry(entry));
        self.fail(rule, text);
    }

    /// An entry has been added.
    pub(crate) fn check_added(&mut self, cpu: usize, entry: &Entry) {
        if !self.ghost.freed.is_empty() {
            let leaf = !entry.is(Entry::TABLE);
            for index in 0..self.ghost.freed.len() {
                let frame = self.ghost.freed[index];
                let is_table = self.tables.index(frame).is_some();
                if is_table != leaf && self.reaches(entry, frame) {
                    self.fail_entry(
                        Rule::FreedFrame,
                        cpu,
                        cpu,
                        entry,
                        "leads to what was given back",
                    );
                }
            }
        }
        for user in 0..self.cpus.len() {
            if self.config.tag_bits != 0 && (user == cpu || self.config.cnp) {
                self.check_tags(user, cpu, entry);
            }
        }
        if self.config.arch == Arch::Arm {
            self.check_break(cpu, entry);
        }
    }

    /// A program of `cpu` accesses memory. Without tags it must not meet entries of another space: between
    /// the write of a root register and the fence after it they are there, and no program runs.
    pub(crate) fn check_accessing(&mut self, cpu: usize) {
        if self.config.tag_bits == 0 {
            for index in 0..self.cpus[cpu].tlb.len() {
                let entry = self.cpus[cpu].tlb[index];
                self.check_tags(cpu, cpu, &entry);
            }
        }
    }

    /// A root, a tag or a control register has changed.
    pub(crate) fn check_loaded(&mut self, cpu: usize) {
        if self.phase == Phase::Building {
            return;
        }
        for index in 0..self.cpus[cpu].live.len() {
            let frame = self.tables.frame(self.cpus[cpu].live[index].table);
            if self.ghost.freed.contains(&frame) {
                let text = format!("CPU {cpu} loads root {:#x}, which was given back", frame.0);
                self.fail(Rule::FreedFrame, text);
            }
        }
        for holder in 0..self.cpus.len() {
            if holder != cpu && !self.config.cnp {
                continue;
            }
            for index in 0..self.cpus[holder].tlb.len() {
                let entry = self.cpus[holder].tlb[index];
                if self.config.tag_bits != 0 {
                    self.check_tags(cpu, holder, &entry);
                }
                if entry.is(Entry::REVOKED) && self.exposed(cpu, holder, &entry) {
                    let why = "has been revoked, and can be used again";
                    self.fail_entry(Rule::StaleTranslation, cpu, holder, &entry, why);
                }
            }
        }
    }

    /// A CPU runs the kernel again: it must hold no revoked kernel entry, nor a walk to a released table if
    /// that may be used under any tag.
    pub(super) fn check_kernel(&mut self, cpu: usize) {
        for index in 0..self.cpus[cpu].tlb.len() {
            let entry = self.cpus[cpu].tlb[index];
            let walked = entry.is(Entry::TABLE) && self.config.walks_outlive_tags;
            let used = entry.is(Entry::GLOBAL);
            if entry.is(Entry::REVOKED) && (used || walked) {
                let why = "has been revoked, and the kernel runs";
                self.fail_entry(Rule::StaleTranslation, cpu, cpu, &entry, why);
            }
        }
    }

    /// A CPU has come up: it walks from a reserved root, and has nothing left of another.
    pub(super) fn check_parked(&mut self, cpu: usize) {
        if let Some(live) = self.cpus[cpu].live.iter().find(|live| !live.reserved) {
            let root = self.tables.frame(live.table).0;
            let text = format!("CPU {cpu} has come up with root {root:#x}");
            self.fail(Rule::StaleTranslation, text);
        }
        let foreign = |entry: &&Entry| !self.tables.reserved((entry.owner & 0xffff) as usize);
        if let Some(&entry) = self.cpus[cpu].tlb.iter().find(foreign) {
            let why = "is left from before the CPU has come up";
            self.fail_entry(Rule::StaleTranslation, cpu, cpu, &entry, why);
        }
    }

    /// Whether an entry that `cpu` can use is of another space than the root under its tag.
    fn check_tags(&mut self, cpu: usize, holder: usize, entry: &Entry) {
        // A CPU that boots executes no program of a space; what it holds then is looked at when it is up.
        if entry.is(Entry::GLOBAL) || !self.config.protocols || self.booting & 1 << cpu != 0 {
            return;
        }
        let confused = |live: &&Live| {
            !live.reserved && live.owner != entry.owner && Self::usable(live, cpu, holder, entry)
        };
        if let Some(live) = self.cpus[cpu].live.iter().find(confused) {
            let root = self.tables.frame(live.table).0;
            let why = format!("can be used under root {root:#x}");
            self.fail_entry(Rule::TagNamesTwoSpaces, cpu, holder, entry, &why);
        }
    }
}
