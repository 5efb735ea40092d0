//! Ways to take down the page tables of a process that has contiguous blocks, when it exits.
//!
//! Arm's contiguous bit lets a TLB hold sixteen pages as one; to change one of the sixteen entries
//! a kernel first makes plain pages of the block, with a flush in between. At the exit of a process
//! that is wasted: everything goes anyway. How to avoid it was tried out in several versions of one
//! series of patches (Ryan Roberts, "Transparent Contiguous PTEs for User Mappings", linux-arm-kernel,
//! June to December 2023), and measured with each on the same machine. They are built here from the
//! descriptions in those mails; the library's own is [`lookaside::contig`].
//!
//! All read and write the same words, and all end with one flush of the whole space. As strategies
//! they differ in nothing else from Linux's broadcasts.

mod published;
mod table;
mod whole;

use core::ops::Range;

pub use table::{BLOCK, PageTables};

use super::{Entry, Place, Strategy};
use lookaside_terminal::Refused;

use crate::data::Isa;

/// The strategies that name a way to clear blocks, and flush as Linux does on Arm.
pub(super) const STRATEGIES: &[Entry] = &[
    Entry {
        name: "no-blocks",
        about: "Linux's broadcasts; no contiguous entries at all (Linux 6.7 with large folios)",
        isas: &[Isa::Aarch64],
        build: broadcasts,
    },
    Entry {
        name: "unfold",
        about: "Linux's broadcasts; blocks become pages before one is cleared (Roberts, 2023)",
        isas: &[Isa::Aarch64],
        build: broadcasts,
    },
    Entry {
        name: "simple",
        about: "Linux's broadcasts; entries of blocks are cleared one by one, flags may get lost \
                (Roberts, v2 of Nov 2023)",
        isas: &[Isa::Aarch64],
        build: broadcasts,
    },
    Entry {
        name: "robust",
        about: "Linux's broadcasts; the same, and flags are carried to another entry of the block \
                (Roberts, 30 Nov 2023)",
        isas: &[Isa::Aarch64],
        build: broadcasts,
    },
    Entry {
        name: "clear-ptes",
        about: "Linux's broadcasts; the entries of a folio are cleared together (Roberts, v3 of \
                Dec 2023)",
        isas: &[Isa::Aarch64],
        build: broadcasts,
    },
];

fn broadcasts(place: Place<'_>) -> Result<Box<dyn Strategy + '_>, Refused> {
    (super::find("linux-broadcast", place.machine)?.build)(place)
}

/// A way to clear blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// There are none.
    NoBlocks,
    /// They become pages first.
    Unfold,
    /// Each entry by itself.
    Simple,
    /// Each entry by itself, with its flags moved to another.
    Robust,
    /// All entries of a folio at once, found one by one.
    Batch,
    /// The library's: a block at once.
    Whole,
}

/// The part of the kernel that a way to clear blocks needs.
pub trait Zap {
    /// Flushes the sixteen pages of a block from this one on, on every CPU, and waits.
    fn flush_block(&self, first: u64);

    /// Frees pages, this many of which have been removed from the tables.
    fn gone(&self, pages: u64);
}

impl Way {
    /// The way that goes with a strategy.
    ///
    /// # Errors
    ///
    /// If the strategy has no opinion about blocks.
    pub fn of(strategy: &str) -> Result<Self, Refused> {
        Ok(match strategy {
            "no-blocks" => Self::NoBlocks,
            "unfold" => Self::Unfold,
            "simple" => Self::Simple,
            "robust" => Self::Robust,
            "clear-ptes" => Self::Batch,
            "lookaside" | "lookaside-early" => Self::Whole,
            _ => {
                let ways = STRATEGIES.iter().map(|entry| format!("`{}`, ", entry.name));
                let ways: String = ways.collect();
                return Err(Refused(format!(
                    "strategy `{strategy}` says nothing about contiguous blocks; {ways}`lookaside` \
                     and `lookaside-early` do"
                )));
            }
        })
    }

