//! Scenarios of blocks: a kernel that changes the last-level entries of one table page, while user
//! code loads and stores through them and hardware sets accessed and dirty flags in any entry.

mod kernel;
mod kind;
pub(super) mod mapped;
mod user;
mod world;

use core::ops::Range;

use lookaside::{
    arch::Mmu,
    contig::{Flags, Format},
    platform::CpuId,
};
use lookaside_machine::adversary::{Config, Scenario, milestone, outcome};

pub(super) use self::kind::*;
use self::world::World;

/// The address of the table's first page.
const START: u64 = 0x1_0000;

/// One act of a CPU's script. Pages are named by their slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    /// Switch to the space.
    Run,
    /// Run no space.
    Park,
    /// Signal the other CPUs that this one has come so far.
    Tell,
    /// Wait for [`Self::Tell`] on another CPU.
    Await,
    /// In user mode, read a page.
    Load(usize),
    /// In user mode, store to a page.
    Store(usize),
    /// The same, with the kernel's fault handler: in the end the store succeeds.
    Insist(usize),
    /// Unmap pages, flush and free them.
    Unmap(Range<usize>),
    /// As [`Self::Unmap`], of a space that no CPU runs nor will run before it is dropped.
    Exit(Range<usize>),
    /// Fold pages into a block.
    Fold(usize),
    /// Unfold a block into pages.
    Unfold(usize),
    /// Remove the permission to store, and flush.
    Protect(Range<usize>),
    /// Clear the accessed flags of pages.
    Age(Range<usize>),
    /// Clear the dirty flags of pages, and flush.
    Clean(Range<usize>),
    /// Read the state of a page to which no CPU stores.
    Ask(usize),
    /// Give a page the flags and the permission that a store needs.
    Allow(usize),
    /// Read the state of a page without the lock. Its block has been dirty from the beginning, so it is dirty
    /// whenever it is there.
    Look(usize),
    /// Write the contents of pages that are not there, and map them.
    Map(Range<usize>),
    /// Read the state of a page without the lock, and, if it is there, its contents, which [`Self::Map`] has written.
    Peruse(usize),
    /// Read the state of a page without the lock, and rely on it if it cannot be stored to.
    Rely(usize),
}

impl Act {
    /// The act of this name about pages; one about a single page takes the first.
    pub(crate) fn named(name: &str, slots: Range<usize>) -> Option<Self> {
        let slot = slots.start;
        Some(match name {
            "Run" => Self::Run,
            "Park" => Self::Park,
            "Tell" => Self::Tell,
            "Await" => Self::Await,
            "Load" => Self::Load(slot),
            "Store" => Self::Store(slot),
            "Insist" => Self::Insist(slot),
            "Unmap" => Self::Unmap(slots),
            "Exit" => Self::Exit(slots),
            "Fold" => Self::Fold(slot),
            "Unfold" => Self::Unfold(slot),
            "Protect" => Self::Protect(slots),
            "Age" => Self::Age(slots),
            "Clean" => Self::Clean(slots),
            "Ask" => Self::Ask(slot),
            "Allow" => Self::Allow(slot),
            "Look" => Self::Look(slot),
            "Map" => Self::Map(slots),
            "Peruse" => Self::Peruse(slot),
            "Rely" => Self::Rely(slot),
            _ => return None,
        })
    }

    /// The pages it is about.
    pub(crate) fn slots(&self) -> Range<usize> {
        match self {
            Self::Run | Self::Park | Self::Tell | Self::Await => 0..0,
            Self::Unmap(slots)
            | Self::Exit(slots)
            | Self::Protect(slots)
            | Self::Age(slots)
            | Self::Map(slots)
            | Self::Clean(slots) => slots.clone(),
            Self::Load(slot)
            | Self::Store(slot)
            | Self::Insist(slot)
            | Self::Fold(slot)
            | Self::Unfold(slot)
            | Self::Ask(slot)
            | Self::Allow(slot)
            | Self::Peruse(slot)
            | Self::Rely(slot)
            | Self::Look(slot) => *slot..*slot + 1,
        }
    }

    /// Whether it is about no page.
    pub(crate) const fn names_nothing(&self) -> bool {
        matches!(self, Self::Run | Self::Park | Self::Tell | Self::Await)
    }

    /// Whether it needs the lock of the table.
    const fn locks(&self) -> bool {
        matches!(
            self,
            Self::Insist(_)
                | Self::Unmap(_)
                | Self::Exit(_)
                | Self::Fold(_)
                | Self::Unfold(_)
                | Self::Protect(_)
                | Self::Age(_)
                | Self::Clean(_)
                | Self::Ask(_)
                | Self::Map(_)
                | Self::Allow(_)
        )
    }
}

/// Pages that are there when a scenario begins.
pub(super) struct Mapped {
    /// Their slots. Wherever there is a whole block, it is one.
    pub(super) slots: Range<usize>,
    /// Plain pages, also where there is a whole block.
    pub(super) plain: bool,
    /// The flags of all entries.
    pub(super) flags: Flags,
    /// An entry with further flags.
    pub(super) dirty: Option<usize>,
    /// An absent entry that holds a software value which looks like flags.
    pub(super) marker: Option<usize>,
}

/// The mapped pages, and a script for each CPU. All but CPU 0 run the space from the beginning.
pub(super) struct Script<M: Mmu, F> {
    /// Its name.
    pub(super) name: String,
    /// The pages.
    pub(super) mapped: &'static [Mapped],
    /// Where hardware may write; everywhere if empty.
    pub(super) written: &'static [usize],
    /// The script of each CPU.
    pub(super) cpus: Vec<Vec<Act>>,
    /// A change may be refused, because another CPU has unmapped the pages.
    pub(super) refusals: bool,
    /// On what.
    pub(super) kind: Described<M, F>,
}

impl<M: Mmu + 'static, F: Format + 'static> Scenario for Script<M, F> {
    type World = World<M, F>;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn config(&self) -> Config {
        (self.kind.config)(self.cpus.len())
    }

    fn build(&self) -> &'static World<M, F> {
        World::build(self)
    }

    fn run(&self, world: &'static World<M, F>, cpu: CpuId) {
        for act in &self.cpus[cpu.index()] {
            world.act(act);
            // The position in the script is the only state of a program.
            milestone();
        }
    }

    fn interrupt(&self, world: &'static World<M, F>, _: CpuId) {
        world.this_cpu().handle_ipi();
    }

    fn finish(&self, world: &'static World<M, F>) {
        // No page that is still mapped has lost a flag.
        world.claim_rest();
        outcome(0);
    }
}

/// The address of the page in a slot.
const fn va(slot: usize) -> u64 {
    START + ((slot as u64) << 12)
}
