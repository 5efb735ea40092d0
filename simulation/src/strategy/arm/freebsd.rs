//! FreeBSD's review D21922: a tag for each space, from one bitmap under one spin lock.
//!
//! A space keeps its tag and the epoch in which it got it in one word. When the tags are used up the
//! tags roll over: one broadcast empties all TLBs, spaces that run keep their tags, all others get a new
//! one when they run next. Flushes are broadcast, by address and tag.
//!
//! The review's local invalidation of the instruction cache on CPUs with Cavium erratum 27456 is left
//! out: its cost has not been published, so it is part of the path in the machine file.

use core::cell::Cell;

use lookaside::{
    arch::{Held, Invalidation, Mmu as _, Root, Scope, Sharing, Tag},
    platform::{
        Ordering::{Acquire, Relaxed, Release},
        Word as _,
    },
};
use lookaside_machine::timed::{self, Lock, Word};
use lookaside_terminal::Refused;

use super::{
    super::{Flush, Place, SpaceId, Strategy},
    Hardware, NO_ERRATA, come_up, flush_broadcast, flush_kernel,
    spaces::{Record, Spaces},
};
use crate::data::Machine;

/// Tag 0 is that of kernel processes, tag 1 that of the firmware's space.
const FIRST: u64 = 2;
const TAG_BITS: u32 = 16;
const TAG: u64 = (1 << TAG_BITS) - 1;
/// The epoch of a space that never ran; the first real one is 1.
const NEVER: u64 = 0;
/// A CPU that runs no space with a tag.
const NOBODY: u64 = 0;

/// A space begins a cache line, as one from a kernel's allocator does.
#[repr(align(64))]
struct Space {
    /// The epoch above the tag.
    cookie: Word,
    root: Cell<u64>,
}

impl Record for Space {
    fn begin(&self, root: u64) {
        self.cookie.store(NEVER, Relaxed);
        self.root.set(root);
    }
}

/// Per-CPU data that the review adds.
#[repr(align(64))]
struct Cpu {
    /// The number of the space that it runs and one, or [`NOBODY`].
    current: Word,
}

/// The bitmap of tags and its state. The lock protects all but reads of `epoch`.
struct Set<'a> {
    lock: Lock,
    epoch: Word,
    cursor: Word,
    used: &'a [Word],
}

struct FreeBsd<'a> {
    mmu: Hardware,
    machine: &'a Machine,
    spaces: Spaces<'a, Space>,
    cpus: &'a [Cpu],
    set: &'a Set<'a>,
    tags: u64,
}

pub(super) fn build(place: Place<'_>) -> Result<Box<dyn Strategy + '_>, Refused> {
    let Place { arena, machine, cpus } = place;
    let mmu = super::mmu(machine)?;
    let tags = 1_u64 << mmu.properties().tag_bits;
    let used = arena.fill(tags.div_ceil(64) as usize, |_| Word::ZERO);
    timed::name(used, "map of tags");
    let set = arena.put(Set { lock: Lock::new(), epoch: Word::ZERO, cursor: Word::ZERO, used });
    timed::name(set, "set of tags");
    set.epoch.store(1, Relaxed);
    set.cursor.store(FIRST, Relaxed);
    set.reserve();
    let cpus = arena.fill(cpus, |_| Cpu { current: Word::ZERO });
    timed::name(cpus, "CPUs");
    let make = |_: &_| Space { cookie: Word::ZERO, root: Cell::new(0) };
    let spaces = Spaces::new(arena, make);
    Ok(Box::new(FreeBsd { mmu, machine, spaces, cpus, set, tags }))
}

impl Set<'_> {
    /// Marks the tags that are never given out.
    fn reserve(&self) {
        self.used[0].store(self.used[0].load(Relaxed) | ((1 << FIRST) - 1), Relaxed);
    }

    fn mark(&self, tag: u64) {
        let word = &self.used[(tag / 64) as usize];
        word.store(word.load(Relaxed) | 1 << (tag % 64), Relaxed);
    }

    fn unmark(&self, tag: u64) {
        let word = &self.used[(tag / 64) as usize];
        word.store(word.load(Relaxed) & !(1 << (tag % 64)), Relaxed);
    }

    /// The first free tag in a range.
    fn find(&self, from: u64, to: u64) -> Option<u64> {
        let mut tag = from;
        while tag < to {
            let free = !self.used[(tag / 64) as usize].load(Relaxed) >> (tag % 64);
            if free == 0 {
                tag = (tag / 64 + 1) * 64;
                continue;
            }
            let found = tag + u64::from(free.trailing_zeros());
            return (found < to).then_some(found);
        }
        None
    }
}

