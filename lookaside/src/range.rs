//! Ranges of virtual addresses, checked once at construction so that the code that plans flushes need not.

use core::fmt;

use crate::error::Error;

/// A non-empty, page-aligned range of virtual addresses that does not wrap.
///
/// The range may end at the very top of the address space, which is why it keeps a count of pages
/// and not an end address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VaRange {
    /// The first address and, in the bits that no page-aligned address has, the size of the pages.
    start_and_shift: u64,
    pages: u64,
}

/// The bits of [`VaRange::start_and_shift`] that hold the size of the pages.
const SHIFT: u64 = 0x3f;

impl VaRange {
    /// The value of a place without a range: zeros, which cost least to write.
    pub(crate) const NONE: Self = Self { start_and_shift: 0, pages: 0 };

    /// The range of `bytes` bytes from `start`, in pages of `1 << page_shift` bytes.
    ///
    /// # Errors
    ///
    /// * [`Error::PageSize`] if `page_shift` is not in `12..=48`.
    /// * [`Error::EmptyRange`] if `bytes` is zero.
    /// * [`Error::UnalignedRange`] if `start` or `bytes` is no multiple of the page size.
    /// * [`Error::RangeOverflow`] if the range runs past the top of the address space.
    pub const fn new(start: u64, bytes: u64, page_shift: u32) -> Result<Self, Error> {
        if page_shift < 12 || page_shift > 48 {
            return Err(Error::PageSize { shift: page_shift });
        }
        if bytes == 0 {
            return Err(Error::EmptyRange);
        }
        let offset = (1 << page_shift) - 1;
        if start & offset != 0 || bytes & offset != 0 {
            return Err(Error::UnalignedRange { start, bytes, page_shift });
        }
        // The last byte, and not the end, must be representable.
        if start.checked_add(bytes - 1).is_none() {
            return Err(Error::RangeOverflow { start, bytes });
        }
        Ok(Self { start_and_shift: start | page_shift as u64, pages: bytes >> page_shift })
    }

    /// The first address.
    #[must_use]
    #[inline]
    pub const fn start(&self) -> u64 {
        self.start_and_shift & !SHIFT
    }

    /// The last address that belongs to the range.
    #[must_use]
    #[inline]
    pub const fn last(&self) -> u64 {
        self.start() + ((self.pages << self.page_shift()) - 1)
    }

    /// How many pages the range has: at least one.
    #[must_use]
    #[inline]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// The binary logarithm of the page size in bytes.
    #[must_use]
    #[inline]
    pub const fn page_shift(&self) -> u32 {
        (self.start_and_shift & SHIFT) as u32
    }
}

impl fmt::Debug for VaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, pages, shift) = (self.start(), self.pages, self.page_shift());
        write!(f, "{pages} pages of 2^{shift} bytes at {start:#x}")
    }
}

/// Addresses whose translations must be flushed, and whether all of them have the same page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlushRange {
    /// The addresses, in pages of the smallest size that changed among them.
    pub range: VaRange,
    /// Whether every entry that changed has exactly the page size of `range`, so that a level hint is
    /// allowed.
    pub uniform: bool,
}

impl FlushRange {
    /// Entries of exactly the page size of `range`.
    #[must_use]
    pub const fn uniform(range: VaRange) -> Self {
        Self { range, uniform: true }
    }
}
