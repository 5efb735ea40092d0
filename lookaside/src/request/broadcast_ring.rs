//! Requests to every CPU: one ring that all CPUs read, instead of an entry in the queue of each.
//!
//! An initiator takes the next number of the ring, writes its request to the slot of that number, and sends
//! an IPI to the CPUs that are up. A target processes all numbers that it has not processed, and writes the
//! last one to a word that no other CPU writes. So an initiator writes one cache line for any number of
//! targets, and a target reads one.
//!
//! A slot is one word, which has bits of its number; a target that finds other bits knows that the slot is
//! not written yet, or overwritten, and flushes everything. The bits are enough: between taking a number and
//! writing the slot an initiator handles no request, and every other CPU has at most [`MAX_OUTSTANDING`] numbers and one
//! pending ([`DescribedRequest::outstanding_on_ring`](super::described::DescribedRequest::outstanding_on_ring)), each of which needs the acknowledgement of this initiator. A slot has the same bits again after more numbers
//! than all CPUs together can have pending.

use super::{FlushRanges, FlushRequest, FlushScope, ReceivedRequest, queue::RequestQueue};
use crate::{
    arch::TableChange,
    ids::{CpuId, MAX_CPUS, Targets},
    range::VaRange,
    word::{Ordering, Word},
};

/// The number of slots: with the latest number, one cache line.
pub(crate) const RING_SLOTS: u64 = 7;

/// The ring of one machine.
pub(crate) struct BroadcastRing<W> {
    /// The latest number. Numbers begin with 1.
    latest: W,
    slots: [W; RING_SLOTS as usize],
}

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BroadcastRequest {
    /// A few kernel pages of the smallest size, no tables.
    Kernel(VaRange),
    /// The request that this CPU has described, and does not change until all targets have acknowledged.
    Described(CpuId),
}

/// Bits of a number.
const TAG_SHIFT: u32 = 50;
/// How many requests of one CPU may be pending before it waits for the next one with interrupts off.
pub(crate) const MAX_OUTSTANDING: u64 = 8;
const _: () = assert!(MAX_CPUS as u64 * (MAX_OUTSTANDING + 1) < RING_SLOTS << (64 - TAG_SHIFT));
const PAYLOAD: u64 = (1 << TAG_SHIFT) - 1;

const DESCRIBED: u64 = 1 << 49;
const PAGES_SHIFT: u32 = 45;
const MAX_PAGES: u64 = 15;
/// Addresses of 57 bits, the widest that kernels use, have page numbers of 45.
const PAGE: u64 = (1 << PAGES_SHIFT) - 1;
const PAGE_SHIFT: u32 = 12;

impl BroadcastRequest {
    /// The slot for a request of `from`.
    pub(crate) fn new(from: CpuId, request: &FlushRequest<'_>) -> Self {
        let ranges = request.ranges;
        match (request.scope, ranges.ranges()) {
            (FlushScope::Kernel, [only])
                if !ranges.is_everything() && ranges.change() == TableChange::LastLevel =>
            {
                let request = Self::Kernel(*only);
                // A range that does not fit the word is unpacked as another one.
                let comes_back = Self::unpack(request.pack()) == Some(request);
                if comes_back { request } else { Self::Described(from) }
            }
            _ => Self::Described(from),
        }
    }

    fn pack(self) -> u64 {
        match self {
            Self::Described(from) => DESCRIBED | u64::from(from.0),
            Self::Kernel(range) => {
                let pages = range.pages().min(MAX_PAGES);
                pages << PAGES_SHIFT | range.start() >> PAGE_SHIFT & PAGE
            }
        }
    }

