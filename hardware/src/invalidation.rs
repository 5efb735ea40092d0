//! What an invalidation names, in one shape for all architectures.

/// A walk that a TLB or a cache of partial walks holds, as far as an invalidation looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The tag that it was cached under: ASID, VMID or PCID. Not looked at if it is global.
    pub tag: u16,
    /// It holds under every tag.
    pub global: bool,
    /// The first and the last page number that it translates, or leads to.
    pub pages: (u64, u64),
    /// The level of the descriptor it ends at, counted from the last, which is 0.
    pub level: u8,
    /// It is a partial walk: the descriptor names a table.
    pub table: bool,
}

/// Which partial walks an invalidation removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Partial {
    /// None.
    No,
    /// Those that lead to an address it names.
    Leading,
    /// All under the tags that it names.
    All,
}

/// What an invalidation removes, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Invalidation {
    /// The tag, or every tag.
    pub tag: Option<u16>,
    /// Global entries too, whatever the tag.
    pub globals: bool,
    /// The first and the last page that it names.
    pub pages: (u64, u64),
    /// How many pages lie from one page that it names to the next; 1 if it names all of them. An entry in
    /// between two stays.
    pub stride: u64,
    /// Which partial walks.
    pub partial: Partial,
    /// Only pages and blocks of this level, where the operand says that the entry is of it.
    pub level: Option<u8>,
}

impl Invalidation {
    /// Every page.
    pub const EVERYWHERE: (u64, u64) = (0, u64::MAX);

    /// Everything, or everything that is not global.
    #[must_use]
    pub const fn all(globals: bool) -> Self {
        let pages = Self::EVERYWHERE;
        Self { tag: None, globals, pages, stride: 1, partial: Partial::All, level: None }
    }

    /// Everything of one tag that is not global.
    #[must_use]
    pub const fn of_tag(tag: u16) -> Self {
        Self { tag: Some(tag), ..Self::all(false) }
    }

    /// The same on hardware that keeps only the bits of a tag that are set in `mask`.
    #[must_use]
    pub fn with_tags_of(self, mask: u16) -> Self {
        Self { tag: self.tag.map(|tag| tag & mask), ..self }
    }

    /// Whether it removes `cached`.
    #[must_use]
    #[inline]
    pub fn names(&self, cached: &Cached) -> bool {
        let tagged =
            if cached.global { self.globals } else { self.tag.is_none_or(|tag| tag == cached.tag) };
        tagged
            && if cached.table {
                match self.partial {
                    Partial::No => false,
                    Partial::Leading => self.meets(cached.pages),
                    Partial::All => true,
                }
            } else {
                self.level.is_none_or(|level| level == cached.level) && self.meets(cached.pages)
            }
    }

    /// Whether it names a page from the first to the last of a pair.
    #[inline]
    fn meets(&self, (first, last): (u64, u64)) -> bool {
        if first > self.pages.1 || last < self.pages.0 {
            return false;
        }
        if self.stride == 1 {
            return true;
        }
        // The first page that it names at or after `first`.
        let steps = first.saturating_sub(self.pages.0).div_ceil(self.stride);
        let next = self.pages.0.saturating_add(steps.saturating_mul(self.stride));
        next <= last && next <= self.pages.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Cached = Cached { tag: 3, global: false, pages: (5, 5), level: 0, table: false };

    fn page(page: u64) -> Cached {
        Cached { pages: (page, page), ..PAGE }
    }

    #[test]
    fn a_tag_spares_other_tags_and_globals() {
        let of_three = Invalidation::of_tag(3);
        assert!(of_three.names(&PAGE));
        assert!(!of_three.names(&Cached { tag: 4, ..PAGE }));
        assert!(!of_three.names(&Cached { global: true, ..PAGE }));
        assert!(Invalidation::all(true).names(&Cached { global: true, ..PAGE }));
        assert!(!Invalidation::all(false).names(&Cached { global: true, ..PAGE }));
    }

    #[test]
    fn pages_between_two_strides_are_not_named() {
        let every_fourth = Invalidation { pages: (4, 12), stride: 4, ..Invalidation::all(false) };
        let named = |cached: Cached| every_fourth.names(&cached);
        let found = [3, 4, 5, 7, 8, 9, 12, 13, 16].map(|at| named(page(at)));
        assert_eq!(found, [false, true, false, false, true, false, true, false, false]);
        // A block that holds one of them goes, one that lies between two does not.
        assert!(named(Cached { pages: (0, 15), level: 1, ..PAGE }));
        assert!(named(Cached { pages: (6, 8), ..PAGE }));
        assert!(!named(Cached { pages: (5, 7), ..PAGE }));
        // So does a partial walk, if it must lead to one.
        let leading = Invalidation { partial: Partial::Leading, ..every_fourth };
        let table = Cached { table: true, level: 1, ..PAGE };
        assert!(leading.names(&Cached { pages: (8, 11), ..table }));
        assert!(!leading.names(&Cached { pages: (16, 19), ..table }));
    }

    #[test]
    fn a_level_is_one_of_pages_and_blocks() {
        let last = Invalidation { level: Some(0), ..Invalidation::all(false) };
        assert!(last.names(&PAGE));
        assert!(!last.names(&Cached { level: 1, ..PAGE }));
        assert!(last.names(&Cached { level: 1, table: true, ..PAGE }));
    }
}
