//! Replay: the model kernel executes the script of a live system on a modelled machine under a strategy.
//!
//! The trace gives events and their order; the machine gives costs. Each CPU executes its steps at their
//! recorded times, or as soon after as possible. A thread's steps keep their order when it moves between
//! CPUs. Between its steps a program computes and accesses the pages of its working set ([`WorkingSet`]),
//! because a trace shows no accesses.
//!
//! A [`report`] presents the results.

mod accesses;
mod accounts;
pub mod advice;
pub mod assume;
pub mod difference;
pub mod inputs;
pub mod interrupts;
pub mod machine;
mod plan;
pub mod plausible;
mod player;
mod program;
pub mod report;
mod tally;
pub mod validate;
pub mod what_if;

use lookaside_machine::timed::{self, Arena, Options, Timeline};
use lookaside_simulation::{
    data::Machine,
    kernel::Kernel,
    strategy::{self, Place},
};
use lookaside_terminal::Refused;
use lookaside_traces::{KernelCounts, reconstruct::Script};
use serde::Serialize;

use self::{
    accounts::Accounts,
    plan::Plan,
    player::{NS, Player, START},
    program::part,
};

/// The parameters of a replay.
#[derive(Clone, Debug)]
pub struct Setup<'m> {
    /// The machine.
    pub machine: &'m Machine,
    /// The name of the strategy.
    pub strategy: &'m str,
    /// The number of CPUs. With more CPUs than were recorded, each recorded CPU has several copies that do
    /// the same at the same times: a process with one thread becomes a separate process in each copy, a
    /// process with several gets more threads. With fewer, several recorded CPUs share a modelled one.
    pub cpus: usize,
    /// The pages that programs access between their faults.
    pub working_set: WorkingSet,
    /// Seed of the pseudo-random numbers.
    pub seed: u64,
    /// When recorded requests arrived, for a validation; without them each takes what the machine's prices say.
    pub arrivals: Option<&'m interrupts::Arrivals>,
}

/// The pages that a computing program accesses: in every window of time the hot pages, which were mapped
/// last, and some of the others at random.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorkingSet {
    /// How long a window is, in nanoseconds of computing.
    pub window: u64,
    /// How many pages are used in each window.
    pub hot: u32,
    /// How many of the other pages are used in each window.
    pub others: u32,
    /// How many other pages there are: those that were mapped before the hot ones. Before the trace shows
    /// that any are mapped, a program has as many as it needs for this.
    pub pool: u32,
}

impl WorkingSet {
    /// All pages that a program uses.
    const fn pages(&self) -> u32 {
        self.hot + self.pool
    }

    /// The same in whole pieces, so that what the script aligns stays aligned behind them.
    fn room(&self) -> u32 {
        part(self.pages().into())
    }

    /// The one that a program was seen to have: the parameters of the workload `build`.
    ///
    /// # Errors
    ///
    /// If one of them is missing.
    pub fn of_build(options: &std::collections::BTreeMap<String, f64>) -> Result<Self, Refused> {
        let option = |name: &str| {
            let value = options.get(name).copied();
            value.ok_or_else(|| Refused(format!("the workload `build` has no `{name}`")))
        };
        Ok(Self {
            window: (option("window")? * 1000.0) as u64,
            hot: option("hot_pages")? as u32,
            others: option("others_per_window")? as u32,
            pool: option("other_pages")? as u32,
        })
    }

    /// A working set `1 / divisor` or `factor` times as large, within what [`replay`] accepts. It is used in the
    /// same window.
    #[must_use]
    pub fn scaled(&self, factor: u32, divisor: u32) -> Self {
        let scale = |pages: u32| -> u32 {
            let pages = (u64::from(pages) * u64::from(factor)).div_ceil(u64::from(divisor.max(1)));
            pages.min(1 << 19) as u32
        };
        Self {
            window: self.window,
            hot: scale(self.hot),
            others: scale(self.others),
            pool: scale(self.pool),
        }
    }

    /// The same pages, used once in a second of computing. All but refills stays as it is, within some percent; a replay
    /// takes a tenth of the time.
    #[must_use]
    pub const fn hardly_used(&self) -> Self {
        Self { window: 1_000_000_000, ..*self }
    }

    fn check(&self) -> Result<(), Refused> {
        if self.window == 0 || self.window > 1_000_000_000 {
            return Err(Refused("a window of a working set is 1 ns to 1 s".into()));
        }
        if self.pages() > 1 << 20 || self.others > 1 << 20 {
            return Err(Refused("a working set has at most 1048576 pages".into()));
        }
        if self.others > 0 && self.pool == 0 {
            return Err(Refused("a working set without other pages uses none of them".into()));
        }
        Ok(())
    }
}

