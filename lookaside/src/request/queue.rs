//! The queue of flush requests of each CPU, and their acknowledgement.
//!
//! # Two numbers for each CPU
//!
//! An initiator takes the next number of the target's *queue*. The target acknowledges by writing the last
//! number that it has processed to its *acknowledged* word, which no other CPU writes; an initiator waits
//! until that word has reached its number. This gives one flag for each pair of initiator and target
//! without a table of pairs: work and cache lines touched are proportional to the targets, memory to the
//! CPUs, and initiators share no lock.
//!
//! # The request
//!
//! The initiator describes it once, in its own *request* (Linux: `flush_tlb_info`), which it does not change
//! until every target has acknowledged. Beside the number, a ring of a few slots tells the target which CPU
//! is the initiator. A slot is a hint: a target that finds it not written yet, or overwritten because of too
//! many concurrent requests, flushes everything it holds. A lost slot costs time, never a flush.
//!
//! # Targets that run the space
//!
//! They find what they have missed by the generation of the space, and take no number: an initiator only sets their
//! word of pending IPIs. If that is 0, one page is all and no other flush of the space is under way, the initiator first
//! *claims* the word, then writes the page beside it ([`RequestQueue::tell_page`]), and describes nothing: so a target
//! reads one line of another CPU's, and not two. While the word is not 0 nobody else claims it, and nothing that its
//! owner reads there changes. The page is a hint as well: with its context id and generation, neither of which is ever
//! used again, the owner knows whether it is the flush that it has missed.
//!
//! Numbers have 64 bits and begin with 1; they are compared by order, never wrap and never tear
//! ([`crate::Platform::Word`] is 64 bits wide on every host).

use super::{FlushRanges, FlushRequest, FlushScope, ReceivedRequest, ranges::MAX_RANGES};
use crate::{
    arch::TableChange,
    ids::CpuId,
    range::VaRange,
    word::{Aligned, Ordering, Word},
};

/// How many pending requests a target can tell apart: with the number, one cache line.
const RING: usize = 7;

/// `acknowledged` of a CPU that is not up: no initiator waits for it.
const DOWN: u64 = u64::MAX;

/// Bits of a slot that name the initiator.
const CPU_BITS: u32 = 13;
const _: () = assert!(crate::ids::MAX_CPUS <= 1 << CPU_BITS, "every CPU fits a slot");

/// The initiators whose IPI a CPU has not handled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpiPending {
    No,
    From(OneInitiator),
    FromSeveral,
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

/// The queue of flush requests of one CPU.
pub(crate) struct RequestQueue<W> {
    /// Written by initiators.
    posted: Aligned<Counter<W>>,
    /// Written by this CPU as a target, read by the initiators that wait for it.
    acknowledged: Aligned<Processed<W>>,
    /// Written by this CPU as an initiator, read by its targets.
    request: Aligned<Request<W>>,
}

/// The last numbers that a CPU has processed.
struct Processed<W> {
    /// Of its own queue.
    own: W,
    /// Of the broadcast ring.
    ring: W,
}

struct Counter<W> {
    /// The latest number.
    latest: W,
    ring: [W; RING],
    /// The initiators whose IPI this CPU has not handled yet: 0 for none, or the number of the first plus one, with the
    /// bits below.
    ipi_pending: W,
    /// What an initiator asks for that has claimed `ipi_pending`.
    page: TargetPage<W>,
}

/// One page of one space that a target must flush.
struct TargetPage<W> {
    context: W,
    generation: W,
    range: [W; 2],
}

/// In `ipi_pending`: the initiator that is named writes `page`, and sends its IPI after that.
const CLAIMED: u64 = 1 << 63;
/// In `ipi_pending`: it has written `page`, and described nothing.
const TOLD: u64 = 1 << 62;
/// In `ipi_pending`: there are initiators beside the one that is named, or none is named.
const MORE: u64 = 1 << 61;

