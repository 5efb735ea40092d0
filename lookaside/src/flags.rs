//! The accessed and dirty flags of page-table entries.

use core::ops::{BitOr, BitOrAssign};

/// The flags that hardware sets in page-table entries by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// The page was used.
    pub accessed: bool,
    /// The page was written to, or may have been.
    pub dirty: bool,
}

impl Flags {
    /// Neither.
    pub const NONE: Self = Self { accessed: false, dirty: false };
    /// Used.
    pub const ACCESSED: Self = Self { accessed: true, dirty: false };
    /// Written to.
    pub const DIRTY: Self = Self { accessed: false, dirty: true };
    /// Both.
    pub const ALL: Self = Self { accessed: true, dirty: true };

    /// The flags that are set in both `self` and `chosen`.
    #[must_use]
    pub const fn only(self, chosen: Self) -> Self {
        Self { accessed: self.accessed & chosen.accessed, dirty: self.dirty & chosen.dirty }
    }

    /// Whether `self` has all flags that `other` has.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        (self.accessed | !other.accessed) & (self.dirty | !other.dirty)
    }
}

impl BitOr for Flags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self { accessed: self.accessed | other.accessed, dirty: self.dirty | other.dirty }
    }
}

impl BitOrAssign for Flags {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}