/// The result of a replay. Times are in picoseconds, summed over all CPUs unless stated otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    /// The key of the machine.
    pub machine: String,
    /// The strategy.
    pub strategy: String,
    /// How many CPUs.
    pub cpus: usize,
    /// Length of the trace, on one CPU.
    pub traced: u64,
    /// Total time of TLB upkeep of the recorded programs: the sum of `upkeep`.
    pub total: u64,
    /// The same by cause, in the order of [`Upkeep::NAMES`].
    pub upkeep: Upkeep,
    /// Upkeep of all other programs, of which a recording of a command has only the switches: it is in none of
    /// the other figures. Nothing, where the whole system was recorded.
    pub rest: Upkeep,
    /// The range of refills when the working set is a quarter of the assumed one, and four times as large.
    /// Nothing unless [`with_band`] replayed these, too.
    pub refills_band: Option<[u64; 2]>,
    /// How often things happened. Walks and accesses are those of all programs.
    pub operations: Operations,
    /// Latencies of flushes, switches and interrupt handlers.
    pub latencies: Vec<Latency>,
    /// Time by initiator, largest first.
    pub blame: Vec<Blame>,
    /// The number of executed steps, those of copies included.
    pub steps: u64,
    /// How many events were simulated.
    pub events: u64,
    /// Counts in Linux's terms, if the strategy is Linux's.
    #[serde(skip)]
    pub observed: Option<KernelCounts>,
}

impl Replayed {
    /// The share of all CPUs' time that TLB upkeep took.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share_of(self.total)
    }

    /// The share of all CPUs' time of so many picoseconds.
    #[must_use]
    pub fn share_of(&self, time: u64) -> f64 {
        time as f64 / (self.traced as f64 * self.cpus as f64)
    }

    /// Whether there was nothing to pay for: neither a switch nor a flush.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.operations.switches == 0 && self.operations.flushes == 0
    }

    /// Whether refills cost nothing although there were walks: the machine has no price for one.
    #[must_use]
    pub const fn has_unpriced_refills(&self) -> bool {
        self.upkeep.refills == 0 && self.operations.walks > 0
    }

    /// What is known: everything but refills, which follow from an assumed working set.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.upkeep.known()
    }
}

/// The meaning of a share above 100 %.
pub const OVERFULL: &str = "A share above 100 % means that upkeep alone takes longer than the recording lasted: what \
     was done in that time cannot be done in it there. The replay does every step, later than it was recorded. The \
     programs would take longer by this factor at least.";

/// Time of TLB upkeep by cause, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Upkeep {
    /// Switches between spaces: root register, tags, flushes at a switch, bookkeeping.
    pub switches: u64,
    /// Page walks and second-level TLB accesses for missing translations, whatever evicted them.
    pub refills: u64,
    /// Invalidations and bookkeeping on the initiating CPU.
    pub flushes: u64,
    /// Waiting of the initiating CPU for other CPUs.
    pub waits: u64,
    /// Interrupts on target CPUs: entry, handler, return.
    pub interrupted: u64,
    /// Broadcasts: issuing, waiting for the fabric, and the time they take from other CPUs.
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

/// The time and interrupts of one initiator.
#[derive(Clone, Debug, Serialize)]
pub struct Blame {
    /// The name of the process.
    pub process: String,
    /// Its operation: the name of a call, or `fault`, `fork`, `switch` and so on.
    pub operation: String,
    /// How often.
    pub count: u64,
    /// Time by cause, including that of the handlers it caused on other CPUs.
    pub upkeep: Upkeep,
    /// Interrupts that it sent.
    pub interrupts: u64,
}

impl Upkeep {
    /// The names of the causes, in the order of the fields.
    pub const NAMES: [&str; 6] =
        ["switches", "refills", "flushes", "waits", "interrupted", "fabric"];

    /// The causes with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { switches, refills, flushes, waits, interrupted, fabric } = *self;
        Self::NAMES.into_iter().zip([switches, refills, flushes, waits, interrupted, fabric])
    }

    /// All [known](Self::known) causes with their names.
    pub fn known_causes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.iter().filter(|(name, _)| *name != "refills")
    }

    /// Adds what something else took.
    pub fn add(&mut self, other: &Self) {
        self.switches += other.switches;
        self.refills += other.refills;
        self.flushes += other.flushes;
        self.waits += other.waits;
        self.interrupted += other.interrupted;
        self.fabric += other.fabric;
    }

    /// All causes but refills. Those follow from the accesses of programs, which no trace shows; everything else
    /// follows from what was recorded and from the prices of the machine.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.total() - self.refills
    }

    /// All causes together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, time)| time).sum()
    }
}