struct Request<W> {
    /// How often the request was changed; odd while it is being changed (a seqlock).
    serial: W,
    /// The context id of the space.
    context: W,
    generation: W,
    /// The number of ranges, and the flags below.
    shape: W,
    ranges: [[W; 2]; MAX_RANGES],
    /// The latest number that this CPU has taken on the broadcast ring. No other CPU accesses it.
    own: W,
    /// The flushes that were begun here and are not complete ([`crate::Tlb::begin_flush`]), as [`Kept`].
    pending: W,
    /// Those of them that are on the broadcast ring and were dropped, so that nobody waits for them.
    dropped: W,
    /// The physical address of the root that this CPU makes all CPUs leave, plus one, or 0. A target that cannot read
    /// the request reads this.
    leaving: W,
}

/// A number of requests whose targets have not all acknowledged: in the lower half those that are described and may still be
/// read, in the upper half those that are on the broadcast ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept(u64);

impl Kept {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const DESCRIBED: Self = Self(1);
    pub(crate) const ON_RING: Self = Self(1 << 32);
    pub(crate) const DESCRIBED_ON_RING: Self = Self(Self::DESCRIBED.0 | Self::ON_RING.0);
}

// No two parts share a cache line, and the request fits two.
const _: () = {
    use core::sync::atomic::AtomicU64;
    assert!(
        size_of::<RequestQueue<AtomicU64>>() == 3 * 128
            && align_of::<RequestQueue<AtomicU64>>() == 128
    );
};

const EVERYTHING: u64 = 1 << 8;
const TABLES: u64 = 1 << 9;
const KERNEL: u64 = 1 << 10;
const EARLY: u64 = 1 << 11;
const EVERY_SPACE: u64 = 1 << 12;
const LEAVE: u64 = 1 << 13;

impl<W: Word> RequestQueue<W> {
    pub(crate) const NEW: Self = Self {
        posted: Aligned(Counter {
            latest: W::ZERO,
            ring: [const { W::ZERO }; RING],
            ipi_pending: W::ZERO,
            page: TargetPage {
                context: W::ZERO,
                generation: W::ZERO,
                range: [const { W::ZERO }; 2],
            },
        }),
        acknowledged: Aligned(Processed { own: W::ZERO, ring: W::ZERO }),
        request: Aligned(Request {
            serial: W::ZERO,
            context: W::ZERO,
            generation: W::ZERO,
            shape: W::ZERO,
            ranges: [const { [W::ZERO, W::ZERO] }; MAX_RANGES],
            own: W::ZERO,
            pending: W::ZERO,
            dropped: W::ZERO,
            leaving: W::ZERO,
        }),
    };

    /// As an initiator: writes the request for all targets. While flushes that were begun here are not complete, their
    /// targets may read it, too; so it is made unreadable for all until then, and each of them flushes everything.
    pub(crate) fn describe(&self, request: &FlushRequest<'_>) {
        let mine = &*self.request;
        // Relaxed: no other CPU writes it, and the stores below release it.
        let serial = mine.serial.load(Ordering::Relaxed) | 1;
        // ORDER O-REUSED (pairs with O-COMPLETED): a request that no target reads any more may be changed.
        if !mine.pending.load(Ordering::Acquire).is_multiple_of(Kept::ON_RING.0) {
            // Release: as O-DESCRIBE.
            return mine.serial.store(serial, Ordering::Release);
        }
        let ranges = request.ranges;
        let mut shape = ranges.ranges().len() as u64;
        for (flag, set) in [
            (EVERYTHING, ranges.is_everything()),
            (TABLES, ranges.change() == TableChange::FreedTables),
            (EARLY, request.early && ranges.change() == TableChange::LastLevel),
        ] {
            shape |= if set { flag } else { 0 };
        }
        mine.serial.store(serial, Ordering::Relaxed); // Relaxed: as above.
        // ORDER O-DESCRIBE (pairs with O-DESCRIBED): a CPU that sees any of this sees that the serial
        // of the former request is over.
        let write = |word: &W, value| word.store(value, Ordering::Release);
        match request.scope {
            FlushScope::AddressSpace { context, last, .. } => {
                write(&mine.context, context);
                write(&mine.generation, last);
            }
            FlushScope::Leave { root } => {
                write(&mine.context, root);
                shape |= LEAVE;
            }
            FlushScope::Kernel => shape |= KERNEL,
            FlushScope::EverySpace => shape |= EVERY_SPACE,
            FlushScope::Unknown => {} // What a target assumes; nobody asks for it.
        }
        write(&mine.shape, shape);
        for (words, range) in mine.ranges.iter().zip(ranges.ranges()) {
            let [first, second] = range.to_words();
            write(&words[0], first);
            write(&words[1], second);
        }
        write(&mine.serial, serial + 1);
    }

