//! A scenario made of scripts: the acts of each CPU, in order.

use lookaside::{
    AddressSpace, CurrentCpu, Error, GlobalAsids, PerCpuAsids,
    arch::{Mmu, Tag},
    platform::{CpuId, Word as _},
    tags::{AsidScope, Asids, AsidsConfig, GlobalAsidsConfig, Replacement},
};
use lookaside_machine::adversary::{Config, Platform, Scenario, Word, milestone, oracle, outcome};

use super::{
    act::Act,
    hardware::Described,
    world::{Strategy, World, has_device, keep},
};

/// Scripts for the CPUs of a machine with translation hardware `M` and strategy `T`.
pub(super) struct Script<M: Mmu + 'static, T: Strategy<Platform<M>>> {
    /// Its name.
    pub(super) name: String,
    /// The machine.
    pub(super) hardware: Described<M>,
    /// The script of each CPU.
    pub(super) cpus: Vec<Vec<Act>>,
    /// The parameters of the strategy.
    pub(super) tags: T::Config,
}

impl<M: Mmu + 'static, T: Strategy<Platform<M>>> Scenario for Script<M, T> {
    type World = World<M, T>;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn config(&self) -> Config {
        let arch = self.hardware.config(self.cpus.len()).arch;
        let devices = usize::from(has_device(arch, &self.cpus));
        let mut config = self.hardware.config(self.cpus.len() + devices).with_levels(2);
        if self.hardware.more.roots {
            // Each CPU has a top table, and one below it for its own page.
            config.tables *= 2 * self.cpus.len();
        }
        let releases = self.cpus.iter().flatten().any(|act| act.releases());
        // Only an IPI makes a CPU leave a space that is released.
        if releases { config.with_interrupts() } else { config }
    }

    fn build(&self) -> &'static Self::World {
        keep(World::new(self.hardware, self.tags, self.cpus.clone()))
    }

    fn run(&self, world: &'static Self::World, cpu: CpuId) {
        let mut pending = 0;
        // A device has no script.
        for (index, act) in self.cpus.get(cpu.index()).into_iter().flatten().enumerate() {
            world.act(cpu, index);
            pending += usize::from(act.begins());
            pending -= usize::from(act.ends());
            // The position in the script is then the only state of a program.
            if pending == 0 && !act.hands_over() {
                milestone();
            }
        }
    }

    fn interrupt(&self, world: &'static Self::World, _: CpuId) {
        world.interrupt();
    }

    fn nmi(&self, world: &'static Self::World, _: CpuId) {
        world.nmi();
    }

    fn finish(&self, world: &'static Self::World) {
        outcome(world.progress());
    }
}

/// The few tags of an epoch scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Few {
    /// How many tags spaces can have.
    pub(crate) usable: u32,
    /// How many of them may be pinned.
    pub(crate) pins: u32,
    /// The epoch that never ends.
    pub(crate) last_epoch: u64,
}

/// Epochs with few tags.
pub(super) fn epochs<P: lookaside::Platform<Word = Word>>(
    platform: &P,
    few: Few,
) -> Result<GlobalAsids<'static, P>, Error> {
    let config = few.config();
    GlobalAsids::new(platform, config, words_for::<P>(config.tags))
}

fn words_for<P: lookaside::Platform<Word = Word>>(tags: u32) -> &'static mut [Word] {
    Vec::leak((0..GlobalAsids::<P>::words_for(tags)).map(|_| Word::ZERO).collect())
}

impl Few {
    fn config(self) -> GlobalAsidsConfig {
        let Self { usable, pins, last_epoch } = self;
        GlobalAsidsConfig { tags: usable + 2, pins, last_epoch }
    }
}

impl<P: lookaside::Platform<Word = Word> + 'static> Strategy<P> for GlobalAsids<'static, P> {
    type Config = Few;

    fn make(platform: &P, config: Few) -> Result<Self, Error> {
        epochs(platform, config)
    }

    fn can_pin(config: Few, spaces: usize) -> bool {
        spaces <= config.pins as usize && config.last_epoch == lookaside::tags::Cookie::LAST_EPOCH
    }

    fn witness(_: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) {
        witness_cookie(space);
    }

    fn progress(&self) -> u64 {
        self.epoch()
    }

    fn pin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<Tag, Error> {
        this_cpu.pin(space)
    }

    fn unpin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<(), Error> {
        this_cpu.unpin(space)
    }
}

impl<P, const SLOTS: usize, R> Strategy<P> for PerCpuAsids<SLOTS, R>
where
    P: lookaside::Platform<Word = Word> + 'static,
    R: Replacement + 'static,
{
    type Config = ();

    fn make(_: &P, (): ()) -> Result<Self, Error> {
        Ok(Self::new())
    }

    fn can_pin((): (), _: usize) -> bool {
        false
    }

    fn witness(_: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) {
        witness_identifier(space);
    }

    fn progress(&self) -> u64 {
        0
    }

    fn pin(_: &CurrentCpu<'_, P, Self>, _: &AddressSpace<P>) -> Result<Tag, Error> {
        Err(Error::Unsupported("pins"))
    }

    fn unpin(_: &CurrentCpu<'_, P, Self>, _: &AddressSpace<P>) -> Result<(), Error> {
        Err(Error::Unsupported("pins"))
    }
}

/// Either, chosen at run time, but as the scenario wants it: there are tags for `GlobalAsids`, or none.
impl<P, const SLOTS: usize> Strategy<P> for Asids<'static, P, SLOTS>
where
    P: lookaside::Platform<Word = Word> + 'static,
{
    type Config = Option<Few>;

    fn make(_: &P, config: Option<Few>) -> Result<Self, Error> {
        let scope = if config.is_some() { AsidScope::Global } else { AsidScope::PerCpu };
        let global = config.map_or(GlobalAsidsConfig::default(), Few::config);
        let words = words_for::<P>(if config.is_some() { global.tags } else { 0 });
        Ok(Self::with_slots(AsidsConfig { scope: Some(scope), global }, words))
    }

    fn can_pin(config: Option<Few>, spaces: usize) -> bool {
        config.is_some_and(|few| GlobalAsids::<P>::can_pin(few, spaces))
    }

    fn witness(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) {
        match this_cpu.tlb().asid_scope() {
            AsidScope::Global => witness_cookie(space),
            AsidScope::PerCpu => witness_identifier(space),
        }
    }

    fn progress(&self) -> u64 {
        self.global_asids().map_or(0, GlobalAsids::epoch)
    }

    fn pin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<Tag, Error> {
        this_cpu.pin(space)
    }

    fn unpin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<(), Error> {
        this_cpu.unpin(space)
    }
}

fn witness_cookie<P: lookaside::Platform<Word = Word>>(space: &AddressSpace<P>) {
    // SAFETY: the word is only read.
    let cookie = unsafe { space.tag_word() }.peek();
    // In the last epoch spaces have no tags of their own.
    if cookie != 0 {
        oracle::identity("cookie", cookie, space.id());
    }
}

fn witness_identifier<P: lookaside::Platform<Word = Word>>(space: &AddressSpace<P>) {
    oracle::identity("identifier", space.id(), space.root().table);
}
