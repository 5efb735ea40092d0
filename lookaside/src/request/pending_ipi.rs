//! The word of each CPU that says which initiators are about to send it an IPI, and one range that is requested with it.
//!
//! If the word is 0, one range is all and no other flush of the space is under way, an initiator *claims* the word, then
//! writes the range beside it, and describes nothing: so a target reads one line of another CPU's, and not two. While the
//! word is not 0 nobody else claims it, and nothing that its owner reads there changes.
//!
//! Where generations are kept ([`crate::tags::Tags::tracks_generations`]) the targets are those that run the space of the
//! flush: they find what they have missed by its generation, and take no number of a queue. An initiator that cannot
//! claim the word only sets it. One page is requested inline ([`PendingIpi::post_page`]), and is a hint: with its context id and
//! generation, neither of which is ever used again, the owner knows whether it is the flush that it has missed. It
//! acknowledges by the generation, and beside the word, where the initiator looks first.
//!
//! Elsewhere the range is the request ([`PendingIpi::post_range`]), and the owner acknowledges by clearing the word. An
//! initiator that cannot claim it posts to the queue.

use crate::{
    ids::CpuId,
    range::VaRange,
    word::{Ordering, Word},
};

/// The initiators whose IPI a CPU has not handled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Initiators {
    None,
    One(OneInitiator),
    Several,
}

/// The only initiator whose IPI a CPU has not handled yet: what the word of pending IPIs is then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneInitiator(u64);

impl OneInitiator {
    /// Which CPU has described the request; `None` if it is inline.
    #[inline]
    pub(crate) const fn described_by(self) -> Option<CpuId> {
        if self.0 & INLINE == 0 { Some(CpuId((self.0 - 1) as u32)) } else { None }
    }
}

/// The pending IPI of one CPU. Its initiators write it.
pub(crate) struct PendingIpi<W> {
    /// The initiators whose IPI this CPU has not handled yet: 0 for none, or the number of the first plus one, with the
    /// bits below.
    word: W,
    /// The request of the initiator that has claimed `word`.
    inline: InlineRequest<W>,
}

/// One range of one space that a target must flush, in the line of the target.
struct InlineRequest<W> {
    context: W,
    generation: W,
    range: [W; 2],
}

/// In the word: the initiator that is named writes `inline`, and sends its IPI after that.
const CLAIMED: u64 = 1 << 63;
/// In the word: it has written `inline`, and described nothing.
const INLINE: u64 = 1 << 62;
/// In the word: there are initiators beside the one that is named, or none is named.
const MORE: u64 = 1 << 61;

impl<W: Word> PendingIpi<W> {
    pub(crate) const NEW: Self = Self {
        word: W::ZERO,
        inline: InlineRequest {
            context: W::ZERO,
            generation: W::ZERO,
            range: [const { W::ZERO }; 2],
        },
    };

    /// As initiator `from`, which has raised the generation of a space and described the flush: sets the
    /// pending word of the owner, and returns whether `from` must send the IPI. If not, another initiator has
    /// set the word before and sends it, and the owner has not cleared the word yet. If there are concurrent
    /// flushes (`has_concurrent`), the word is read first, because there may be nothing to write.
    pub(crate) fn set(&self, from: CpuId, has_concurrent: bool) -> bool {
        // As O-PENDING.
        if has_concurrent && self.word.load(Ordering::SeqCst) & MORE != 0 {
            return false;
        }
        match self.claim(named(from)) {
            Ok(()) => true,
            Err(must_send) => must_send,
        }
    }

    /// As [`Self::set`], of a flush that is one page of last-level entries and need not be described: writes it beside the word.
    ///
    /// # Errors
    ///
    /// If another initiator has set the word, what [`Self::set`] returns.
    pub(crate) fn post_page(
        &self,
        from: CpuId,
        (context, generation): (u64, u64),
        page: VaRange,
    ) -> Result<(), bool> {
        self.claim(named(from) | CLAIMED)?;
        self.inline.generation.store(generation, Ordering::Relaxed); // Relaxed: as in `write_inline`.
        self.write_inline(context, page);
        Ok(())
    }

    /// As initiator `from`, which waits until the owner has cleared the word: requests a range of last-level entries, and returns
    /// whether it did. If not, another initiator has claimed the word.
    pub(crate) fn post_range(&self, from: CpuId, context: u64, range: VaRange) -> bool {
        // As O-PENDING. It comes after F-ANNOUNCE.
        let claim = named(from) | CLAIMED;
        if self.word.compare_exchange(0, claim, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false; // Relaxed: the queue of the owner has an order of its own.
        }
        self.write_inline(context, range);
        true
    }

