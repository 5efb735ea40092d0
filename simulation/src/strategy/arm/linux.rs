//! Linux arm64 of 2020, and the two proposals to keep flushes local.
//!
//! Stock: every flush of user addresses is broadcast, page by page up to a limit, else by tag.
//!
//! The first proposal (3 February 2020) keeps the flush of a process with one thread local; the
//! second (23 February 2020) that of a space which one CPU runs, and does nothing for one that no
//! CPU runs. Either marks what other CPUs may still hold as stale; a CPU whose mark is set empties
//! the tag when it runs the space the next time.
//!
//! Neither is sound on real hardware for table-freeing flushes (the review of the second proposal):
//! they are here to be compared with.

use core::cell::Cell;

use lookaside::{
    arch::{Held, Invalidation, Mmu as _, Root, Scope, Sharing, Tag},
    platform::{
        Ordering::{AcqRel, Relaxed, SeqCst},
        Word as _,
    },
};
use lookaside_machine::timed::{self, Arena, Word};
use lookaside_terminal::Refused;

use super::{
    super::{Flush, Place, SpaceId, Strategy},
    Hardware, NO_ERRATA,
    asids::{self, Asids},
    come_up, flush_broadcast, flush_here, flush_kernel,
    spaces::{Record, Spaces},
    stale::Stale,
};
use crate::data::Machine;

/// From so many pages on the whole tag is flushed: the entries of a last-level table.
const PAGES: u64 = 511;

/// How far flushes reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Always everywhere.
    Everywhere,
    /// As far as this CPU, if the process has one thread, which is this.
    OneUser,
    /// As far as this CPU, if no other runs the space; nowhere, if none does.
    OneActive,
}

/// A word in a cache line of its own.
#[repr(align(64))]
struct Line(Word);

/// A space begins a cache line, as one from a kernel's slab does.
#[repr(align(64))]
struct Space<'a> {
    /// Generation and tag.
    id: Word,
    /// How many CPUs have it loaded.
    active: Word,
    /// How many threads it has.
    users: Word,
    /// How many gathers are under way (`tlb_flush_pending`: "mm: migrate: prevent racy access to tlb_flush_pending",
    /// 2017). On Arm64 it lies in another line of `mm_struct` than the ASID.
    gathers: Line,
    root: Cell<u64>,
    stale: Stale<'a>,
}

impl Record for Space<'_> {
    fn begin(&self, root: u64) {
        self.id.store(0, Relaxed);
        self.active.store(0, Relaxed);
        self.users.store(1, Relaxed);
        self.gathers.0.store(0, Relaxed);
        self.root.set(root);
        self.stale.clear();
    }
}

/// The scheduler's state of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runs {
    /// The space of the last user thread, which kernel threads borrow.
    space: Option<SpaceId>,
    /// Whether its root is loaded.
    loaded: bool,
}

struct Linux<'a> {
    mmu: Hardware,
    machine: &'a Machine,
    spaces: Spaces<'a, Space<'a>>,
    asids: Asids<'a>,
    runs: Vec<Cell<Runs>>,
    reach: Reach,
}

pub(super) fn build(place: Place<'_>, reach: Reach) -> Result<Box<dyn Strategy + '_>, Refused> {
    fn make(arena: &Arena) -> Space<'_> {
        Space {
            id: Word::ZERO,
            active: Word::ZERO,
            users: Word::ZERO,
            gathers: Line(Word::ZERO),
            root: Cell::new(0),
            stale: Stale::new(arena),
        }
    }
    let Place { arena, machine, cpus } = place;
    let mmu = super::mmu(machine)?;
    let asids = Asids::new(arena, cpus, mmu.properties().tag_bits);
    let spaces = Spaces::new(arena, make);
    let runs = vec![Cell::new(Runs { space: None, loaded: false }); cpus];
    Ok(Box::new(Linux { mmu, machine, spaces, asids, runs, reach }))
}

/// Where a flush has to go.
enum Where {
    Nowhere,
    CurrentCpu,
    Everywhere,
}

impl<'a> Linux<'a> {
    fn runs(&self) -> &Cell<Runs> {
        &self.runs[timed::cpu().index()]
    }

