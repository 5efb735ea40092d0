//! Requests to other CPUs, and how one learns that they were answered.
//!
//! # Two numbers for each CPU
//!
//! Whoever wants something of a CPU takes the next number of its *inbox*. The CPU answers by writing
//! the last number that it has dealt with to its *answered* word, which nobody else writes; and
//! everybody who waits for it waits until that word has reached his number. So there is one flag for
//! each pair of initiator and target without a table of pairs: the work and the lines touched are
//! those of the targets, the memory is that of the CPUs, and initiators share no lock.
//!
//! # What is asked for
//!
//! The initiator describes it once, in its own *request*, which it does not change until every
//! target has answered. Beside the number, a ring of a few slots tells the target whose request it
//! is. The ring is a courtesy: a target that finds a slot not written yet, or overwritten because
//! too many ask at one time, flushes everything it holds. To lose a slot costs time, never a flush.
//!
//! Numbers have 64 bits and begin with 1; they are compared by order, never wrap and never tear
//! ([`crate::Platform::Word`] is 64 bits wide on every host).

use super::ranges::{FlushRanges, MAX_RANGES};
use crate::{
    arch::TableChange,
    cpu::Aligned,
    platform::{CpuId, Ordering, Word},
    range::{FlushRange, VaRange},
};

/// How many requests a target can tell apart at one time: with the number, one cache line.
const RING: usize = 7;

/// `acknowledged` of a CPU that is not up: it has answered whatever anybody may ask.
const DOWN: u64 = u64::MAX;

/// Bits of a slot that tell whose request it is.
const CPU_BITS: u32 = 13;
const _: () = assert!(crate::cpuset::MAX_CPUS <= 1 << CPU_BITS, "every CPU fits a slot");

/// Who has called a CPU since it looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpiPending {
    No,
    From(CpuId),
    FromSeveral,
}

/// The letter box of one CPU.
pub(crate) struct RequestQueue<W> {
    /// Written by whoever asks.
    asked: Aligned<Counter<W>>,
    /// Written by this CPU as a target, read by those who wait for it.
    acknowledged: Aligned<Answers<W>>,
    /// Written by this CPU as an initiator, read by its targets.
    request: Aligned<Request<W>>,
}

/// The last numbers that a CPU has dealt with.
struct Answers<W> {
    /// Of its own box.
    own: W,
    /// Of the board that everybody reads.
    ring: W,
}

struct Counter<W> {
    /// The latest number.
    latest: W,
    ring: [W; RING],
    /// Who has called this CPU since it looked: nobody, one, whose number and one more this is, or
    /// [`SEVERAL`].
    ipi_pending: W,
}

/// What `ipi_pending` says if several have.
const SEVERAL: u64 = u64::MAX;

struct Request<W> {
    /// How often it was changed; odd while it is.
    serial: W,
    /// The label of the space, in the words of the strategy; or [`KERNEL`].
    context: W,
    generation: W,
    /// How many stretches, and the flags below.
    shape: W,
    ranges: [[W; 2]; MAX_RANGES],
    /// The latest number that this CPU has taken on the board. Nobody else touches it.
    own: W,
}

// Each part has its lines for itself, and the request does not need a third.
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

/// Whose translations are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushScope {
    /// Those of one space.
    AddressSpace {
        /// What the strategy knows the space by ([`crate::Tags::context_id`]).
        context: u64,
        /// The sweep is what was owed at these generations, all of them together.
        first: u64,
        /// See `first`. A CPU that had paid all before `first` has afterwards paid up to here.
        last: u64,
    },
    /// The kernel's, under every tag.
    Kernel,
    /// Those of every space, but not the kernel's.
    EverySpace,
}

/// What one CPU asks of others.
#[derive(Clone, Copy, Debug)]
pub struct FlushRequest<'s> {
    /// Whose translations.
    pub scope: FlushScope,
    /// Which of them.
    pub ranges: &'s FlushRanges,
    /// Whether it is enough that the target has stopped, and flushes before it goes on. Of no effect
    /// where walk caches must forget, too.
    pub early: bool,
}

/// What was asked of this CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) scope: FlushScope,
    pub(crate) ranges: FlushRanges,
    pub(crate) early: bool,
}

