//! Ways to keep TLBs coherent: the library's own, and those that it was measured against.
//!
//! A strategy is what a model kernel calls. The library's own strategies stand in
//! [`library`]; all others were built from published descriptions, only to be compared with, and each
//! module says from which. They execute the same instructions on the same machine
//! ([`lookaside::arch::Mmu`] over [`lookaside_machine::timed`]) and keep their books in the same words,
//! so that a comparison changes one thing: whose books they are.

mod arm;
pub mod blocks;
pub mod hardware;
pub mod library;
mod x86;

use lookaside::{FlushRange, VaRange};
use lookaside_machine::timed::Arena;

use crate::{
    data::{Isa, Machine, Refused},
    reconstruct::Recorded,
};

/// An address space, by its number: the order in which spaces were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// What must be forgotten, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Of which space; `None` for the kernel's addresses, which all CPUs use.
    pub space: Option<SpaceId>,
    /// The first page.
    pub first: u64,
    /// How many pages.
    pub pages: u64,
    /// Whether page tables were freed.
    pub tables: bool,
    /// Whether the whole space goes, and `first` and `pages` say nothing.
    pub everything: bool,
}

impl Flush {
    /// Pages of a space, no tables.
    #[must_use]
    pub const fn pages(space: SpaceId, first: u64, pages: u64) -> Self {
        Self { space: Some(space), first, pages, tables: false, everything: false }
    }

    /// Pages of the kernel.
    #[must_use]
    pub const fn kernel(first: u64, pages: u64) -> Self {
        Self { space: None, first, pages, tables: false, everything: false }
    }

    /// A whole space with its tables.
    #[must_use]
    pub const fn everything(space: SpaceId) -> Self {
        Self { space: Some(space), first: 0, pages: 0, tables: true, everything: true }
    }
}

/// A way to keep TLBs coherent. Every method acts on the simulated CPU that calls it.
pub trait Strategy {
    /// Brings this CPU up. Called once on each CPU before anything else there.
    fn online(&self);

    /// Makes a space known whose page tables are at `root`. Takes no time. Numbers come in ascending
    /// order from 0.
    fn add(&self, space: SpaceId, root: u64);

    /// Makes this CPU run a space. Called with interrupts off.
    fn switch(&self, next: SpaceId);

    /// The same for a switch that the recorded counts do not cover: [`Strategy::observed`] is not to cover
    /// it either. Called with interrupts off.
    fn switch_uncounted(&self, next: SpaceId) {
        self.switch(next);
    }

    /// The thread that this CPU runs has another space from here on: it executes a program. Called with
    /// interrupts off.
    fn execute(&self, next: SpaceId) {
        self.switch(next);
    }

    /// This CPU goes idle, or runs a kernel thread: no user code until the next switch. Called with
    /// interrupts off.
    fn idle(&self);

    /// This CPU has nothing at all to run, and halts until it is interrupted or switches. Where it is a
    /// guest's, its host may take it away. Called with interrupts off.
    fn halt(&self) {
        self.idle();
    }

    /// Has every CPU forget something whose tables were changed before, and returns when all have.
    /// Called with interrupts on; the strategy turns them off where it must.
    fn flush(&self, flush: &Flush);

    /// The handler of interrupts.
    fn handle_ipi(&self);

    /// A space is gone: all of it was flushed, no CPU runs it, and its number will not be used
    /// again. This CPU does not run it either. Called with interrupts off.
    fn remove(&self, space: SpaceId);

    /// Whether a change that only allows more has to be flushed.
    fn flushes_promotions(&self) -> bool {
        false
    }

    /// What has happened so far in the terms in which Linux counts it, if the strategy is Linux's. Takes
    /// no time.
    fn observed(&self) -> Option<Recorded> {
        None
    }
}

/// Where a strategy is to work.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The memory of the run.
    pub arena: &'a Arena,
    /// The machine.
    pub machine: &'a Machine,
    /// How many CPUs run.
    pub cpus: usize,
}

/// A strategy by name.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line, and where it was published.
    pub about: &'static str,
    /// The instruction sets for which it exists.
    pub isas: &'static [Isa],
    /// Makes one. Called while a world is being built.
    pub build: for<'a> fn(Place<'a>) -> Result<Box<dyn Strategy + 'a>, Refused>,
}

/// Whether a strategy is for processes with one thread alone. A kernel does not tell a strategy of threads,
/// and this one counts them.
#[must_use]
pub fn is_for_one_thread(name: &str) -> bool {
    name == "local-mm-users"
}

/// Pages of 4 KiB from an address on.
fn stretch(start: u64, pages: u64) -> FlushRange {
    let range = VaRange::new(start, pages << 12, 12);
    FlushRange::uniform(range.expect("pages of a workload are addresses"))
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
/// If there is none, with the nearest name; or if it is not one for the machine.
pub fn find(name: &str, machine: &Machine) -> Result<&'static Entry, Refused> {
    let Some(entry) = all().find(|entry| entry.name == name) else {
        return Err(crate::names::unknown("strategy", name, all().map(|entry| entry.name)));
    };
    if entry.isas.contains(&machine.isa) {
        Ok(entry)
    } else {
        Err(Refused(format!(
            "strategy `{name}` is not one for `{}`, which is {:?}",
            machine.key, machine.isa
        )))
    }
}
