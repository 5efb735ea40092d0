//! Between a block and plain pages: break before make.

use core::ops::Range;

use super::{
    Flags,
    format::{Format, Raw},
    table::Locked,
    word,
};
use crate::{arch::SizeChange, error::Error, range::VaRange, word::Word};

/// What makes hardware forget.
///
/// [`crate::CurrentCpu::flush_blocks`] makes one; a closure that takes a [`VaRange`] is one, too.
pub trait Flush {
    /// Removes what hardware holds of last-level entries for the addresses in `range`, which are
    /// given in pages of the table: on every CPU that may hold any, blocks that reach into the range
    /// included. When it returns,
    ///
    /// * the stores that the caller made before are visible to every walk, and
    /// * no CPU uses anything that it read before them, nor can do so later.
    ///
    /// It may remove more. It is called with the table's lock held.
    fn flush(&mut self, range: VaRange);
}

impl<T: FnMut(VaRange)> Flush for T {
    fn flush(&mut self, range: VaRange) {
        self(range);
    }
}

/// What was taken out of a block.
pub(super) struct Broken {
    /// The first page of the block, with no block's mark, and with the flags of all.
    first: Raw,
    /// The slots that held present entries.
    present: u128,
    /// The flags of all.
    pub(super) flags: Flags,
}

impl Broken {
    /// How many of these slots of the block held present entries.
    pub(super) fn present_in(&self, slots: Range<usize>) -> usize {
        slots.filter(|slot| self.present & 1 << slot != 0).count()
    }
}

impl<W: Word, F: Format> Locked<'_, W, F> {
    /// Makes a block of the plain pages that `index` and its neighbours map.
    ///
    /// Afterwards all of them have the flags that any of them had. Returns whether there was
    /// anything to do. The block is flushed in the middle if [`SizeChange`] says so, and nothing
    /// need be flushed afterwards.
    ///
    /// # Errors
    ///
    /// * [`Error::BeyondTable`] if there is no such slot.
    /// * [`Error::EntryAbsent`] if one of the slots maps nothing.
    /// * [`Error::UnalignedOutput`] if the first page is not at the start of a block in memory.
    /// * [`Error::EntriesDisagree`] if the pages do not follow each other in memory, differ in more
    ///   than their flags, or if only some belong to a block.
    pub fn fold(&mut self, index: usize, flush: &mut impl Flush) -> Result<bool, Error> {
        let (entries, format) = (self.entries(), self.entries().format());
        entries.check(index..index.saturating_add(1))?;
        let block = entries.block(index);
        let words = &entries.words()[block.clone()];
        let first = word::peek(&words[0]);
        if format.is_folded(first) {
            return Ok(false);
        }
        // Under the lock nothing but flags changes between these checks and what follows.
        let base = entries.base(first, 0);
        for (slot, word) in words.iter().enumerate() {
            let entry = word::peek(word);
            let index = block.start + slot;
            if !format.is_present(entry) {
                return Err(Error::EntryAbsent { index });
            }
            let disagrees = format.is_folded(entry)
                || entries.base(entry, slot) != base
                || format.attributes(entry) != format.attributes(first);
            if disagrees {
                return Err(Error::EntriesDisagree { index });
            }
        }
        if !base.is_multiple_of(entries.shape().block_bytes()) {
            return Err(Error::UnalignedOutput { output: base });
        }
        let broken = self.break_block(block.clone(), self.size_change(), flush)?;
        self.make_block(block.clone(), block, &broken, |page| format.fold(page));
        Ok(true)
    }

    /// Makes plain pages of the block that `index` is in.
    ///
    /// Afterwards all of them have the flags that any of them had. Returns whether there was a block.
    /// The block is flushed in the middle if [`SizeChange`] says so, and nothing need be flushed
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::BeyondTable`] if there is no such slot.
    pub fn unfold(&mut self, index: usize, flush: &mut impl Flush) -> Result<bool, Error> {
        let entries = self.entries();
        entries.check(index..index.saturating_add(1))?;
        if !entries.format().is_folded(word::peek(&entries.words()[index])) {
            return Ok(false);
        }
        let block = entries.block(index);
        let broken = self.break_block(block.clone(), self.size_change(), flush)?;
        self.make_block(block.clone(), block, &broken, |page| page);
        Ok(true)
    }

    /// Makes plain pages of the blocks that `slots` cuts through.
    pub(super) fn unfold_ends(
        &mut self,
        slots: Range<usize>,
        flush: &mut impl Flush,
    ) -> Result<(), Error> {
        let entries = self.entries();
        let (first, last) = (slots.start, slots.end - 1);
        // One that is cut at both ends is the last one's, too.
        if entries.block(first).start < first {
            self.unfold(first, flush)?;
        }
        if entries.block(last).end > slots.end {
            self.unfold(last, flush)?;
        }
        Ok(())
    }

    /// Takes out all present entries of a block, and makes hardware forget them. Each slot is
    /// taken from once; slots that hold no present entry are left alone. `flags` come on top.
    ///
    /// An error is returned before anything is changed.
    pub(super) fn break_block(
        &mut self,
        block: Range<usize>,
        size_change: SizeChange,
        flush: &mut impl Flush,
    ) -> Result<Broken, Error> {
        let (entries, format) = (self.entries(), self.entries().format());
        let addresses = entries.addresses(block.clone())?;
        let (mut first, mut flags) = (Raw(0), Flags::NONE);
        let (mut present, mut held) = (0, false);
        for (slot, word) in entries.words()[block].iter().enumerate() {
            if !format.is_present(word::peek(word)) {
                continue;
            }
            let entry = word::take(word);
            flags |= format.flags(entry);
            held |= format.may_be_held(entry);
            first = format.at(entries.page(entry, slot), entries.base(entry, slot));
            present |= 1 << slot;
        }
        let flushes = match size_change {
            SizeChange::Flushed => true,
            SizeChange::FlushedIfHeld => held,
            SizeChange::Free => false,
        };
        if flushes {
            flush.flush(addresses);
        }
        Ok(Broken { first: format.with(first, flags), present, flags })
    }

    /// Writes what was taken out of `block` back into those of its slots that are in `slots`, each
    /// page in the `shape` it shall have.
    pub(super) fn make_block(
        &mut self,
        block: Range<usize>,
        slots: Range<usize>,
        broken: &Broken,
        shape: impl Fn(Raw) -> Raw,
    ) {
        let (entries, format) = (self.entries(), self.entries().format());
        let base = format.output(broken.first);
        for index in slots {
            let slot = index - block.start;
            if broken.present & 1 << slot != 0 {
                let output = base + ((slot as u64) << entries.shape().page_shift);
                let page = format.at(broken.first, output);
                word::make(&entries.words()[index], shape(page));
            }
        }
    }
}
