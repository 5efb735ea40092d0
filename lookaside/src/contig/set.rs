//! Putting pages in.

use core::ops::Range;

use super::{
    format::{Format, Raw},
    table::Locked,
    word,
};
use crate::{error::Error, word::Word};

impl<W: Word, F: Format> Locked<'_, W, F> {
    /// Maps the slots to pages that follow each other in memory, the first of which is that of
    /// `first`, all with its attributes and flags. Where `slots` contains a whole aligned block and the
    /// memory is aligned too, the entries become a block; a call with one slot never makes one (see
    /// [`Self::fold`]). Precondition: the accessed and dirty flags of these pages may be merged.
    ///
    /// If the slots mapped anything before, a flush of that has completed. (The exception is a page
    /// that was and will be plain, or a block that was and will be one, and changes in its
    /// permissions only: either may be seen until the flush.)
    ///
    /// # Errors
    ///
    /// * [`Error::EmptyRange`] if there are no slots.
    /// * [`Error::BeyondTable`] if there are not so many.
    /// * [`Error::NotAPage`] if `first` is absent or of a block.
    /// * [`Error::OutputOverflow`] if the last page's address has too many bits.
    /// * [`Error::EntryPresent`] if a slot maps something.
    pub fn set(&mut self, slots: Range<usize>, first: Raw) -> Result<(), Error> {
        let (entries, format) = (self.entries(), self.entries().format());
        let shape = entries.shape();
        entries.check(slots.clone())?;
        if !format.is_present(first) || format.is_folded(first) {
            return Err(Error::NotAPage { entry: first.0 });
        }
        let output = format.output(first);
        let bytes = (slots.len() as u64) << shape.page_shift;
        if bytes > (1 << format.output_bits()) - output {
            return Err(Error::OutputOverflow { start: output, bytes });
        }
        for index in slots.clone() {
            if format.is_present(word::peek(&entries.words()[index])) {
                return Err(Error::EntryPresent { index });
            }
        }
        let mut next = slots.start;
        while next < slots.end {
            let block = entries.block(next);
            let part = next..block.end.min(slots.end);
            next = part.end;
            let output = output + (((part.start - slots.start) as u64) << shape.page_shift);
            let whole = part == block && output.is_multiple_of(shape.block_bytes());
            for (place, word) in (0..).zip(&entries.words()[part]) {
                let page = format.at(first, output + (place << shape.page_shift));
                word::make(word, if whole { format.fold(page) } else { page });
            }
        }
        Ok(())
    }
}
