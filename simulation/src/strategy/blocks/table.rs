//! The page tables of a process, as words of the timed machine.

use core::ops::Range;

use lookaside::{
    arch::aarch64::{
        AddressSize, Geometry, Granule,
        descriptor::{
            ACCESSED, CONTIGUOUS, DIRTY_BIT_MODIFIER, INNER_SHAREABLE, NOT_GLOBAL, READ_ONLY,
            TABLE_OR_PAGE, USER, VALID,
        },
    },
    contig::{Arm, Format, Raw},
    platform::{Ordering, Word as _},
};
use lookaside_machine::timed::{Arena, Word};

/// Entries of a table page.
pub(super) const ENTRIES: usize = 512;
/// Entries of a block.
pub const BLOCK: usize = 16;
/// Software's dirty bit.
const DIRTY: u64 = 1 << 55;
const PAGE: u64 = VALID | TABLE_OR_PAGE;

/// Last-level entries of a process, page by page from page 0 on. The first pages come in blocks:
/// aligned runs of sixteen that belong to one folio. Each of the others is a folio of its own.
pub struct PageTables<'a> {
    words: &'a [Word],
    pages: usize,
    in_blocks: usize,
}

impl<'a> PageTables<'a> {
    /// Tables for `pages` pages, of which the first `in_blocks` come in blocks; the last block is
    /// filled up. All are absent.
    pub fn new(arena: &'a Arena, pages: usize, in_blocks: usize) -> Self {
        let in_blocks = in_blocks.next_multiple_of(BLOCK).min(pages / BLOCK * BLOCK);
        let words = arena.fill(pages.next_multiple_of(ENTRIES), |_| Word::ZERO);
        Self { words, pages, in_blocks }
    }

    /// A table page of entries that are all absent, for [`Self::arrange`].
    pub fn one(arena: &'a Arena) -> Self {
        Self::new(arena, ENTRIES, ENTRIES)
    }

    /// Has these pages mapped, by contiguous entries or not, and no others. Takes no time.
    pub fn arrange(&self, mapped: impl Iterator<Item = (Range<usize>, bool)>) {
        self.words.iter().for_each(|word| word.poke(0));
        for (pages, contiguous) in mapped {
            for page in pages {
                self.words[page].poke(self.entry(page, contiguous));
            }
        }
    }

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.pages as u64
    }

    /// How many of them come in blocks.
    pub fn in_blocks(&self) -> u64 {
        self.in_blocks as u64
    }

    /// Maps all pages: those in blocks as memory that was written to, in contiguous entries if
    /// `contiguous`, the others as pages of files that were read. Linux sets the flags of every
    /// entry when it maps memory for a store, so none of a block is clean.
    pub fn fill(&self, contiguous: bool) {
        for (page, word) in self.words[..self.pages].iter().enumerate() {
            word.store(self.entry(page, contiguous), Ordering::Relaxed);
        }
    }

    fn entry(&self, page: usize, contiguous: bool) -> u64 {
        let common = PAGE | USER | INNER_SHAREABLE | NOT_GLOBAL | ACCESSED;
        let output = (page as u64) << 12;
        if page < self.in_blocks {
            let folded = if contiguous { CONTIGUOUS } else { 0 };
            output | common | DIRTY_BIT_MODIFIER | DIRTY | folded
        } else {
            output | common | READ_ONLY
        }
    }

    /// The entries of each table page, with the number of its first page.
    pub(super) fn tables(&self) -> impl Iterator<Item = (usize, &'a [Word])> {
        self.words.chunks(ENTRIES).enumerate().map(|(number, words)| (number * ENTRIES, words))
    }

    /// The pages of the folio that a page belongs to, which ends before this page.
    pub(super) fn folio_end(&self, page: usize) -> usize {
        if page < self.in_blocks { page / BLOCK * BLOCK + BLOCK } else { page + 1 }
    }
}

/// Which entries of a table page are of these pages.
pub(super) fn slots(first: usize, words: &[Word], pages: &Range<usize>) -> Range<usize> {
    let slot = |page: usize| page.saturating_sub(first).min(words.len());
    slot(pages.start)..slot(pages.end)
}

/// The format of the entries.
pub(super) const fn format() -> Arm {
    Arm::new(Geometry::new(Granule::K4, AddressSize::Bits48))
}

/// Whether an entry maps a page.
pub(super) const fn is_present(entry: u64) -> bool {
    entry & PAGE == PAGE
}

/// Whether it is one of a block.
pub(super) fn is_contiguous(entry: u64) -> bool {
    format().is_folded(Raw(entry))
}

/// Whether it says that its page was used or written to.
pub(super) fn has_flags(entry: u64) -> bool {
    let flags = format().flags(Raw(entry));
    flags.accessed || flags.dirty
}

/// `entry` with the flags of `other` on top.
pub(super) fn with_flags_of(entry: u64, other: u64) -> u64 {
    let flags = format().flags(Raw(other));
    let dirty = if flags.dirty { DIRTY } else { 0 };
    let accessed = if flags.accessed { ACCESSED } else { 0 };
    entry | dirty | accessed
}

/// `entry` without permission to write.
pub(super) const fn read_only(entry: u64) -> u64 {
    entry | READ_ONLY
}

/// The contiguous entry of a plain page.
pub(super) const fn folded(entry: u64) -> u64 {
    entry | CONTIGUOUS
}

/// The plain page of a contiguous entry.
pub(super) const fn unfolded(entry: u64) -> u64 {
    entry & !CONTIGUOUS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_and_the_rest_are_pages() {
        let arena = Arena::new(1 << 20);
        let tables = PageTables::new(&arena, 100, 40);
        assert_eq!((tables.pages(), tables.in_blocks()), (100, 48));
        tables.fill(true);
        let (_, words) = tables.tables().next().expect("one table");
        let folded = words.iter().filter(|word| is_contiguous(word.peek())).count();
        let present = words.iter().filter(|word| is_present(word.peek())).count();
        assert_eq!((folded, present), (48, 100));
        assert_eq!((tables.folio_end(17), tables.folio_end(48)), (32, 49));
        assert!(has_flags(words[3].peek()));
    }
}