impl ReceivedRequest {
    /// What is asked of a CPU that does not know what it is asked.
    pub(crate) const EVERYTHING: Self =
        Self { scope: FlushScope::Kernel, ranges: FlushRanges::everything(), early: false };

    pub(crate) const fn request(&self) -> FlushRequest<'_> {
        FlushRequest { scope: self.scope, ranges: &self.ranges, early: self.early }
    }

    /// Adds another request, if both are for one space; says whether they are.
    pub(crate) fn add(&mut self, other: &Self) -> bool {
        let (
            FlushScope::AddressSpace { context, first, last },
            FlushScope::AddressSpace { context: same, first: from, last: to },
        ) = (self.scope, other.scope)
        else {
            return false;
        };
        if context != same {
            return false;
        }
        self.ranges.merge(&other.ranges);
        self.early &= other.early;
        // Generations between the two that nobody told this CPU of: their sweeps are not known.
        if from > last + 1 || first > to + 1 {
            self.ranges.widen();
        }
        self.scope =
            FlushScope::AddressSpace { context, first: first.min(from), last: last.max(to) };
        true
    }
}

impl<W: Word> RequestQueue<W> {
    pub(crate) const NEW: Self = Self {
        asked: Aligned(Counter {
            latest: W::ZERO,
            ring: [const { W::ZERO }; RING],
            ipi_pending: W::ZERO,
        }),
        acknowledged: Aligned(Answers { own: W::ZERO, ring: W::ZERO }),
        request: Aligned(Request {
            serial: W::ZERO,
            context: W::ZERO,
            generation: W::ZERO,
            shape: W::ZERO,
            ranges: [const { [W::ZERO, W::ZERO] }; MAX_RANGES],
            own: W::ZERO,
        }),
    };

    /// As an initiator: writes down what all targets are asked for.
    pub(crate) fn describe(&self, request: &FlushRequest<'_>) {
        let mine = &*self.request;
        let ranges = request.ranges;
        let mut shape = ranges.ranges().len() as u64;
        for (flag, set) in [
            (EVERYTHING, ranges.is_everything()),
            (TABLES, ranges.change() == TableChange::FreedTables),
            (EARLY, request.early && ranges.change() == TableChange::LastLevel),
            (KERNEL, request.scope == FlushScope::Kernel),
            (EVERY_SPACE, request.scope == FlushScope::EverySpace),
        ] {
            shape |= if set { flag } else { 0 };
        }
        // Relaxed, both: nobody else writes it, and what comes next releases it.
        let serial = mine.serial.load(Ordering::Relaxed);
        mine.serial.store(serial + 1, Ordering::Relaxed);
        // ORDER O-DESCRIBE (pairs with O-DESCRIBED): who sees any of this sees that the former
        // request has gone.
        let write = |word: &W, value| word.store(value, Ordering::Release);
        if let FlushScope::AddressSpace { context, last, .. } = request.scope {
            write(&mine.context, context);
            write(&mine.generation, last);
        }
        write(&mine.shape, shape);
        for (words, range) in mine.ranges.iter().zip(ranges.ranges()) {
            let [first, second] = pack(range);
            write(&words[0], first);
            write(&words[1], second);
        }
        write(&mine.serial, serial + 2);
    }

    /// As an initiator: notes the number that it has taken on the board.
    pub(super) fn set_own_broadcast(&self, number: u64) {
        self.request.own.set(number);
    }

    /// The latest number that the owner, which is this CPU, has taken on the board.
    pub(super) fn own_broadcast(&self) -> u64 {
        self.request.own.get()
    }

    /// As a CPU that runs the space with this label: the owner's request, if it is the flush of
    /// `generation`. The owner may be writing its next one.
    pub(crate) fn read_flush(&self, context: u64, generation: u64) -> Option<ReceivedRequest> {
        let scope = FlushScope::AddressSpace { context, first: generation, last: generation };
        self.read_whole().filter(|asked| asked.scope == scope)
    }

    /// As a target: what the owner of this box asks for, unless it is writing that. It does not while it
    /// waits for us; but it may have given us up, by [`crate::conformance`] or by a panic.
    pub(super) fn read_whole(&self) -> Option<ReceivedRequest> {
        // ORDER O-DESCRIBED (pairs with O-DESCRIBE): all of it is of one request if that was there
        // before it was read and still is afterwards.
        let serial = self.request.serial.load(Ordering::Acquire);
        let asked = self.read();
        // Relaxed: after the loads in `read`, which acquire.
        let whole =
            serial.is_multiple_of(2) && self.request.serial.load(Ordering::Relaxed) == serial;
        whole.then_some(asked)
    }

