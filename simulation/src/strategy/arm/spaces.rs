//! Records of spaces, in the memory of the run.

use core::cell::RefCell;

use lookaside_machine::timed::{self, Arena};

use super::super::SpaceId;

/// A kernel's record of a space.
pub(super) trait Record {
    /// Initialises a new or reused record for a new space.
    fn begin(&self, root: u64);
}

/// The records of all spaces, by number. The record of a space that is gone is used for a later one,
/// as a slab allocator would.
pub(super) struct Spaces<'a, R> {
    arena: &'a Arena,
    make: fn(&'a Arena) -> R,
    live: RefCell<Vec<Option<&'a R>>>,
    free: RefCell<Vec<&'a R>>,
}

impl<'a, R: Record> Spaces<'a, R> {
    /// No spaces; `make` makes an empty record.
    pub(super) const fn new(arena: &'a Arena, make: fn(&'a Arena) -> R) -> Self {
        Self { arena, make, live: RefCell::new(Vec::new()), free: RefCell::new(Vec::new()) }
    }

    /// A new space.
    pub(super) fn add(&self, space: SpaceId, root: u64) {
        let record = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let record = self.arena.put((self.make)(self.arena));
            timed::name(record, "spaces");
            record
        });
        record.begin(root);
        // Another CPU may have added the next one meanwhile.
        let mut live = self.live.borrow_mut();
        let index = space.0 as usize;
        let count = live.len().max(index + 1);
        live.resize(count, None);
        assert!(live[index].replace(record).is_none(), "each space has a number of its own");
    }

    /// A space that is not gone.
    pub(super) fn get(&self, space: SpaceId) -> &'a R {
        self.live.borrow()[space.0 as usize].expect("the space is not gone")
    }

    /// Takes a space away, and returns its record, which may still be read.
    pub(super) fn remove(&self, space: SpaceId) -> &'a R {
        let record = self.live.borrow_mut()[space.0 as usize].take().expect("removed once");
        self.free.borrow_mut().push(record);
        record
    }
}
