//! Ranges of virtual addresses, checked once at construction so that the code that plans flushes need not.

use core::{fmt, ops::Range};

use crate::error::Error;

/// A non-empty, page-aligned range of virtual addresses that does not wrap.
///
/// The range may end at the very top of the address space, which is why it keeps a count of pages
/// and not an end address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VaRange {
    /// The first address and, in the bits that no page-aligned address has, the size of the pages and whether entries of
    /// several sizes changed.
    start_and_shift: u64,
    pages: u64,
}

/// The bits of [`VaRange::start_and_shift`] that hold the size of the pages.
const SHIFT: u64 = 0x3f;
/// Its bit that says that entries of several sizes changed.
const MIXED: u64 = 0x40;
/// Its bits that are no address.
const NOT_ADDRESS: u64 = 0xfff;

impl VaRange {
    /// The value of a place without a range: zeros, which cost least to write.
    pub(crate) const NONE: Self = Self { start_and_shift: 0, pages: 0 };
    /// The value of a place for every address. It is no range either.
    pub(crate) const ALL: Self = Self { start_and_shift: 0, pages: u64::MAX };

    /// Whether this is [`Self::NONE`].
    #[inline]
    pub(crate) const fn is_none(&self) -> bool {
        self.pages == 0
    }

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

    /// The pages of 4 KiB that contain `addresses`; `None` if these are empty.
    ///
    /// # Panics
    ///
    /// If that is every page there is: no range names all 2^64 bytes.
    #[must_use]
    #[track_caller]
    pub const fn covering(addresses: Range<u64>) -> Option<Self> {
        if addresses.start >= addresses.end {
            return None;
        }
        let (first, last) = (addresses.start >> 12, (addresses.end - 1) >> 12);
        assert!(last - first < u64::MAX >> 12, "a range of all 2^64 bytes");
        Some(Self { start_and_shift: first << 12 | 12, pages: last - first + 1 })
    }

    /// The page of 4 KiB that contains `address`.
    #[must_use]
    pub const fn page(address: u64) -> Self {
        Self { start_and_shift: address & !NOT_ADDRESS | 12, pages: 1 }
    }

    /// The range in two words.
    #[inline]
    pub(crate) const fn to_words(self) -> [u64; 2] {
        [self.start_and_shift, self.pages]
    }

    /// What [`Self::to_words`] returned. If the words are of two ranges, it is none, and is not to be used.
    #[inline]
    pub(crate) const fn of_words([start_and_shift, pages]: [u64; 2]) -> Self {
        Self { start_and_shift, pages }
    }

    /// What [`Self::to_words`] returned; `None` if the words are of no range, since they are of two.
    #[inline]
    pub(crate) fn from_words([start_and_shift, pages]: [u64; 2]) -> Option<Self> {
        let range = Self::of_words([start_and_shift, pages]);
        let bytes = pages.checked_shl(range.page_shift())?;
        Self::new(range.start(), bytes, range.page_shift()).is_ok().then_some(range)
    }

    /// The same addresses, in which entries of several sizes changed; the page size is that of the smallest. Without
    /// this, every entry that changed has exactly the page size of the range, so that a level hint is allowed.
    #[must_use]
    #[inline]
    pub const fn mixed(self) -> Self {
        Self { start_and_shift: self.start_and_shift | MIXED, ..self }
    }

    /// The same addresses, in which entries as small as `1 << page_shift` bytes may have changed.
    pub(crate) const fn in_pages(self, page_shift: u32) -> Self {
        let Some(smaller) = self.page_shift().checked_sub(page_shift) else { return self.mixed() };
        Self { start_and_shift: self.start() | page_shift as u64, pages: self.pages << smaller }
            .mixed()
    }

    /// Whether every entry that changed has exactly the page size of the range.
    #[must_use]
    #[inline]
    pub const fn is_uniform(&self) -> bool {
        self.start_and_shift & MIXED == 0
    }

    /// The first address.
    #[must_use]
    #[inline]
    pub const fn start(&self) -> u64 {
        self.start_and_shift & !NOT_ADDRESS
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

/// Recognises a range that is one page of the smallest size in the lower half of the addresses, as most ranges are: by one
/// comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserPage {
    /// The bits of [`VaRange::start_and_shift`] that are compared.
    mask: u64,
    page_shift: u64,
}

impl UserPage {
    /// Pages of `1 << page_shift` bytes, below the address `1 << address_bits`.
    pub(crate) const fn new(page_shift: u32, address_bits: u32) -> Self {
        Self { mask: u64::MAX << address_bits | SHIFT, page_shift: page_shift as u64 }
    }

    /// The same, without those that may have been part of a larger entry ([`VaRange::mixed`]).
    pub(crate) const fn uniform(self) -> Self {
        Self { mask: self.mask | MIXED, ..self }
    }

    /// Whether `range` is one of these pages.
    #[inline]
    pub(crate) const fn is(self, range: &VaRange) -> bool {
        range.pages == 1 && range.start_and_shift & self.mask == self.page_shift
    }
}

impl fmt::Debug for VaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, pages, shift) = (self.start(), self.pages, self.page_shift());
        let mixed = if self.is_uniform() { "" } else { " and more" };
        write!(f, "{pages} pages of 2^{shift} bytes{mixed} at {start:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_of_one_size_in_the_lower_half_is_recognised() {
        let pages = UserPage::new(12, 38);
        let page = VaRange::page(0x3f_ffff_f000);
        let range = |start, bytes, shift| VaRange::new(start, bytes, shift).unwrap();
        assert!(pages.is(&page) && pages.is(&page.mixed()) && pages.is(&VaRange::page(0)));
        assert!(pages.uniform().is(&page) && !pages.uniform().is(&page.mixed()));
        for other in [
            VaRange::page(0x40_0000_0000),
            VaRange::page(0xffff_ffc0_0000_0000),
            range(0x1000, 0x2000, 12),
            range(0x20_0000, 0x20_0000, 21),
            range(0x1_0000, 0x1_0000, 16),
            VaRange::NONE,
            VaRange::ALL,
        ] {
            assert!(!pages.is(&other), "{other:?}");
        }
    }

    #[test]
    fn addresses_are_covered_by_whole_pages() {
        let covered = |addresses| VaRange::covering(addresses);
        let pages = |start, bytes| VaRange::new(start, bytes, 12).ok();
        assert_eq!(covered(0x1000..0x3000), pages(0x1000, 0x2000));
        assert_eq!(covered(0x1fff..0x2001), pages(0x1000, 0x2000));
        assert_eq!(covered(0x1001..0x1002), pages(0x1000, 0x1000));
        assert_eq!(covered(u64::MAX - 1..u64::MAX), pages(!0xfff, 0x1000));
        assert_eq!(covered(0x1000..u64::MAX).map(|range| range.last()), Some(u64::MAX));
    }

    #[test]
    #[should_panic(expected = "all 2^64 bytes")]
    fn no_range_names_every_address() {
        _ = VaRange::covering(0xfff..u64::MAX);
    }

    #[test]
    fn no_addresses_are_covered_by_none() {
        assert_eq!(VaRange::covering(0x1000..0x1000), None);
        assert_eq!(VaRange::covering(Range { start: 0x2000, end: 0x1000 }), None);
    }

    #[test]
    fn an_address_is_in_its_page() {
        for address in [0, 0xfff, 0x7123, u64::MAX] {
            assert_eq!(VaRange::new(address & !0xfff, 0x1000, 12), Ok(VaRange::page(address)));
        }
    }
}
