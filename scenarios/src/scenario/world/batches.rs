//! Batches: flushes of several spaces that are completed together, perhaps on another CPU.

use lookaside::{
    CurrentCpu, Gather,
    arch::Mmu,
    flush::Batch,
    platform::{Ordering, Word as _},
};
use lookaside_machine::adversary::{Platform, Word, oracle, relax};

use super::{Strategy, World, begun::Begun, claims::Removals, freed::Freed};

/// What one CPU has begun, and another completes.
pub(super) enum Pending<M: Mmu + 'static, T: Strategy<Platform<M>>> {
    Batch(Box<Unflushed<Platform<M>>>),
    Flush(Box<Begun<M, T>>),
    Gather(Box<Carried<Platform<M>>>),
}

/// A gather of one page that is not flushed yet, its space, and what was removed for it.
pub(super) struct Carried<P: lookaside::Platform<Word = Word> + 'static> {
    pub(super) number: usize,
    pub(super) taken: (Gather<'static, P, Freed>, Removals),
}

/// A batch, and what was removed for it.
pub(super) struct Unflushed<P: lookaside::Platform<Word = Word>> {
    batch: Batch<'static, P, Freed>,
    removals: [(usize, Removals); 2],
}

impl<M: Mmu + 'static, T: Strategy<Platform<M>>> World<M, T> {
    /// An empty batch for the act of this number.
    pub(super) fn new_batch(&'static self, ordinal: usize) -> Batch<'static, Platform<M>, Freed> {
        // SAFETY: the word is that act's alone, which is done once in each execution, and what an execution
        // has left behind is not used by the next.
        let words = core::slice::from_mut(unsafe { &mut *self.batch_words[ordinal].get() });
        Batch::holding(&self.tlb, words, Freed::default()).expect("room for the CPUs")
    }

    /// Begins the batch of the act of this number.
    pub(super) fn begin_batch(
        &'static self,
        this_cpu: &CurrentCpu<'_, Platform<M>, T>,
        ordinal: usize,
        spaces: [usize; 2],
    ) -> Unflushed<Platform<M>> {
        let mut batch = self.new_batch(ordinal);
        let mut removals = spaces.map(|number| (number, Removals::default()));
        for (number, removals) in &mut removals {
            let mut gather = Gather::new(self.space(*number));
            let page = self.take(&mut gather, *number, 0, removals);
            this_cpu.defer(gather, &mut batch);
            page.into_iter().for_each(|page| batch.hold_page(page));
        }
        Unflushed { batch, removals }
    }

    pub(super) fn complete_batch(
        &self,
        this_cpu: &CurrentCpu<'_, Platform<M>, T>,
        unflushed: Unflushed<Platform<M>>,
    ) {
        let Unflushed { batch, removals } = unflushed;
        let flushed = this_cpu.flush_batch(batch);
        flushed.frames.pages().for_each(oracle::frame_freed);
        for (number, removals) in removals {
            self.claim(number, removals, &flushed);
        }
    }

    /// The thread leaves this CPU.
    pub(super) fn hand_over(
        &'static self,
        this_cpu: &CurrentCpu<'_, Platform<M>, T>,
        ordinal: usize,
        spaces: [usize; 2],
    ) {
        let unflushed = self.begin_batch(this_cpu, ordinal, spaces);
        self.tell_of(Some(Pending::Batch(Box::new(unflushed))));
        self.rest(this_cpu);
    }

    /// The thread leaves this CPU, and there is nothing to complete: a space is gone.
    pub(super) fn hand_nothing_over(&'static self) {
        self.tell_of(None);
    }

    /// Signals the CPU that goes on.
    pub(super) fn tell_of(&'static self, pending: Option<Pending<M, T>>) {
        // SAFETY: the CPU that takes it waits for the signal. What an execution before has left there
        // needs no drop.
        unsafe { self.pending.get().write(pending) };
        self.signalled.store(1, Ordering::Release); // Release: with the batch.
    }

    /// The thread goes on here.
    pub(super) fn take_over(&'static self, this_cpu: &CurrentCpu<'_, Platform<M>, T>) {
        // Acquire: with the batch.
        while self.signalled.load(Ordering::Acquire) == 0 {
            this_cpu.handle_ipi();
            relax();
        }
        // SAFETY: the CPU that put it there does not use it any more.
        match unsafe { (*self.pending.get()).take() } {
            Some(Pending::Batch(unflushed)) => {
                let [(one, _), (other, _)] = unflushed.removals;
                self.complete_batch(this_cpu, *unflushed);
                self.leave_space(one);
                if other != one {
                    self.leave_space(other);
                }
            }
            Some(Pending::Flush(begun)) => self.wait_for(*begun),
            Some(Pending::Gather(carried)) => {
                let Carried { number, taken } = *carried;
                self.flush_page(this_cpu, number, taken);
                self.leave_space(number);
            }
            None => {}
        }
    }
}