    /// As the initiator that has claimed the word.
    #[inline]
    fn write_inline(&self, context: u64, range: VaRange) {
        let request = &self.inline;
        // Relaxed, all: only this CPU writes them while it has the claim, and O-INLINE releases them.
        request.context.store(context, Ordering::Relaxed);
        for (word, value) in request.range.iter().zip(range.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        // ORDER O-INLINE (pairs with O-PENDING-READ): the range, then that it is there.
        self.word.fetch_add(INLINE.wrapping_sub(CLAIMED), Ordering::Release);
    }

    /// As an initiator that has requested a page: whether the owner is seen to have removed it. If not, it may have
    /// flushed by another way, and its generation says so unless [`Self::is_pending_from`].
    #[inline]
    pub(crate) fn has_removed_page(&self) -> bool {
        // ORDER O-REMOVED-READ (pairs with O-REMOVED): the flush is seen to be complete before the frame is used anew.
        self.inline.generation.load(Ordering::Acquire) == 0
    }

    /// As initiator `from`: whether the owner has not handled its inline request yet.
    #[inline]
    pub(crate) fn is_pending_from(&self, from: CpuId) -> bool {
        // ORDER O-CLEARED (pairs with O-INLINE-READ): the flush is seen to be complete before the frame is used anew.
        self.word.load(Ordering::Acquire) == named(from) | INLINE
    }

    /// Sets the pending word to `mine` if it is 0.
    ///
    /// # Errors
    ///
    /// Otherwise it is noted that there are more initiators; and the error says whether the owner, which has cleared the
    /// word in between, must be sent an IPI all the same.
    #[inline]
    fn claim(&self, mine: u64) -> Result<(), bool> {
        // ORDER O-PENDING (pairs with F-CLEAR-PENDING, O-PENDING-READ, O-INLINE-READ): after F-GENERATION; a target
        // that sees the word sees what the initiator has described; and what is written for it comes after its claim.
        match self.word.compare_exchange(0, mine, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Ok(()),
            Err(others) if others & MORE != 0 => Err(false),
            Err(_) => Err(self.word.fetch_or(MORE, Ordering::SeqCst) == 0), // As O-PENDING.
        }
    }

    /// `stopped` executes nothing any more, as a claimant of the pending word neither. Returns whether an IPI is pending
    /// that it may not have sent.
    pub(crate) fn end_claim_of(&self, stopped: CpuId) -> bool {
        let mut now = self.word.load(Ordering::SeqCst); // As O-PENDING.
        while now & !MORE == named(stopped) | CLAIMED {
            match self.word.compare_exchange(now, MORE, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(found) => now = found,
            }
        }
        now != 0
    }

    /// As the owner: the initiators whose IPI is pending. That of one that still writes its page is yet to come.
    pub(crate) fn initiators(&self) -> Initiators {
        // ORDER O-PENDING-READ (pairs with O-PENDING, O-INLINE): the word, then what the initiator has described or written inline.
        match self.word.load(Ordering::Acquire) {
            0 => Initiators::None,
            several if several & MORE != 0 => Initiators::Several,
            claimed if claimed & CLAIMED != 0 => Initiators::None,
            one => Initiators::One(OneInitiator(one)),
        }
    }

    /// As the owner, whose IPI is pending from one initiator: the page of the inline request, if that is the flush of
    /// `generation` of the space with this context id.
    #[inline]
    pub(crate) fn inline_page(&self, context: u64, generation: u64) -> Option<VaRange> {
        // Relaxed: as in `inline_range`.
        if self.inline.generation.load(Ordering::Relaxed) != generation {
            return None;
        }
        let (requested, page) = self.inline_range();
        (requested == context).then_some(page)
    }

    /// As the owner, which has removed the page of the inline request: says so to the initiator.
    #[inline]
    pub(crate) fn set_removed_page(&self) {
        // ORDER O-REMOVED (pairs with O-REMOVED-READ): the flush is complete, and so are the accesses of this CPU through the old
        // translation. Who claims the word after that writes a generation that is not 0.
        self.inline.generation.store(0, Ordering::Release);
    }

    /// As the owner, whose IPI is pending from one initiator: the context id and the range of the inline request.
    #[inline]
    pub(crate) fn inline_range(&self) -> (u64, VaRange) {
        // Relaxed, all: after O-PENDING-READ, and nobody writes them before this CPU has cleared the word.
        let InlineRequest { context, range: [first, second], .. } = &self.inline;
        let words = [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)];
        (context.load(Ordering::Relaxed), VaRange::of_words(words))
    }

    /// As the owner, which has processed the request of `only`: clears the pending word, and returns whether
    /// no other initiator has set it meanwhile.
    pub(crate) fn clear_from(&self, only: OneInitiator) -> bool {
        // ORDER O-INLINE-READ (pairs with O-PENDING, O-CLEARED): the inline request was read, before another initiator can claim the
        // word; and where no generation says so to the initiator, the flush is complete, and so are the accesses of this
        // CPU through the old translations.
        self.word.compare_exchange(only.0, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// As the owner: clears the pending word, before it reads the generation. The IPI of an initiator that still writes its
    /// page remains pending.
    pub(crate) fn clear(&self) {
        // FENCE F-CLEAR-PENDING (pairs with F-GENERATION, O-PENDING): the cleared word, then the
        // generation. An initiator that found the word set has raised the generation before.
        //
        // Relaxed: nobody claims the word unless it is 0.
        if self.word.load(Ordering::Relaxed) & CLAIMED != 0 {
            self.word.fetch_and(!MORE, Ordering::SeqCst);
        } else {
            self.word.swap(0, Ordering::SeqCst);
        }
    }

    /// The owner is about to come up. No initiator sends requests to it before that, but one that found it running
    /// before it went down may still write its page, and sends its IPI then.
    pub(super) fn come_up(&self) {
        // Relaxed: as in `RequestQueue::come_up`.
        let was = self.word.load(Ordering::Relaxed);
        if was != 0 && was & CLAIMED == 0 {
            self.word.store(0, Ordering::Relaxed);
        }
    }
}

/// The word where this initiator is the only one.
const fn named(initiator: CpuId) -> u64 {
    initiator.0 as u64 + 1
}

#[cfg(test)]
mod tests;