    /// Whether memory is mapped with contiguous entries.
    #[must_use]
    pub fn has_blocks(self) -> bool {
        self != Self::NoBlocks
    }

    /// Takes all pages out of the tables of a process that exits.
    pub fn clear(self, tables: &PageTables<'_>, zap: &impl Zap) {
        self.clear_some(tables, 0..tables.pages() as usize, zap);
    }

    /// Takes some pages out of the tables of a process that exits.
    pub fn exit(self, tables: &PageTables<'_>, pages: Range<usize>, zap: &impl Zap) {
        self.clear_some(tables, pages, zap);
    }

    fn clear_some(self, tables: &PageTables<'_>, pages: Range<usize>, zap: &impl Zap) {
        match self {
            Self::Whole => whole::clear(tables, pages, zap),
            Self::Batch => published::clear_batches(tables, pages, zap),
            Self::NoBlocks | Self::Unfold | Self::Simple | Self::Robust => {
                published::clear_each(self, tables, pages, zap);
            }
        }
    }

    /// Takes some pages out of the tables of a process that goes on. The versions of November 2023 clear entries of blocks one by
    /// one for an exit alone, and make pages of blocks otherwise.
    pub fn unmap(self, tables: &PageTables<'_>, pages: Range<usize>, zap: &impl Zap) {
        let way = match self {
            Self::Simple | Self::Robust => Self::Unfold,
            other => other,
        };
        way.clear_some(tables, pages, zap);
    }

    /// Takes write permission from pages that a fork shares with a child, and says whether each block becomes pages for that and a
    /// block again: with two flushes in the parent, and one in the child, which gets the entries one by one too.
    pub fn share(self, tables: &PageTables<'_>, pages: Range<usize>, zap: &impl Zap) -> bool {
        match self {
            Self::Whole => whole::write_protect(tables, pages, zap),
            _ => published::write_protect(self == Self::Unfold, tables, pages, zap),
        }
        self == Self::Unfold
    }

    /// Takes permission from pages, or gives it (`mprotect`): Linux changes entries one by one, in every version.
    pub fn protect(self, tables: &PageTables<'_>, pages: Range<usize>, zap: &impl Zap) {
        match self {
            Self::Whole => whole::write_protect(tables, pages, zap),
            _ => published::write_protect(self.has_blocks(), tables, pages, zap),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use lookaside_machine::timed::Arena;

    use super::*;

    #[derive(Default)]
    struct Counts {
        flushed: Cell<u64>,
        gone: Cell<u64>,
    }

    impl Zap for Counts {
        fn flush_block(&self, _: u64) {
            self.flushed.set(self.flushed.get() + 1);
        }

        fn gone(&self, pages: u64) {
            self.gone.set(self.gone.get() + pages);
        }
    }

    #[test]
    fn every_way_takes_all_pages_out_and_only_one_flushes_blocks() {
        for way in [Way::NoBlocks, Way::Unfold, Way::Simple, Way::Robust, Way::Batch, Way::Whole] {
            let arena = Arena::new(1 << 20);
            let tables = PageTables::new(&arena, 600, 64);
            tables.fill(way.has_blocks());
            let counts = Counts::default();
            way.clear(&tables, &counts);
            let left = tables.tables().flat_map(|(_, words)| words).filter(|w| w.peek() != 0);
            assert_eq!(left.count(), 0, "{way:?}");
            assert_eq!(counts.gone.get(), 600, "{way:?}");
            let blocks = if way == Way::Unfold { 4 } else { 0 };
            assert_eq!(counts.flushed.get(), blocks, "{way:?}");
        }
    }

    #[test]
    fn the_ways_are_found_by_the_names_of_strategies() {
        for entry in STRATEGIES {
            assert!(Way::of(entry.name).is_ok());
        }
        assert!(Way::of("linux-broadcast").is_err_and(|refused| refused.0.contains("`unfold`")));
    }
}
