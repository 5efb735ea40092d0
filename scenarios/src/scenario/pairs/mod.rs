//! Scenarios of kernels that run user mode under another root or tag than themselves: a trampoline writes
//! the root register at the exit to user mode and at a trap from it.
//!
//! What is of interest is what a CPU holds under the tag that its root register does *not* name: under user
//! mode's while the kernel flushes, and under the kernel's while user code runs. The oracle takes neither
//! for an offence until a root is loaded that lets it be used. And neither mode may reach a page of the
//! other's root.

mod act;
mod flushes;
mod kind;
mod trampoline;
mod world;

use lookaside::{
    arch::{Mmu, SeparateRoots},
    platform::CpuId,
    tags::Tags,
};
use lookaside_machine::adversary::{Config, Platform, Scenario, leak, milestone, outcome};

pub(crate) use self::act::Act;
pub(super) use self::kind::{
    Arm, ArmRecent, ArmShared, ArmSharedLast, ArmTtbr1, AtExit, AtExitNoInvpcid, Broadcast,
    Described, Kind, NoInvpcid, OnLoad, One, Rv, RvLast, RvPlain, RvRecent, RvSbi,
};
use self::world::World;

/// Scripts for the CPUs of a kernel on translation hardware `M`, with the ASID allocator `T`.
pub(super) struct Script<M: Mmu, T> {
    /// Its name.
    pub(super) name: String,
    /// What each CPU does.
    pub(super) cpus: Vec<Vec<Act>>,
    /// On what.
    pub(super) kind: Described<M, T>,
    /// Whether loads may be satisfied early.
    pub(super) early: bool,
}

impl<M: SeparateRoots + 'static, T: Tags<Platform<M>> + 'static> Scenario for Script<M, T> {
    type World = World<M, T>;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn config(&self) -> Config {
        let config = (self.kind.config)(self.cpus.len()).with_interrupts().with_levels(2);
        if self.early { config.with_early_loads() } else { config }
    }

    fn build(&self) -> &'static World<M, T> {
        let acts = self.cpus.iter().flatten();
        let spaces = acts.filter_map(|act| act.space()).max().map_or(0, |last| last + 1);
        let some = |acts: &[Act]| self.cpus.iter().flatten().any(|act| acts.contains(act));
        let has = [some(&[Act::UnmapKernel]), some(&[Act::UnmapTrap, Act::FreeTrapTable])];
        let world = leak(World::new(self.kind, self.cpus.len(), spaces, has));
        world.name_words();
        world
    }

    fn run(&self, world: &'static World<M, T>, cpu: CpuId) {
        for &act in &self.cpus[cpu.index()] {
            world.act(act);
            // A script remembers nothing but how far it has come.
            milestone();
        }
    }

    fn interrupt(&self, world: &'static World<M, T>, _: CpuId) {
        world.interrupt();
    }

    fn finish(&self, _: &'static World<M, T>) {
        outcome(0);
    }
}
