//! Events for the kernel's tracing, and counters of them.

use core::fmt;

use crate::word::Word;

/// How a flush was done, the cheapest way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// No CPU had to act, because none runs the space. CPUs that hold entries of it flush before they run it
    /// again.
    NoCpu,
    /// Only the CPU that called it flushed.
    Local,
    /// No CPU had to act: the space got a tag under which no CPU holds anything.
    Retagged,
    /// By an invalidation that hardware broadcasts to every CPU.
    Broadcast,
    /// By IPIs to some CPUs.
    Ipis,
}

/// Something that happened on the CPU that reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A flush is complete; or it was begun ([`crate::Tlb::begin_flush`]), and the rounds of its wait are not known.
    Flushed {
        /// How it was done.
        outcome: Outcome,
        /// How many CPUs were asked: by an IPI, or by one that was under way, and this one itself if it was among them.
        targets: u32,
        /// How often this CPU called [`crate::Platform::relax`] while it waited.
        rounds: u64,
    },
    /// This CPU acknowledged requests of others.
    Served {
        /// How many.
        requests: u64,
        /// How many of them needed a flush on this CPU.
        useful: u64,
    },
    /// At switch-in this CPU executed a flush of what it had missed of the space. A load of the root that drops what the
    /// CPU holds is not counted, so that with [`crate::GlobalAsids`] only the end of lazy mode is.
    CaughtUp,
}

/// Counters of events, for one CPU or for a machine.
///
/// A kernel that wants them keeps one for each CPU and calls [`Self::count`] from
/// [`crate::Platform::observe`]. Only the CPU that owns them may call it.
pub struct Counts<W> {
    flushes: [W; 5],
    interrupted: W,
    served: W,
    useful: W,
    caught_up: W,
    /// Numbers of flushes that have waited, by the binary logarithm of their rounds.
    waits: [W; BUCKETS],
}

/// The last bucket holds all longer waits.
const BUCKETS: usize = 23;

impl<W: Word> Counts<W> {
    /// Nothing has happened.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            flushes: [const { W::ZERO }; 5],
            interrupted: W::ZERO,
            served: W::ZERO,
            useful: W::ZERO,
            caught_up: W::ZERO,
            waits: [const { W::ZERO }; BUCKETS],
        }
    }

    /// Counts an event of the calling CPU.
    pub fn count(&self, event: Event) {
        match event {
            Event::Flushed { outcome, targets, rounds } => {
                add(&self.flushes[outcome as usize], 1);
                if targets != 0 {
                    add(&self.interrupted, u64::from(targets));
                }
                // Most flushes wait for nobody, which is what the others are.
                if let Some(bucket) = rounds.checked_ilog2() {
                    add(&self.waits[(bucket as usize).min(BUCKETS - 1)], 1);
                }
            }
            Event::Served { requests, useful } => {
                add(&self.served, requests);
                add(&self.useful, useful);
            }
            Event::CaughtUp => add(&self.caught_up, 1),
        }
    }

    /// How many flushes were done as `outcome` says.
    #[must_use]
    pub fn flushes(&self, outcome: Outcome) -> u64 {
        read(&self.flushes[outcome as usize])
    }

    /// How many CPUs were asked to flush, each time; fewer IPIs were sent where one was under way.
    #[must_use]
    pub fn interrupted(&self) -> u64 {
        read(&self.interrupted)
    }

    /// How many requests of other CPUs this CPU acknowledged, and how many of these needed a flush.
    #[must_use]
    pub fn served(&self) -> (u64, u64) {
        (read(&self.served), read(&self.useful))
    }

    /// How often a CPU flushed at switch-in what it had missed.
    #[must_use]
    pub fn caught_up(&self) -> u64 {
        read(&self.caught_up)
    }

    /// How many flushes waited `0`, `1`, `2..4`, `4..8` … rounds; the last number counts all longer
    /// waits.
    pub fn waits(&self) -> impl Iterator<Item = u64> {
        let sum = |words: &[W]| words.iter().map(read).sum::<u64>();
        // The CPU that counts may go on between the two.
        let none = sum(&self.flushes).saturating_sub(sum(&self.waits));
        core::iter::once(none).chain(self.waits.iter().map(read))
    }
}

impl<W: Word> Default for Counts<W> {
    fn default() -> Self {
        Self::new()
    }
}

fn add<W: Word>(word: &W, more: u64) {
    word.set(word.get() + more);
}

fn read<W: Word>(word: &W) -> u64 {
    // Relaxed: a snapshot for people, perhaps on another CPU.
    word.load(crate::word::Ordering::Relaxed)
}

impl<W: Word> fmt::Debug for Counts<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts")
            .field("flushes", &self.flushes.each_ref().map(read))
            .field("interrupted", &self.interrupted())
            .field("served", &self.served())
            .field("caught_up", &self.caught_up())
            .finish_non_exhaustive()
    }
}
