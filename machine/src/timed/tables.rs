//! Page tables, as far as time and staleness need them: which pages are mapped, since when, and which
//! translations no CPU may use any more.
//!
//! Every change of a page gets a *stamp*, a number that grows. A TLB entry carries the stamp that its
//! page had when it was made. When a flush is said to be complete, the pages that it covers note the
//! stamp of the change that made it necessary: an older entry that is used afterwards is a stale
//! translation, and ends the run.

use super::current::{self, step};

/// A moment in the history of all page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub(crate) u32);

/// A page of one space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Page {
    /// When it was last changed so that the old translation must go.
    pub(crate) changed: u32,
    /// Entries older than this must be gone.
    pub(crate) flushed: u32,
    pub(crate) mapped: bool,
    /// The binary logarithm of the pages that an entry made from it is good for.
    pub(crate) order: u8,
}

/// The orders of entries of the levels above the last: of a table of last-level entries (2 MiB), and of one of those (1 GiB).
const LEVELS: [u8; 2] = [9, 18];

/// The order of the single entries that map a block of that order: where no hardware takes contiguous ones for one, each has an entry
/// in a TLB.
#[must_use]
pub const fn order_of_entries(order: u8) -> u8 {
    let [huge, giant] = LEVELS;
    match order {
        _ if order >= giant => giant,
        _ if order >= huge => huge,
        _ => 0,
    }
}

/// Pages one after the other that are mapped by entries of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The first.
    pub first: u64,
    /// How many.
    pub pages: u64,
    /// The binary logarithm of the pages that an entry of them is good for.
    pub order: u8,
}

/// The page tables of all spaces. Their addresses are 4096 times their numbers, which begin with 1.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pages: Vec<Vec<Page>>,
    free: Vec<usize>,
    stamp: u32,
}

impl Tables {
    fn next(&mut self) -> u32 {
        self.stamp = self.stamp.checked_add(1).expect("fewer than 2^32 changes of page tables");
        self.stamp
    }

    /// A table for `pages` pages, none of which is mapped: its address.
    pub(crate) fn create(&mut self, pages: u64) -> u64 {
        let stamp = self.next();
        let page = Page { changed: stamp, flushed: stamp, mapped: false, order: 0 };
        let number = self.free.pop().unwrap_or_else(|| {
            self.pages.push(Vec::new());
            self.pages.len() - 1
        });
        self.pages[number].clear();
        self.pages[number].resize(pages as usize, page);
        (number as u64 + 1) << 12
    }

    /// Has the number of a table used again.
    pub(crate) fn destroy(&mut self, root: u64) {
        self.free.push(Self::number(root));
    }

    const fn number(root: u64) -> usize {
        (root >> 12) as usize - 1
    }

    fn range(&mut self, root: u64, first: u64, pages: u64) -> &mut [Page] {
        let (first, pages) = (first as usize, pages as usize);
        &mut self.pages[Self::number(root)][first..first + pages]
    }

    /// Maps pages.
    pub(crate) fn map(&mut self, root: u64, first: u64, pages: u64, order: u8) {
        for page in self.range(root, first, pages) {
            page.mapped = true;
            page.order = order;
        }
    }

    /// Maps the pages that are mapped in other tables, as far as both have them.
    pub(crate) fn map_alike(&mut self, root: u64, other: u64) {
        let (to, from) = (Self::number(root), Self::number(other));
        let Ok([to, from]) = self.pages.get_disjoint_mut([to, from]) else { return };
        for (page, like) in to.iter_mut().zip(from) {
            (page.mapped, page.order) = (like.mapped, like.order);
        }
    }

    /// Changes pages so that their old translations must go, and says when.
    pub(crate) fn revoke(&mut self, root: u64, first: u64, pages: u64, mapped: bool) -> Stamp {
        let stamp = self.next();
        for page in self.range(root, first, pages) {
            page.changed = stamp;
            page.mapped &= mapped;
        }
        Stamp(stamp)
    }

    /// Records that no CPU may use translations of these pages that are older than `stamp`.
    pub(crate) fn flushed(&mut self, root: u64, first: u64, pages: u64, stamp: Stamp) {
        for page in self.range(root, first, pages) {
            page.flushed = page.flushed.max(stamp.0.min(page.changed));
        }
    }

