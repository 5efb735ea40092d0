//! Descriptors that were invalid when hardware read them, and what it may remember of that.
//!
//! RISC-V may cache that nothing is mapped (R2), under the tag of the walk, until a fence names the
//! address. Arm caches no invalid descriptor, but a walk may have begun before the descriptor became valid,
//! and its fault is taken afterwards (A9): it is forgotten when the context is synchronised, so a fault does
//! not come twice. x86 does neither.
//!
//! Absent entries are a set beside the TLB, which the oracle does not check, since an access that meets one
//! faults. An address-specific fence removes it at any level: it is not known whether it will be a leaf
//! that takes the place of what was invalid.

use lookaside_hardware::Invalidation;

use super::{config::Arch, hash::mix, machine::Machine, tlb::Entry};

/// Tells the hashes of what is remembered from those of entries.
const ABSENT: u64 = 0xab5e;

impl Machine {
    /// A walk of `cpu` has read an invalid descriptor.
    pub(super) fn note_absent(&mut self, cpu: usize, entry: Entry) {
        if !self.cpus[cpu].absent.contains(&entry) {
            self.tlb_hash ^= mix(entry.hash(cpu), ABSENT);
            self.cpus[cpu].absent.push(entry);
        }
    }

    /// `cpu` forgets what `forget` names; returns whether there was any.
    pub(super) fn forget_absent(
        &mut self,
        cpu: usize,
        mut forget: impl FnMut(&Entry) -> bool,
    ) -> bool {
        let hash = &mut self.tlb_hash;
        let before = self.cpus[cpu].absent.len();
        self.cpus[cpu].absent.retain(|entry| {
            let keep = !forget(entry);
            if !keep {
                *hash ^= mix(entry.hash(cpu), ABSENT);
            }
            keep
        });
        self.cpus[cpu].absent.len() != before
    }

    /// `cpu` forgets what its delayed invalidations have named, which are complete now.
    pub(super) fn complete_absent(&mut self, cpu: usize) {
        if self.cpus[cpu].absent.is_empty() || self.config.arch == Arch::Arm {
            return;
        }
        let bits = self.config.index_bits;
        let named: Vec<Invalidation> =
            self.cpus[cpu].pending.iter().map(|pending| pending.what).collect();
        if self.forget_absent(cpu, |entry| named.iter().any(|what| what.names(&entry.cached(bits))))
        {
            self.walk_all(cpu);
        }
    }

    /// The context of an Arm CPU is synchronised: walks that have begun before are of no effect.
    pub(super) fn synchronise_absent(&mut self, cpu: usize) {
        if self.config.arch == Arch::Arm && self.forget_absent(cpu, |_| true) {
            self.walk_all(cpu);
        }
    }

    /// Whether an access of `cpu` to `page` may fault because nothing was mapped there before.
    pub(super) fn remembers_absence(&self, cpu: usize, page: u64) -> bool {
        let state = &self.cpus[cpu];
        state.absent.iter().any(|entry| {
            entry.covers(page, self.config.index_bits)
                && state.live.iter().any(|live| Self::usable(live, cpu, cpu, entry))
        })
    }
}
