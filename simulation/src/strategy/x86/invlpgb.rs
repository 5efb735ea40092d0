//! Linux on AMD CPUs of 2025: by interrupts, and with `INVLPGB`.
//!
//! After R. van Riel, "x86/mm: enable broadcast TLB invalidation for multi-threaded processes" (v13,
//! 23 Feb 2025). A space that four or more CPUs run gets a tag that is its own on every CPU; from then
//! on its flushes are broadcast and waited for, and interrupt no CPU. All others are flushed by
//! interrupts, as every space is without `INVLPGB`. The tag is given here at the first flush that
//! finds four CPUs; there, at the first of every 32 timer ticks.

use core::cell::Cell;

use lookaside::arch::{Errata, Invalidation, Mmu, Scope, TableChange, Tag};
use lookaside_terminal::Refused;

use super::{
    super::{Entry, Flush, Place, SpaceId, Strategy, flush_range},
    concurrent::{Kind, Linux},
};
use crate::data::Isa;

/// All of them.
pub(super) const STRATEGIES: &[Entry] = &[
    Entry {
        name: "linux-ipi-2025",
        about: "Linux of 2025 without INVLPGB: interrupts, this CPU flushes while the others do",
        isas: &[Isa::X86_64],
        build: |place| Ok(Box::new(Linux::new(place, Kind::MERGED)?)),
    },
    Entry {
        name: "linux-invlpgb-2025",
        about: "Linux of 2025 (van Riel): INVLPGB for spaces that 4 or more CPUs run, interrupts for others",
        isas: &[Isa::X86_64],
        build: |place| build(place),
    },
];

/// The number of CPUs that must run a space before it gets a tag on all of them.
const ENOUGH: u32 = 4;
/// The first tag that is one on all CPUs; those below are each CPU's own.
const FIRST: u16 = 6;

struct Broadcasts<'a> {
    linux: Linux<'a>,
    next: Cell<u16>,
}

fn build(place: Place<'_>) -> Result<Box<dyn Strategy + '_>, Refused> {
    if !place.machine.features.invlpgb {
        let key = &place.machine.key;
        return Err(Refused(format!("machine `{key}` has no INVLPGB")));
    }
    Ok(Box::new(Broadcasts { linux: Linux::new(place, Kind::MERGED)?, next: Cell::new(FIRST) }))
}

impl Broadcasts<'_> {
    /// The tag of a space on all CPUs, if it has one or gets one.
    fn global(&self, space: SpaceId) -> Option<Tag> {
        if let Some(tag) = self.linux.global(space) {
            return Some(tag);
        }
        let next = self.next.get();
        if u32::from(next) >= 1 << self.linux.mmu().properties().tag_bits
            || self.linux.runners(space) < ENOUGH
        {
            return None;
        }
        self.next.set(next + 1);
        self.linux.make_global(space, Tag(next)).then_some(Tag(next))
    }
}

impl Strategy for Broadcasts<'_> {
    fn online(&self) {
        self.linux.online();
    }

    fn add(&self, space: SpaceId, root: u64) {
        self.linux.add(space, root);
    }

    fn switch(&self, next: SpaceId) {
        self.linux.switch(next);
    }

    fn idle(&self) {
        self.linux.idle();
    }

    fn flush(&self, flush: &Flush) {
        let mmu = self.linux.mmu();
        let Some(space) = flush.space else {
            let start = lookaside_machine::timed::KERNEL + (flush.first << 12);
            let ranges = [flush_range(start, flush.pages)];
            mmu.flush(
                Errata::NONE,
                Invalidation::kernel(&ranges, TableChange::LastLevel),
                Scope::Broadcast,
            );
            return;
        };
        let generation = self.linux.begin(space);
        let Some(tag) = self.global(space) else {
            self.linux.flush_space(space, flush, generation);
            return self.linux.end(space);
        };
        if flush.everything || flush.tables {
            mmu.flush(Errata::NONE, Invalidation::Tag(tag), Scope::Broadcast);
        } else {
            let ranges = [flush_range(flush.first << 12, flush.pages)];
            let depth = TableChange::LastLevel;
            mmu.flush(Errata::NONE, Invalidation::ranges(tag, &ranges, depth), Scope::Broadcast);
        }
        self.linux.end(space);
    }

    fn handle_ipi(&self) {
        self.linux.handle_ipi();
    }

    fn remove(&self, space: SpaceId) {
        self.linux.remove(space);
    }
}