    /// The first page that is mapped, up to the last one, and how many of these are.
    fn mapped(&mut self, root: u64, first: u64, pages: u64) -> Option<[u64; 3]> {
        let all = self.range(root, first, pages);
        let begin = all.iter().position(|page| page.mapped)?;
        let end = all.iter().rposition(|page| page.mapped)?;
        let count = all.iter().filter(|page| page.mapped).count();
        Some([first + begin as u64, (end - begin + 1) as u64, count as u64])
    }

    /// What is mapped of these pages.
    fn mappings(&mut self, root: u64, first: u64, pages: u64) -> Vec<Mapped> {
        let mut all: Vec<Mapped> = Vec::new();
        for (number, page) in (first..).zip(self.range(root, first, pages)) {
            if !page.mapped {
                continue;
            }
            match all.last_mut() {
                Some(last) if last.order == page.order && last.first + last.pages == number => {
                    last.pages += 1;
                }
                _ => all.push(Mapped { first: number, pages: 1, order: page.order }),
            }
        }
        all
    }

    /// Entries made from these pages are good for `2^order` pages from now on.
    fn set_order(&mut self, root: u64, first: u64, pages: u64, order: u8) {
        for page in self.range(root, first, pages) {
            page.order = order;
        }
    }

    /// The pages of a table; none if there is no such table.
    #[inline]
    pub(crate) fn table(&self, root: u64) -> &[Page] {
        let number = (root >> 12).wrapping_sub(1) as usize;
        self.pages.get(number).map_or(&[], Vec::as_slice)
    }
}

/// The tables of a new space, for pages `0..pages`, none of which is mapped: their address.
#[must_use]
pub fn create(pages: u64) -> u64 {
    current::with(|machine| machine.tables.create(pages))
}

/// The tables of the kernel, for kernel pages `0..pages`, all of which are mapped.
pub fn create_kernel(pages: u64) {
    current::with(|machine| {
        machine.kernel_root = machine.tables.create(pages);
        machine.tables.map(machine.kernel_root, 0, pages, 0);
    });
}

/// The address of the kernel's tables.
#[must_use]
pub fn kernel() -> u64 {
    current::with(|machine| machine.kernel_root)
}

/// Has the address of tables that no CPU can walk any more given to others.
pub fn destroy(root: u64) {
    current::with(|machine| machine.tables.destroy(root));
}

/// Maps pages. Each TLB entry made from them is good for `2^order` pages.
pub fn map(root: u64, first: u64, pages: u64, order: u8) {
    step(|machine| machine.tables.map(root, first, pages, order));
}

/// Maps the pages that are mapped in other tables, as far as both have room for them: those of a child
/// after a fork.
pub fn map_alike(root: u64, other: u64) {
    step(|machine| machine.tables.map_alike(root, other));
}

/// Of these pages the first that is mapped, how many there are from it to the last that is, and how many of those are
/// mapped; nothing if none is.
#[must_use]
pub fn mapped(root: u64, first: u64, pages: u64) -> Option<[u64; 3]> {
    step(|machine| machine.tables.mapped(root, first, pages))
}

/// What is mapped of these pages, in runs of one order.
#[must_use]
pub fn mappings(root: u64, first: u64, pages: u64) -> Vec<Mapped> {
    step(|machine| machine.tables.mappings(root, first, pages))
}

/// Each TLB entry that is made from these pages from now on is good for `2^order` pages; those that are not mapped stay so. Older
/// entries are good for what they were, until they are flushed.
pub fn set_order(root: u64, first: u64, pages: u64, order: u8) {
    step(|machine| machine.tables.set_order(root, first, pages, order));
}

/// Changes pages, so that what was held of them must not be used any more after the flush:
/// their new state is `mapped` or not.
pub fn revoke(root: u64, first: u64, pages: u64, mapped: bool) -> Stamp {
    step(|machine| machine.revoke(root, first, pages, mapped))
}

/// Claims that the flush of what was changed at `stamp` is complete. A CPU that uses an older
/// translation of these pages from now on ends the run.
pub fn flushed(root: u64, first: u64, pages: u64, stamp: Stamp) {
    step(|machine| machine.flushed(root, first, pages, stamp));
}
