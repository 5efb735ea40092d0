//! Flushes that are begun with interrupts off, and waited for with interrupts on, perhaps on another CPU.

use lookaside::{
    Gather, KernelGather,
    arch::Mmu,
    flush::PendingFlush,
    platform::{CpuId, Ordering, Word as _},
};
use lookaside_machine::adversary::{Platform, irq_off, irq_on, oracle};

use super::{
    LONGEST, Strategy, World,
    cell::{KERNEL, page_at},
    claims::Removals,
    freed::Freed,
};
use crate::scenario::act::Act;

/// A flush that was begun, and what was removed for it.
pub(super) enum Begun<M: Mmu + 'static, T: Strategy<Platform<M>>> {
    Space {
        flush: PendingFlush<'static, 'static, Platform<M>, T, Freed>,
        number: usize,
        removals: Removals,
    },
    Kernel(PendingFlush<'static, 'static, Platform<M>, T>),
}

impl<M: Mmu + 'static, T: Strategy<Platform<M>>> World<M, T> {
    pub(super) fn begin_unmap(&'static self, number: usize) -> Begun<M, T> {
        let mut removals = Removals::default();
        let mut gather = Gather::holding(self.space(number), Freed::default());
        if let Some(page) = self.take(&mut gather, number, 0, &mut removals) {
            gather.hold_page(page);
        }
        Begun::Space { flush: self.tlb.begin_flush(&(), gather), number, removals }
    }

    pub(super) fn begin_free_table(&'static self, number: usize) -> Begun<M, T> {
        let (gather, removals) = self.take_table(number, false);
        Begun::Space { flush: self.tlb.begin_flush(&(), gather), number, removals }
    }

    pub(super) fn begin_unmap_kernel(&'static self) -> Begun<M, T> {
        // Relaxed: the flush makes it visible.
        self.kernel.expect("a kernel").store(0, Ordering::Relaxed);
        let mut gather = KernelGather::new(&self.tlb);
        gather.revoke(page_at(KERNEL));
        Begun::Kernel(self.tlb.begin_flush_kernel(&(), gather))
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

    /// Waits for the flush that the act of this number is to wait for.
    pub(super) fn finish(&'static self, ordinal: usize) {
        let (cpu, index) = (CpuId((ordinal / LONGEST) as u32), ordinal % LONGEST);
        let acts = &self.cpus[cpu.index()];
        let earlier = acts[..index].iter().filter(|act| **act == Act::Finish).count();
        let begins = acts.iter().enumerate().filter(|(_, act)| act.begins());
        let Some((begin, _)) = begins.into_iter().nth(earlier) else { return };
        // SAFETY: as in `put`.
        if let Some(begun) = unsafe { (*self.begun[ordinal - index + begin].get()).take() } {
            self.wait_for(begun);
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
            Begun::Kernel(flush) => {
                irq_on();
                let _ = flush.wait();
                irq_off();
                oracle::kernel_revoked(KERNEL);
            }
        }
    }
}