    /// As an initiator: its request stays as it is, for targets that have not acknowledged yet, while it executes
    /// something else.
    pub(crate) fn keep_request(&self, kept: Kept) {
        // Relaxed: `describe` is called on this CPU, too.
        self.request.pending.fetch_add(kept.0, Ordering::Relaxed);
    }

    /// As an initiator: how many requests on the broadcast ring it keeps.
    pub(crate) fn kept_on_ring(&self) -> u64 {
        // Relaxed: a guess, and no more are added meanwhile.
        self.request.pending.load(Ordering::Relaxed) / Kept::ON_RING.0
    }

    /// As whoever waited for all targets of requests that were kept.
    pub(crate) fn end_requests(&self, kept: Kept) {
        // ORDER O-COMPLETED (pairs with O-REUSED): all targets have read the requests and acknowledged them.
        self.request.pending.fetch_add(kept.0.wrapping_neg(), Ordering::Release);
    }

    /// As whoever drops a flush on the broadcast ring, which not all targets have acknowledged. The request is kept until
    /// they have acknowledged the next one on the ring ([`Self::take_dropped_requests`]).
    pub(crate) fn drop_request(&self, kept: Kept) {
        self.request.dropped.fetch_add(kept.0, Ordering::Relaxed); // Relaxed: a number, and no more follows from it.
    }

    /// As an initiator: whether any request on the broadcast ring was dropped and is still kept.
    pub(crate) fn has_dropped_requests(&self) -> bool {
        self.request.dropped.load(Ordering::Relaxed) != 0 // Relaxed: as in `drop_request`.
    }

    /// As an initiator: the requests on the broadcast ring that were dropped. When all targets have acknowledged a later
    /// one, [`Self::end_requests`] is called for them.
    pub(crate) fn take_dropped_requests(&self) -> Kept {
        Kept(self.request.dropped.swap(0, Ordering::Relaxed)) // Relaxed: as in `drop_request`.
    }

    /// As an initiator, which is about to ask all CPUs to leave this root, or none any more.
    pub(crate) fn set_leaving(&self, root: Option<u64>) {
        // ORDER O-LEAVING (pairs with O-LEAVING-READ): before the request is posted.
        self.request.leaving.store(root.map_or(0, |root| root + 1), Ordering::Release);
    }

    /// As a target that could not read a request: the root that the owner asks all CPUs to leave.
    pub(crate) fn leaving(&self) -> Option<u64> {
        // ORDER O-LEAVING-READ (pairs with O-LEAVING): after the number of the request was read.
        self.request.leaving.load(Ordering::Acquire).checked_sub(1)
    }

    /// As an initiator: records the number that it has taken on the broadcast ring.
    pub(crate) fn set_own_broadcast(&self, number: u64) {
        self.request.own.set(number);
    }

    /// The latest number that the owner, which is this CPU, has taken on the broadcast ring.
    pub(crate) fn own_broadcast(&self) -> u64 {
        self.request.own.get()
    }

    /// As a CPU that runs the space with this context id: the owner's request, if it is the flush of
    /// `generation`. The owner may be writing its next one.
    pub(crate) fn read_flush(&self, context: u64, generation: u64) -> Option<ReceivedRequest> {
        let scope = FlushScope::AddressSpace { context, first: generation, last: generation };
        self.read_whole().filter(|received| received.scope == scope)
    }

