//! Tags with generations, as Linux arm64 gives them out: an optimistic path without a lock while
//! the generation lasts, and a lock for spaces that have no tag of this generation.
//!
//! When the tags are used up a new generation begins: the tags that CPUs run are reserved for them, and every
//! CPU empties its own TLB before it runs a space under a new tag.

use lookaside::{
    arch::Tag,
    platform::{
        Ordering::{AcqRel, Acquire, Relaxed},
        Word as _,
    },
};
use lookaside_machine::timed::{self, Arena, Lock, Word};

const TAG_BITS: u32 = 16;
const TAG: u64 = (1 << TAG_BITS) - 1;
const FIRST_GENERATION: u64 = 1 << TAG_BITS;

/// State of a CPU.
#[repr(align(64))]
struct Cpu {
    /// The running space's generation and tag (`active_asids`); zero after the generation has changed.
    active: Word,
    /// The value of that word when the generation changed (`reserved_asids`).
    reserved: Word,
}

/// All tags.
pub(super) struct Asids<'a> {
    lock: &'a Lock,
    generation: &'a Word,
    cursor: &'a Word,
    used: &'a [Word],
    /// CPUs that have to empty their TLBs, one bit each.
    pending: &'a [Word],
    cpus: &'a [Cpu],
    tags: u64,
}

/// The result of a tag look-up at a switch.
pub(super) struct Chosen {
    /// The tag to load.
    pub(super) tag: Tag,
    /// Whether the space has another tag than before.
    pub(super) fresh: bool,
    /// Whether this CPU has to empty its TLB first.
    pub(super) flush: bool,
}

impl<'a> Asids<'a> {
    pub(super) fn new(arena: &'a Arena, cpus: usize, tag_bits: u32) -> Self {
        let tags = 1_u64 << tag_bits;
        let words = |count: u64, name| {
            let words = arena.fill(count as usize, |_| Word::ZERO);
            timed::name(words, name);
            words
        };
        let used = words(tags.div_ceil(64), "map of tags");
        let pending = words(cpus.div_ceil(64) as u64, "CPUs to empty");
        let generation = &words(1, "generation")[0];
        let cursor = &words(1, "cursor")[0];
        generation.store(FIRST_GENERATION, Relaxed);
        cursor.store(1, Relaxed);
        let lock = arena.put(Lock::new());
        timed::name(lock, "lock of tags");
        let cpus = arena.fill(cpus, |_| Cpu { active: Word::ZERO, reserved: Word::ZERO });
        timed::name(cpus, "CPUs");
        Self { lock, generation, cursor, used, pending, cpus, tags }
    }

    /// The tag of a space that this CPU is about to run. `id` is the space's word: generation and
    /// tag, or zero.
    pub(super) fn choose(&self, id: &Word) -> Chosen {
        let me = timed::cpu().index();
        let active = &self.cpus[me].active;
        let mine = id.load(Relaxed);
        let old = active.load(Relaxed);
        let generation = self.generation.load(Relaxed);
        if old != 0
            && mine >> TAG_BITS == generation >> TAG_BITS
            && active.compare_exchange(old, mine, Relaxed, Relaxed).is_ok()
        {
            return Chosen { tag: tag_of(mine), fresh: false, flush: false };
        }
        self.lock.take();
        let before = id.load(Relaxed);
        let mut now = before;
        if before >> TAG_BITS != self.generation.load(Relaxed) >> TAG_BITS {
            now = self.fresh(before);
            id.store(now, Relaxed);
        }
        let bit = 1 << (me % 64);
        let pending = &self.pending[me / 64];
        let flush = pending.load(Relaxed) & bit != 0;
        if flush {
            let _ = pending.fetch_and(!bit, AcqRel);
        }
        active.store(now, Relaxed);
        self.lock.leave();
        Chosen { tag: tag_of(now), fresh: before & TAG != now & TAG, flush }
    }

    /// A tag of this generation, the one that the space had if it is free. The lock is held.
    fn fresh(&self, before: u64) -> u64 {
        let generation = self.generation.load(Relaxed);
        if before != 0 {
            let same = generation | before & TAG;
            let mut reserved = false;
            for cpu in self.cpus {
                if cpu.reserved.load(Relaxed) == before {
                    cpu.reserved.store(same, Relaxed);
                    reserved = true;
                }
            }
            if reserved || self.mark(before & TAG) {
                return same;
            }
        }
        let cursor = self.cursor.load(Relaxed);
        let (tag, generation) = match self.find(cursor) {
            Some(tag) => (tag, generation),
            None => {
                self.turn();
                let tag = self.find(1).expect("there are more tags than CPUs");
                (tag, self.generation.load(Relaxed))
            }
        };
        let _ = self.mark(tag);
        self.cursor.store(tag, Relaxed);
        generation | tag
    }

    /// A new generation. The lock is held.
    fn turn(&self) {
        let generation = self.generation.load(Relaxed) + FIRST_GENERATION;
        self.generation.store(generation, Relaxed);
        self.used.iter().for_each(|word| word.store(0, Relaxed));
        for cpu in self.cpus {
            let mut active = cpu.active.swap(0, AcqRel);
            if active == 0 {
                active = cpu.reserved.load(Relaxed);
            }
            let _ = self.mark(active & TAG);
            cpu.reserved.store(active, Relaxed);
        }
        self.pending.iter().for_each(|word| word.store(u64::MAX, Relaxed));
    }

    /// Marks a tag; false if it was marked.
    fn mark(&self, tag: u64) -> bool {
        let word = &self.used[(tag / 64) as usize];
        let old = word.load(Relaxed);
        word.store(old | 1 << (tag % 64), Relaxed);
        old & 1 << (tag % 64) == 0
    }

    fn find(&self, from: u64) -> Option<u64> {
        let mut tag = from.max(1);
        while tag < self.tags {
            let free = !self.used[(tag / 64) as usize].load(Relaxed) >> (tag % 64);
            if free == 0 {
                tag = (tag / 64 + 1) * 64;
                continue;
            }
            let found = tag + u64::from(free.trailing_zeros());
            return (found < self.tags).then_some(found);
        }
        None
    }
}

/// The tag in a word of a space, if it has one.
pub(super) fn tag(id: &Word) -> Option<Tag> {
    let id = id.load(Acquire);
    (id != 0).then(|| tag_of(id))
}

const fn tag_of(id: u64) -> Tag {
    Tag((id & TAG) as u16)
}
