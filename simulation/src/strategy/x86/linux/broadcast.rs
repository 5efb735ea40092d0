//! Flushes by `INVLPGB`, on AMD CPUs of 2025.
//!
//! After R. van Riel, "x86/mm: enable broadcast TLB invalidation for multi-threaded processes" (v13,
//! 23 Feb 2025), as merged in Linux 6.15. A space that four or more CPUs run gets a tag that is its own on every
//! CPU. From that store on each flush of it is broadcast, so that what a CPU caches under the tag is never stale. A
//! CPU that runs the space under a tag of its own still has to be interrupted, and then loads the new one: while
//! there are such CPUs, a flush is a broadcast and an interrupt (`finish_asid_transition`). After that no CPU is
//! interrupted. All other spaces are flushed by interrupts, as every space is without `INVLPGB`. The tag is given
//! here after the first flush that finds four CPUs; there, at the first of every 32 timer ticks.

use lookaside::{
    Platform as _,
    arch::{Errata, Invalidation, Mmu, Scope, TableChange, Tag},
    platform::{CpuId, Ordering, Word as _},
};
use lookaside_machine::timed::KERNEL;

use super::{
    Linux,
    cpu::{Cpu, SLOTS, SWITCHING},
    me,
    patches::Patch,
    request::Request,
    space::Mm,
};
use crate::strategy::{Flush, flush_range};

/// The number of CPUs that must run a space before it gets a tag on all of them.
const ENOUGH: u32 = 4;
/// The first tag that is one on all CPUs; those below are each CPU's own.
pub(super) const FIRST: u64 = SLOTS as u64;
/// In [`Mm::tag`]: a CPU may still run the space under a tag of its own.
const TRANSITION: u64 = 1 << 16;

impl Linux<'_> {
    /// The tag of a space, if it has one on all CPUs.
    pub(super) fn tag_on_all(&self, mm: &Mm<'_>) -> Option<u64> {
        if !self.has(Patch::Broadcast) {
            return None;
        }
        let tag = mm.tag.0.load(Ordering::Acquire) & !TRANSITION;
        (tag != 0).then_some(tag)
    }

    /// Whether a CPU may still run the space under a tag of its own though the space has one on all CPUs.
    pub(super) fn is_in_transition(&self, mm: &Mm<'_>) -> bool {
        self.has(Patch::Broadcast) && mm.tag.0.load(Ordering::Acquire) & TRANSITION != 0
    }

    /// Whether this CPU is one of them.
    pub(super) fn has_to_reload(&self, cpu: &Cpu, mm: &Mm<'_>) -> bool {
        self.tag_on_all(mm).is_some() && !cpu.is_shared()
    }

    /// Gives a space a tag on all CPUs, if enough CPUs run it.
    pub(super) fn consider_tag(&self, mm: &Mm<'_>) {
        if !self.has(Patch::Broadcast) || mm.tag.0.load(Ordering::Acquire) != 0 {
            return;
        }
        let new = self.next_tag.get();
        let properties = self.platform.mmu().properties();
        if new >= 1 << properties.tag_bits || !self.is_widely_run(mm) {
            return;
        }
        self.next_tag.set(new + 1);
        let _ = mm.tag.0.compare_exchange(0, new | TRANSITION, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Flushes a space that has a tag on all CPUs.
    pub(super) fn flush_by_broadcast(
        &self,
        mm: &Mm<'_>,
        tag: u64,
        flush: &Flush,
        request: &Request,
    ) {
        self.broadcast(Tag(tag as u16), flush, request);
        if !self.is_in_transition(mm) {
            return;
        }
        if mm.cpus.members().any(|cpu| self.is_behind(cpu, mm)) {
            self.request(mm, request, flush.tables, true);
        } else {
            mm.tag.0.store(tag, Ordering::Release);
        }
    }

    /// Whether a CPU runs a space under a tag of its own. Waits for a CPU that switches: it may switch to the space and
    /// have looked for the tag before there was one.
    fn is_behind(&self, cpu: CpuId, mm: &Mm<'_>) -> bool {
        let state = &self.cpus[cpu.index()];
        while cpu != me() && state.loaded.load(Ordering::Acquire) == SWITCHING {
            self.platform.relax();
        }
        state.loaded.load(Ordering::Acquire) == mm.context && !state.is_seen_shared()
    }

    /// Whether enough CPUs run a space.
    fn is_widely_run(&self, mm: &Mm<'_>) -> bool {
        if mm.cpus.count() < ENOUGH {
            return false;
        }
        let runs = |cpu: &&Cpu| cpu.loaded.load(Ordering::Relaxed) == mm.context;
        self.cpus.iter().filter(runs).take(ENOUGH as usize).count() == ENOUGH as usize
    }

    fn broadcast(&self, tag: Tag, flush: &Flush, request: &Request) {
        let mmu = self.platform.mmu();
        if request.is_range() {
            let ranges = [flush_range(flush.first << 12, flush.pages, flush.order)];
            let pages = Invalidation::ranges(tag, &ranges, change(flush));
            mmu.flush(Errata::NONE, pages, Scope::Broadcast);
        } else {
            mmu.flush(Errata::NONE, Invalidation::Tag(tag), Scope::Broadcast);
        }
    }

    pub(super) fn broadcast_kernel(&self, flush: &Flush, request: &Request) {
        let range = [flush_range(KERNEL + (flush.first << 12), flush.pages, flush.order)];
        let ranges = if request.is_range() { &range[..] } else { &[] };
        let pages = Invalidation::kernel(ranges, change(flush));
        self.platform.mmu().flush(Errata::NONE, pages, Scope::Broadcast);
    }
}

const fn change(flush: &Flush) -> TableChange {
    if flush.tables { TableChange::FreedTables } else { TableChange::LastLevel }
}