    /// As a target: the request of the owner of this queue, if it is readable. The owner does not write it while it
    /// waits for us; but it may have stopped waiting, because of [`crate::conformance`] or a panic.
    pub(crate) fn read_whole(&self) -> Option<ReceivedRequest> {
        // ORDER O-DESCRIBED (pairs with O-DESCRIBE): all of it is of one request if that was there
        // before it was read and still is afterwards.
        let serial = self.request.serial.load(Ordering::Acquire);
        if !serial.is_multiple_of(2) {
            return None;
        }
        let received = self.read();
        // Relaxed: after the loads of `described`, which acquire.
        (self.request.serial.load(Ordering::Relaxed) == serial).then_some(received)
    }

    /// The words of the owner's request, which may be of several requests.
    #[inline]
    fn read(&self) -> ReceivedRequest {
        let request = &*self.request;
        let shape = described(&request.shape);
        let mut ranges = FlushRanges::new();
        let words = |index: usize| request.ranges[index].each_ref().map(described);
        match shape & 0xff {
            // The caller finds out whether the words are of one request.
            1 => ranges.add(VaRange::of_words(words(0))),
            count => {
                (0..MAX_RANGES).take(count as usize).for_each(|index| {
                    match VaRange::from_words(words(index)) {
                        Some(range) => ranges.add(range),
                        None => ranges.widen(),
                    }
                })
            }
        }
        if shape & TABLES != 0 {
            ranges.add_change(TableChange::FreedTables);
        }
        if shape & EVERYTHING != 0 {
            ranges.widen();
        }
        let scope = if shape & KERNEL != 0 {
            FlushScope::Kernel
        } else if shape & EVERY_SPACE != 0 {
            FlushScope::EverySpace
        } else if shape & LEAVE != 0 {
            FlushScope::Leave { root: described(&request.context) }
        } else {
            let (generation, context) =
                (described(&request.generation), described(&request.context));
            FlushScope::AddressSpace { context, first: generation, last: generation }
        };
        ReceivedRequest { scope, ranges, early: shape & EARLY != 0 }
    }

    /// As initiator `from`: posts the request that `from` has described to the owner of this queue.
    pub(crate) fn post(&self, from: CpuId) {
        // ORDER O-POST (pairs with O-POSTED, O-SLOT-READ): the target that sees the number sees the tables as
        // they are now, and the target that sees the slot sees the request.
        let number = self.posted.latest.fetch_add(1, Ordering::SeqCst) + 1;
        self.slot(number).store(slot(number, from), Ordering::Release); // O-POST
    }

    /// As initiator `from`, which has raised the generation of a space and described the flush: sets the
    /// pending word of the owner, and returns whether `from` must send the IPI. If not, another initiator has
    /// set the word before and sends it, and the owner has not cleared the word yet. If there are concurrent
    /// flushes (`has_concurrent`), the word is read first, because there may be nothing to write.
    pub(crate) fn set_ipi_pending(&self, from: CpuId, has_concurrent: bool) -> bool {
        // As O-PENDING.
        if has_concurrent && self.posted.ipi_pending.load(Ordering::SeqCst) & MORE != 0 {
            return false;
        }
        match self.set_pending_to(named(from)) {
            Ok(()) => true,
            Err(must_send) => must_send,
        }
    }