    fn load(&self, space: &Space<'a>) {
        let chosen = self.asids.choose(&space.id);
        if chosen.flush {
            self.mmu.flush(NO_ERRATA, Invalidation::All, Scope::Local);
        }
        if self.reach != Reach::Everywhere {
            if chosen.fresh {
                space.stale.clear();
            }
            // The space counts as active before its marks are read.
            Word::fence(SeqCst);
            if space.stale.take(timed::cpu().index()) {
                self.mmu.flush(NO_ERRATA, Invalidation::Tag(chosen.tag), Scope::Local);
            }
        }
        let root = Root::new(space.root.get());
        // SAFETY: the timed machine walks this root; the strategy decides which entries are kept, right or
        // wrong.
        unsafe { self.mmu.load(NO_ERRATA, root, chosen.tag, Held::Keep, Sharing::Private) };
    }

    fn count(&self, space: &Space<'a>, change: u64) {
        if self.reach == Reach::OneActive {
            let _ = space.active.fetch_add(change, AcqRel);
        }
    }

    fn classify(&self, id: SpaceId, space: &Space<'a>) -> Where {
        let runs = self.runs().get();
        let me = timed::cpu().index();
        let mine = runs.loaded && runs.space == Some(id);
        match self.reach {
            Reach::Everywhere => Where::Everywhere,
            Reach::OneUser => {
                if !mine || space.users.load(Relaxed) > 1 {
                    return Where::Everywhere;
                }
                space.stale.set_all(Some(me));
                let _ = space.stale.take(me);
                Where::CurrentCpu
            }
            Reach::OneActive => {
                if space.active.load(Relaxed) > 1 {
                    return Where::Everywhere;
                }
                space.stale.set_all(mine.then_some(me));
                // The marks come before the second read of which CPUs are active.
                Word::fence(SeqCst);
                match space.active.load(Relaxed) {
                    0 => Where::Nowhere,
                    1 if mine => {
                        let _ = space.stale.take(me);
                        Where::CurrentCpu
                    }
                    _ => Where::Everywhere,
                }
            }
        }
    }
}

impl Strategy for Linux<'_> {
    fn online(&self) {
        come_up(&self.mmu, self.machine);
    }

    fn add(&self, space: SpaceId, root: u64) {
        self.spaces.add(space, root);
    }

    fn switch(&self, next: SpaceId) {
        // Every switch completes the invalidations that the old thread has begun.
        self.mmu.settle();
        let was = self.runs().replace(Runs { space: Some(next), loaded: true });
        let space = self.spaces.get(next);
        if !was.loaded {
            self.count(space, 1);
            // A thread that comes back after the CPU was idle.
            self.load(space);
        } else if was.space != Some(next) {
            self.count(space, 1);
            self.load(space);
            if let Some(before) = was.space {
                self.count(self.spaces.get(before), 1_u64.wrapping_neg());
            }
        }
    }

    /// Stock Linux keeps the root of the last thread; the second proposal parks.
    fn idle(&self) {
        self.mmu.settle();
        if self.reach != Reach::OneActive {
            return;
        }
        let runs = self.runs().get();
        if runs.loaded {
            self.runs().set(Runs { loaded: false, ..runs });
            self.mmu.park(NO_ERRATA);
            if let Some(before) = runs.space {
                self.count(self.spaces.get(before), 1_u64.wrapping_neg());
            }
        }
    }

    fn flush(&self, flush: &Flush) {
        timed::interrupts_off(|| {
            let Some(id) = flush.space else {
                flush_kernel(&self.mmu, flush, PAGES);
                return;
            };
            let space = self.spaces.get(id);
            let _ = space.gathers.0.fetch_add(1, Relaxed);
            let place = self.classify(id, space);
            // A space that never ran has no entries; stock Linux broadcasts tag 0 all the same.
            let tag = asids::tag(&space.id).unwrap_or(Tag::RESERVED);
            match place {
                Where::Nowhere => {}
                Where::CurrentCpu => flush_here(&self.mmu, tag, flush, PAGES),
                Where::Everywhere => flush_broadcast(&self.mmu, tag, flush, PAGES),
            }
            let _ = space.gathers.0.fetch_add(1_u64.wrapping_neg(), Relaxed);
        });
    }

    fn handle_ipi(&self) {}

    /// The tag is free again when the generation changes.
    fn remove(&self, space: SpaceId) {
        // Lazy CPUs keep the root, and would keep the space alive for it.
        for runs in &self.runs {
            if runs.get().space == Some(space) {
                runs.set(Runs { space: None, loaded: false });
            }
        }
        let _ = self.spaces.remove(space);
    }
}
