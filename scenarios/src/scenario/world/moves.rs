//! Pages, and tables, that move to other addresses.

use lookaside::{
    CurrentCpu, Gather,
    arch::Mmu,
    platform::{Ordering, Word as _},
};
use lookaside_machine::adversary::{Access, Platform, oracle, tables};

use super::{
    Strategy, World,
    cell::{PAGES, VAS, all_pages, page_at},
    claims::Removals,
    freed::Freed,
};

type At<'h, M, T> = &'h CurrentCpu<'h, Platform<M>, T>;

/// The slot that a page is moved to.
const MOVED: usize = 2;
/// Where the table of all slots is moved to.
const MOVED_TABLE: u64 = 0x4_0000;

impl<M: Mmu + 'static, T: Strategy<Platform<M>>> World<M, T> {
    /// Moves a page to another entry, under a lock.
    pub(super) fn move_page(&self, this_cpu: At<'_, M, T>, number: usize) {
        let target = self.spaces[number].entries[MOVED];
        self.lock(this_cpu);
        // Relaxed: the lock was taken.
        if target.load(Ordering::Relaxed) == 0 {
            let mut removals = Removals::default();
            let mut gather = Gather::new(self.space(number));
            let old = self.empty(number, 0, &mut removals);
            if let Some(frame) = tables::frame(old) {
                // Release: as where an entry is emptied.
                target.store(tables::page(frame, Access::WRITE), Ordering::Release);
            }
            if old == 0 {
                gather.relies_on(page_at(PAGES[0]));
            } else {
                gather.move_away(page_at(PAGES[0]), &self.lock);
            }
            let flushed = this_cpu.flush(gather);
            self.claim(number, removals, &flushed);
        }
        self.unlock();
    }

    /// Unmaps and frees it there.
    pub(super) fn unmap_moved(&self, this_cpu: At<'_, M, T>, number: usize) {
        let entry = self.spaces[number].entries[MOVED];
        self.lock(this_cpu);
        // Relaxed: the lock was taken.
        let old = entry.load(Ordering::Relaxed);
        if let Some(frame) = tables::frame(old) {
            let mut gather = Gather::holding(self.space(number), Freed::default());
            entry.store(0, Ordering::Release); // Release: as where an entry is emptied.
            let mut removals = Removals::default();
            Self::note(entry, MOVED, old, true, &mut removals);
            gather.revoke(page_at(VAS[MOVED]));
            gather.hold_page(frame);
            let flushed = this_cpu.flush(gather);
            flushed.frames.pages().for_each(oracle::frame_freed);
            self.claim(number, removals, &flushed);
        }
        self.unlock();
    }

    /// Moves the table of all slots to other addresses, under a lock, as `mremap` of Linux does.
    pub(super) fn move_table(&self, this_cpu: At<'_, M, T>, number: usize) {
        let entry = |va| tables::entry(self.spaces[number].root, va, 1);
        let (from, to) = (entry(PAGES[0]), entry(MOVED_TABLE));
        self.lock(this_cpu);
        // Relaxed: the lock was taken.
        let table = from.load(Ordering::Relaxed);
        let mut gather = Gather::new(self.space(number));
        if table == 0 {
            gather.relies_on(all_pages());
        } else {
            // Release: as where an entry is emptied.
            from.store(0, Ordering::Release);
            to.store(table, Ordering::Release);
            gather.move_away(all_pages(), &self.lock);
        }
        let _ = this_cpu.flush(gather);
        self.unlock();
    }

    /// Unmaps and frees the first page of that table at its address there.
    pub(super) fn unmap_in_moved_table(&self, this_cpu: At<'_, M, T>, number: usize) {
        let table = tables::entry(self.spaces[number].root, MOVED_TABLE, 1);
        self.lock(this_cpu);
        // Relaxed: the lock was taken.
        if table.load(Ordering::Relaxed) != 0 {
            let mut removals = Removals::default();
            let mut gather = Gather::holding(self.space(number), Freed::default());
            let page = page_at(MOVED_TABLE + PAGES[0]);
            match tables::frame(self.empty(number, 0, &mut removals)) {
                Some(frame) => {
                    gather.revoke(page);
                    gather.hold_page(frame);
                }
                None => gather.relies_on(page),
            }
            let flushed = this_cpu.flush(gather);
            flushed.frames.pages().for_each(oracle::frame_freed);
            self.claim(number, removals, &flushed);
        }
        self.unlock();
    }
}
