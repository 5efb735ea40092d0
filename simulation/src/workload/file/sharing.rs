//! Which pages a write faults at: those that processes share until one of them writes (copy-on-write), after a fork or of a
//! file that is mapped privately, and those from which write permission was taken.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use super::page_set::PageSet;
use crate::strategy::SpaceId;

/// What a write to a page does before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstWrite {
    /// The page may be written to: no fault.
    No,
    /// Nobody shares the page any more, or its write permission was taken: the fault allows writing.
    Reuse,
    /// The fault copies the page.
    Copy,
}

/// A process, or the file that its pages come from.
type Owner = Option<SpaceId>;

const FILE: Owner = None;

/// The pages that are shared or protected.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// Of each process in which writing to some pages faults: all but these.
    written: BTreeMap<SpaceId, BTreeSet<u64>>,
    /// Pairs of owners, the lesser first, that share their pages: all but these.
    apart: BTreeMap<(Owner, Owner), BTreeSet<u64>>,
    /// Of each process the pages from which write permission was taken.
    protected: BTreeMap<SpaceId, PageSet>,
}

impl Sharing {
    /// Pages of a process are those of a file.
    pub(super) fn map_file(&mut self, process: SpaceId) {
        self.written.insert(process, BTreeSet::new());
        self.apart.insert((FILE, Some(process)), BTreeSet::new());
    }

    /// A child has the pages of its parent, and what that shares with others.
    pub(super) fn fork(&mut self, parent: SpaceId, child: SpaceId) {
        let of_parent: Vec<_> = self
            .apart
            .iter()
            .filter_map(|(&pair, pages)| Some((other(pair, parent)?, pages.clone())))
            .collect();
        for (third, pages) in of_parent {
            self.apart.insert(pair(third, Some(child)), pages);
        }
        self.apart.insert(pair(Some(parent), Some(child)), BTreeSet::new());
        for process in [parent, child] {
            self.written.insert(process, BTreeSet::new());
        }
    }

    /// Write permission is taken from pages of a process: the next write to each faults.
    pub(super) fn protect(&mut self, process: SpaceId, pages: Range<u64>) {
        self.protected.entry(process).or_default().insert(pages);
    }

    /// Pages of a process are not protected any more, as permission was given or they are gone. Says whether any was.
    pub(super) fn allow(&mut self, process: SpaceId, pages: Range<u64>) -> bool {
        self.protected.get_mut(&process).is_some_and(|protected| protected.remove(pages))
    }

    /// A process writes to a page, which it shares with nobody and may write to from now on.
    pub(super) fn write(&mut self, process: SpaceId, page: u64) -> FirstWrite {
        let was_protected = self.allow(process, page..page + 1);
        if !self.written.get_mut(&process).is_some_and(|written| written.insert(page)) {
            return if was_protected { FirstWrite::Reuse } else { FirstWrite::No };
        }
        let mut first = FirstWrite::Reuse;
        for (&pair, apart) in &mut self.apart {
            if other(pair, process).is_some() && apart.insert(page) {
                first = FirstWrite::Copy;
            }
        }
        first
    }

    /// Whether anybody has one of these pages with a process.
    pub(super) fn is_shared(&self, process: SpaceId, pages: Range<u64>) -> bool {
        let apart = self.apart.iter().filter(|&(&pair, _)| other(pair, process).is_some());
        let mut apart = apart.map(|(_, apart)| apart.range(pages.clone()).count() as u64);
        apart.any(|apart| apart < pages.end - pages.start)
    }

    /// Pages of a process that maps a file are the file's again, since they were unmapped.
    pub(super) fn unmap_file(&mut self, process: SpaceId, pages: Range<u64>) {
        if let Some(apart) = self.apart.get_mut(&(FILE, Some(process)))
            && let Some(written) = self.written.get_mut(&process)
        {
            for page in pages {
                written.remove(&page);
                apart.remove(&page);
            }
        }
    }

    /// A process has ended, or runs another program.
    pub(super) fn end(&mut self, process: SpaceId) {
        self.written.remove(&process);
        self.protected.remove(&process);
        self.apart.retain(|&pair, _| other(pair, process).is_none());
    }
}

