//! Taking pages out.

use core::ops::Range;

use super::{
    Flags,
    format::{Format, Raw},
    gathered::Gathered,
    resize::Flush,
    table::Locked,
    word,
};
use crate::{arch::SizeChange, error::Error, word::Word};

/// Whether the whole space goes. [`Self::No`] is always right; nothing that a caller gets back
/// depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// It may not, or somebody may still use it.
    #[default]
    No,
    /// No CPU's root register names the space, and none will again before what is held of it is
    /// dropped. So no walk can meet a block and plain pages for the same address, and blocks that are
    /// cut through need no flush.
    Yes,
}

/// What was taken out.
#[derive(Clone, Copy, Debug)]
#[must_use = "the flags are told once: what was taken out of the table is nowhere else"]
pub struct Cleared {
    /// The state of the first page, with [`Self::flags`] if it is present.
    pub first: Gathered,
    /// The flags of all pages that were taken out, whether the first slot maps a page or not: what
    /// [`crate::Gather::found`] is told.
    pub flags: Flags,
    /// How many slots held a present entry.
    pub present: usize,
}

impl<W: Word, F: Format> Locked<'_, W, F> {
    /// Takes the pages in `slots` out, and tells the first one's entry and all flags: of the pages,
    /// and of the blocks that they belonged to.
    ///
    /// Each slot is taken from once. Blocks that go as a whole go as they are; a block that `slots`
    /// cuts through, of which there are at most two, is broken, flushed (but see [`SizeChange`] and
    /// [`Full`]), and the pages outside `slots` are written back as plain pages, with all flags.
    ///
    /// Slots that map nothing may be among them. What software has put into such a slot
    /// ([`Self::set_absent`]) is lost, but for that of the first, which is in [`Cleared::first`].
    ///
    /// # Errors
    ///
    /// * [`Error::EmptyRange`] if there are no slots.
    /// * [`Error::BeyondTable`] if there are not so many.
    pub fn get_and_clear(
        &mut self,
        slots: Range<usize>,
        full: Full,
        flush: &mut impl Flush,
    ) -> Result<Cleared, Error> {
        let (entries, format) = (self.entries(), self.entries().format());
        entries.check(slots.clone())?;
        let first = word::peek(&entries.words()[slots.start]);
        let (mut flags, mut present) = (Flags::NONE, 0);
        let mut next = slots.start;
        while next < slots.end {
            let block = entries.block(next);
            let part = next..block.end.min(slots.end);
            next = part.end;
            let cut = part.len() < block.len();
            if cut && part.clone().any(|i| format.is_folded(word::peek(&entries.words()[i]))) {
                let size_change = match full {
                    Full::No => self.size_change(),
                    Full::Yes => SizeChange::Free,
                };
                let broken = self.break_block(block.clone(), size_change, flush)?;
                flags |= broken.flags;
                present += broken.present_in(part.start - block.start..part.end - block.start);
                self.make_block(block.clone(), block.start..part.start, &broken, |page| page);
                self.make_block(block.clone(), part.end..block.end, &broken, |page| page);
            } else {
                for word in &entries.words()[part] {
                    let entry = word::take(word);
                    if format.is_present(entry) {
                        flags |= format.flags(entry);
                        present += 1;
                    }
                }
            }
        }
        // Only flags of the first entry can have changed since we looked, and those we have.
        let first = Gathered::new(format, first, entries.slot(slots.start), Flags::NONE);
        Ok(Cleared { first: first.with(format, flags), flags, present })
    }

    /// As [`Self::get_and_clear`] for pages whose flags nobody asks for. Returns how many slots held
    /// a present entry.
    ///
    /// # Errors
    ///
    /// As [`Self::get_and_clear`].
    pub fn clear(
        &mut self,
        slots: Range<usize>,
        full: Full,
        flush: &mut impl Flush,
    ) -> Result<usize, Error> {
        self.get_and_clear(slots, full, flush).map(|cleared| cleared.present)
    }

    /// Writes something of software's, such as where the page was swapped to, into a slot that maps
    /// nothing. Neither what it held nor what it will hold is of any block, so none is broken.
    ///
    /// # Errors
    ///
    /// * [`Error::BeyondTable`] if there is no such slot.
    /// * [`Error::EntryPresent`] if the slot maps a page, or `marker` would.
    pub fn set_absent(&mut self, index: usize, marker: Raw) -> Result<(), Error> {
        let (entries, format) = (self.entries(), self.entries().format());
        entries.check(index..index.saturating_add(1))?;
        let word = &entries.words()[index];
        if format.is_present(marker) || format.is_present(word::peek(word)) {
            return Err(Error::EntryPresent { index });
        }
        word::make(word, marker);
        Ok(())
    }
}
