//! No tags: FreeBSD arm64 before its review D21922.
//!
//! User entries are cached as if they were everybody's, so each switch to another space empties the
//! TLBs. It does so by the broadcast form of the instruction, and that takes the entries of every
//! CPU, those of the kernel with them.

use core::cell::Cell;

use lookaside::arch::{Held, Invalidation, Mmu as _, Root, Scope, Sharing, Tag};
use lookaside_machine::timed;
use lookaside_terminal::Refused;

use super::{
    super::{Flush, Place, SpaceId, Strategy},
    Hardware, NO_ERRATA, come_up, flush_broadcast, flush_kernel,
    spaces::{Record, Spaces},
};
use crate::data::Machine;

/// The tag of user entries of all spaces.
const NO_TAG: Tag = Tag(0);

struct Space {
    root: Cell<u64>,
}

impl Record for Space {
    fn begin(&self, root: u64) {
        self.root.set(root);
    }
}

struct Untagged<'a> {
    mmu: Hardware,
    machine: &'a Machine,
    spaces: Spaces<'a, Space>,
    /// The root that each CPU has loaded, as in its own register.
    loaded: Vec<Cell<u64>>,
}

pub(super) fn build(place: Place<'_>) -> Result<Box<dyn Strategy + '_>, Refused> {
    let Place { arena, machine, cpus } = place;
    Ok(Box::new(Untagged {
        mmu: super::mmu(machine)?,
        machine,
        spaces: Spaces::new(arena, |_| Space { root: Cell::new(0) }),
        loaded: vec![Cell::new(0); cpus],
    }))
}

impl Untagged<'_> {
    /// Loads a root, unless it is loaded, and empties every CPU.
    fn load(&self, root: u64) {
        let loaded = &self.loaded[timed::cpu().index()];
        if loaded.replace(root) == root {
            return;
        }
        if root == 0 {
            self.mmu.park(NO_ERRATA);
        } else {
            // SAFETY: the timed machine walks this root, and all is flushed below.
            unsafe {
                self.mmu.load(NO_ERRATA, Root::new(root), NO_TAG, Held::Keep, Sharing::Private)
            };
        }
        self.mmu.flush(NO_ERRATA, Invalidation::All, Scope::Broadcast);
    }
}

impl Strategy for Untagged<'_> {
    fn online(&self) {
        come_up(&self.mmu, self.machine);
    }

    fn add(&self, space: SpaceId, root: u64) {
        self.spaces.add(space, root);
    }

    fn switch(&self, next: SpaceId) {
        self.mmu.settle();
        self.load(self.spaces.get(next).root.get());
    }

    /// Kernel threads have a root of their own.
    fn idle(&self) {
        self.mmu.settle();
        self.load(0);
    }

    fn flush(&self, flush: &Flush) {
        match flush.space {
            None => flush_kernel(&self.mmu, flush, u64::MAX),
            Some(_) if flush.everything => {
                self.mmu.flush(NO_ERRATA, Invalidation::All, Scope::Broadcast)
            }
            // The originals name the address under every tag. There is one tag.
            Some(_) => flush_broadcast(&self.mmu, NO_TAG, flush, u64::MAX),
        }
    }

    fn handle_ipi(&self) {}

    fn remove(&self, space: SpaceId) {
        let _ = self.spaces.remove(space);
    }
}
