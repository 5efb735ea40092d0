//! What a kernel does to page tables, and what the oracle is told of it.

use lookaside::{
    Batch, Flags, Flushed, Gather, HeldPage, Here, KernelGather, Ordering, Permissions, Word as _,
};
use lookaside_machine::adversary::{
    Access, Frame, Word, access, access_store, irq_off, irq_on, oracle, relax, saw, tables,
};

use super::{
    super::hardware::Hardware,
    PlatformOf, Strategy, World,
    cell::{ELSEWHERE, KERNEL, PAGES, large, page_at},
    released,
};

/// The frame of a page that comes later.
const FILLED: Frame = Frame(0x700);

type At<'h, H, T> = &'h Here<'h, PlatformOf<H>, T>;

impl<H: Hardware, T: Strategy<PlatformOf<H>>> World<H, T> {
    pub(super) fn unmap(&self, here: At<'_, H, T>, number: usize, page: usize) {
        let (gather, held) = self.clear(number, page);
        oracle::frame_freed(released(held.release(&here.flush(gather))));
    }

    pub(super) fn swap_out(&self, here: At<'_, H, T>, number: usize) {
        let (gather, held) = self.clear(number, 0);
        let frame = released(held.release(&here.flush(gather)));
        let contents = tables::contents(frame);
        // Relaxed: the flush is complete, and so is whatever user code did through what it took away.
        let written = contents.load(Ordering::Relaxed);
        oracle::check(written == contents.peek(), "what is written out is not what was stored");
        oracle::frame_freed(frame);
    }

    pub(super) fn unmap_early(&self, here: At<'_, H, T>, number: usize) {
        let (gather, held) = self.clear(number, 0);
        oracle::frame_quiet(released(held.release(&here.flush_early(gather))));
    }

    pub(super) fn abandon(&self, number: usize, page: usize) {
        let (gather, _held) = self.clear(number, page);
        drop(gather);
    }

    /// Clears the entry of a page.
    pub(super) fn clear(
        &self,
        number: usize,
        page: usize,
    ) -> (Gather<'_, PlatformOf<H>>, HeldPage<Frame>) {
        let cell = &self.spaces[number];
        let mut gather = Gather::new(self.space(number));
        // Release: who finds the entry empty knows of the gather.
        cell.entries[page].store(0, Ordering::Release);
        gather.revoke(page_at(PAGES[page]));
        let held = gather.hold_page(cell.frames[page]);
        (gather, held)
    }

    pub(super) fn free_table(&self, here: At<'_, H, T>, number: usize, all: bool) {
        let cell = &self.spaces[number];
        let mut gather = Gather::new(self.space(number));
        // Release: as above.
        tables::entry(cell.root, PAGES[0], 1).store(0, Ordering::Release);
        if all {
            gather.revoke_everything();
        } else {
            gather
                .unlink_table(lookaside::VaRange::new(PAGES[0], 2 * 4096, 12).expect("two pages"));
        }
        let (pages, table) = (gather.hold_page(cell.frames), gather.hold_table(cell.last_table));
        let flushed = here.flush(gather);
        for frame in released(pages.release(&flushed)) {
            oracle::frame_freed(frame);
        }
        oracle::table_freed(released(table.release(&flushed)));
    }

    pub(super) fn flush_all(&self, here: At<'_, H, T>, number: usize) {
        let mut gather = Gather::new(self.space(number));
        gather.revoke_everything();
        let _: Flushed = here.flush(gather);
    }

    pub(super) fn protect(&self, here: At<'_, H, T>, number: usize) {
        let cell = &self.spaces[number];
        let mut gather = Gather::new(self.space(number));
        let entry = tables::page(cell.frames[0], Access::READ);
        cell.entries[0].store(entry, Ordering::Release); // Release: as above.
        gather.revoke(page_at(PAGES[0]));
        let _: Flushed = here.flush(gather);
        oracle::revoked(cell.root, PAGES[0]);
    }

