//! The state of one page, whichever entries carry it.

use super::{
    Flags,
    format::{Format, Raw},
};

/// What a page's state is: its own entry, as a plain page, with the flags of all entries of its
/// block.
///
/// It is no [`Raw`], and not equal to one: what stands in the slot may differ, and "nothing changes"
/// must be asked of the slots. Nor are two of these compared, for the same reason.
#[derive(Clone, Copy, Debug)]
#[must_use = "the flags are told once: what was taken out of the table is nowhere else"]
pub struct Gathered {
    bits: u64,
    flags: Flags,
    present: bool,
    folded: bool,
}

impl Gathered {
    /// The state of the page whose slot `slot` of a block held `raw`, where the block has `flags`
    /// besides the entry's own.
    pub(super) fn new<F: Format>(format: F, raw: Raw, slot: usize, flags: Flags) -> Self {
        let folded = format.is_folded(raw);
        if !format.is_present(raw) {
            return Self { bits: raw.0, flags: Flags::NONE, present: false, folded };
        }
        let page = if folded { format.unfold(raw, slot) } else { raw };
        let flags = flags | format.flags(page);
        Self { bits: format.with(page, flags).0, flags, present: true, folded }
    }

    /// The same with more flags, if the page is present.
    pub(super) fn with<F: Format>(self, format: F, flags: Flags) -> Self {
        if !self.present {
            return self;
        }
        let flags = self.flags | flags;
        Self { bits: format.with(Raw(self.bits), flags).0, flags, ..self }
    }

    /// The entry that would map this page by itself with this state, to be read and to be written
    /// after it was taken out; of an absent one, what the slot holds.
    ///
    /// No slot need hold this value. To ask whether a slot would change, compare [`Raw`]s.
    #[must_use]
    pub const fn bits(&self) -> u64 {
        self.bits
    }

    /// Whether a walk can use the entry.
    #[must_use]
    pub const fn is_present(&self) -> bool {
        self.present
    }

    /// Whether the page belongs to a block.
    #[must_use]
    pub const fn is_folded(&self) -> bool {
        self.folded
    }

    /// The flags. An absent page has none.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether the page was used, or one of its block.
    #[must_use]
    pub const fn accessed(&self) -> bool {
        self.flags.accessed
    }

    /// Whether the page was written to, or one of its block.
    #[must_use]
    pub const fn dirty(&self) -> bool {
        self.flags.dirty
    }
}
