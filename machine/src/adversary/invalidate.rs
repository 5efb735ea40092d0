//! What an invalidation does to what the CPUs of the machine hold. What it names is said by
//! [`lookaside_hardware`], for this machine and others.
//!
//! Two kinds of invalidation exist. An *immediate* one has happened when the instruction is over
//! (`INVLPG`, a write of `CR3`, `SFENCE.VMA`). A *delayed* one (`TLBI`, `INVLPGB`, `SINVAL.VMA`)
//! only dooms the entries it names: they stay usable until the CPU that issued it executes the
//! instruction that completes it. An entry that can be derived anew while it is doomed is as good
//! as one that was never doomed: the walk may have begun after the invalidation arrived.

use lookaside_hardware::{Cached, Invalidation};

use super::{config::Arch, deviations::Deviations, hash::mix, machine::Machine, tlb::Entry};

impl Entry {
    /// What an invalidation looks at, on a machine whose levels resolve so many bits.
    #[inline]
    pub(crate) fn cached(&self, index_bits: u32) -> Cached {
        let shift = u32::from(self.level) * index_bits;
        let first = self.vpn << shift;
        Cached {
            tag: self.tag,
            global: self.is(Self::GLOBAL),
            pages: (first, first + ((1 << shift) - 1)),
            level: self.level,
            table: self.is(Self::TABLE),
        }
    }
}

impl super::cpu::Via {
    /// What an invalidation looks at of the translation that an access went through. Its level is not known
    /// any more: an invalidation that hints at one counts as one that hits it.
    pub(crate) fn is_named_by(self, what: &Invalidation) -> bool {
        let pages = (self.page, self.page);
        let cached = Cached { tag: self.tag, global: self.global, pages, level: 0, table: false };
        Invalidation { level: None, ..*what }.names(&cached)
    }
}

impl super::cpu::Pending {
    pub(crate) fn hash(&self) -> u64 {
        let what = &self.what;
        let flags = u64::from(self.everywhere)
            | u64::from(what.globals) << 1
            | (what.partial as u64) << 2
            | what.tag.map_or(0, |tag| u64::from(tag) | 1 << 16) << 4
            | what.level.map_or(0, |level| u64::from(level) | 1 << 8) << 24;
        mix(mix(what.pages.0, what.pages.1), mix(flags, what.stride))
    }
}

impl Machine {
    /// Removes at once, on one CPU, what `what` names; then walks begin again.
    pub(crate) fn invalidate_now(&mut self, cpu: usize, what: Invalidation) {
        let bits = self.config.index_bits;
        let removed = self.remove(cpu, |entry| what.names(&entry.cached(bits)));
        if self.forget_absent(cpu, |entry| what.names(&entry.cached(bits))) || removed {
            self.walk_all(cpu);
        }
    }

    /// Dooms what `what` names, on one CPU or on all.
    pub(crate) fn doom(&mut self, by: usize, what: Invalidation, everywhere: bool) {
        let pending = super::cpu::Pending { what, everywhere };
        if !self.cpus[by].pending.contains(&pending) {
            self.cpus[by].pending.push(pending);
        }
        let bits = self.config.index_bits;
        let mut hit = 0u64;
        let mut fresh = Vec::new();
        for cpu in 0..self.cpus.len() {
            if (!everywhere && cpu != by) || self.is_deaf(cpu) {
                continue;
            }
            for index in 0..self.cpus[cpu].tlb.len() {
                let entry = self.cpus[cpu].tlb[index];
                if what.names(&entry.cached(bits)) {
                    let mut doomed = entry;
                    if everywhere {
                        doomed.doomed |= 1 << by;
                    } else {
                        doomed.flags |= Entry::DOOMED_HERE;
                    }
                    if doomed != entry {
                        self.amend(cpu, index, doomed);
                        if !self.replaced.is_empty() {
                            fresh.push((cpu, index));
                        }
                    }
                    hit |= 1 << cpu;
                }
            }
        }
        for cpu in 0..self.cpus.len() {
            // A CPU that can borrow the entries of another may derive from those, too.
            if hit & 1 << cpu != 0 || (hit != 0 && self.config.cnp) {
                self.walk_all(cpu);
            }
        }
        if !self.replaced.is_empty() {
            self.spare(by, everywhere, &fresh);
        }
    }

    /// Completes the invalidations that `by` has issued: those on itself, and, if asked to, those
    /// on all CPUs.
    pub(crate) fn complete(&mut self, by: usize, everywhere: bool) {
        if self.cpus[by].pending.is_empty() {
            return;
        }
        self.linger(by, everywhere);
        self.remove(by, |entry| entry.is(Entry::DOOMED_HERE));
        self.complete_absent(by);
        if everywhere {
            if self.config.deviations.contains(Deviations::LATE_ACCESSES) {
                self.finish_late(by);
            } else {
                self.finish_accesses(by);
            }
            for cpu in 0..self.cpus.len() {
                self.remove(cpu, |entry| entry.doomed & 1 << by != 0);
            }
            self.cpus[by].pending.clear();
        } else {
            self.cpus[by].pending.retain(|pending| pending.everywhere);
        }
    }

    /// Waits for what the pair before this one should have waited for, and leaves this one's to the next.
    fn finish_late(&mut self, by: usize) {
        let cpu = &mut self.cpus[by];
        core::mem::swap(&mut cpu.pending, &mut cpu.late_accesses);
        self.finish_accesses(by);
        let cpu = &mut self.cpus[by];
        core::mem::swap(&mut cpu.pending, &mut cpu.late_accesses);
        cpu.late_accesses.clone_from(&cpu.pending);
        cpu.late_accesses.retain(|pending| pending.everywhere);
    }

    /// Remembers what a completion is about to remove from the issuer's own entries.
    fn linger(&mut self, by: usize, everywhere: bool) {
        if self.config.arch != Arch::Arm || self.config.ets2 {
            return;
        }
        let cpu = &mut self.cpus[by];
        for entry in &cpu.tlb {
            let goes = entry.is(Entry::DOOMED_HERE) || (everywhere && entry.doomed & 1 << by != 0);
            if goes && !entry.is(Entry::TABLE) && !cpu.lingering.contains(entry) {
                cpu.lingering.push(*entry);
            }
        }
    }

    /// What of the invalidations that doomed `parent` also dooms `child`, which a walk derives
    /// from it: a walk from a doomed partial walk began before the invalidation took effect.
    pub(crate) fn inherit_doom(&self, cpu: usize, parent: &Entry, child: &mut Entry) {
        let bits = self.config.index_bits;
        let mut issuers = parent.doomed;
        while issuers != 0 {
            let by = issuers.trailing_zeros() as usize;
            issuers &= issuers - 1;
            let named = |p: &super::cpu::Pending| p.everywhere && p.what.names(&child.cached(bits));
            if self.cpus[by].pending.iter().any(named) {
                child.doomed |= 1 << by;
            }
        }
        if parent.is(Entry::DOOMED_HERE) {
            let named =
                |p: &super::cpu::Pending| !p.everywhere && p.what.names(&child.cached(bits));
            if self.cpus[cpu].pending.iter().any(named) {
                child.flags |= Entry::DOOMED_HERE;
            }
        }
    }
}