    /// What `mprotect` does to pages that others may be unmapping.
    pub(super) fn protect_both(&self, here: At<'_, H, T>, number: usize) {
        let cell = &self.spaces[number];
        let mut gather = Gather::new(self.space(number));
        for (page, entry) in cell.entries.iter().enumerate() {
            let entries =
                [Access::WRITE, Access::READ].map(|to| tables::page(cell.frames[page], to));
            // AcqRel: as in `zap`. An entry that is empty stays so.
            let _ =
                entry.compare_exchange(entries[0], entries[1], Ordering::AcqRel, Ordering::Relaxed);
            gather.revoke(page_at(PAGES[page]));
        }
        // Nothing is claimed: others may have changed the entries again, and not be done yet.
        let _: Flushed = here.flush(gather);
    }

    pub(super) fn allow(&self, here: At<'_, H, T>, number: usize) {
        let cell = &self.spaces[number];
        let mut gather = Gather::new(self.space(number));
        let entry = tables::page(cell.frames[0], Access::WRITE);
        cell.entries[0].store(entry, Ordering::Release); // Release: as above.
        gather.relax(page_at(PAGES[0]));
        let flushed = here.flush(gather);
        oracle::check(flushed.bits() == Flags::default(), "nothing was found");
    }

    /// A store of user code, with the kernel's handler of faults.
    pub(super) fn retry(&self, number: usize) {
        if access_store(PAGES[0], 1).is_some() {
            return;
        }
        let cell = &self.spaces[number];
        let wanted = Permissions { write: true, ..Permissions::default() };
        if self.was_spurious(number, PAGES[0], cell.entries[0], wanted) {
            oracle::check(access_store(PAGES[0], 1).is_some(), "the fault came again");
        }
    }

    /// The kernel's handler of faults: whether the access can be made again.
    fn was_spurious(&self, number: usize, va: u64, entry: &Word, wanted: Permissions) -> bool {
        irq_off();
        // Acquire: with what allows it comes what was there before.
        let entry = entry.load(Ordering::Acquire);
        let frames = [FILLED, self.spaces[number].frames[0]];
        let writable = frames.iter().any(|&frame| entry == tables::page(frame, Access::WRITE));
        let allowed = Permissions { read: entry != 0, write: writable, execute: false };
        let spurious = self.here().spurious_fault(self.space(number), page_at(va), wanted, allowed);
        irq_on();
        spurious
    }

    pub(super) fn fill(&self, here: At<'_, H, T>, number: usize) {
        let mut gather = Gather::new(self.space(number));
        let entry = tables::page(FILLED, Access::WRITE);
        self.spaces[number].elsewhere.store(entry, Ordering::Release); // Release: as above.
        gather.relax(page_at(ELSEWHERE));
        let flushed = here.flush(gather);
        oracle::check(flushed.bits() == Flags::default(), "nothing was found");
    }

    /// A load of user code from a page that another CPU maps, with the kernel's handler of faults. A CPU
    /// that goes on faulting when the page is there gets nowhere.
    pub(super) fn touch(&self, number: usize) {
        let wanted = Permissions { read: true, ..Permissions::default() };
        while access(ELSEWHERE).is_none() {
            if self.was_spurious(number, ELSEWHERE, self.spaces[number].elsewhere, wanted) {
                saw("a fault that was spurious");
                oracle::check(access(ELSEWHERE).is_some(), "the fault came again");
                return;
            }
            relax();
        }
    }

    /// What `munmap` does to pages that others may be unmapping as well.
    pub(super) fn zap(&self, here: At<'_, H, T>, number: usize) {
        let (gather, found) = self.clear_both(number);
        let held = found.map(|frame| frame.map(|frame| gather.hold_page(frame)));
        self.gone(number, held, &here.flush(gather));
    }

    /// The same in a batch.
    pub(super) fn zap_in_batch(&'static self, here: At<'_, H, T>, number: usize) {
        let words = self.batch_words.borrow_mut().pop().expect("storage for each batch");
        let mut batch = Batch::new(&self.tlb, words).expect("room for the CPUs");
        let (gather, found) = self.clear_both(number);
        let held = found.map(|frame| frame.map(|frame| batch.hold_page(frame)));
        here.defer(gather, &mut batch);
        self.gone(number, held, &here.flush_batch(batch));
    }

