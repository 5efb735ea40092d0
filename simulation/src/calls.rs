//! Functions that a kernel has other CPUs call, of which it waits for each: what `membarrier` asks of CPUs, and who changes
//! what others read in kernel code. They do nothing but come and be answered.

use core::{cell::Cell, ops::Range};

use lookaside::platform::{CpuId, Ordering, Targets, Word as _};
use lookaside_machine::timed::{self, Arena, Word};

/// A word in a cache line of its own.
#[repr(align(64))]
#[derive(Debug)]
struct Line(Word);

/// What one CPU is asked.
#[derive(Debug)]
struct Asked<'a> {
    /// How often it was asked, and how often it has answered.
    words: &'a [Line; 2],
    /// Whether it was asked and has not answered: known for nothing, as the vector of the interrupt says it.
    is_pending: Cell<bool>,
}

/// What all CPUs are asked.
#[derive(Debug)]
pub(crate) struct Calls<'a>(Vec<Asked<'a>>);

impl<'a> Calls<'a> {
    pub(crate) fn new(arena: &'a Arena, cpus: usize) -> Self {
        let line = || Line(Word::ZERO);
        let asked = |_| Asked { words: arena.put([line(), line()]), is_pending: Cell::default() };
        Self((0..cpus).map(asked).collect())
    }

    /// Interrupts these CPUs but for this one, and waits until each has answered.
    pub(crate) fn call(&self, cpus: Range<usize>) {
        let me = timed::cpu().index();
        let others = || cpus.clone().filter(|&cpu| cpu != me && cpu < self.0.len());
        let asked: Vec<_> = others()
            .map(|cpu| {
                // Pairs with the load of `answer`: who is interrupted by this finds the number.
                let number = self.0[cpu].words[0].0.fetch_add(1, Ordering::AcqRel) + 1;
                self.0[cpu].is_pending.set(true);
                (cpu, number)
            })
            .collect();
        for some in asked.chunk_by(|a, b| a.0 / 32 == b.0 / 32) {
            let first = some[0].0 / 32 * 32;
            let mask = some.iter().fold(0, |mask, (cpu, _)| mask | 1 << (cpu - first));
            timed::send_ipi(Targets { first: CpuId(first as u32), mask });
        }
        for (cpu, number) in asked {
            // Pairs with the store of `answer`.
            while self.0[cpu].words[1].0.load(Ordering::Acquire) < number {
                timed::relax();
            }
        }
    }

    /// What this CPU does when it is interrupted.
    pub(crate) fn answer(&self) {
        let mine = &self.0[timed::cpu().index()];
        if mine.is_pending.replace(false) {
            let number = mine.words[0].0.load(Ordering::Acquire);
            mine.words[1].0.store(number, Ordering::Release);
        }
    }
}
