//! The entries of a table page, with and without its lock.

use core::ops::Range;

use super::{
    Flags,
    format::{Format, Raw},
    gathered::Gathered,
    shape::Shape,
    word,
};
use crate::{arch::SizeChange, error::Error, range::VaRange, word::Word};

/// How often [`Entries::get`] looks at a block that changes under its eyes.
pub const ATTEMPTS: usize = 4;

/// Last-level entries of one table page: all of them, or some whole blocks.
///
/// This is what may be done without the table's lock, which is to look.
#[derive(Debug)]
pub struct Entries<'a, W, F> {
    words: &'a [W],
    start: u64,
    format: F,
}

impl<W, F: Clone> Clone for Entries<'_, W, F> {
    fn clone(&self) -> Self {
        Self { words: self.words, start: self.start, format: self.format.clone() }
    }
}

impl<W, F: Copy> Copy for Entries<'_, W, F> {}

impl<'a, W: Word, F: Format> Entries<'a, W, F> {
    /// The entries in `words`, the first of which is for the address `start`.
    ///
    /// # Errors
    ///
    /// * [`Error::EmptyRange`] if there are none.
    /// * [`Error::UnalignedRange`] if they do not begin and end with a block.
    /// * [`Error::BeyondTable`] if they are of more than one table page.
    /// * [`Error::RangeOverflow`] if they run past the top of the address space.
    pub fn new(format: F, words: &'a [W], start: u64) -> Result<Self, Error> {
        let shape = format.shape();
        let first = (start >> shape.page_shift) as usize % shape.table_entries;
        if words.len() > shape.table_entries - first {
            let end = first.saturating_add(words.len());
            return Err(Error::BeyondTable { end, entries: shape.table_entries });
        }
        VaRange::new(start, (words.len() as u64) << shape.page_shift, shape.block_shift())?;
        Ok(Self { words, start, format })
    }

