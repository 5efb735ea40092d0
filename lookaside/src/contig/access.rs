//! Changing what entries say of pages that stay: flags and permissions.

use core::ops::Range;

use super::{
    Flags,
    format::{Format, Raw},
    resize::Flush,
    table::Locked,
    word,
};
use crate::{error::Error, word::Word};

/// What an access needs that faulted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// These flags: [`Flags::ACCESSED`] for a load, both for a store.
    pub flags: Flags,
    /// That stores be allowed. The kernel has decided that they may be: the page is nobody else's.
    pub write: bool,
}

impl Access {
    /// A load, or the fetch of an instruction.
    pub const LOAD: Self = Self { flags: Flags::ACCESSED, write: false };
    /// A store.
    pub const STORE: Self = Self { flags: Flags::ALL, write: true };
}

impl<W: Word, F: Format> Locked<'_, W, F> {
    /// Takes from the pages in `slots` the permission to be written, and no flag. Blocks that `slots`
    /// cuts through become plain pages first, and `flush` is called for those only. Returns whether
    /// anything changed.
    ///
    /// The entries are protected one after the other, without a break. Until the caller's flush, a CPU
    /// may store through a cached entry that was writable, or through an entry of the block that is not
    /// protected yet. A store that must first set the dirty state reads the entry again that it updates:
    /// if that is protected the store faults, and if not the flag is kept. Precondition: hardware
    /// compares that same entry in its atomic update.
    ///
    /// # Errors
    ///
    /// * [`Error::EmptyRange`] if there are no slots.
    /// * [`Error::BeyondTable`] if there are not so many.
    pub fn write_protect(
        &mut self,
        slots: Range<usize>,
        flush: &mut impl Flush,
    ) -> Result<bool, Error> {
        let (entries, format) = (self.entries(), self.entries().format());
        entries.check(slots.clone())?;
        self.unfold_ends(slots.clone(), flush)?;
        let mut changed = false;
        for word in &entries.words()[slots] {
            changed |= self.change(word, |entry| format.write_protected(entry));
        }
        Ok(changed)
    }

    /// Forgets that the pages in `slots` were used, and returns whether any was. Blocks are not
    /// broken: those that `slots` touches lose the flag as a whole, for it is the whole that has it.
    ///
    /// Until the flush that the caller may make afterwards, hardware can use what it holds and set no
    /// flag. That flush is of all pages of the blocks that `slots` touches.
    ///
    /// # Errors
    ///
    /// As [`Self::clear_flags`].
    pub fn clear_accessed(&mut self, slots: Range<usize>) -> Result<bool, Error> {
        self.clear_flags(slots, Flags::ACCESSED).map(|flags| flags.accessed)
    }

    /// Forgets that the pages in `slots` were written to, and returns whether any was; as
    /// [`Self::clear_accessed`].
    ///
    /// The caller flushes before it takes the pages for clean, and all pages of the blocks that `slots` touches: until then
    /// stores can go through that set no flag.
    ///
    /// # Errors
    ///
    /// As [`Self::clear_flags`].
    pub fn clear_dirty(&mut self, slots: Range<usize>) -> Result<bool, Error> {
        self.clear_flags(slots, Flags::DIRTY).map(|flags| flags.dirty)
    }

    /// Clears these flags of the pages in `slots`, and of all others of the blocks that they belong
    /// to. Returns those that were set. See [`Self::clear_accessed`] and [`Self::clear_dirty`].
    ///
    /// # Errors
    ///
    /// * [`Error::EmptyRange`] if there are no slots.
    /// * [`Error::BeyondTable`] if there are not so many.
    pub fn clear_flags(&mut self, slots: Range<usize>, flags: Flags) -> Result<Flags, Error> {
        let (entries, format) = (self.entries(), self.entries().format());
        entries.check(slots.clone())?;
        let mut cleared = Flags::NONE;
        let mut next = slots.start;
        while next < slots.end {
            let block = entries.block(next);
            let mut part = next..block.end.min(slots.end);
            next = part.end;
            let mut words = entries.words()[part.clone()].iter();
            if words.any(|word| format.is_folded(word::peek(word))) {
                part = block;
            }
            for word in &entries.words()[part] {
                let was = word::update(format, word, |entry| format.without(entry, flags));
                // What an absent entry holds are no flags.
                cleared |= was.map_or(Flags::NONE, |(was, _)| format.flags(was).only(flags));
            }
        }
        Ok(cleared)
    }

    /// Repairs a fault on the page in slot `index`: gives it what `access` needs and takes nothing
    /// away. Returns whether anything changed; if not, the fault was spurious.
    ///
    /// A block is given flags as a whole, in every entry that lacks one: another walker, a device's
    /// for example, may look at any of them. A permission is this page's alone, so its block becomes
    /// plain pages; `flush` is called for that only. Hardware may hold the old entry of the page for
    /// a while, and fault once more.
    ///
    /// # Errors
    ///
    /// * [`Error::BeyondTable`] if there is no such slot.
    /// * [`Error::EntryAbsent`] if the slot maps nothing.
    pub fn set_access(
        &mut self,
        index: usize,
        access: Access,
        flush: &mut impl Flush,
    ) -> Result<bool, Error> {
        let (entries, format) = (self.entries(), self.entries().format());
        let page = index..index.saturating_add(1);
        entries.check(page.clone())?;
        let own = word::peek(&entries.words()[index]);
        if !format.is_present(own) {
            return Err(Error::EntryAbsent { index });
        }
        if access.write && !format.is_writable(own) {
            self.unfold(index, flush)?;
            let allow = |entry| format.with(format.writable(entry), access.flags);
            return Ok(self.change(&entries.words()[index], allow));
        }
        let slots = if format.is_folded(own) { entries.block(index) } else { page };
        let mut changed = false;
        for word in &entries.words()[slots] {
            changed |= self.change(word, |entry| format.with(entry, access.flags));
        }
        Ok(changed)
    }

    /// Whether a slot changed that was to become `then`. The question is put to the slot itself, and
    /// never to the state of its block.
    fn change(&self, word: &W, then: impl Fn(Raw) -> Raw) -> bool {
        word::update(self.entries().format(), word, then).is_some_and(|(_, changed)| changed)
    }
}
