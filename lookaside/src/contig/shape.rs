//! How large pages and blocks are.

use crate::arch::{aarch64::Granule, riscv64::svnapot};

/// The sizes of one kind of table: everything that the code of this module knows of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub(super) page_shift: u32,
    pub(super) block_pages: usize,
    pub(super) table_entries: usize,
}

impl Shape {
    /// 4 KiB pages, blocks of 64 KiB (manual D8.7.1, contiguous bit, level 3).
    pub const ARM_4K: Self = Self { page_shift: 12, block_pages: 16, table_entries: 512 };
    /// 16 KiB pages, blocks of 2 MiB.
    pub const ARM_16K: Self = Self { page_shift: 14, block_pages: 128, table_entries: 2048 };
    /// 64 KiB pages, blocks of 2 MiB.
    pub const ARM_64K: Self = Self { page_shift: 16, block_pages: 32, table_entries: 8192 };
    /// 4 KiB pages, blocks of 64 KiB (privileged manual, Svnapot).
    pub const SVNAPOT: Self = Self { page_shift: 12, block_pages: 16, table_entries: 512 };

    /// The shape of an Arm granule.
    #[must_use]
    pub const fn arm(granule: Granule) -> Self {
        match granule {
            Granule::K4 => Self::ARM_4K,
            Granule::K16 => Self::ARM_16K,
            Granule::K64 => Self::ARM_64K,
        }
    }

    /// The same pages in smaller blocks and tables, as models of this code take them to have few states.
    ///
    /// # Panics
    ///
    /// If `block_pages` is no power of two or more than 128, or `table_entries` no multiple of it.
    #[must_use]
    pub const fn with_small_tables(self, block_pages: usize, table_entries: usize) -> Self {
        let shape = Self { block_pages, table_entries, ..self };
        assert!(shape.is_valid());
        shape
    }

    /// Entries that were taken out are remembered in the bits of one word, and a block does not leave its table.
    const fn is_valid(self) -> bool {
        self.block_pages.is_power_of_two()
            && self.block_pages <= u128::BITS as usize
            && self.table_entries.is_multiple_of(self.block_pages)
    }

    /// How many pages a block has: a power of two, at most 128.
    #[must_use]
    pub const fn block_pages(self) -> usize {
        self.block_pages
    }

    /// How many entries a table page has.
    #[must_use]
    pub const fn table_entries(self) -> usize {
        self.table_entries
    }

    /// The binary logarithm of a page, in bytes.
    #[must_use]
    pub const fn page_shift(self) -> u32 {
        self.page_shift
    }

    /// The binary logarithm of a block, in bytes.
    #[must_use]
    pub const fn block_shift(self) -> u32 {
        self.page_shift + self.block_pages.trailing_zeros()
    }

    /// The size of a page in bytes.
    #[must_use]
    pub const fn page_bytes(self) -> u64 {
        1 << self.page_shift
    }

    /// The size of a block in bytes.
    #[must_use]
    pub const fn block_bytes(self) -> u64 {
        1 << self.block_shift()
    }
}

const _: () = {
    let shapes = [Shape::ARM_4K, Shape::ARM_16K, Shape::ARM_64K, Shape::SVNAPOT];
    let mut i = 0;
    while i < shapes.len() {
        let shape = shapes[i];
        // A table is one page of eight-byte entries.
        assert!(shape.is_valid());
        assert!(shape.table_entries as u64 * 8 == shape.page_bytes());
        i += 1;
    }
    assert!(Shape::SVNAPOT.block_shift() == svnapot::BLOCK_SHIFT);
    assert!(Shape::SVNAPOT.block_pages as u64 == svnapot::ENTRIES);
};
