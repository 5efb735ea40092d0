//! How the oracle looks: through everything that any CPU may have cached.

use super::{
    super::{
        block,
        config::Arch,
        cpu::Live,
        flags,
        format::Frame,
        hash::mix3,
        machine::{Machine, Phase},
        op::Address,
        tlb::Entry,
        violation::Rule,
    },
    FREED, QUIET,
};

/// A descriptor that memory holds.
struct Present {
    level: u8,
    descriptor: u64,
    /// Hardware writes its accessed and dirty bits, so that they are not what makes it stale.
    managed: bool,
}

impl Present {
    /// Whether what is cached is what memory holds.
    fn allows(&self, arch: Arch, entry: &Entry) -> bool {
        self.level == entry.level
            && (self.descriptor == entry.descriptor
                || (self.managed && flags::alike(arch, self.descriptor, entry.descriptor)))
    }
}

impl Machine {
    /// Whether what `holder` has cached can be used on `cpu`, for the space that the entry is of.
    fn exposed(&self, cpu: usize, holder: usize, entry: &Entry) -> bool {
        if self.resting & 1 << cpu != 0 && !entry.is(Entry::TABLE | Entry::KERNEL) {
            return false;
        }
        self.cpus[cpu].live.iter().any(|live| {
            Self::usable(live, cpu, holder, entry)
                && (entry.is(Entry::GLOBAL) || entry.owner == live.owner)
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

    pub(super) fn revoke(&mut self, root: Frame, va: u64) {
        let Some(table) = self.tables.index(root) else {
            return self.fail(Rule::Misuse, format!("{:#x} is no table", root.0));
        };
        let owner = self.tables.owner(table);
        let present = self.present(table, va);
        self.revoke_owned(owner, va, &present, Entry::REVOKED);
    }

    pub(super) fn revoke_everywhere(&mut self, va: u64) {
        let mut owners = Vec::new();
        for entry in self.cpus.iter().flat_map(|cpu| &cpu.tlb) {
            if entry.covers(va >> 12, self.config.index_bits) && !owners.contains(&entry.owner) {
                owners.push(entry.owner);
            }
        }
        for owner in owners {
            // A root that was given back maps nothing.
            let table = (owner & 0xffff) as usize;
            let alive = self.tables.owner(table) == owner;
            let present = if alive { self.present(table, va) } else { Vec::new() };
            self.revoke_owned(owner, va, &present, Entry::REVOKED | Entry::KERNEL);
        }
    }

    /// What memory holds for `va` in the space of a root, as the CPU that runs sees it.
    fn present(&mut self, table: usize, va: u64) -> Vec<Present> {
        let mut present = Vec::with_capacity(4);
        for level in 0..self.config.levels {
            if let Some(word) = self.descriptor(table, va >> 12, level) {
                let view = self.view(self.running, word.address());
                if view != word.peek() {
                    let name = self.name_of(word.address());
                    let root = self.tables.frame(table as u32).0;
                    let text = format!(
                        "va {va:#x} of root {root:#x} is reported as revoked by CPU {} while its \
                         store to {name} is still in its store buffer",
                        self.running
                    );
                    self.fail(Rule::StaleTranslation, text);
                }
                let managed = self.is_managed(word.address());
                let held = Present { level: level as u8, descriptor: view, managed };
                match block::bits(&self.config, view) {
                    Some(bits) if level == 0 && bits > 0 => {
                        self.present_in_block(word.address(), bits, va >> 12, &mut present);
                    }
                    _ => present.push(held),
                }
            }
        }
        present
    }

    /// What the entries of a block say of one of its pages: any of them may have been walked to.
    fn present_in_block(&self, word: Address, bits: u32, page: u64, present: &mut Vec<Present>) {
        let Some((table, own)) = self.tables.locate(word) else { return };
        let first = own & !((1 << bits) - 1);
        for index in first..first + (1 << bits) {
            let word = self.tables.address(table, index);
            let view = self.view(self.running, word);
            if block::bits(&self.config, view) == Some(bits) {
                let descriptor = block::for_page(self.config.arch, bits, view, page);
                present.push(Present { level: 0, descriptor, managed: self.is_managed(word) });
            }
        }
    }

    /// Whether hardware writes a descriptor.
    fn is_managed(&self, word: Address) -> bool {
        let place = self.tables.locate(word);
        place.is_some_and(|(table, index)| self.tables.written(table, index).is_some())
    }

    /// Marks what is cached of a space for `va` and is not what memory holds.
    fn revoke_owned(&mut self, owner: u32, va: u64, present: &[Present], flags: u8) {
        let (page, bits) = (va >> 12, self.config.index_bits);
        for cpu in 0..self.cpus.len() {
            for index in 0..self.cpus[cpu].tlb.len() {
                let entry = self.cpus[cpu].tlb[index];
                if entry.owner == owner
                    && entry.covers(page, bits)
                    && !present.iter().any(|held| held.allows(self.config.arch, &entry))
                {
                    self.mark(cpu, index, flags, Rule::StaleTranslation);
                    // The kernel's half is in use whatever the root of the user's half.
                    if flags & Entry::KERNEL != 0 && entry.is(Entry::GLOBAL) {
                        let why = "holds under every tag, and the kernel runs";
                        self.fail_entry(Rule::StaleTranslation, cpu, cpu, &entry, why);
                    }
                }
            }
        }
    }

    pub(super) fn quieten(&mut self, frame: Frame) {
        if !self.ghost.quiet.contains(&frame) {
            self.ghost.quiet.push(frame);
            self.ghost_hash ^= mix3(frame.0, 1, QUIET);
        }
        for cpu in 0..self.cpus.len() {
            for index in 0..self.cpus[cpu].tlb.len() {
                let mut entry = self.cpus[cpu].tlb[index];
                if !entry.is(Entry::TABLE) && self.reaches(&entry, frame) {
                    entry.flags |= Entry::QUIET;
                    self.amend(cpu, index, entry);
                }
            }
            for index in 0..self.cpus[cpu].lingering.len() {
                if self.reaches(&self.cpus[cpu].lingering[index], frame) {
                    self.cpus[cpu].lingering[index].flags |= Entry::QUIET;
                }
            }
        }
        self.check_in_flight(frame);
    }

    /// A CPU may access user memory again: none of what it can use may lead to a quiet frame.
    pub(super) fn check_quiet(&mut self, cpu: usize) {
        for holder in 0..self.cpus.len() {
            if holder != cpu && !self.config.cnp {
                continue;
            }
            for index in 0..self.cpus[holder].tlb.len() {
                let entry = self.cpus[holder].tlb[index];
                if self.is_quiet(&entry) && self.exposed(cpu, holder, &entry) {
                    let why = "leads to a frame that no program reaches any more";
                    self.fail_entry(Rule::StaleTranslation, cpu, holder, &entry, why);
                }
            }
        }
    }

    /// Whether no program may use the entry, though it may be cached.
    pub(crate) fn is_quiet(&self, entry: &Entry) -> bool {
        entry.is(Entry::QUIET)
            || (!entry.is(Entry::TABLE)
                && self.ghost.quiet.iter().any(|&frame| self.reaches(entry, frame)))
    }

    /// No store of user code to the frame may still be on its way.
    fn check_in_flight(&mut self, frame: Frame) {
        for cpu in 0..self.cpus.len() {
            let reaches = self.cpus[cpu].buffer.iter().any(|entry| {
                entry.via.is_some() && self.tables.data_frame(entry.word) == Some(frame)
            });
            if reaches {
                let text = format!(
                    "a store of CPU {cpu}, translated before, is on its way to frame {:#x}",
                    frame.0
                );
                self.fail(Rule::FreedFrame, text);
            }
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
                    if table && self.config.walks_outlive_tags {
                        let why = "is held, under a tag that no root names";
                        self.fail_entry(Rule::FreedFrame, cpu, cpu, &entry, why);
                    }
                }
            }
        }
        if !table {
            self.check_in_flight(frame);
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
            self.tables.given_back(index);
            self.ghost_hash ^= mix3(frame.0, u64::from(self.tables.owner(index)), 0x11fe);
        }
    }

    /// Whether the entry leads into the frame.
    fn reaches(&self, entry: &Entry, frame: Frame) -> bool {
        let Frame(first) = self.target(entry);
        let bits = if entry.is(Entry::TABLE) {
            0
        } else {
            u32::from(entry.level) * self.config.index_bits
        };
        first >> bits == frame.0 >> bits
    }

    /// Remembers that an entry must not be usable any more.
    pub(super) fn mark(&mut self, cpu: usize, index: usize, flags: u8, rule: Rule) {
        let mut entry = self.cpus[cpu].tlb[index];
        entry.flags |= flags;
        self.amend(cpu, index, entry);
        if let Some(user) = self.exposed_somewhere(cpu, &entry) {
            self.fail_entry(rule, user, cpu, &entry, "is still usable");
        }
    }

    fn fail_entry(&mut self, rule: Rule, user: usize, holder: usize, entry: &Entry, why: &str) {
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
            if user == cpu || self.config.cnp {
                self.check_tags(user, cpu, entry);
            }
        }
        self.check_break(cpu, entry);
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
                self.check_tags(cpu, holder, &entry);
                if entry.is(Entry::REVOKED) && self.exposed(cpu, holder, &entry) {
                    let why = "has been revoked, and can be used again";
                    self.fail_entry(Rule::StaleTranslation, cpu, holder, &entry, why);
                }
            }
        }
    }

    /// Whether an entry that `cpu` can use is of another space than the root under its tag.
    fn check_tags(&mut self, cpu: usize, holder: usize, entry: &Entry) {
        if entry.is(Entry::GLOBAL) {
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