    /// Clears the entries of both pages, and says which frames were found there.
    fn clear_both(&self, number: usize) -> (Gather<'_, PlatformOf<H>>, [Option<Frame>; 2]) {
        let cell = &self.spaces[number];
        let mut gather = Gather::new(self.space(number));
        let mut found = [None, None];
        for (page, entry) in cell.entries.iter().enumerate() {
            // Acquire: with the empty entry comes the gather of whoever emptied it.
            if entry.load(Ordering::Acquire) == 0 || entry.swap(0, Ordering::AcqRel) == 0 {
                gather.relies_on(page_at(PAGES[page]));
            } else {
                gather.revoke(page_at(PAGES[page]));
                found[page] = Some(cell.frames[page]);
            }
        }
        (gather, found)
    }

    /// Both pages are gone, and those that this CPU has found are free.
    fn gone(&self, number: usize, held: [Option<HeldPage<Frame>>; 2], flushed: &Flushed) {
        for held in held.into_iter().flatten() {
            oracle::frame_freed(released(held.release(flushed)));
        }
        for va in PAGES {
            oracle::revoked(self.spaces[number].root, va);
        }
    }

    /// What whoever maps something new at an address does, which was somebody else's before.
    pub(super) fn find_gone(&self, here: At<'_, H, T>, number: usize) {
        let cell = &self.spaces[number];
        let mut gather = Gather::new(self.space(number));
        // Acquire: as above.
        let gone = cell.entries[0].load(Ordering::Acquire) == 0;
        if gone {
            gather.relies_on(page_at(PAGES[0]));
        }
        let _: Flushed = here.flush(gather);
        if gone {
            oracle::revoked(cell.root, PAGES[0]);
        }
    }

    /// Unmaps a large page, as part of what is said to have pages of several sizes.
    pub(super) fn unmap_large(&self, here: At<'_, H, T>, number: usize) {
        let (entry, frame) = self.spaces[number].large.expect("a large page");
        let mut gather = Gather::new(self.space(number));
        entry.store(0, Ordering::Release); // Release: as above.
        gather.revoke_mixed(large());
        let held = gather.hold_page(frame);
        oracle::frame_freed(released(held.release(&here.flush(gather))));
    }

    pub(super) fn move_page(&self, here: At<'_, H, T>, number: usize) {
        let cell = &self.spaces[number];
        self.lock(here);
        let mut gather = Gather::new(self.space(number));
        cell.entries[0].store(0, Ordering::Release); // Release: as above.
        let moved = tables::page(cell.frames[0], Access::WRITE);
        cell.elsewhere.store(moved, Ordering::Release); // Release: as above.
        gather.move_away(page_at(PAGES[0]), &self.lock);
        let _: Flushed = here.flush(gather);
        self.unlock();
    }

    pub(super) fn unmap_moved(&self, here: At<'_, H, T>, number: usize) {
        let cell = &self.spaces[number];
        self.lock(here);
        // Relaxed: the lock was taken.
        if cell.elsewhere.load(Ordering::Relaxed) != 0 {
            let mut gather = Gather::new(self.space(number));
            cell.elsewhere.store(0, Ordering::Release); // Release: as above.
            gather.revoke(page_at(ELSEWHERE));
            let held = gather.hold_page(cell.frames[0]);
            oracle::frame_freed(released(held.release(&here.flush(gather))));
        }
        self.unlock();
    }

    pub(super) fn flush_kernel(&self, here: At<'_, H, T>, gather: KernelGather, claim: bool) {
        let entry = self.kernel.expect("a kernel");
        let mut gather = gather;
        entry.store(0, Ordering::Relaxed); // Relaxed: what makes it visible is the flush.
        gather.revoke(page_at(KERNEL));
        let held = gather.hold_page(Frame(0x600));
        let _frame = released(held.release(&here.flush_kernel(gather)));
        if claim {
            oracle::kernel_revoked(KERNEL);
        }
    }

    /// A lock that is taken with interrupts off and held over flushes.
    fn lock(&self, here: At<'_, H, T>) {
        // Acquire and Release: a lock.
        while self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            here.serve();
            relax();
        }
    }

    fn unlock(&self) {
        self.lock.store(0, Ordering::Release);
    }
}