    /// The same for code that may change them; changes of size are made as `size_change` says.
    ///
    /// # Safety
    ///
    /// As long as the value is there, the caller promises:
    ///
    /// * Only the caller and hardware write these entries: the caller holds the table's lock.
    /// * The entries are those of a table of this format, at this address, and hardware changes only
    ///   their flags.
    /// * Every [`super::Flush`] that is passed in does what [`super::Flush::flush`] says, for the
    ///   space of this table.
    /// * `size_change`, and every [`super::Full`], are true of this machine and this space.
    /// * What is put into the table maps memory that the space may use. Memory whose entry was
    ///   taken out goes back to its owner only after a flush of its address has completed, and an
    ///   entry that was protected or lost flags counts as such only after that too.
    pub unsafe fn locked(self, size_change: SizeChange) -> Locked<'a, W, F> {
        Locked { entries: self, size_change }
    }

    /// The state of the page in slot `index`, without the table's lock.
    ///
    /// It is the state of one block: every entry is checked to belong to it. It may be out of date
    /// when the caller looks at it; a caller that takes the page looks again afterwards.
    ///
    /// Where it is absent, its block may be being taken out or broken at this moment: the entries beside it may be there
    /// still, and CPUs use the page through them. So no gather relies on what this finds absent
    /// ([`Gather::relies_on`](crate::Gather::relies_on)) unless no block was there: for that, take the table's lock.
    ///
    /// # Errors
    ///
    /// * [`Error::BeyondTable`] if there is no such slot.
    /// * [`Error::Torn`] if the block changed at each of [`ATTEMPTS`] attempts. The caller takes the
    ///   lock.
    pub fn get(&self, index: usize) -> Result<Gathered, Error> {
        self.check(index..index.saturating_add(1))?;
        for _ in 0..ATTEMPTS {
            let own = word::read(&self.words[index]);
            let slot = self.slot(index);
            if !self.format.is_folded(own) {
                return Ok(Gathered::new(self.format, own, slot, Flags::NONE));
            }
            let base = self.base(own, slot);
            let attributes = self.format.attributes(own);
            let belongs = |(slot, word)| {
                let entry = word::read(word);
                let same = self.format.is_folded(entry)
                    && self.base(entry, slot) == base
                    && self.format.attributes(entry) == attributes;
                same.then(|| self.format.flags(entry))
            };
            let mut block = self.words[self.block(index)].iter().enumerate().map(belongs);
            if let Some(flags) = block.try_fold(Flags::NONE, |all, flags| Some(all | flags?)) {
                return Ok(Gathered::new(self.format, own, slot, flags));
            }
        }
        Err(Error::Torn { index })
    }

    /// How many entries there are.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "there are always some")]
    pub const fn len(&self) -> usize {
        self.words.len()
    }

    pub(super) fn words(&self) -> &'a [W] {
        self.words
    }

    pub(super) fn format(&self) -> F {
        self.format
    }

    pub(super) fn shape(&self) -> Shape {
        self.format.shape()
    }

    /// The place of `index` in its block.
    pub(super) fn slot(&self, index: usize) -> usize {
        // The first entry begins a block.
        index % self.shape().block_pages
    }

    /// The slots of the block that `index` is in.
    pub(super) fn block(&self, index: usize) -> Range<usize> {
        let first = index - self.slot(index);
        first..first + self.shape().block_pages
    }

    /// The plain page that a present entry in slot `slot` of a block maps.
    #[inline]
    pub(super) fn page(&self, present: Raw, slot: usize) -> Raw {
        if self.format.is_folded(present) { self.format.unfold(present, slot) } else { present }
    }

    /// Where the first page of the block must be in memory, given the present entry in slot `slot`.
    /// Wraps for an entry that cannot belong there.
    pub(super) fn base(&self, present: Raw, slot: usize) -> u64 {
        let output = self.format.output(self.page(present, slot));
        output.wrapping_sub((slot as u64) << self.shape().page_shift)
    }

    /// The addresses of these slots.
    pub(super) fn addresses(&self, slots: Range<usize>) -> Result<VaRange, Error> {
        let shift = self.shape().page_shift;
        let start = self.start + ((slots.start as u64) << shift);
        VaRange::new(start, (slots.len() as u64) << shift, shift)
    }

    /// Checks that all slots are there, and at least one.
    pub(super) fn check(&self, slots: Range<usize>) -> Result<(), Error> {
        if slots.end > self.words.len() {
            return Err(Error::BeyondTable { end: slots.end, entries: self.words.len() });
        }
        if slots.is_empty() {
            return Err(Error::EmptyRange);
        }
        Ok(())
    }
}

/// Last-level entries of one table page, for the holder of its lock.
///
/// No block is ever partly taken out when a method returns, unless it was before.
#[derive(Debug)]
pub struct Locked<'a, W, F> {
    entries: Entries<'a, W, F>,
    size_change: SizeChange,
}

impl<'a, W: Word, F: Format> Locked<'a, W, F> {
    /// The same, to look at without the lock.
    #[must_use]
    pub fn entries(&self) -> Entries<'a, W, F> {
        self.entries
    }

    pub(super) fn size_change(&self) -> SizeChange {
        self.size_change
    }

    /// The state of the page in slot `index`: its entry, with the flags of its block.
    ///
    /// # Errors
    ///
    /// [`Error::BeyondTable`] if there is no such slot.
    pub fn get(&self, index: usize) -> Result<Gathered, Error> {
        let (entries, format) = (self.entries, self.entries.format());
        entries.check(index..index.saturating_add(1))?;
        let own = word::peek(&entries.words()[index]);
        let mut flags = Flags::NONE;
        if format.is_folded(own) {
            for word in &entries.words()[entries.block(index)] {
                let entry = word::peek(word);
                // What is absent has no flags: those bits are software's there.
                if format.is_present(entry) {
                    flags |= format.flags(entry);
                }
                if flags == Flags::ALL {
                    break;
                }
            }
        }
        Ok(Gathered::new(format, own, entries.slot(index), flags))
    }
}
