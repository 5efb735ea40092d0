//! Revocation: a cached translation is revoked if it differs from what memory holds.

use super::super::{
    block, config::Arch, flags, format::Frame, machine::Machine, op::Address, tlb::Entry,
    violation::Rule,
};

/// A descriptor that memory holds.
struct Present {
    level: u8,
    descriptor: u64,
    /// Hardware writes its accessed and dirty bits, so that they are not what makes it stale.
    managed: bool,
}

impl Present {
    /// Whether a cached descriptor equals the one in memory.
    fn allows(&self, arch: Arch, entry: &Entry) -> bool {
        self.level == entry.level
            && (self.descriptor == entry.descriptor
                || (self.managed && flags::alike(arch, self.descriptor, entry.descriptor)))
    }
}

impl Machine {
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

    /// The descriptors of `va` in memory, in the space of a root, as the CPU that runs sees them.
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

    /// The translations of one page by the entries of its block: any of them may have been walked to.
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

    /// Marks the cached entries of a space for `va` that differ from memory.
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
                    let up = self.down & 1 << cpu == 0;
                    if flags & Entry::KERNEL != 0 && entry.is(Entry::GLOBAL) && up {
                        let why = "holds under every tag, and the kernel runs";
                        self.fail_entry(Rule::StaleTranslation, cpu, cpu, &entry, why);
                    }
                }
            }
        }
    }
}
