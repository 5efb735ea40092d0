//! Strategies of TLB coherence: the library's own, and those that it was measured against.
//!
//! The model kernel calls a strategy. The library's own strategies are in [`library`]; all others were built
//! from published descriptions, named in each module, for comparison only. All execute the same
//! instructions on the same machine ([`lookaside::arch::Mmu`] over [`lookaside_machine::timed`]) and keep
//! their state in the same kind of words, so that a comparison changes one thing: the protocol.

mod arm;
pub mod blocks;
pub mod hardware;
pub mod library;
mod x86;

use x86::BROADCAST;
pub use x86::{FLUSH_ASK, INTERRUPT_HOLD, SWITCH_LOOK};

use lookaside::VaRange;
use lookaside_machine::timed::Arena;
use lookaside_terminal::Refused;
use lookaside_traces::KernelCounts;

use crate::data::{Isa, Machine};

/// An address space, numbered in order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// A flush: a range of addresses and the space that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// The space; `None` for kernel addresses, which all CPUs use.
    pub space: Option<SpaceId>,
    /// The first page.
    pub first: u64,
    /// The number of pages.
    pub pages: u64,
    /// The binary logarithm of the pages of each entry that maps them: the stride of the flush.
    pub order: u8,
    /// Whether page tables were freed.
    pub tables: bool,
    /// Whether the whole space is flushed; `first` and `pages` are ignored then.
    pub everything: bool,
    /// Whether the pages were taken away one by one, by reclaim for example, and are flushed together at last. Linux
    /// flushes everything of each CPU then on x86 (`arch_tlbbatch_flush`), and page by page with one wait on Arm64.
    pub batch: bool,
}

impl Flush {
    /// Flushes pages of a space without freed tables.
    #[must_use]
    pub const fn pages(space: SpaceId, first: u64, pages: u64) -> Self {
        Self {
            space: Some(space),
            first,
            pages,
            order: 0,
            tables: false,
            everything: false,
            batch: false,
        }
    }

    /// Flushes kernel pages.
    #[must_use]
    pub const fn kernel(first: u64, pages: u64) -> Self {
        Self { space: None, ..Self::pages(SpaceId(0), first, pages) }
    }

    /// How many entries map its pages: what kernels compare with their limit.
    const fn entries(&self) -> u64 {
        self.pages >> self.order
    }

    /// Flushes a whole space whose tables were freed.
    #[must_use]
    pub const fn everything(space: SpaceId) -> Self {
        Self {
            space: Some(space),
            first: 0,
            pages: 0,
            order: 0,
            tables: true,
            everything: true,
            batch: false,
        }
    }
}

/// A strategy of TLB coherence. Every method acts on the simulated CPU that calls it.
pub trait Strategy {
    /// Brings this CPU up. Called once on each CPU before any other method.
    fn online(&self);

    /// Registers a space whose page tables are at `root`. Takes no time. Numbers ascend from 0.
    fn add(&self, space: SpaceId, root: u64);

    /// A space that was just registered is older than the run: what it does once in a while is due. Takes no time.
    fn is_older(&self, space: SpaceId) {
        let _ = space;
    }

    /// Switches this CPU to a space. Called with interrupts off.
    fn switch(&self, next: SpaceId);

    /// Switches this CPU to a space, without counting the switch in [`Strategy::observed`]: the recorded
    /// counts do not cover it either. Called with interrupts off.
    fn switch_uncounted(&self, next: SpaceId) {
        self.switch(next);
    }

    /// Gives the running thread another space, on `execve`. Called with interrupts off.
    fn execute(&self, next: SpaceId) {
        self.switch(next);
    }

    /// Switches this CPU to the idle loop or a kernel thread: no user code runs until the next switch. Called
    /// with interrupts off.
    fn idle(&self);

    /// This CPU leaves the space that it is lazy in, which ends, without a flush that is counted. Only Linux has
    /// something to do: it loads the kernel's own space, which takes a slot.
    fn leave(&self) {}

