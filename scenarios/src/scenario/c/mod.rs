//! Scenarios of a kernel in C: every call of the library goes through `lookaside-c`, with the arguments, the structs and
//! the results of the functions of `lookaside.h`.
//!
//! Such a kernel changes entries first and flushes afterwards, and looks at results. The scripts leave each entry to one
//! CPU, as a lock of the page table would: what else a caller of C must see to is said in the header.

mod space;
mod world;

use core::marker::PhantomData;

use lookaside::{
    Platform,
    arch::{Mmu, SeparateRoots},
    platform::{CpuId, Word as _},
};
use lookaside_c::{Instance, Pins};
use lookaside_machine::adversary::{
    Config, Platform as Adversary, Scenario, Word, milestone, outcome,
};

use super::{hardware::Described, world::Strategy};
pub(super) use world::World;

/// One act of a CPU's script. Spaces are named by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// `switch` to a space.
    Run(usize),
    /// `lazy`.
    Lazy,
    /// `park`.
    Park,
    /// `root_begin`, firmware, `root_end`.
    Firmware,
    /// `offline`, and `online` again.
    Restart,
    /// Tell the other CPUs that this one has come here.
    Signal,
    /// Wait until another CPU has signalled.
    Await,
    /// In user mode, read the first page of the space that this CPU runs.
    Read,
    /// In user mode, write to it.
    Write,
    /// The same, and once more after a fault that was spurious: `map` with `LOOKASIDE_FAULTED`.
    Retry(usize),
    /// Unmap a page of a space, `flush_range`, and free the frame.
    Unmap(usize, usize),
    /// Unmap both pages of a space, `flush_range` of both in one range, and free the frames.
    UnmapBoth(usize),
    /// Unmap the large page of a space, `flush_range` with its page size, and free its frame.
    UnmapLarge(usize),
    /// Make the first page of a space read-only, and `flush_page`.
    Protect(usize),
    /// Make it writable again, without a flush.
    Allow(usize),
    /// Map a page where there was none, and `map` with `LOOKASIDE_MAPPED`.
    Fill(usize),
    /// In user mode, read that page if this CPU runs the space, and again after a fault if it is there.
    Touch(usize),
    /// In user mode, read that page, which this CPU has mapped itself.
    Use,
    /// Unlink the table of a space that maps its pages, `flush_range` with `LOOKASIDE_TABLES`, and free all.
    FreeTable(usize),
    /// Unmap both pages of a space, `flush_all`, and free the frames.
    Clear(usize),
    /// Unmap the first pages of two spaces, `batch_add` of each, `batch_flush`, and free the frames.
    Batch(usize, usize),
    /// Unmap the first page of a space, and `flush_range` with a `wait`.
    Begin(usize),
    /// The same with the kernel's page, and `flush_kernel`.
    BeginKernel,
    /// `wait` with interrupts on for what was begun.
    Finish,
    /// The same with interrupts off.
    FinishClosed,
    /// Unmap the kernel's page, and `flush_kernel`.
    UnmapKernel,
    /// `space_release`, and free all that the space had.
    End(usize),
    /// `nmi_uaccess_okay` of a space is true.
    Visible(usize),
}

impl Act {
    /// The space it is about with the highest number.
    const fn space(self) -> Option<usize> {
        match self {
            Self::Run(space)
            | Self::Retry(space)
            | Self::Unmap(space, _)
            | Self::UnmapBoth(space)
            | Self::UnmapLarge(space)
            | Self::Protect(space)
            | Self::Allow(space)
            | Self::Fill(space)
            | Self::Touch(space)
            | Self::FreeTable(space)
            | Self::Clear(space)
            | Self::Begin(space)
            | Self::End(space)
            | Self::Visible(space) => Some(space),
            Self::Batch(one, other) => Some(if one > other { one } else { other }),
            _ => None,
        }
    }

    const fn begins(self) -> bool {
        matches!(self, Self::Begin(_) | Self::BeginKernel)
    }

    const fn finishes(self) -> bool {
        matches!(self, Self::Finish | Self::FinishClosed)
    }

    const fn needs_kernel(self) -> bool {
        matches!(self, Self::BeginKernel | Self::UnmapKernel)
    }
}

/// The C interface on translation hardware `M`, with the ASID allocator `T`.
pub(super) enum Modelled<M, T> {
    #[expect(dead_code, reason = "there are no values")]
    Never(PhantomData<(M, T)>),
}

/// Translation hardware that the C interface can be instantiated with.
pub(super) trait Hardware: SeparateRoots + 'static {}

impl<M: SeparateRoots + 'static> Hardware for M {}

/// An ASID allocator that it can be instantiated with.
pub(super) trait Allocator<M: Mmu>: Strategy<Adversary<M>> + Pins<Adversary<M>> {}

impl<M: Mmu, T: Strategy<Adversary<M>> + Pins<Adversary<M>>> Allocator<M> for T {}

impl<M: Hardware, T: Allocator<M>> Instance for Modelled<M, T> {
    type Platform = Adversary<M>;
    type Tags = T;

    fn resident_words() -> <Adversary<M> as Platform>::ResidentWords {
        Box::new([Word::ZERO])
    }
}

/// Scripts for the CPUs of a kernel in C.
pub(super) struct Script<M: Hardware, T: Allocator<M>> {
    /// Its name.
    pub(super) name: &'static str,
    /// What each CPU does.
    pub(super) cpus: &'static [&'static [Act]],
    /// The machine.
    pub(super) hardware: Described<M>,
    /// The parameters of the allocator.
    pub(super) tags: T::Config,
}

impl<M: Hardware, T: Allocator<M>> Scenario for Script<M, T> {
    type World = World<M, T>;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn config(&self) -> Config {
        let config = self.hardware.config(self.cpus.len()).with_levels(2);
        let releases = self.cpus.iter().copied().flatten().any(|act| matches!(act, Act::End(_)));
        // Only an IPI makes a CPU leave a space that is released.
        if releases { config.with_interrupts() } else { config }
    }

    fn build(&self) -> &'static World<M, T> {
        World::build(self.hardware, self.cpus, self.tags)
    }

    fn run(&self, world: &'static World<M, T>, cpu: CpuId) {
        let mut pending = 0;
        for &act in self.cpus[cpu.index()] {
            world.act(cpu, act);
            pending += usize::from(act.begins());
            pending -= usize::from(act.finishes());
            // The position in the script is then the only state of a program.
            if pending == 0 {
                milestone();
            }
        }
    }

    fn interrupt(&self, world: &'static World<M, T>, _: CpuId) {
        world.interrupt();
    }

    fn nmi(&self, world: &'static World<M, T>, _: CpuId) {
        world.nmi();
    }

    fn finish(&self, world: &'static World<M, T>) {
        outcome(world.progress());
    }
}
