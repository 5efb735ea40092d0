//! Changes of tables, and their flushes.

use lookaside::{
    Gather, KernelGather, VaRange,
    arch::SeparateRoots,
    flush::{Acknowledged, Batch, Flushed},
    platform::{Ordering, Word as _},
    tags::Tags,
};
use lookaside_machine::adversary::{Access, Platform, oracle, tables};

use super::world::{At, KERNEL, KERNEL_FRAME, PAGES, TRAP, TRAP_FRAME, World};

impl<M: SeparateRoots + 'static, T: Tags<Platform<M>> + 'static> World<M, T> {
    pub(super) fn unmap(&self, this_cpu: At<'_, M, T>, number: usize, page: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        // Release: who finds the entry empty knows of the gather.
        pair.entries[page].store(0, Ordering::Release);
        gather.revoke(page_at(PAGES[page]));
        let _: Flushed = this_cpu.flush(gather);
        oracle::frame_freed(pair.frames[page]);
    }

    pub(super) fn clear(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        for entry in pair.entries {
            entry.store(0, Ordering::Release); // Release: as above.
        }
        gather.revoke_everything();
        let _: Flushed = this_cpu.flush(gather);
        pair.frames.into_iter().for_each(oracle::frame_freed);
    }

    pub(super) fn unmap_early(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        pair.entries[0].store(0, Ordering::Release); // Release: as above.
        gather.revoke(page_at(PAGES[0]));
        let _: Acknowledged = this_cpu.flush_early(gather);
        oracle::frame_quiet(pair.frames[0]);
    }

    pub(super) fn batch(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        // SAFETY: a page goes once, so one CPU does this once in each execution, and what an execution has left behind
        // is not used by the next.
        let words = core::slice::from_mut(unsafe { &mut *self.batch_words[number].get() });
        let mut batch = Batch::new(&self.tlb, words).expect("room for the CPUs");
        for (entry, va) in pair.entries.into_iter().zip(PAGES) {
            let mut gather = Gather::new(pair.space());
            entry.store(0, Ordering::Release); // Release: as above.
            gather.revoke(page_at(va));
            this_cpu.defer(gather, &mut batch);
        }
        let _: Flushed = this_cpu.flush_batch(batch);
        pair.frames.into_iter().for_each(oracle::frame_freed);
    }

    pub(super) fn unmap_kernel(&self, this_cpu: At<'_, M, T>) {
        // Relaxed: the flush makes it visible.
        self.kernel.expect("a page of the kernel's").store(0, Ordering::Relaxed);
        let mut gather = KernelGather::new(&self.tlb);
        gather.revoke(page_at(KERNEL));
        let _ = this_cpu.flush_kernel(gather);
        oracle::kernel_revoked(KERNEL);
        oracle::frame_freed(KERNEL_FRAME);
    }

    pub(super) fn unmap_trap(&self, this_cpu: At<'_, M, T>, table: bool) {
        let trap = self.trap.expect("a trap frame");
        let mut gather = KernelGather::new(&self.tlb);
        // Relaxed: the flush makes it visible.
        if table {
            let spaces = self.pairs.iter().flat_map(|pair| pair.roots.iter().copied());
            for root in spaces.chain([trap.root]) {
                tables::entry(root, TRAP, 1).store(0, Ordering::Relaxed);
            }
            gather.unlink_table(page_at(TRAP));
        } else {
            trap.entry.store(0, Ordering::Relaxed);
            gather.revoke(page_at(TRAP));
        }
        let _ = this_cpu.flush_kernel(gather);
        oracle::kernel_revoked(TRAP);
        oracle::frame_freed(TRAP_FRAME);
        if table {
            oracle::table_freed(trap.table);
        }
    }

    pub(super) fn protect(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        // Release: as above.
        pair.entries[0].store(tables::page(pair.frames[0], Access::READ), Ordering::Release);
        gather.revoke(page_at(PAGES[0]));
        let _: Flushed = this_cpu.flush(gather);
        for &root in &pair.roots {
            oracle::revoked(root, PAGES[0]);
        }
    }

    pub(super) fn free_table(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        for &root in &pair.roots {
            // Release: as above.
            tables::word(root, 0).store(0, Ordering::Release);
        }
        gather.unlink_table(VaRange::new(PAGES[0], 2 * 4096, 12).expect("two pages"));
        let _: Flushed = this_cpu.flush(gather);
        pair.frames.into_iter().for_each(oracle::frame_freed);
        oracle::table_freed(pair.last_table);
    }
}

fn page_at(va: u64) -> VaRange {
    VaRange::new(va, 4096, 12).expect("one page")
}