    /// Halts this CPU until it is interrupted or switches. The host may deschedule a virtual CPU then.
    /// Called with interrupts off.
    fn halt(&self) {
        self.idle();
    }

    /// Removes translations from all TLBs, after the tables were changed, and returns when every CPU has done
    /// so. Called with interrupts on; the strategy turns them off where it must.
    fn flush(&self, flush: &Flush);

    /// This CPU has mapped pages of a space that were not mapped before, as a page fault does.
    fn mapped(&self, space: SpaceId, first: u64, pages: u64) {
        let _ = (space, first, pages);
    }

    /// The IPI handler.
    fn handle_ipi(&self);

    /// Frees a space. It was flushed as a whole, no CPU runs it, this one included, and its number is never
    /// used again. Called with interrupts off.
    fn remove(&self, space: SpaceId);

    /// Whether a change that only adds permissions has to be flushed.
    fn flushes_promotions(&self) -> bool {
        false
    }

    /// The counts so far in Linux's terms, if the strategy is Linux's. Takes no time.
    fn observed(&self) -> Option<KernelCounts> {
        None
    }
}

/// The machine and memory that a strategy works on.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The memory of the run.
    pub arena: &'a Arena,
    /// The machine.
    pub machine: &'a Machine,
    /// The number of CPUs.
    pub cpus: usize,
}

/// A strategy by name.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// A one-line description with the publication.
    pub about: &'static str,
    /// The instruction sets for which it exists.
    pub isas: &'static [Isa],
    /// Builds the strategy. Called while a world is being built.
    pub build: for<'a> fn(Place<'a>) -> Result<Box<dyn Strategy + 'a>, Refused>,
}

/// Whether a strategy supports only single-threaded processes: it would have to count threads, which the
/// interface does not report.
#[must_use]
pub fn is_for_one_thread(name: &str) -> bool {
    name == "local-mm-users"
}

/// Whether a strategy of x86-64 uses no PCIDs, so that each load of the root register flushes.
#[must_use]
pub fn is_without_pcids(name: &str) -> bool {
    [
        "page-by-page",
        "cr3-flush",
        "pcid-2017-off",
        "shared-counter",
        "completion-flags",
        "lookaside-untagged",
    ]
    .contains(&name)
}

/// Whether a strategy differs from `linux-broadcast` by how it clears contiguous blocks alone.
#[must_use]
pub fn is_of_blocks(name: &str) -> bool {
    blocks::STRATEGIES.iter().any(|entry| entry.name == name)
}

/// A flush range from an address on, of pages of 4 KiB that are mapped by entries of that order.
fn flush_range(start: u64, pages: u64, order: u8) -> VaRange {
    let range = VaRange::new(start, pages << 12, 12 + u32::from(order));
    range.expect("pages of a workload are addresses")
}

/// All strategies, the library's own first.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    [library::STRATEGIES, arm::STRATEGIES, blocks::STRATEGIES]
        .into_iter()
        .chain(x86::STRATEGIES.iter().copied())
        .flatten()
}

/// The strategy of that name on that machine.
///
/// # Errors
///
/// If there is no such strategy (the error names the nearest), or if the machine does not support it.
pub fn find(name: &str, machine: &Machine) -> Result<&'static Entry, Refused> {
    let Some(entry) = all().find(|entry| entry.name == name) else {
        return Err(lookaside_terminal::names::unknown(
            "strategy",
            name,
            all().map(|entry| entry.name),
        ));
    };
    if entry.isas.contains(&machine.isa) {
        // Before a world is built: a comparison leaves such a machine out, which is no failure.
        match name == BROADCAST && !machine.features.invlpgb {
            true => Err(Refused(format!("machine `{}` has no INVLPGB", machine.key))),
            false => Ok(entry),
        }
    } else {
        Err(Refused(format!(
            "strategy `{name}` is not one for `{}`, which is {}",
            machine.key,
            machine.isa.name()
        )))
    }
}
