//! The changes that a kernel makes to the entries, and their claims to the oracle.

use core::ops::Range;

use lookaside::{
    Gather,
    arch::Mmu,
    contig::{Access, Flags, Format, Full, Raw, SizeChange},
    flush::Flushed,
    platform::{Ordering, Word as _},
};
use lookaside_machine::adversary::{Flags as AdversaryFlags, Word, oracle, tables};

use super::{Act, va, world::At, world::World};

/// What a page contains that was written to before it was mapped.
pub(super) const WRITTEN: u64 = 7;

impl<M: Mmu + 'static, F: Format + 'static> World<M, F> {
    /// Changes entries, with the lock held.
    pub(super) fn change(&self, this_cpu: &At<'_, M>, act: &Act) {
        let mut flush = this_cpu.flush_blocks(&self.space);
        let changed = match act {
            Act::Unmap(slots) => return self.unmap(this_cpu, slots, Full::No),
            Act::Exit(slots) => return self.unmap(this_cpu, slots, Full::Yes),
            Act::Protect(slots) => return self.protect(this_cpu, slots),
            Act::Map(slots) => return self.map_written(slots),
            Act::Age(slots) => return self.age(this_cpu, slots),
            Act::Clean(slots) => return self.clean(this_cpu, slots),
            Act::Ask(slot) => {
                let dirty = self.table().get(*slot).is_ok_and(|page| page.dirty());
                return oracle::check(!dirty, "the page was never written to");
            }
            Act::Fold(slot) => self.table().fold(*slot, &mut flush).map(|done| (slot, done)),
            Act::Unfold(slot) => self.table().unfold(*slot, &mut flush).map(|done| (slot, done)),
            Act::Allow(slot) => {
                let allowed = self.table().set_access(*slot, Access::STORE, &mut flush);
                // An entry that permits less may stay cached.
                return match allowed {
                    Ok(_) => self.nothing_lost(&(*slot..*slot + 1), &(*slot..*slot + 1), false),
                    Err(_) if self.refusals => {}
                    Err(error) => oracle::fail(error.to_string()),
                };
            }
            _ => return,
        };
        match changed {
            Ok((&slot, done)) => self.nothing_lost(&(slot..slot + 1), &(0..0), done),
            Err(_) if self.refusals => {}
            Err(error) => oracle::fail(error.to_string()),
        }
    }

    /// Of the blocks that `slots` touches, but for the pages in `gone`, nothing is lost and nothing
    /// is held that is not there any more: if sizes have changed, or if nobody else changes anything. Otherwise
    /// what allows less than the entry does may be held for as long as it likes.
    fn nothing_lost(&self, slots: &Range<usize>, gone: &Range<usize>, resized: bool) {
        let flushed = self.kind.size_change == SizeChange::Flushed && (resized || !self.refusals);
        // The claim is about memory as it is now.
        Word::fence(Ordering::SeqCst);
        for slot in self.around(slots).filter(|slot| !gone.contains(slot)) {
            self.claim(slot..slot + 1, Flags::NONE);
            // Elsewhere a block and its pages may be held together.
            if flushed {
                oracle::revoked(self.root, va(slot));
            }
        }
    }

    /// `munmap` and `exit`.
    fn unmap(&self, this_cpu: &At<'_, M>, slots: &Range<usize>, full: Full) {
        let mut gather = Gather::new(&self.space);
        let mut flush = this_cpu.flush_blocks(&self.space);
        let cleared = self.table().get_and_clear(slots.clone(), full, &mut flush);
        let cleared = cleared.expect("slots of the table");
        gather.found(cleared.flags);
        gather.revoke(Self::addresses(slots));
        let flushed = this_cpu.flush(gather);
        self.claim(slots.clone(), flushed.flags);
        if full == Full::No {
            self.nothing_lost(slots, slots, false);
        }
        for slot in slots.clone() {
            oracle::revoked(self.root, va(slot));
            oracle::frame_freed(self.kind.frame(slot));
        }
    }

    /// Maps pages, each with what was written to it before.
    fn map_written(&self, slots: &Range<usize>) {
        for slot in slots.clone() {
            // Relaxed: the entry is ordered after it.
            tables::contents(self.kind.frame(slot)).store(WRITTEN, Ordering::Relaxed);
        }
        let page = self.page(slots.start, AdversaryFlags::BOTH);
        let mapped = self.table().set(slots.clone(), Raw(page));
        oracle::check(mapped.is_ok() || self.refusals, "the slots are free");
    }

    fn protect(&self, this_cpu: &At<'_, M>, slots: &Range<usize>) {
        let mut gather = Gather::new(&self.space);
        let mut table = self.table();
        let changed = table.write_protect(slots.clone(), &mut this_cpu.flush_blocks(&self.space));
        oracle::check(changed.is_ok(), "slots of the table");
        gather.revoke(Self::addresses(slots));
        let _: Flushed = this_cpu.flush(gather);
        for slot in slots.clone() {
            oracle::revoked(self.root, va(slot));
            // On Arm, what was dirty is so by software's bit now: no walk sees it.
            let page = table.get(slot).expect("slots of the table");
            self.claim(slot..slot + 1, page.flags());
            let writable = self.kind.format.is_writable(Raw(page.bits()));
            oracle::check(!writable, "the page can be stored to again");
        }
        self.nothing_lost(slots, slots, false);
    }

    fn age(&self, this_cpu: &At<'_, M>, slots: &Range<usize>) {
        let mut table = self.table();
        let was = table.get(slots.start).is_ok_and(|page| page.accessed());
        let accessed = table.clear_accessed(slots.clone()).expect("slots of the table");
        oracle::check(accessed || !was, "the accessed flag of the page was lost");
        self.claim(self.around(slots), Flags { accessed, dirty: false });
        if self.kind.size_change == SizeChange::FlushedIfHeld {
            // A clear flag is to say that the block is not held.
            let mut gather = Gather::new(&self.space);
            gather.revoke(Self::addresses(&self.around(slots)));
            let _: Flushed = this_cpu.flush(gather);
        }
    }

    fn clean(&self, this_cpu: &At<'_, M>, slots: &Range<usize>) {
        let mut gather = Gather::new(&self.space);
        let mut table = self.table();
        let was = table.get(slots.start).is_ok_and(|page| page.dirty());
        let dirty = table.clear_dirty(slots.clone()).expect("slots of the table");
        oracle::check(dirty || !was, "the dirty flag of the page was lost");
        // A block has become clean as a whole.
        let slots = self.around(slots);
        gather.found(Flags { accessed: false, dirty });
        gather.revoke(Self::addresses(&slots));
        let flushed = this_cpu.flush(gather);
        self.claim(slots.clone(), flushed.flags);
        for slot in slots {
            oracle::cleaned(self.kind.frame(slot), 1);
        }
    }
}
