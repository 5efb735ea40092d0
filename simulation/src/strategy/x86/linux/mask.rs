//! A set of CPUs in the memory of the machine.

use lookaside::platform::{CpuId, Ordering, Targets, Word as _};
use lookaside_machine::timed::{self, Arena, Word};

/// The number of CPUs in one word of a mask.
const BITS: u32 = u64::BITS;

/// A set of CPUs in the memory of the machine.
#[derive(Clone, Copy)]
pub(super) struct Mask<'a>(&'a [Word]);

impl<'a> Mask<'a> {
    /// An empty set, in cache lines of its own.
    pub(super) fn new(arena: &'a Arena, cpus: usize, name: &'static str) -> Self {
        let words = arena.fill(cpus.div_ceil(BITS as usize), |_| Word::ZERO);
        timed::name(words, name);
        Self(words)
    }

    fn place(self, cpu: CpuId) -> (&'a Word, u64) {
        (&self.0[cpu.index() / BITS as usize], 1 << (cpu.0 % BITS))
    }

    pub(super) fn has(self, cpu: CpuId) -> bool {
        let (word, bit) = self.place(cpu);
        word.load(Ordering::Relaxed) & bit != 0
    }

    pub(super) fn add(self, cpu: CpuId) {
        let (word, bit) = self.place(cpu);
        word.fetch_or(bit, Ordering::SeqCst);
    }

    pub(super) fn remove(self, cpu: CpuId) {
        let (word, bit) = self.place(cpu);
        word.fetch_and(!bit, Ordering::SeqCst);
    }

    /// How many members it has.
    pub(super) fn count(self) -> u32 {
        self.0.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// All members.
    pub(super) fn members(self) -> impl Iterator<Item = CpuId> {
        self.0.iter().zip(0..).flat_map(|(word, group)| {
            let mask = word.load(Ordering::SeqCst);
            Targets { first: CpuId(group * BITS), mask }.iter().collect::<Vec<_>>()
        })
    }

    /// All members but one, in groups of one word each.
    pub(super) fn others(self, but: CpuId) -> impl Iterator<Item = Targets> {
        self.0.iter().zip(0..).filter_map(move |(word, group)| {
            let first = CpuId(group * BITS);
            let mut mask = word.load(Ordering::SeqCst);
            if but.0 / BITS == group {
                mask &= !(1 << (but.0 % BITS));
            }
            (mask != 0).then_some(Targets { first, mask })
        })
    }
}

/// All CPUs but one, in groups.
pub(super) fn all_others(cpus: usize, but: CpuId) -> impl Iterator<Item = Targets> {
    (0..cpus as u32).step_by(BITS as usize).filter_map(move |first| {
        let count = (cpus as u32 - first).min(BITS);
        let mut mask = u64::MAX >> (BITS - count);
        if (first..first + count).contains(&but.0) {
            mask &= !(1 << (but.0 - first));
        }
        (mask != 0).then_some(Targets { first: CpuId(first), mask })
    })
}