    fn unpack(payload: u64) -> Option<Self> {
        if payload & DESCRIBED != 0 {
            return Some(Self::Described(CpuId((payload & PAGE) as u32)));
        }
        // The upper bits of an address repeat its highest.
        let unused = u64::BITS - PAGES_SHIFT;
        let page = ((payload << unused) as i64 >> unused) as u64;
        let bytes = (payload >> PAGES_SHIFT) << PAGE_SHIFT;
        let range = VaRange::new(page << PAGE_SHIFT, bytes, PAGE_SHIFT).ok()?;
        Some(Self::Kernel(range))
    }
}

impl<W: Word> BroadcastRing<W> {
    pub(crate) const NEW: Self =
        Self { latest: W::ZERO, slots: [const { W::ZERO }; RING_SLOTS as usize] };

    /// Posts a request to every CPU, after the tables were changed; returns its number.
    pub(crate) fn post(&self, request: BroadcastRequest) -> u64 {
        // FENCE F-KERNEL (pairs with O-UP, O-RING-READ): the tables were changed, and the request may be
        // described, before this CPU reads which CPUs are up, and before any CPU sees the number.
        let number = self.latest.fetch_add(1, Ordering::SeqCst) + 1;
        // Relaxed: a target that does not see it yet flushes everything.
        self.slot(number).store(number << TAG_SHIFT | request.pack(), Ordering::Relaxed);
        number
    }

    /// The latest number that any initiator has taken.
    pub(crate) fn latest(&self) -> u64 {
        // ORDER O-RING-READ (pairs with F-KERNEL): the number, then the tables that it is about and the
        // request that was described for it.
        self.latest.load(Ordering::Acquire)
    }

    /// As a target: the request of `number`, where `of` finds the queue of a CPU.
    pub(crate) fn received<'c>(
        &self,
        number: u64,
        of: impl Fn(CpuId) -> Option<&'c RequestQueue<W>>,
    ) -> ReceivedRequest
    where
        W: 'c,
    {
        // Relaxed: the word has bits of its number.
        let word = self.slot(number).load(Ordering::Relaxed);
        if word & !PAYLOAD != number << TAG_SHIFT {
            return ReceivedRequest::EVERY_TAG;
        }
        match BroadcastRequest::unpack(word & PAYLOAD) {
            Some(BroadcastRequest::Kernel(range)) => {
                let mut ranges = FlushRanges::new();
                ranges.add(range);
                ReceivedRequest { scope: FlushScope::Kernel, ranges, early: false }
            }
            Some(BroadcastRequest::Described(from)) => {
                match of(from).and_then(|initiator| initiator.own_request.read_whole()) {
                    // The initiator does not wait for a CPU that has come up since, which holds none of these
                    // entries. That CPU may read the next request of the initiator instead, and must not take it
                    // for the flush of a generation.
                    None | Some(ReceivedRequest { scope: FlushScope::AddressSpace { .. }, .. }) => {
                        ReceivedRequest::EVERY_TAG
                    }
                    Some(received) => received,
                }
            }
            None => ReceivedRequest::EVERY_TAG,
        }
    }

    const fn slot(&self, number: u64) -> &W {
        &self.slots[(number % RING_SLOTS) as usize]
    }
}

/// The CPUs that are up, which are the targets of the ring: one bit for each.
pub(crate) struct Up<W> {
    words: [W; MAX_CPUS / 64],
}

impl<W: Word> Up<W> {
    pub(crate) const NEW: Self = Self { words: [const { W::ZERO }; MAX_CPUS / 64] };

    /// A CPU comes up, and handles requests from here on.
    pub(crate) fn add(&self, cpu: CpuId) {
        // ORDER O-UP (pairs with O-UP-READ, F-KERNEL): before it empties its TLB.
        self.words[cpu.index() / 64].fetch_or(1 << (cpu.0 % 64), Ordering::SeqCst);
    }

    /// A CPU goes down. It holds nothing that it will use again.
    pub(crate) fn remove(&self, cpu: CpuId) {
        // Relaxed: an initiator that still sends to it finds that it has acknowledged.
        self.words[cpu.index() / 64].fetch_and(!(1 << (cpu.0 % 64)), Ordering::Relaxed);
    }

