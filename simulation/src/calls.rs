//! Functions that a kernel calls on other CPUs and waits for (Linux: `smp_call_function_many`), as `membarrier` does. They do
//! nothing: an interrupt arrives and is acknowledged.

use core::{cell::Cell, ops::Range};

use lookaside::platform::{CpuId, Ordering, Targets, Word as _};
use lookaside_machine::timed::{self, Arena, Word};

use crate::line::Line;

/// The calls on one CPU.
#[derive(Debug)]
struct Target<'a> {
    /// How many were requested, and how many it has acknowledged.
    words: &'a [Line; 2],
    /// Whether one is requested and not acknowledged. It takes no time to know, as the vector of the interrupt says it.
    is_pending: Cell<bool>,
}

/// The calls on all CPUs.
#[derive(Debug)]
pub(crate) struct Calls<'a>(Vec<Target<'a>>);

impl<'a> Calls<'a> {
    pub(crate) fn new(arena: &'a Arena, cpus: usize) -> Self {
        let line = || Line(Word::ZERO);
        let target = |_| Target { words: arena.put([line(), line()]), is_pending: Cell::default() };
        Self((0..cpus).map(target).collect())
    }

    /// Interrupts these CPUs but for this one, and waits until each has answered.
    pub(crate) fn call(&self, cpus: Range<usize>) {
        let me = timed::cpu().index();
        let others = || cpus.clone().filter(|&cpu| cpu != me && cpu < self.0.len());
        let sent: Vec<_> = others()
            .map(|cpu| {
                // Pairs with the load of `answer`: who is interrupted by this finds the number.
                let number = self.0[cpu].words[0].0.fetch_add(1, Ordering::AcqRel) + 1;
                self.0[cpu].is_pending.set(true);
                (cpu, number)
            })
            .collect();
        for some in sent.chunk_by(|a, b| a.0 / 32 == b.0 / 32) {
            let first = some[0].0 / 32 * 32;
            let mask = some.iter().fold(0, |mask, (cpu, _)| mask | 1 << (cpu - first));
            timed::send_ipi(Targets { first: CpuId(first as u32), mask });
        }
        for (cpu, number) in sent {
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