    /// As [`Self::set_ipi_pending`], of a flush that is one page of last-level entries and need not be described.
    pub(crate) fn tell_page(
        &self,
        from: CpuId,
        (context, generation): (u64, u64),
        page: VaRange,
    ) -> bool {
        if let Err(must_send) = self.set_pending_to(named(from) | CLAIMED) {
            return must_send;
        }
        let told = &self.posted.page;
        // Relaxed, all: only this CPU writes them while it has the claim, and O-TOLD releases them.
        told.context.store(context, Ordering::Relaxed);
        told.generation.store(generation, Ordering::Relaxed);
        for (word, value) in told.range.iter().zip(page.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        // ORDER O-TOLD (pairs with O-PENDING-READ): the page, then that it is there.
        self.posted.ipi_pending.fetch_add(TOLD.wrapping_sub(CLAIMED), Ordering::Release);
        true
    }

    /// Sets the pending word to `mine` if it is 0.
    ///
    /// # Errors
    ///
    /// Otherwise it is noted that there are more initiators; and the error says whether the owner, which has cleared the
    /// word in between, must be sent an IPI all the same.
    #[inline]
    fn set_pending_to(&self, mine: u64) -> Result<(), bool> {
        let pending = &self.posted.ipi_pending;
        // ORDER O-PENDING (pairs with F-CLEAR-PENDING, O-PENDING-READ, O-TOLD-READ): after F-GENERATION; a target
        // that sees the word sees what the initiator has described; and what is written for it comes after its claim.
        match pending.compare_exchange(0, mine, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Ok(()),
            Err(others) if others & MORE != 0 => Err(false),
            Err(_) => Err(pending.fetch_or(MORE, Ordering::SeqCst) == 0), // As O-PENDING.
        }
    }

    /// `stopped` executes nothing any more, as a claimant of the pending word neither. Returns whether an IPI is pending
    /// that it may not have sent.
    pub(crate) fn end_claim_of(&self, stopped: CpuId) -> bool {
        let pending = &self.posted.ipi_pending;
        let mut now = pending.load(Ordering::SeqCst); // As O-PENDING.
        while now & !MORE == named(stopped) | CLAIMED {
            match pending.compare_exchange(now, MORE, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(found) => now = found,
            }
        }
        now != 0
    }

    /// As the owner: the initiators whose IPI is pending. That of one that still writes its page is yet to come.
    pub(crate) fn ipi_pending(&self) -> IpiPending {
        // ORDER O-PENDING-READ (pairs with O-PENDING, O-TOLD): the word, then what the initiator has described or told.
        match self.posted.ipi_pending.load(Ordering::Acquire) {
            0 => IpiPending::No,
            several if several & MORE != 0 => IpiPending::FromSeveral,
            claimed if claimed & CLAIMED != 0 => IpiPending::No,
            one => IpiPending::From(OneInitiator(one)),
        }
    }

    /// As the owner, whose IPI is pending from one initiator: the page that it was told, if that is the flush of
    /// `generation` of the space with this context id.
    #[inline]
    pub(crate) fn told_page(&self, context: u64, generation: u64) -> Option<VaRange> {
        let told = &self.posted.page;
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
    pub(crate) fn clear_pending_from(&self, only: OneInitiator) -> bool {
        let pending = &self.posted.ipi_pending;
        // ORDER O-TOLD-READ (pairs with O-PENDING): what was told was read, before another initiator can claim the word.
        pending.compare_exchange(only.0, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// As the owner: clears the pending word, before it reads the generation. The IPI of an initiator that still writes its
    /// page remains pending.
    pub(crate) fn clear_pending(&self) {
        let pending = &self.posted.ipi_pending;
        // FENCE F-CLEAR-PENDING (pairs with F-GENERATION, O-PENDING): the cleared word, then the
        // generation. An initiator that found the word set has raised the generation before.
        //
        // Relaxed: nobody claims the word unless it is 0.
        if pending.load(Ordering::Relaxed) & CLAIMED != 0 {
            pending.fetch_and(!MORE, Ordering::SeqCst);
        } else {
            pending.swap(0, Ordering::SeqCst);
        }
    }

    /// The latest number that any initiator has taken.
    pub(crate) fn latest(&self) -> u64 {
        // ORDER O-POSTED (pairs with O-POST): as there.
        self.posted.latest.load(Ordering::Acquire)
    }

    /// As the target: the initiator of `number`, if its slot is readable.
    fn initiator_of(&self, number: u64) -> Option<CpuId> {
        // ORDER O-SLOT-READ (pairs with O-POST): as there.
        let found = self.slot(number).load(Ordering::Acquire);
        let from = CpuId((found & ((1 << CPU_BITS) - 1)) as u32);
        (found == slot(number, from)).then_some(from)
    }

    /// As the target: the request of `number`, where `of` finds the queue of a CPU.
    pub(crate) fn request<'c>(
        &self,
        number: u64,
        of: impl Fn(CpuId) -> Option<&'c Self>,
    ) -> ReceivedRequest
    where
        W: 'c,
    {
        let initiator = self.initiator_of(number).and_then(of);
        initiator.and_then(Self::read_whole).unwrap_or(ReceivedRequest::EVERYTHING)
    }

    /// The last number that the owner, which is this CPU, has processed.
    pub(crate) fn processed(&self) -> u64 {
        self.acknowledged.own.load(Ordering::Relaxed) // Relaxed: this CPU's own word.
    }

    /// As the target: every request up to `number` is processed.
    pub(crate) fn acknowledge(&self, number: u64) {
        // ORDER O-ACK (pairs with O-ACK-READ): the flush is complete, and so are the accesses of this
        // CPU through the old translations.
        self.acknowledged.own.store(number, Ordering::Release);
    }

    /// As [`Self::processed`], of the broadcast ring.
    pub(crate) fn processed_broadcast(&self) -> u64 {
        self.acknowledged.ring.load(Ordering::Relaxed) // Relaxed: as there.
    }

    /// As [`Self::acknowledge`], of the broadcast ring.
    pub(crate) fn acknowledge_broadcast(&self, number: u64) {
        // ORDER O-ACK-RING (pairs with O-ACK-RING-READ): the flush is complete, and so are the accesses
        // of this CPU through the old translations.
        self.acknowledged.ring.store(number, Ordering::Release);
    }

    /// As an initiator: the last number that the owner has processed.
    pub(crate) fn acknowledged(&self) -> u64 {
        // ORDER O-ACK-READ (pairs with O-ACK): as there.
        self.acknowledged.own.load(Ordering::Acquire)
    }

    /// As [`Self::acknowledged`], of the broadcast ring.
    pub(crate) fn acknowledged_broadcast(&self) -> u64 {
        // ORDER O-ACK-RING-READ (pairs with O-ACK-RING): as there.
        self.acknowledged.ring.load(Ordering::Acquire)
    }

    /// Whether the owner has requests to process. One that is not up has none.
    pub(crate) fn is_behind(&self) -> bool {
        self.acknowledged() < self.latest()
    }

    /// The owner is about to come up, and need not process earlier requests, of the broadcast ring up to
    /// `latest`.
    pub(crate) fn come_up(&self, latest: u64) {
        // Relaxed: O-UP and a switch-in are read-modify-writes that release, and no initiator sends
        // requests to this CPU before one of them. One that found it running before it went down may still write its
        // page, and sends its IPI then.
        let pending = &self.posted.ipi_pending;
        let was = pending.load(Ordering::Relaxed);
        if was != 0 && was & CLAIMED == 0 {
            pending.store(0, Ordering::Relaxed);
        }
        self.acknowledged.own.store(self.latest(), Ordering::Relaxed);
        self.acknowledged.ring.store(latest, Ordering::Relaxed);
        // Its number on the ring of another `Tlb`, which has ended, is another request here.
        self.set_own_broadcast(0);
    }

    /// The owner goes down: it holds nothing that it will use again, and no initiator waits for it.
    pub(crate) fn go_down(&self) {
        self.acknowledge(DOWN);
        self.acknowledge_broadcast(DOWN);
        // It may have stopped while others left a root, whose table is another space's some day.
        self.set_leaving(None);
    }

    fn slot(&self, number: u64) -> &W {
        &self.posted.ring[(number % RING as u64) as usize]
    }
}

/// `ipi_pending` where this initiator is the only one.
const fn named(initiator: CpuId) -> u64 {
    initiator.0 as u64 + 1
}

/// A word of a request.
#[inline]
fn described<W: Word>(word: &W) -> u64 {
    word.load(Ordering::Acquire) // As O-DESCRIBED.
}

/// The slot of `number` from `from`. The upper bits of the number do not fit; they would matter only for a
/// slot that was not written for 2^51 requests.
const fn slot(number: u64, from: CpuId) -> u64 {
    number << CPU_BITS | from.0 as u64
}

/// How many requests may be pending before slots that the target has not read are overwritten.
pub(crate) const MAX_DISTINCT: u64 = RING as u64;

#[cfg(test)]
mod tests;
