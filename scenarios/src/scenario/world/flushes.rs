//! The changes that a kernel makes to page tables, and their claims to the oracle.

use lookaside::{
    CurrentCpu, Gather, KernelGather,
    arch::Mmu,
    flush::{Acknowledged, Flags, Permissions},
    platform::{CpuId, Ordering, Word as _},
};
use lookaside_machine::adversary::{
    Access, Frame, Platform, access, access_store, irq_off, irq_on, oracle, relax, saw, tables,
};

use super::{
    Strategy, World,
    cell::{
        FILLED, KERNEL, KERNEL_FRAMES, Kernel, PAGES, SLOTS, SpaceCell, VAS, all_pages, large,
        page_at, whole_kernel,
    },
    claims::{Pte, Removals, Writers},
    freed::{Freed, Table},
};

use crate::scenario::act::Act;

type At<'h, M, T> = &'h CurrentCpu<'h, Platform<M>, T>;

/// The slot that is filled.
const FILLED_SLOT: usize = 3;

/// Fails unless a frame is read as it is, after a flush that is complete.
fn check_contents(frame: Frame) {
    let contents = tables::contents(frame);
    // Relaxed: the flush is complete, and so is every access through the entries that it removed.
    let written = contents.load(Ordering::Relaxed);
    oracle::check(written == contents.peek(), "what is written out is not what was stored");
}