/// A trace may be this long, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// Replays a script.
///
/// # Errors
///
/// If the machine has too few CPUs or does not support the strategy, if the script is inconsistent, or if the
/// run fails, for example with a stale translation, which would be a defect of the strategy.
pub fn replay(script: &Script, setup: &Setup<'_>) -> Result<Replayed, Refused> {
    replay_with_timeline(script, setup, 0).map(|(replayed, _)| replayed)
}

/// How much smaller and larger than the assumed working set those of [`Replayed::refills_band`] are. It is
/// no error bound: it shows how much the assumption decides.
pub const BAND: u32 = 4;

/// Replays the script of a result again with a quarter and with four times the working set, and notes the range of
/// refills: [`Replayed::refills_band`].
///
/// # Errors
///
/// As [`replay`].
pub fn with_band(
    script: &Script,
    setup: &Setup<'_>,
    replayed: Replayed,
) -> Result<Replayed, Refused> {
    let mut band = [replayed.upkeep.refills; 2];
    let set = setup.working_set;
    for working_set in [set.scaled(1, BAND), set.scaled(BAND, 1)] {
        let refills = replay(script, &Setup { working_set, ..setup.clone() })?.upkeep.refills;
        band = [band[0].min(refills), band[1].max(refills)];
    }
    Ok(Replayed { refills_band: Some(band), ..replayed })
}

/// Replays a script and records a timeline of its latest `moments` moments; none if `moments` is 0.
///
/// # Errors
///
/// As [`replay`].
pub fn replay_with_timeline(
    script: &Script,
    setup: &Setup<'_>,
    moments: usize,
) -> Result<(Replayed, Option<Timeline>), Refused> {
    let Setup { machine, strategy, cpus, working_set, seed, .. } = setup;
    let (machine, cpus) = (*machine, *cpus);
    let limit = machine.model.topology.cpus();
    if cpus == 0 || cpus > limit {
        return Err(Refused(format!("{cpus} CPUs; machine `{}` has {limit}", machine.key)));
    }
    if script.length == 0 || script.length > LONGEST {
        return Err(Refused(format!(
            "a trace of {} ns; one of up to an hour is replayed",
            script.length
        )));
    }
    working_set.check()?;
    if strategy::is_for_one_thread(strategy)
        && let Some(space) = script.spaces.iter().find(|space| space.threads > 1)
    {
        return Err(Refused(format!(
            "it is for processes with one thread, and `{}` has {}",
            space.name, space.threads
        )));
    }
    let plan = Plan::new(script, cpus)?;
    let room = |space: &lookaside_traces::reconstruct::Space| {
        let copies = if space.threads > 1 { plan.copies as u64 } else { 1 };
        space.pages.checked_mul(copies).is_some_and(|pages| pages <= 1 << 30)
    };
    if !script.spaces.iter().all(room) {
        return Err(Refused("a space of the script has more than 4 TiB".into()));
    }
    let accounts = Accounts::new(script);
    let arena = Arena::new(memory(cpus, script.spaces.len() * plan.copies));
    // A run that takes a hundred times the recorded time is taken for one that never ends.
    let limit = START + 100 * script.length * NS + 60_000_000_000_000;
    let options = Options { cpus, seed: *seed, limit, timeline: moments };
    let (player, mut report) = timed::simulate(&machine.charged(), &arena, options, || {
        let kernel = Kernel::new(Place { arena: &arena, machine, cpus }, strategy);
        Player::new(script, setup, &plan, &accounts, kernel)
    })
    .map_err(Refused::because)?;
    if let Err(refused) = &player.kernel {
        return Err(refused.clone());
    }
    let timeline = report.timeline.take();
    Ok((tally::replayed(script, setup, &accounts, &player, &report), timeline))
}

/// Enough memory for the words of any strategy, in bytes. The system provides what is used.
const fn memory(cpus: usize, spaces: usize) -> usize {
    // For each CPU, for each pair of CPUs, for each space, and in each space for each CPU.
    (1 << 22) + cpus * (1 << 15) + cpus * cpus * 128 + spaces * (1024 + cpus)
}