    /// Whether a CPU is up.
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        // Relaxed: nothing is concluded from it.
        self.words[cpu.index() / 64].load(Ordering::Relaxed) & 1 << (cpu.0 % 64) != 0
    }

    /// The CPUs of `0..cpus` that are up, in groups, which may be empty.
    pub(crate) fn groups(&self, cpus: usize) -> impl Iterator<Item = Targets> {
        self.words[..cpus.div_ceil(64)].iter().zip(0..).map(|(word, group)| {
            // ORDER O-UP-READ (pairs with O-UP): a CPU that comes up is seen here, or empties its TLB
            // after the tables were changed.
            Targets { first: CpuId(group * 64), mask: word.load(Ordering::SeqCst) }
        })
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;

    use super::*;

    fn kernel(start: u64, pages: u64, shift: u32) -> BroadcastRequest {
        let mut ranges = FlushRanges::new();
        ranges.add(VaRange::new(start, pages << shift, shift).unwrap());
        BroadcastRequest::new(
            CpuId(3),
            &FlushRequest { scope: FlushScope::Kernel, ranges: &ranges, early: false },
        )
    }

    #[test]
    fn notices_survive_the_packing() {
        for (start, pages) in [(0, 1), (!0 << 30, 15), (0xff80_0000_0000_0000, 2), (0x5000, 7)] {
            let range = VaRange::new(start, pages << 12, 12).unwrap();
            let request = kernel(start, pages, 12);
            assert_eq!(request, BroadcastRequest::Kernel(range));
            assert_eq!(BroadcastRequest::unpack(request.pack()), Some(request));
            assert_eq!(request.pack() & !PAYLOAD, 0);
        }
        let described = BroadcastRequest::Described(CpuId(MAX_CPUS as u32 - 1));
        assert_eq!(BroadcastRequest::unpack(described.pack()), Some(described));
    }

    #[test]
    fn requests_that_do_not_fit_a_slot_are_described() {
        for (start, pages, shift) in [(0, 16, 12), (0, 1, 21), (1 << 60, 1, 12), (0, 1, 13)] {
            assert_eq!(kernel(start, pages, shift), BroadcastRequest::Described(CpuId(3)));
        }
        let everything = FlushRanges::everything();
        let request =
            FlushRequest { scope: FlushScope::EverySpace, ranges: &everything, early: false };
        assert_eq!(
            BroadcastRequest::new(CpuId(3), &request),
            BroadcastRequest::Described(CpuId(3))
        );
    }

    #[test]
    fn one_range_is_not_the_whole_request_if_tables_go_or_everything() {
        let mut tables = FlushRanges::new();
        tables.add(VaRange::new(0x5000, 4096, 12).unwrap());
        let mut everything = tables;
        tables.add_change(TableChange::FreedTables);
        everything.widen();
        for ranges in [&tables, &everything] {
            let request = FlushRequest { scope: FlushScope::Kernel, ranges, early: false };
            assert_eq!(
                BroadcastRequest::new(CpuId(3), &request),
                BroadcastRequest::Described(CpuId(3))
            );
        }
    }

    #[test]
    fn an_unreadable_request_flushes_everything() {
        let ring = BroadcastRing::<AtomicU64>::NEW;
        let ask = |number| ring.received(number, |_| None);
        assert!(ask(1).ranges.is_everything(), "not written yet");
        for number in 1..=RING_SLOTS + 1 {
            assert_eq!(ring.post(kernel(0x5000, 1, 12)), number);
        }
        assert!(ask(1).ranges.is_everything(), "overwritten");
        assert_eq!(ask(2).ranges.ranges()[0].start(), 0x5000);
        assert!(
            ring.post(BroadcastRequest::Described(CpuId(9))) == 9 && ask(9).ranges.is_everything()
        );
    }
}
