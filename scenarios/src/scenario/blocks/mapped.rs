//! The pages that are mapped when a scenario of blocks begins.

use core::ops::Range;

use lookaside::contig::Flags;

use super::Mapped;

const fn mapped(slots: Range<usize>, flags: Flags) -> Mapped {
    Mapped { slots, plain: false, flags, dirty: None, marker: None }
}

/// A block that is accessed and clean.
pub(in crate::scenario) const USED: &[Mapped] = &[mapped(0..4, Flags::ACCESSED)];
/// A block that was never accessed.
pub(in crate::scenario) const FRESH: &[Mapped] = &[mapped(0..4, Flags::NONE)];
/// A block whose last entry is dirty.
pub(in crate::scenario) const DIRTY: &[Mapped] =
    &[Mapped { dirty: Some(3), ..mapped(0..4, Flags::ACCESSED) }];
/// A block of which a kernel has unmapped one page, and left the other entries as they were.
pub(in crate::scenario) const PIECES: &[Mapped] =
    &[Mapped { marker: Some(1), ..mapped(0..4, Flags::ACCESSED) }];
/// The same as plain pages.
pub(in crate::scenario) const PAGES: &[Mapped] =
    &[Mapped { plain: true, dirty: Some(3), ..mapped(0..4, Flags::ACCESSED) }];
/// Pages that were never accessed.
pub(in crate::scenario) const FRESH_PAGES: &[Mapped] =
    &[Mapped { plain: true, ..mapped(0..4, Flags::NONE) }];
/// Two blocks.
pub(in crate::scenario) const TWO: &[Mapped] = &[mapped(0..8, Flags::ACCESSED)];
/// A block at the end of the table.
pub(in crate::scenario) const LAST: &[Mapped] = &[mapped(12..16, Flags::ACCESSED)];
/// A whole block of sixteen.
pub(in crate::scenario) const WIDE: &[Mapped] = &[mapped(0..16, Flags::ACCESSED)];
