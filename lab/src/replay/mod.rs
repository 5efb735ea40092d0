//! Replay: a script of what a live system did, executed by the model kernel on a modelled machine under
//! a strategy.
//!
//! What happened and in which order comes from the trace; what it costs comes from the machine. Each CPU
//! does its steps at the time at which they were recorded, or as soon after that as it can. A thread's
//! steps keep their order when it moves between CPUs. Between its steps a program computes, and uses the
//! pages of its working set ([`WorkingSet`]), for a trace shows no accesses.

use serde::Serialize;

use crate::{
    data::{Machine, Refused},
    reconstruct::Script,
};

/// How a script is to be replayed.
#[derive(Clone, Debug)]
pub struct Setup<'m> {
    /// The machine.
    pub machine: &'m Machine,
    /// The name of the strategy.
    pub strategy: &'m str,
    /// How many CPUs. More than were recorded: each recorded CPU has several copies that do the same
    /// at the same times; processes with one thread are processes of their own in each copy, and
    /// processes with more have more threads. Fewer: those above take turns with those below.
    pub cpus: usize,
    /// What programs use between their faults.
    pub working_set: WorkingSet,
    /// What pseudo-random numbers begin with.
    pub seed: u64,
}

/// What a program uses while it computes: in every window of time the hot pages, those that were mapped
/// last, and some of the others at random.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorkingSet {
    /// How long a window is, in nanoseconds of computing.
    pub window: u64,
    /// How many pages are used in each window.
    pub hot: u32,
    /// How many of the other pages are used in each window.
    pub others: u32,
}

/// What a replay gives. All times are picoseconds, summed over all CPUs where nothing else is said.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    /// The key of the machine.
    pub machine: String,
    /// The strategy.
    pub strategy: String,
    /// How many CPUs.
    pub cpus: usize,
    /// How long was traced, on one CPU.
    pub traced: u64,
    /// What TLB upkeep took, altogether: the sum of `upkeep`.
    pub total: u64,
    /// The same by cause, in the order of [`Upkeep::NAMES`].
    pub upkeep: Upkeep,
    /// How often things happened.
    pub operations: Operations,
    /// How long operations took: of flushes, of switches, of handlers of interrupts.
    pub latencies: Vec<Latency>,
    /// Who caused it, those first that caused most.
    pub blame: Vec<Blame>,
    /// How many steps of the script were executed.
    pub steps: u64,
    /// How many events were simulated.
    pub events: u64,
}

/// What TLB upkeep took, by cause, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Upkeep {
    /// Switches between spaces: the root register, tags, flushes at a switch, the books.
    pub switches: u64,
    /// Walks and accesses to the second level for translations, wherever they were lost.
    pub refills: u64,
    /// Invalidations by who flushes, and the books of a flush.
    pub flushes: u64,
    /// Waiting of who flushes for other CPUs.
    pub waits: u64,
    /// Interrupts on those who are asked: entry, handler, return.
    pub victims: u64,
    /// Broadcasts: issuing, waiting for the fabric, and what they take from others.
    pub fabric: u64,
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// Switches from one space to another.
    pub switches: u64,
    /// Flushes that the kernel asked the strategy for.
    pub flushes: u64,
    /// Interrupts that were sent.
    pub interrupts: u64,
    /// Invalidations by address.
    pub page_flushes: u64,
    /// Invalidations of a tag or of everything.
    pub full_flushes: u64,
    /// Invalidations that were broadcast.
    pub broadcasts: u64,
    /// Page walks.
    pub walks: u64,
    /// Accesses to pages.
    pub accesses: u64,
}

/// How long operations of one kind took, in picoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// Which kind: `flush`, `switch` or `handler`.
    pub of: &'static str,
    /// How many there were.
    pub count: u64,
    /// Half took no longer.
    pub p50: u64,
    /// Nine of ten took no longer.
    pub p90: u64,
    /// Ninety-nine of a hundred took no longer.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// What one culprit caused.
#[derive(Clone, Debug, Serialize)]
pub struct Blame {
    /// The name of the process.
    pub process: String,
    /// What it was doing, as a word: the name of a call, or `fault`, `fork`, `switch` and so on.
    pub deed: String,
    /// How often.
    pub count: u64,
    /// What it took, by cause; time in handlers on other CPUs is with who asked for it.
    pub upkeep: Upkeep,
    /// Interrupts that it sent.
    pub interrupts: u64,
}

impl Upkeep {
    /// The names of the causes, in the order of the fields.
    pub const NAMES: [&str; 6] = ["switches", "refills", "flushes", "waits", "victims", "fabric"];

    /// The causes with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { switches, refills, flushes, waits, victims, fabric } = *self;
        Self::NAMES.into_iter().zip([switches, refills, flushes, waits, victims, fabric])
    }

    /// All causes together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, time)| time).sum()
    }
}

/// Replays a script.
///
/// # Errors
///
/// If the machine has fewer CPUs or not this strategy, or if the run fails: a stale translation, for
/// example, which would be a defect of the strategy.
pub fn replay(_script: &Script, _setup: &Setup<'_>) -> Result<Replayed, Refused> {
    unimplemented!()
}
