//! One simulated CPU.

use std::collections::VecDeque;

use corosensei::Yielder;

use super::{
    account::{Account, Counters},
    bill::AccountId,
    invalidate::Broadcast,
    price::Ps,
    program::{Sent, Span},
    siblings::Execution,
    tlb::Tlb,
};

/// So many lines that a loop reads are watched while it waits; a loop that reads more polls.
const WATCHED: usize = 16;

/// So many loads of lines from elsewhere are under way at one time: the line fill buffers of Intel's
/// cores from Nehalem on; others have about as many.
const OUTSTANDING: usize = 10;

/// Loads of lines from elsewhere that the CPU has begun together, because none needs what another
/// brings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loads {
    /// When the first began.
    begun: Ps,
    /// The CPU that wrote the line of the latest.
    writer: u16,
    /// How many there were; 0 if the next is the first.
    count: usize,
}

impl Loads {
    /// When a load began that the program comes to at `now`, of a line that `writer` wrote last.
    /// Two in a row from one writer are taken for one that finds the other.
    pub(crate) fn begin(&mut self, now: Ps, writer: u16) -> Ps {
        if self.count == 0 || self.count == OUTSTANDING || self.writer == writer {
            *self = Self { begun: now, writer, count: 1 };
        } else {
            self.writer = writer;
            self.count += 1;
        }
        self.begun
    }

    /// What comes next begins when all before is over.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.count = 0;
    }
}

/// A line that this CPU has got for an atomic, and how long it has it at least: the next request has to reach this CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    pub(crate) line: usize,
    pub(crate) until: Ps,
    /// Whether it came for a compare-exchange that failed, and was not used since.
    pub(crate) failed: bool,
}

/// An interrupt on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) arrival: Ps,
    /// The account that it was sent for.
    pub(crate) initiator: AccountId,
}

/// The state of a CPU.
pub(crate) struct Cpu {
    pub(crate) now: Ps,
    /// When its program ended, if it did.
    pub(crate) ended: Option<Ps>,
    /// What the program says it is doing.
    pub(crate) activity: usize,
    /// The account that its time is charged to.
    pub(crate) initiator: AccountId,
    /// Whether interrupts are on.
    pub(crate) interrupts: bool,
    /// Interrupts that were not taken yet, in the order in which they arrive.
    pub(crate) pending: VecDeque<Pending>,
    /// What was measured of the interrupts that it sends, where that is not the prices' to say.
    pub(crate) sent: Sent,
    /// The measured time of the operation that it executes; see [`super::pausing`].
    pub(crate) span: Option<Span>,
    /// See [`super::lead`].
    pub(crate) lead: Ps,
    /// Whether the CPU waits for others, who may bring the end of its wait forward.
    pub(crate) waiting: bool,
    /// Whether it waits for one of [`Self::watched`] to be written.
    pub(crate) watching: bool,
    watched: [usize; WATCHED],
    count: usize,
    /// When all its stores are visible.
    pub(crate) drain: Ps,
    /// The cache line that comes last of those that it waits for before all its stores are visible.
    pub(crate) drain_line: usize,
    /// Its broadcasts that may be under way, the oldest first.
    pub(crate) broadcasts: VecDeque<Broadcast>,
    /// Loads that are under way together.
    pub(crate) loads: Loads,
    /// The latest line that it has got for an atomic.
    pub(crate) arrived: Arrived,
    /// How many of all broadcasts it has been charged for as a target.
    pub(crate) received: u64,
    /// What firmware has taken from it and it has not noticed yet.
    pub(crate) stolen: Ps,
    /// When it executes instructions, as far as that is charged, or as long as it works.
    pub(crate) execution: Execution,
    /// What other threads of its core have taken from it and it has not noticed yet.
    pub(crate) late: Ps,
    /// When firmware has served all that was asked of it here.
    pub(crate) firmware: Ps,
    /// How long it has waited since its last step: nothing can be taken from a CPU that waits.
    pub(crate) rested: Ps,
    pub(crate) root: u64,
    pub(crate) tag: u16,
    /// Allocated when the first page is touched.
    pub(crate) tlb: Option<Box<Tlb>>,
    /// `TTBR1` and `TCR` on Arm; `CR3` and `CR4` on x86; `satp` on RISC-V.
    pub(crate) registers: [u64; 2],
    pub(crate) account: Account,
    pub(crate) counters: Counters,
    pub(crate) random: u64,
    pub(crate) yielder: *const Yielder<(), ()>,
}

impl Cpu {
    pub(crate) fn new(random: u64) -> Self {
        Self {
            now: 0,
            ended: None,
            activity: 0,
            initiator: AccountId::NOBODY,
            interrupts: true,
            pending: VecDeque::new(),
            sent: Sent::default(),
            span: None,
            lead: 0,
            waiting: false,
            watching: false,
            watched: [0; WATCHED],
            count: 0,
            drain: 0,
            drain_line: 0,
            broadcasts: VecDeque::new(),
            loads: Loads::default(),
            arrived: Arrived::default(),
            received: 0,
            stolen: 0,
            execution: Execution::default(),
            late: 0,
            firmware: 0,
            rested: 0,
            root: 0,
            tag: 0,
            tlb: None,
            registers: [0; 2],
            account: Account::default(),
            counters: Counters::default(),
            random,
            yielder: core::ptr::null(),
        }
    }

    /// Notes that a line was read.
    #[inline]
    pub(crate) fn watch(&mut self, line: usize) {
        if self.count <= WATCHED && !self.watched().contains(&line) {
            if self.count < WATCHED {
                self.watched[self.count] = line;
            }
            self.count += 1;
        }
    }

    /// The lines that were read since [`Self::forget_watched`].
    pub(crate) fn watched(&self) -> &[usize] {
        &self.watched[..self.count.min(WATCHED)]
    }

    /// Whether more lines were read than can be watched, or none.
    pub(crate) fn must_poll(&self) -> bool {
        self.count == 0 || self.count > WATCHED
    }

    pub(crate) fn forget_watched(&mut self) {
        self.count = 0;
        self.loads.end();
    }

    /// Whether an interrupt has arrived that can be taken.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupts && self.pending.front().is_some_and(|first| first.arrival <= self.now)
    }
}