    /// What the owner of this box has written, perhaps not all of it at one time.
    fn read(&self) -> ReceivedRequest {
        let request = &*self.request;
        // As O-DESCRIBED.
        let load = |word: &W| word.load(Ordering::Acquire);
        let shape = load(&request.shape);
        let mut ranges = FlushRanges::new();
        for words in request.ranges.iter().take((shape & 0xff) as usize) {
            match unpack(words.each_ref().map(load)) {
                Some(range) => ranges.add(range),
                None => ranges.widen(),
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
        } else {
            let (generation, context) = (load(&request.generation), load(&request.context));
            FlushScope::AddressSpace { context, first: generation, last: generation }
        };
        ReceivedRequest { scope, ranges, early: shape & EARLY != 0 }
    }

    /// As initiator `from`: asks the owner of this box for what `from` has described.
    pub(crate) fn post(&self, from: CpuId) {
        // ORDER O-POST (pairs with O-POSTED, O-SLOT-READ): the target that sees the number sees the tables as
        // they are now, and the target that sees the slot sees the request.
        let number = self.asked.latest.fetch_add(1, Ordering::SeqCst) + 1;
        self.slot(number).store(slot(number, from), Ordering::Release); // O-POST
    }

    /// As initiator `from`, which has raised the generation of a space and described what is owed:
    /// calls the owner, and says whether it must be interrupted for that. If not, somebody else has
    /// called before and does it, and the owner has not looked yet. Where others ask at the same time
    /// (`has_concurrent`) it is worth a look first whether there is anything to write.
    pub(crate) fn set_ipi_pending(&self, from: CpuId, has_concurrent: bool) -> bool {
        let pending = &self.asked.ipi_pending;
        // ORDER O-PENDING (pairs with F-CLEAR-PENDING, O-PENDING-READ): after F-GENERATION; and who sees the call sees what the
        // caller has described.
        if has_concurrent && pending.load(Ordering::SeqCst) == SEVERAL {
            return false;
        }
        let mine = u64::from(from.0) + 1;
        // As O-PENDING, both.
        match pending.compare_exchange(0, mine, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => true,
            Err(SEVERAL) => false,
            Err(_) => pending.swap(SEVERAL, Ordering::SeqCst) == 0,
        }
    }

    /// As the owner: who has pending.
    pub(crate) fn ipi_pending(&self) -> IpiPending {
        // ORDER O-PENDING-READ (pairs with O-PENDING): the call, then what the caller has described.
        match self.asked.ipi_pending.load(Ordering::Acquire) {
            0 => IpiPending::No,
            SEVERAL => IpiPending::FromSeveral,
            one => IpiPending::From(CpuId((one - 1) as u32)),
        }
    }

    /// As the owner: takes the call of `only` back, to which it has answered; and says whether nobody
    /// else has called meanwhile.
    pub(crate) fn clear_pending_from(&self, only: CpuId) -> bool {
        let call = u64::from(only.0) + 1;
        // Relaxed: nothing is read for it afterwards. Who calls later finds nobody, and interrupts.
        let was =
            self.asked.ipi_pending.compare_exchange(call, 0, Ordering::Relaxed, Ordering::Relaxed);
        was.is_ok()
    }

    /// As the owner: takes all calls back, before it looks what is owed.
    pub(crate) fn clear_pending(&self) {
        // FENCE F-CLEAR-PENDING (pairs with F-GENERATION, O-PENDING): "nobody has called", then the generation. Whoever
        // found that others had called before has raised it before.
        self.asked.ipi_pending.swap(0, Ordering::SeqCst);
    }

    /// The latest number that anybody has taken.
    pub(crate) fn latest(&self) -> u64 {
        // ORDER O-POSTED (pairs with O-POST): as there.
        self.asked.latest.load(Ordering::Acquire)
    }

    /// As the target: whom `number` is of, if that can be told.
    fn asker(&self, number: u64) -> Option<CpuId> {
        // ORDER O-SLOT-READ (pairs with O-POST): as there.
        let found = self.slot(number).load(Ordering::Acquire);
        let from = CpuId((found & ((1 << CPU_BITS) - 1)) as u32);
        (found == slot(number, from)).then_some(from)
    }

    /// As the target: what `number` asks for, where `of` finds the box of a CPU.
    pub(crate) fn request<'c>(
        &self,
        number: u64,
        of: impl Fn(CpuId) -> Option<&'c Self>,
    ) -> ReceivedRequest
    where
        W: 'c,
    {
        let asker = self.asker(number).and_then(of);
        asker.and_then(Self::read_whole).unwrap_or(ReceivedRequest::EVERYTHING)
    }