impl<M: Mmu + 'static, T: Strategy<Platform<M>>> World<M, T> {
    /// Empties an entry, and gathers what that revokes.
    pub(super) fn take_page(
        &self,
        number: usize,
        slot: usize,
    ) -> (Gather<'_, Platform<M>, Freed>, Removals) {
        let mut removals = Removals::default();
        let mut gather = Gather::holding(self.space(number), Freed::default());
        if let Some(page) = self.take(&mut gather, number, slot, &mut removals) {
            gather.hold_page(page);
        }
        (gather, removals)
    }

    pub(super) fn unmap(&self, this_cpu: At<'_, M, T>, number: usize, slot: usize) {
        self.flush_page(this_cpu, number, self.take_page(number, slot));
    }

    /// Flushes what [`Self::take_page`] has gathered, and frees the page.
    pub(super) fn flush_page(
        &self,
        this_cpu: At<'_, M, T>,
        number: usize,
        (gather, removals): (Gather<'_, Platform<M>, Freed>, Removals),
    ) {
        let flushed = this_cpu.flush(gather);
        flushed.frames.pages().for_each(oracle::frame_freed);
        self.claim(number, removals, &flushed);
    }

    pub(super) fn swap_out(&self, this_cpu: At<'_, M, T>, number: usize) {
        let (gather, removals) = self.take_page(number, 0);
        let flushed = this_cpu.flush(gather);
        for frame in flushed.frames.pages() {
            if self.spaces[number].frames.contains(&frame) {
                check_contents(frame);
            }
            oracle::frame_freed(frame);
        }
        self.claim(number, removals, &flushed);
    }

    pub(super) fn unmap_early(&self, this_cpu: At<'_, M, T>, number: usize) {
        let mut gather = Gather::holding(self.space(number), Freed::default());
        if let Some(page) = self.take(&mut gather, number, 0, &mut Removals::default()) {
            gather.hold_page(page);
        }
        let acknowledged: Acknowledged<Freed> = this_cpu.flush_early(gather);
        acknowledged.frames.pages().for_each(oracle::frame_quiet);
    }

    pub(super) fn abandon(&self, number: usize, slot: usize) {
        let mut gather = Gather::new(self.space(number));
        let _ = self.take(&mut gather, number, slot, &mut Removals::default());
        drop(gather);
    }

    pub(super) fn free_table(&self, this_cpu: At<'_, M, T>, number: usize, all: bool) {
        let (gather, removals) = self.take_table(number, all);
        let flushed = this_cpu.flush(gather);
        flushed.frames.pages().for_each(oracle::frame_freed);
        flushed.frames.tables().for_each(oracle::table_freed);
        self.claim(number, removals, &flushed);
    }

    /// What is freed may be used as after a flush that is not early.
    pub(super) fn free_table_early(&self, this_cpu: At<'_, M, T>, number: usize) {
        let (gather, _) = self.take_table(number, false);
        let Acknowledged { frames, .. } = this_cpu.flush_early(gather);
        frames.pages().for_each(oracle::frame_freed);
        frames.tables().for_each(oracle::table_freed);
    }

    /// Unlinks the last-level table of a space, and gathers what that revokes.
    pub(super) fn take_table(
        &self,
        number: usize,
        all: bool,
    ) -> (Gather<'_, Platform<M>, Freed>, Removals) {
        let cell = &self.spaces[number];
        let mut gather = Gather::holding(self.space(number), Freed::default());
        // That of CPU 0 comes last: a CPU that finds it empty relies on all of them.
        for top in cell.tops().skip(1) {
            tables::entry(top, PAGES[0], 1).store(0, Ordering::Release); // Release: as below.
        }
        let entry = tables::entry(cell.root, PAGES[0], 1);
        let unlinked = match cell.takers {
            Writers::Once => {
                entry.store(0, Ordering::Release); // Release: a CPU that finds it empty sees the gather.
                true
            }
            _ => entry.swap(0, Ordering::AcqRel) != 0, // Acquire: the gather of the CPU that emptied it.
        };
        let mut removals = Removals::default();
        if unlinked {
            for slot in 0..SLOTS {
                let page = match cell.writers[slot] {
                    // Entries that no other act removes are removed with their table.
                    Writers::Once => tables::frame(cell.initial[slot]),
                    _ => self.take(&mut gather, number, slot, &mut removals),
                };
                if let Some(page) = page {
                    gather.hold_page(page);
                }
            }
        } else {
            gather.relies_on(all_pages());
        }
        if all {
            gather.revoke_everything();
        } else if unlinked {
            gather.unlink_table(all_pages());
        }
        if all || unlinked {
            removals = self.removals(number);
        }
        if unlinked {
            gather.hold_table(all_pages(), Table(cell.last_table));
        }
        (gather, removals)
    }

    pub(super) fn flush_all(&self, this_cpu: At<'_, M, T>, number: usize) {
        let mut gather = Gather::new(self.space(number));
        let removals = self.removals(number);
        gather.revoke_everything();
        let flushed = this_cpu.flush(gather);
        self.claim(number, removals, &flushed);
    }

    /// `mprotect` of pages that other CPUs may be unmapping.
    pub(super) fn protect(&self, this_cpu: At<'_, M, T>, number: usize, slots: &[usize]) {
        let mut removals = Removals::default();
        let mut gather = Gather::new(self.space(number));
        for &slot in slots {
            self.weaken(&mut gather, number, slot, &mut removals);
        }
        let flushed = this_cpu.flush(gather);
        self.claim(number, removals, &flushed);
    }

    pub(super) fn allow(&self, this_cpu: At<'_, M, T>, number: usize) {
        let mut gather = Gather::new(self.space(number));
        self.exchange(number, 0, |old| Some(tables::page(tables::frame(old)?, Access::WRITE)));
        gather.relax(page_at(PAGES[0]));
        let flushed = this_cpu.flush(gather);
        oracle::check(flushed.flags == Flags::default(), "nothing was found");
    }

    /// Maps a page where there is none.
    pub(super) fn fill(&self, this_cpu: At<'_, M, T>, number: usize, slot: usize, ordinal: usize) {
        let mut gather = Gather::new(self.space(number));
        let page = tables::page(self.fresh(ordinal), Access::WRITE);
        self.map(number, slot, page);
        gather.relax(page_at(VAS[slot]));
        let flushed = this_cpu.flush(gather);
        oracle::check(flushed.flags == Flags::default(), "nothing was found");
    }

    /// A store of user code, with the kernel's handler of faults.
    pub(super) fn retry(&self, cpu: CpuId, number: usize) {
        if access_store(PAGES[0], 1).is_some() || !self.runs_now(cpu, number) {
            return;
        }
        let entry = self.spaces[number].entries[0];
        let wanted = Permissions { write: true, ..Permissions::default() };
        if let Some(held) = self.was_spurious(number, PAGES[0], entry, wanted) {
            self.try_again(number, &|| access_store(PAGES[0], 1).is_some(), entry, held);
        }
    }

    /// The kernel's fault handler: whether the access can be repeated, and what permits it: the entry,
    /// and how often another was removed.
    fn was_spurious(
        &self,
        number: usize,
        va: u64,
        word: Pte,
        wanted: Permissions,
    ) -> Option<(u64, u64)> {
        irq_off();
        // Acquire: the removals before the entry that permits it.
        let entry = word.load(Ordering::Acquire);
        let serial = oracle::removals(word);
        let writable =
            tables::frame(entry).is_some_and(|frame| entry == tables::page(frame, Access::WRITE));
        let allowed = Permissions { read: entry != 0, write: writable, execute: false };
        let spurious =
            self.this_cpu().spurious_fault(self.space(number), page_at(va), wanted, allowed);
        irq_on();
        spurious.then_some((entry, serial))
    }

    /// A repeated access must not fault, unless the entry that permits it is removed in between.
    fn try_again(
        &self,
        number: usize,
        access: &dyn Fn() -> bool,
        word: Pte,
        (entry, serial): (u64, u64),
    ) {
        // A fault that itself removes the cached entry may have come before the entry permitted the access;
        // an entry that was cached since is removed by the second fault.
        let faulted = !(access()
            || lookaside::Platform::mmu(self.tlb.platform()).properties().faults_forget
                && access());
        // `free_table` unlinks the table from one top table after the other, and this CPU has any of them.
        let linked =
            self.spaces[number].tops().all(|top| tables::entry(top, PAGES[0], 1).peek() != 0);
        let same = word.peek() == entry && oracle::removals(word) == serial;
        oracle::check(!(faulted && same && linked), "the fault came again");
    }

    /// A load of user code from a page that another CPU maps, with the kernel's handler of faults. A CPU
    /// that keeps faulting after the page is mapped makes no progress.
    pub(super) fn touch(&self, cpu: CpuId, number: usize) {
        while !self.look(cpu, number) {
            relax();
        }
    }

    /// The same, once. Returns whether the page was mapped.
    pub(super) fn look(&self, cpu: CpuId, number: usize) -> bool {
        if access(FILLED).is_some() {
            return true;
        }
        let entry = self.spaces[number].entries[FILLED_SLOT];
        let wanted = Permissions { read: true, ..Permissions::default() };
        if self.runs_now(cpu, number)
            && let Some(held) = self.was_spurious(number, FILLED, entry, wanted)
        {
            saw("a fault that was spurious");
            self.try_again(number, &|| access(FILLED).is_some(), entry, held);
            return true;
        }
        false
    }

    /// `munmap` of pages that other CPUs may be unmapping as well.
    pub(super) fn zap(&self, this_cpu: At<'_, M, T>, number: usize) {
        let mut removals = Removals::default();
        let mut gather = Gather::holding(self.space(number), Freed::default());
        for page in [0, 1].map(|slot| self.take(&mut gather, number, slot, &mut removals)) {
            page.into_iter().for_each(|page| gather.hold_page(page));
        }
        let flushed = this_cpu.flush(gather);
        flushed.frames.pages().for_each(oracle::frame_freed);
        self.claim(number, removals, &flushed);
    }

    /// The same in a batch.
    pub(super) fn zap_in_batch(
        &'static self,
        this_cpu: At<'_, M, T>,
        number: usize,
        ordinal: usize,
    ) {
        let mut removals = Removals::default();
        let mut batch = self.new_batch(ordinal);
        let mut gather = Gather::new(self.space(number));
        let pages = [0, 1].map(|slot| self.take(&mut gather, number, slot, &mut removals));
        this_cpu.defer(gather, &mut batch);
        pages.into_iter().flatten().for_each(|page| batch.hold_page(page));
        let flushed = this_cpu.flush_batch(batch);
        flushed.frames.pages().for_each(oracle::frame_freed);
        self.claim(number, removals, &flushed);
    }

    /// Relies on the absence of a page, as before a new mapping at an address that belonged to another area.
    pub(super) fn find_gone(&self, this_cpu: At<'_, M, T>, number: usize) {
        let entry = self.spaces[number].entries[0];
        let mut removals = Removals::default();
        // Acquire: with the empty entry, the gather of the CPU that emptied it.
        if entry.load(Ordering::Acquire) == 0 {
            Self::note(entry, 0, 0, false, &mut removals);
            this_cpu.flush_concurrent(self.space(number), page_at(PAGES[0]));
        }
        self.claim_removals(number, removals);
    }

    /// Unmaps a large page, in a range that is declared to have pages of several sizes.
    pub(super) fn unmap_large(&self, this_cpu: At<'_, M, T>, number: usize) {
        let (entry, frame) = self.spaces[number].large.expect("a large page");
        let mut gather = Gather::holding(self.space(number), Freed::default());
        entry.store(0, Ordering::Release); // Release: a CPU that finds the entry empty sees the gather.
        gather.revoke_mixed(large());
        gather.hold_page(frame);
        this_cpu.flush(gather).frames.pages().for_each(oracle::frame_freed);
    }

    /// Unmaps pages of the kernel's, and flushes them on all CPUs.
    pub(super) fn flush_kernel(
        &self,
        this_cpu: At<'_, M, T>,
        mut gather: KernelGather,
        pages: &[usize],
        claim: bool,
    ) {
        self.take_kernel(&mut gather, pages);
        let _ = this_cpu.flush_kernel(gather);
        if claim {
            self.claim_kernel(pages);
        }
    }

    /// Empties entries of the kernel's, and gathers what that revokes.
    pub(super) fn take_kernel(&self, gather: &mut KernelGather, pages: &[usize]) {
        for &page in pages {
            // Relaxed: the flush makes it visible.
            self.kernel().entries[page].store(0, Ordering::Relaxed);
        }
        match *pages {
            [0] => gather.revoke(page_at(KERNEL[0])),
            // A range of pages of any size does not fit a slot of the library's ring.
            [page] => gather.revoke_mixed(page_at(KERNEL[page])),
            _ => gather.revoke_mixed(whole_kernel()),
        }
    }

    /// Claims that a flush of pages of the kernel's is complete, and frees them.
    pub(super) fn claim_kernel(&self, pages: &[usize]) {
        for &page in pages {
            oracle::kernel_revoked(KERNEL[page]);
            let frame = KERNEL_FRAMES[page];
            if page == 0 && self.cpus.iter().flatten().any(|act| *act == Act::WriteKernel) {
                check_contents(frame);
            }
            oracle::frame_freed(frame);
        }
    }

    /// Frees the table of the kernel's pages, which every top table names.
    pub(super) fn free_kernel_table(&self, this_cpu: At<'_, M, T>) {
        let mut gather = KernelGather::new(&self.tlb);
        let tops = self.spaces.iter().flat_map(SpaceCell::tops);
        for root in [self.reserved, self.firmware].into_iter().chain(tops) {
            // Relaxed: the flush makes it visible.
            Kernel::entry_of(root).store(0, Ordering::Relaxed);
        }
        gather.unlink_table(whole_kernel());
        let _ = this_cpu.flush_kernel(gather);
        self.claim_kernel(&[0, 1]);
        oracle::table_freed(self.kernel().table);
    }

    fn kernel(&self) -> &Kernel {
        self.kernel.as_ref().expect("a kernel")
    }

    /// A lock that is taken with interrupts off and held over flushes.
    pub(super) fn lock(&self, this_cpu: At<'_, M, T>) {
        // Acquire and Release: a lock.
        while self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            this_cpu.handle_ipi();
            relax();
        }
    }

    pub(super) fn unlock(&self) {
        self.lock.store(0, Ordering::Release);
    }
}
