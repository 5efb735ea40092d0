//! The request of each CPU as an initiator (Linux: `flush_tlb_info`), which its targets read.
//!
//! It is described once for any number of targets, and does not change until every one of them has acknowledged.

use super::{FlushRanges, FlushRequest, FlushScope, ReceivedRequest, ranges::MAX_RANGES};
use crate::{
    arch::TableChange,
    range::VaRange,
    word::{Ordering, Word},
};

/// The request of one CPU as an initiator.
pub(crate) struct DescribedRequest<W> {
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
    /// The flushes that were begun here and are not complete ([`crate::Tlb::begin_flush`]).
    outstanding: W,
    /// Those of them that are on the broadcast ring and were dropped, so that nobody waits for them.
    dropped: W,
    /// The physical address of the root that this CPU makes all CPUs leave, plus one, or 0. A target that cannot read
    /// the request reads this.
    leaving: W,
}

/// A number of requests whose targets have not all acknowledged: in the lower half those that are described and may still be
/// read, in the upper half those that are on the broadcast ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outstanding(u64);

impl Outstanding {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const DESCRIBED: Self = Self(1);
    pub(crate) const ON_RING: Self = Self(1 << 32);
    pub(crate) const DESCRIBED_ON_RING: Self = Self(Self::DESCRIBED.0 | Self::ON_RING.0);
}

const EVERYTHING: u64 = 1 << 8;
const TABLES: u64 = 1 << 9;
const KERNEL: u64 = 1 << 10;
const EARLY: u64 = 1 << 11;
const EVERY_SPACE: u64 = 1 << 12;
const LEAVE: u64 = 1 << 13;

impl<W: Word> DescribedRequest<W> {
    pub(crate) const NEW: Self = Self {
        serial: W::ZERO,
        context: W::ZERO,
        generation: W::ZERO,
        shape: W::ZERO,
        ranges: [const { [W::ZERO, W::ZERO] }; MAX_RANGES],
        own: W::ZERO,
        outstanding: W::ZERO,
        dropped: W::ZERO,
        leaving: W::ZERO,
    };