/// Two owners as a key.
fn pair(one: Owner, two: Owner) -> (Owner, Owner) {
    if one < two { (one, two) } else { (two, one) }
}

/// With whom a process is a pair, if it is one of this one.
fn other(pair: (Owner, Owner), process: SpaceId) -> Option<Owner> {
    match (pair.0 == Some(process), pair.1 == Some(process)) {
        (true, _) => Some(pair.1),
        (_, true) => Some(pair.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: SpaceId = SpaceId(1);
    const CHILD: SpaceId = SpaceId(2);
    const SECOND: SpaceId = SpaceId(3);

    #[test]
    fn whoever_writes_first_copies_and_the_last_one_reuses() {
        let mut sharing = Sharing::default();
        assert_eq!(sharing.write(PARENT, 7), FirstWrite::No, "nothing is shared");
        sharing.fork(PARENT, CHILD);
        assert_eq!(sharing.write(PARENT, 7), FirstWrite::Copy);
        assert_eq!(sharing.write(CHILD, 7), FirstWrite::Reuse);
        assert_eq!(sharing.write(CHILD, 8), FirstWrite::Copy);
        assert_eq!(sharing.write(PARENT, 7), FirstWrite::No);
        sharing.end(CHILD);
        assert_eq!(sharing.write(PARENT, 9), FirstWrite::Reuse);
    }

    #[test]
    fn siblings_share_what_their_parent_has_copied_in_neither() {
        let mut sharing = Sharing::default();
        sharing.fork(PARENT, CHILD);
        assert_eq!(sharing.write(PARENT, 1), FirstWrite::Copy, "no page of the second");
        sharing.fork(PARENT, SECOND);
        assert_eq!(sharing.write(PARENT, 2), FirstWrite::Copy, "one for both");
        assert_eq!(sharing.write(CHILD, 1), FirstWrite::Reuse);
        assert_eq!(sharing.write(SECOND, 1), FirstWrite::Copy, "its parent has that of the fork");
        assert_eq!(sharing.write(CHILD, 2), FirstWrite::Copy);
        assert_eq!(sharing.write(SECOND, 2), FirstWrite::Reuse);
    }

    #[test]
    fn a_protected_page_is_written_to_after_one_fault() {
        let mut sharing = Sharing::default();
        sharing.protect(PARENT, 4..8);
        assert_eq!(sharing.write(CHILD, 4), FirstWrite::No, "another process");
        assert_eq!(sharing.write(PARENT, 4), FirstWrite::Reuse);
        assert_eq!(sharing.write(PARENT, 4), FirstWrite::No);
        assert!(sharing.allow(PARENT, 0..6));
        assert_eq!(
            [5, 6].map(|page| sharing.write(PARENT, page)),
            [FirstWrite::No, FirstWrite::Reuse]
        );
        // One fault copies the page and allows writing.
        sharing.fork(PARENT, CHILD);
        assert_eq!(sharing.write(PARENT, 7), FirstWrite::Copy);
        assert_eq!(sharing.write(PARENT, 7), FirstWrite::No);
        sharing.protect(CHILD, 9..10);
        sharing.end(CHILD);
        assert!(!sharing.allow(CHILD, 9..10), "it is gone");
    }

    #[test]
    fn pages_of_a_file_are_copied_and_are_the_files_again_when_they_are_unmapped() {
        let mut sharing = Sharing::default();
        sharing.map_file(PARENT);
        assert_eq!(sharing.write(PARENT, 1), FirstWrite::Copy);
        assert_eq!(sharing.write(PARENT, 1), FirstWrite::No);
        sharing.unmap_file(PARENT, 0..4);
        assert_eq!(sharing.write(PARENT, 1), FirstWrite::Copy);
        sharing.fork(PARENT, CHILD);
        assert_eq!(sharing.write(CHILD, 9), FirstWrite::Copy);
        assert_eq!(sharing.write(PARENT, 9), FirstWrite::Copy, "the file has it");
    }
}
