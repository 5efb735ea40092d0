//! Flushes that are begun with interrupts off, and waited for with interrupts on, perhaps on another CPU.

use lookaside::{CurrentCpu, KernelGather, arch::Mmu, flush::PendingFlush, platform::CpuId};
use lookaside_machine::adversary::{Platform, irq_off, irq_on, oracle};

use super::{LONGEST, Strategy, World, claims::Removals, freed::Freed};

/// A flush that was begun, and what was removed for it.
pub(super) enum Begun<M: Mmu + 'static, T: Strategy<Platform<M>>> {
    Space {
        flush: PendingFlush<'static, 'static, Platform<M>, T, Freed>,
        number: usize,
        removals: Removals,
    },
    Kernel {
        flush: PendingFlush<'static, 'static, Platform<M>, T>,
        pages: &'static [usize],
    },
}

impl<M: Mmu + 'static, T: Strategy<Platform<M>>> World<M, T> {
    pub(super) fn begin_unmap(&'static self, number: usize) -> Begun<M, T> {
        let (gather, removals) = self.take_page(number, 0);
        Begun::Space { flush: self.tlb.begin_flush(&(), gather), number, removals }
    }

    pub(super) fn begin_free_table(&'static self, number: usize) -> Begun<M, T> {
        let (gather, removals) = self.take_table(number, false);
        Begun::Space { flush: self.tlb.begin_flush(&(), gather), number, removals }
    }

    pub(super) fn begin_unmap_kernel(&'static self, pages: &'static [usize]) -> Begun<M, T> {
        let mut gather = KernelGather::new(&self.tlb);
        self.take_kernel(&mut gather, pages);
        Begun::Kernel { flush: self.tlb.begin_flush_kernel(&(), gather), pages }
    }

    /// Keeps a flush for the act that waits for it.
    pub(super) fn keep(&'static self, ordinal: usize, begun: Begun<M, T>) {
        self.put(ordinal, Some(begun));
    }

    /// There is nothing to wait for: the space is gone.
    pub(super) fn begin_nothing(&'static self, ordinal: usize) {
        self.put(ordinal, None);
    }

    fn put(&'static self, ordinal: usize, begun: Option<Begun<M, T>>) {
        // SAFETY: only this CPU uses it. What an execution before has left there needs no drop.
        unsafe { self.begun[ordinal].get().write(begun) };
    }

    /// The flush that the act of this number is to end: the first that this CPU has begun, and not ended.
    pub(super) fn first_begun(&'static self, ordinal: usize) -> Option<Begun<M, T>> {
        let (cpu, index) = (CpuId((ordinal / LONGEST) as u32), ordinal % LONGEST);
        let acts = &self.cpus[cpu.index()];
        let earlier = acts[..index].iter().filter(|act| act.ends()).count();
        let begins = acts.iter().enumerate().filter(|(_, act)| act.begins());
        let (begin, _) = begins.into_iter().nth(earlier)?;
        // SAFETY: as in `put`.
        unsafe { (*self.begun[ordinal - index + begin].get()).take() }
    }

    /// Drops a flush: its frames are lost, and nothing is claimed.
    pub(super) fn drop_begun(
        &'static self,
        this_cpu: &CurrentCpu<'_, Platform<M>, T>,
        begun: Begun<M, T>,
    ) {
        match begun {
            Begun::Space { flush, number, .. } => {
                drop(flush);
                self.leave_space(number);
            }
            Begun::Kernel { flush, .. } => {
                drop(flush);
                // Nothing to be flushed completes nothing.
                let _ = this_cpu.flush_kernel(KernelGather::new(&self.tlb));
            }
        }
    }

    /// The wait, on any CPU.
    pub(super) fn wait_for(&'static self, begun: Begun<M, T>) {
        match begun {
            Begun::Space { flush, number, removals } => {
                irq_on();
                let flushed = flush.wait();
                irq_off();
                flushed.frames.pages().for_each(oracle::frame_freed);
                flushed.frames.tables().for_each(oracle::table_freed);
                self.claim(number, removals, &flushed);
                self.leave_space(number);
            }
            Begun::Kernel { flush, pages } => {
                irq_on();
                let _ = flush.wait();
                irq_off();
                self.claim_kernel(pages);
            }
        }
    }
}