impl FreeBsd<'_> {
    fn me(&self) -> &Cpu {
        &self.cpus[timed::cpu().index()]
    }

    fn allocate(&self, space: &Space) {
        let set = self.set;
        set.lock.take();
        let epoch = set.epoch.load(Relaxed);
        // A rollover may have given it its tag again meanwhile.
        if space.cookie.load(Relaxed) >> TAG_BITS != epoch {
            let cursor = set.cursor.load(Relaxed);
            let found = set.find(cursor, self.tags).or_else(|| set.find(FIRST, cursor));
            let tag = found.unwrap_or_else(|| {
                self.turn();
                set.find(FIRST, self.tags).expect("there are more tags than CPUs")
            });
            set.mark(tag);
            set.cursor.store(tag + 1, Relaxed);
            space.cookie.store(set.epoch.load(Relaxed) << TAG_BITS | tag, Relaxed);
        }
        set.lock.leave();
    }

    /// A new epoch. The lock is held.
    fn turn(&self) {
        let set = self.set;
        let epoch = set.epoch.load(Relaxed) + 1;
        set.epoch.store(epoch, Release);
        self.mmu.flush(NO_ERRATA, Invalidation::All, Scope::Broadcast);
        set.used.iter().for_each(|word| word.store(0, Relaxed));
        set.reserve();
        let me = timed::cpu().index();
        for (number, cpu) in self.cpus.iter().enumerate() {
            let current = cpu.current.load(Acquire);
            if number != me && current != NOBODY {
                let space = self.spaces.get(SpaceId(current as u32 - 1));
                let tag = space.cookie.load(Relaxed) & TAG;
                set.mark(tag);
                space.cookie.store(epoch << TAG_BITS | tag, Relaxed);
            }
        }
    }

    fn tag(space: &Space) -> Tag {
        Tag((space.cookie.load(Relaxed) & TAG) as u16)
    }
}

impl Strategy for FreeBsd<'_> {
    fn online(&self) {
        come_up(&self.mmu, self.machine);
    }

    fn add(&self, space: SpaceId, root: u64) {
        self.spaces.add(space, root);
    }

    fn switch(&self, next: SpaceId) {
        let me = self.me();
        let name = u64::from(next.0) + 1;
        if me.current.load(Relaxed) == name {
            self.mmu.settle();
            return;
        }
        me.current.store(name, Relaxed);
        self.mmu.settle();
        let space = self.spaces.get(next);
        if space.cookie.load(Relaxed) >> TAG_BITS != self.set.epoch.load(Acquire) {
            self.allocate(space);
        }
        let root = Root::new(space.root.get());
        // SAFETY: the timed machine walks this root; the strategy decides which entries are kept, right or
        // wrong.
        unsafe { self.mmu.load(NO_ERRATA, root, Self::tag(space), Held::Keep, Sharing::Private) };
    }

    /// Kernel processes share one root and one tag.
    fn idle(&self) {
        let me = self.me();
        let was = me.current.load(Relaxed);
        self.mmu.settle();
        if was != NOBODY {
            me.current.store(NOBODY, Relaxed);
            self.mmu.park(NO_ERRATA);
        }
    }

    fn flush(&self, flush: &Flush) {
        let Some(space) = flush.space else {
            flush_kernel(&self.mmu, flush, u64::MAX);
            return;
        };
        let space = self.spaces.get(space);
        // The review gives a tag to each space when it is made. One that never ran has no entries.
        if space.cookie.load(Relaxed) != NEVER {
            flush_broadcast(&self.mmu, Self::tag(space), flush, u64::MAX);
        }
    }

    fn handle_ipi(&self) {}

    fn remove(&self, space: SpaceId) {
        let space = self.spaces.remove(space);
        let set = self.set;
        set.lock.take();
        let cookie = space.cookie.load(Relaxed);
        if cookie >> TAG_BITS == set.epoch.load(Relaxed) {
            set.unmark(cookie & TAG);
        }
        set.lock.leave();
    }
}
