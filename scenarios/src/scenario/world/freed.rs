//! What an operation of a script frees: the container that its gather holds.

use lookaside_machine::adversary::Frame;

use super::cell::SLOTS;

/// A page table.
pub(super) struct Table(pub(super) Frame);

/// As many pages as a space has, and a table. It has no destructor: what an execution leaves behind needs none.
#[derive(Default)]
pub(super) struct Freed {
    pages: [Option<Frame>; SLOTS],
    table: Option<Frame>,
}

impl Freed {
    pub(super) fn pages(&self) -> impl Iterator<Item = Frame> {
        self.pages.iter().copied().flatten()
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = Frame> {
        self.table.into_iter()
    }
}

impl Extend<Frame> for Freed {
    fn extend<I: IntoIterator<Item = Frame>>(&mut self, pages: I) {
        for page in pages {
            let place = self.pages.iter_mut().find(|place| place.is_none());
            *place.expect("room for every page of a space") = Some(page);
        }
    }
}

impl Extend<Table> for Freed {
    fn extend<I: IntoIterator<Item = Table>>(&mut self, tables: I) {
        for table in tables {
            assert!(self.table.replace(table.0).is_none(), "one table");
        }
    }
}