    /// The last number that the owner, which is this CPU, has dealt with.
    pub(crate) fn processed(&self) -> u64 {
        self.acknowledged.own.load(Ordering::Relaxed) // Relaxed: this CPU's own word.
    }

    /// As the target: everything up to `number` is dealt with.
    pub(crate) fn acknowledge(&self, number: u64) {
        // ORDER O-ACK (pairs with O-ACK-READ): the flush is complete, and what this CPU did through
        // the old translations has been done.
        self.acknowledged.own.store(number, Ordering::Release);
    }

    /// As the owner: whether it is up.
    pub(crate) fn is_up(&self) -> bool {
        self.processed() != DOWN
    }

    /// As [`Self::processed`], of the board.
    pub(crate) fn processed_broadcast(&self) -> u64 {
        self.acknowledged.ring.load(Ordering::Relaxed) // Relaxed: as there.
    }

    /// As [`Self::acknowledge`], on the board.
    pub(crate) fn acknowledge_broadcast(&self, number: u64) {
        // ORDER O-ACK-RING (pairs with O-ACK-RING-READ): the flush is complete, and what this CPU did
        // through the old translations has been done.
        self.acknowledged.ring.store(number, Ordering::Release);
    }

    /// As an initiator: the last number that the owner has dealt with.
    pub(crate) fn acknowledged(&self) -> u64 {
        // ORDER O-ACK-READ (pairs with O-ACK): as there.
        self.acknowledged.own.load(Ordering::Acquire)
    }

    /// As [`Self::acknowledged`], of the board.
    pub(crate) fn acknowledged_broadcast(&self) -> u64 {
        // ORDER O-ACK-RING-READ (pairs with O-ACK-RING): as there.
        self.acknowledged.ring.load(Ordering::Acquire)
    }

    /// The owner is about to come up, and has dealt with whatever was asked before, on the board up to
    /// `latest`.
    pub(crate) fn come_up(&self, latest: u64) {
        // Relaxed: O-UP and the ways into a space are by read-modify-writes that release, and nobody
        // asks this CPU before it has done one of them.
        self.asked.ipi_pending.store(0, Ordering::Relaxed);
        self.acknowledged.own.store(self.latest(), Ordering::Relaxed);
        self.acknowledged.ring.store(latest, Ordering::Relaxed);
    }

    /// The owner goes down: it holds nothing that it will use again, and nobody waits for it.
    pub(crate) fn go_down(&self) {
        self.acknowledge(DOWN);
        self.acknowledge_broadcast(DOWN);
    }

    fn slot(&self, number: u64) -> &W {
        &self.asked.ring[(number % RING as u64) as usize]
    }
}

/// A slot that says that `number` is of `from`. The bits of the number that do not fit could only
/// be missed by a slot that was not written for 2^51 requests.
const fn slot(number: u64, from: CpuId) -> u64 {
    number << CPU_BITS | from.0 as u64
}

/// How many requests a target can serve before slots that it has not read may be overwritten.
pub(crate) const TOLD_APART: u64 = RING as u64;

/// The first address, with page size and uniformity in the bits below a page, and the pages.
const fn pack(flush: &FlushRange) -> [u64; 2] {
    let range = &flush.range;
    let low = (range.page_shift() as u64) << 1 | flush.uniform as u64;
    [range.start() | low, range.pages()]
}

fn unpack([first, pages]: [u64; 2]) -> Option<FlushRange> {
    let shift = (first >> 1 & 0x3f) as u32;
    let bytes = pages.checked_shl(shift)?;
    let range = VaRange::new(first & !0xfff, bytes, shift).ok()?;
    Some(FlushRange { range, uniform: first & 1 != 0 })
}

#[cfg(test)]
mod tests;
