//! Flushes by `INVLPGB`, on AMD CPUs of 2025.
//!
//! After R. van Riel, "x86/mm: enable broadcast TLB invalidation for multi-threaded processes" (v13,
//! 23 Feb 2025). A space that four or more CPUs run gets a tag that is its own on every CPU; from then
//! on its flushes are broadcast and waited for, and interrupt no CPU. All others are flushed by
//! interrupts, as every space is without `INVLPGB`. The tag is given here at the first flush that
//! finds four CPUs; there, at the first of every 32 timer ticks.

use lookaside::{
    Platform as _,
    arch::{Errata, Invalidation, Mmu, Scope, TableChange, Tag},
    platform::{Ordering, Word as _},
};
use lookaside_machine::timed::KERNEL;

use super::{Linux, cpu::SLOTS, patches::Patch, space::Mm};
use crate::strategy::{Flush, flush_range};

/// The number of CPUs that must run a space before it gets a tag on all of them.
const ENOUGH: u32 = 4;
/// The first tag that is one on all CPUs; those below are each CPU's own.
pub(super) const FIRST: u64 = SLOTS as u64;
/// In [`Mm::tag`]: every CPU that runs the space has loaded its tag, so that broadcasts reach its entries. Before
/// that, the space is flushed by interrupts, which also go to lazy CPUs.
const READY: u64 = 1 << 16;

impl Linux<'_> {
    /// The tag that a CPU loads a space under, if it is one on all CPUs.
    pub(super) fn tag_on_all(&self, mm: &Mm<'_>) -> Option<u64> {
        if !self.has(Patch::Broadcast) {
            return None;
        }
        let tag = mm.tag.0.load(Ordering::Acquire) & !READY;
        (tag != 0).then_some(tag)
    }

    /// Whether every CPU that runs the space has loaded its one tag.
    pub(super) fn is_on_all(&self, mm: &Mm<'_>) -> bool {
        mm.tag.0.load(Ordering::Acquire) & READY != 0
    }

    /// Whether the space is being given a tag on all CPUs.
    pub(super) fn is_in_transition(&self, mm: &Mm<'_>) -> bool {
        self.has(Patch::Broadcast) && self.tag_on_all(mm).is_some() && !self.is_on_all(mm)
    }

    /// The tag by which broadcasts flush a space, if it has one or gets one now.
    pub(super) fn tag_or_new(&self, mm: &Mm<'_>) -> Option<Tag> {
        if !self.has(Patch::Broadcast) {
            return None;
        }
        let tag = mm.tag.0.load(Ordering::Acquire);
        if tag != 0 {
            return (tag & READY != 0).then_some(Tag(tag as u16));
        }
        let new = self.next_tag.get();
        let properties = self.platform.mmu().properties();
        if new >= 1 << properties.tag_bits || !self.is_widely_run(mm) {
            return None;
        }
        self.next_tag.set(new + 1);
        if mm.tag.0.compare_exchange(0, new, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return None;
        }
        self.reload_everywhere(mm);
        mm.tag.0.store(new | READY, Ordering::Release);
        Some(Tag(new as u16))
    }

    /// Whether enough CPUs run a space.
    fn is_widely_run(&self, mm: &Mm<'_>) -> bool {
        if mm.cpus.count() < ENOUGH {
            return false;
        }
        let runs = |cpu: &&super::Cpu| cpu.loaded.load(Ordering::Relaxed) == mm.context;
        self.cpus.iter().filter(runs).take(ENOUGH as usize).count() == ENOUGH as usize
    }

    pub(super) fn broadcast(&self, tag: Tag, flush: &Flush) {
        let mmu = self.platform.mmu();
        if flush.everything || flush.tables {
            mmu.flush(Errata::NONE, Invalidation::Tag(tag), Scope::Broadcast);
        } else {
            let ranges = [flush_range(flush.first << 12, flush.pages)];
            let pages = Invalidation::ranges(tag, &ranges, TableChange::LastLevel);
            mmu.flush(Errata::NONE, pages, Scope::Broadcast);
        }
    }

    pub(super) fn broadcast_kernel(&self, flush: &Flush) {
        let ranges = [flush_range(KERNEL + (flush.first << 12), flush.pages)];
        let pages = Invalidation::kernel(&ranges, TableChange::LastLevel);
        self.platform.mmu().flush(Errata::NONE, pages, Scope::Broadcast);
    }
}