    /// As an initiator: writes the request for all targets. While flushes that were begun here are not complete, their
    /// targets may read it, too; so it is made unreadable for all until then, and each of them flushes everything.
    pub(crate) fn describe(&self, request: &FlushRequest<'_>) {
        // Relaxed: no other CPU writes it, and the stores below release it.
        let serial = self.serial.load(Ordering::Relaxed) | 1;
        // ORDER O-REUSED (pairs with O-COMPLETED): a request that no target reads any more may be changed.
        if !self.outstanding.load(Ordering::Acquire).is_multiple_of(Outstanding::ON_RING.0) {
            // Release: as O-DESCRIBE.
            return self.serial.store(serial, Ordering::Release);
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
        self.serial.store(serial, Ordering::Relaxed); // Relaxed: as above.
        // ORDER O-DESCRIBE (pairs with O-DESCRIBED): a CPU that sees any of this sees that the serial
        // of the former request is over.
        let write = |word: &W, value| word.store(value, Ordering::Release);
        match request.scope {
            FlushScope::AddressSpace { context, last, .. } => {
                write(&self.context, context);
                write(&self.generation, last);
            }
            FlushScope::Leave { root } => {
                write(&self.context, root);
                shape |= LEAVE;
            }
            FlushScope::Kernel => shape |= KERNEL,
            FlushScope::EverySpace => shape |= EVERY_SPACE,
            FlushScope::Unknown => {} // What a target assumes; nobody asks for it.
        }
        write(&self.shape, shape);
        for (words, range) in self.ranges.iter().zip(ranges.ranges()) {
            let [first, second] = range.to_words();
            write(&words[0], first);
            write(&words[1], second);
        }
        write(&self.serial, serial + 1);
    }

    /// As an initiator: its request stays as it is, for targets that have not acknowledged yet, while it executes
    /// something else.
    pub(crate) fn add_outstanding(&self, more: Outstanding) {
        // Relaxed: `describe` is called on this CPU, too.
        self.outstanding.fetch_add(more.0, Ordering::Relaxed);
    }

    /// As an initiator: how many requests on the broadcast ring are outstanding.
    pub(crate) fn outstanding_on_ring(&self) -> u64 {
        // Relaxed: a guess, and no more are added meanwhile.
        self.outstanding.load(Ordering::Relaxed) / Outstanding::ON_RING.0
    }

    /// As whoever waited for all targets of requests that were outstanding.
    pub(crate) fn end_outstanding(&self, ended: Outstanding) {
        // ORDER O-COMPLETED (pairs with O-REUSED): all targets have read the requests and acknowledged them.
        self.outstanding.fetch_add(ended.0.wrapping_neg(), Ordering::Release);
    }

    /// As whoever drops a flush on the broadcast ring, which not all targets have acknowledged. It stays outstanding until
    /// they have acknowledged the next one on the ring ([`Self::take_dropped`]).
    pub(crate) fn drop_outstanding(&self, dropped: Outstanding) {
        self.dropped.fetch_add(dropped.0, Ordering::Relaxed); // Relaxed: a number, and no more follows from it.
    }

    /// As an initiator: whether any request on the broadcast ring was dropped and is still outstanding.
    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed) != 0 // Relaxed: as in `drop_outstanding`.
    }

    /// As an initiator: the requests on the broadcast ring that were dropped. When all targets have acknowledged a later
    /// one, [`Self::end_outstanding`] is called for them.
    pub(crate) fn take_dropped(&self) -> Outstanding {
        Outstanding(self.dropped.swap(0, Ordering::Relaxed)) // Relaxed: as in `drop_outstanding`.
    }

    /// As an initiator, which is about to ask all CPUs to leave this root, or none any more.
    pub(crate) fn set_leaving(&self, root: Option<u64>) {
        // ORDER O-LEAVING (pairs with O-LEAVING-READ): before the request is posted.
        self.leaving.store(root.map_or(0, |root| root + 1), Ordering::Release);
    }

    /// As a target that could not read a request: the root that the owner asks all CPUs to leave.
    pub(crate) fn leaving(&self) -> Option<u64> {
        // ORDER O-LEAVING-READ (pairs with O-LEAVING): after the number of the request was read.
        self.leaving.load(Ordering::Acquire).checked_sub(1)
    }

    /// As an initiator: records the number that it has taken on the broadcast ring.
    pub(crate) fn set_own_broadcast(&self, number: u64) {
        self.own.set(number);
    }

    /// The latest number that the owner, which is this CPU, has taken on the broadcast ring.
    pub(crate) fn own_broadcast(&self) -> u64 {
        self.own.get()
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
        self.read_unchanged(|| Some(self.read()))
    }

    /// As [`Self::read_whole`], if it is one range of a space, without tables, and not early, as most requests are: in registers.
    #[inline]
    pub(crate) fn read_range(&self) -> Option<(FlushScope, VaRange)> {
        self.read_unchanged(|| {
            // One range, and no flag.
            let is_all = described(&self.shape) == 1;
            let range = || VaRange::of_words(self.ranges[0].each_ref().map(described));
            is_all.then(|| (self.space(), range()))
        })
    }

    /// What `read` returns, if the words that it reads are of one request.
    #[inline(always)] // Out of line, what was read would be in memory.
    fn read_unchanged<R>(&self, read: impl FnOnce() -> Option<R>) -> Option<R> {
        // ORDER O-DESCRIBED (pairs with O-DESCRIBE): all of it is of one request if that was there
        // before it was read and still is afterwards.
        let serial = self.serial.load(Ordering::Acquire);
        if !serial.is_multiple_of(2) {
            return None;
        }
        let found = read()?;
        // Relaxed: after the loads of `described`, which acquire.
        if self.serial.load(Ordering::Relaxed) == serial { Some(found) } else { None }
    }

    /// The space of the owner's request, if it has one.
    fn space(&self) -> FlushScope {
        let (generation, context) = (described(&self.generation), described(&self.context));
        FlushScope::AddressSpace { context, first: generation, last: generation }
    }

    /// The words of the owner's request, which may be of several requests.
    #[inline]
    fn read(&self) -> ReceivedRequest {
        let shape = described(&self.shape);
        let mut ranges = FlushRanges::new();
        let words = |index: usize| self.ranges[index].each_ref().map(described);
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
            FlushScope::Leave { root: described(&self.context) }
        } else {
            self.space()
        };
        ReceivedRequest { scope, ranges, early: shape & EARLY != 0 }
    }
}

/// A word of a request.
#[inline]
fn described<W: Word>(word: &W) -> u64 {
    word.load(Ordering::Acquire) // As O-DESCRIBED.
}

#[cfg(test)]
mod tests;
