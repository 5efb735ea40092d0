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
//! The initiator describes it once ([`super::described`]). Beside the number, a ring of a few slots tells the target which CPU
//! is the initiator. A slot is a hint: a target that finds it not written yet, or overwritten because of too
//! many concurrent requests, flushes everything it holds. A lost slot costs time, never a flush.
//!
//! Targets that find what they have missed by the generation of the space, or by an inline request of one range, take no number
//! ([`super::pending_ipi`]).
//!
//! Numbers have 64 bits and begin with 1; they are compared by order, never wrap and never tear
//! ([`crate::Platform::Word`] is 64 bits wide on every host).

use super::{ReceivedRequest, described::DescribedRequest, pending_ipi::PendingIpi};
use crate::{
    ids::CpuId,
    word::{Aligned, Ordering, Word},
};

/// How many pending requests a target can tell apart: with the number, one cache line.
const RING: usize = 7;

/// `acknowledged` of a CPU that is not up: no initiator waits for it.
const DOWN: u64 = u64::MAX;

/// Bits of a slot that name the initiator.
const CPU_BITS: u32 = 13;
const _: () = assert!(crate::ids::MAX_CPUS <= 1 << CPU_BITS, "every CPU fits a slot");

/// The queue of flush requests of one CPU.
pub(crate) struct RequestQueue<W> {
    /// Written by initiators.
    pub(crate) posted: Aligned<Posted<W>>,
    /// Written by this CPU as a target, read by the initiators that wait for it.
    acknowledged: Aligned<Processed<W>>,
    /// Written by this CPU as an initiator, read by its targets.
    pub(crate) own_request: Aligned<DescribedRequest<W>>,
}

/// The last numbers that a CPU has processed.
struct Processed<W> {
    /// Of its own queue.
    own: W,
    /// Of the broadcast ring.
    ring: W,
}

/// What initiators write for a CPU.
pub(crate) struct Posted<W> {
    /// The latest number.
    latest: W,
    ring: [W; RING],
    pub(crate) pending_ipi: PendingIpi<W>,
}

// No two parts share a cache line, and the request fits two.
const _: () = {
    use core::sync::atomic::AtomicU64;
    assert!(
        size_of::<RequestQueue<AtomicU64>>() == 3 * 128
            && align_of::<RequestQueue<AtomicU64>>() == 128
    );
};

impl<W: Word> RequestQueue<W> {
    pub(crate) const NEW: Self = Self {
        posted: Aligned(Posted {
            latest: W::ZERO,
            ring: [const { W::ZERO }; RING],
            pending_ipi: PendingIpi::NEW,
        }),
        acknowledged: Aligned(Processed { own: W::ZERO, ring: W::ZERO }),
        own_request: Aligned(DescribedRequest::NEW),
    };

    /// As initiator `from`: posts the request that `from` has described to the owner of this queue.
    pub(crate) fn post(&self, from: CpuId) {
        // ORDER O-POST (pairs with O-POSTED, O-SLOT-READ): the target that sees the number sees the tables as
        // they are now, and the target that sees the slot sees the request.
        let number = self.posted.latest.fetch_add(1, Ordering::SeqCst) + 1;
        self.slot(number).store(slot(number, from), Ordering::Release); // O-POST
    }

    /// The latest number that any initiator has taken.
    pub(crate) fn latest(&self) -> u64 {
        // ORDER O-POSTED (pairs with O-POST): as there.
        self.posted.latest.load(Ordering::Acquire)
    }

    /// As the target: the initiator of `number`, if its slot is readable.
    pub(crate) fn initiator_of(&self, number: u64) -> Option<CpuId> {
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
        let received = initiator.and_then(|initiator| initiator.own_request.read_whole());
        received.unwrap_or(ReceivedRequest::EVERYTHING)
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

    /// As `initiator`: whether the owner is up and has not processed its inline request yet ([`PendingIpi::post_range`]).
    #[inline]
    pub(crate) fn is_pending_from(&self, initiator: CpuId) -> bool {
        self.posted.pending_ipi.is_pending_from(initiator) && self.acknowledged() != DOWN
    }

    /// Whether the owner has requests to process. One that is not up has none.
    pub(crate) fn is_behind(&self) -> bool {
        self.acknowledged() < self.latest()
    }

    /// The owner is about to come up, and need not process earlier requests, of the broadcast ring up to
    /// `latest`.
    pub(crate) fn come_up(&self, latest: u64) {
        // Relaxed: O-UP and a switch-in are read-modify-writes that release, and no initiator sends
        // requests to this CPU before one of them.
        self.posted.pending_ipi.come_up();
        self.acknowledged.own.store(self.latest(), Ordering::Relaxed);
        self.acknowledged.ring.store(latest, Ordering::Relaxed);
        // Its number on the ring of another `Tlb`, which has ended, is another request here.
        self.own_request.set_own_broadcast(0);
    }

    /// The owner goes down: it holds nothing that it will use again, and no initiator waits for it.
    pub(crate) fn go_down(&self) {
        self.acknowledge(DOWN);
        self.acknowledge_broadcast(DOWN);
        // It may have stopped while others left a root, whose table is another space's some day.
        self.own_request.set_leaving(None);
    }

    fn slot(&self, number: u64) -> &W {
        &self.posted.ring[(number % RING as u64) as usize]
    }
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
