//! The word of each CPU that says which initiators are about to send it an IPI, and one page that it is told with it.
//!
//! It serves targets that run the space of the flush: they find what they have missed by the generation of the space, and
//! take no number of a queue. An initiator only sets the word. If that is 0, one page is all and no other flush of the
//! space is under way, the initiator first *claims* the word, then writes the page beside it ([`PendingIpi::tell_page`]),
//! and describes nothing: so a target reads one line of another CPU's, and not two. While the word is not 0 nobody else
//! claims it, and nothing that its owner reads there changes. The page is a hint: with its context id and generation,
//! neither of which is ever used again, the owner knows whether it is the flush that it has missed.

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
    /// Which CPU has described the request; `None` if the target was told the page.
    #[inline]
    pub(crate) const fn described_by(self) -> Option<CpuId> {
        if self.0 & TOLD == 0 { Some(CpuId((self.0 - 1) as u32)) } else { None }
    }
}

/// The pending IPI of one CPU. Its initiators write it.
pub(crate) struct PendingIpi<W> {
    /// The initiators whose IPI this CPU has not handled yet: 0 for none, or the number of the first plus one, with the
    /// bits below.
    word: W,
    /// What an initiator asks for that has claimed `word`.
    page: TargetPage<W>,
}

/// One page of one space that a target must flush.
struct TargetPage<W> {
    context: W,
    generation: W,
    range: [W; 2],
}

/// In the word: the initiator that is named writes `page`, and sends its IPI after that.
const CLAIMED: u64 = 1 << 63;
/// In the word: it has written `page`, and described nothing.
const TOLD: u64 = 1 << 62;
/// In the word: there are initiators beside the one that is named, or none is named.
const MORE: u64 = 1 << 61;

impl<W: Word> PendingIpi<W> {
    pub(crate) const NEW: Self = Self {
        word: W::ZERO,
        page: TargetPage { context: W::ZERO, generation: W::ZERO, range: [const { W::ZERO }; 2] },
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

    /// As [`Self::set`], of a flush that is one page of last-level entries and need not be described.
    pub(crate) fn tell_page(
        &self,
        from: CpuId,
        (context, generation): (u64, u64),
        page: VaRange,
    ) -> bool {
        if let Err(must_send) = self.claim(named(from) | CLAIMED) {
            return must_send;
        }
        let told = &self.page;
        // Relaxed, all: only this CPU writes them while it has the claim, and O-TOLD releases them.
        told.context.store(context, Ordering::Relaxed);
        told.generation.store(generation, Ordering::Relaxed);
        for (word, value) in told.range.iter().zip(page.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        // ORDER O-TOLD (pairs with O-PENDING-READ): the page, then that it is there.
        self.word.fetch_add(TOLD.wrapping_sub(CLAIMED), Ordering::Release);
        true
    }

    /// Sets the pending word to `mine` if it is 0.
    ///
    /// # Errors
    ///
    /// Otherwise it is noted that there are more initiators; and the error says whether the owner, which has cleared the
    /// word in between, must be sent an IPI all the same.
    #[inline]
    fn claim(&self, mine: u64) -> Result<(), bool> {
        // ORDER O-PENDING (pairs with F-CLEAR-PENDING, O-PENDING-READ, O-TOLD-READ): after F-GENERATION; a target
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
        // ORDER O-PENDING-READ (pairs with O-PENDING, O-TOLD): the word, then what the initiator has described or told.
        match self.word.load(Ordering::Acquire) {
            0 => Initiators::None,
            several if several & MORE != 0 => Initiators::Several,
            claimed if claimed & CLAIMED != 0 => Initiators::None,
            one => Initiators::One(OneInitiator(one)),
        }
    }

    /// As the owner, whose IPI is pending from one initiator: the page that it was told, if that is the flush of
    /// `generation` of the space with this context id.
    #[inline]
    pub(crate) fn told_page(&self, context: u64, generation: u64) -> Option<VaRange> {
        let told = &self.page;
        // Relaxed, all: after O-PENDING-READ, and nobody writes them before this CPU has cleared the word.
        let is_it = told.generation.load(Ordering::Relaxed) == generation
            && told.context.load(Ordering::Relaxed) == context;
        if !is_it {
            return None;
        }
        let [first, second] = &told.range;
        let words = [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)];
        Some(VaRange::of_words(words))
    }

    /// As the owner, which has processed the request of `only`: clears the pending word, and returns whether
    /// no other initiator has set it meanwhile.
    pub(crate) fn clear_from(&self, only: OneInitiator) -> bool {
        // ORDER O-TOLD-READ (pairs with O-PENDING): what was told was read, before another initiator can claim the word.
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
