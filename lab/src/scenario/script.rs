//! A scenario out of scripts: what each CPU does, one act after the other.

use lookaside::{CpuId, Epochs, EpochsConfig, Error, Here, Platform, Recent, Replacement, Space, Word as _};
use lookaside_machine::{
    adversary::{Buffers, Config, Scenario, Word, milestone, oracle},
    explore::{Budget, Explorer, Failure, Report, Schedule, ScheduleError},
};

use super::{
    Depth, Explored,
    act::Act,
    hardware::Hardware,
    world::{PlatformOf, Strategy, World, keep},
};

/// Scripts for the CPUs of a machine with hardware `H` and strategy `T`.
pub struct Script<H: Hardware, T: Strategy<PlatformOf<H>>> {
    /// Its name.
    pub name: &'static str,
    /// How many spaces there are.
    pub spaces: usize,
    /// What each CPU does.
    pub cpus: &'static [&'static [Act]],
    /// Makes the strategy.
    pub tags: fn(&PlatformOf<H>) -> Result<T, Error>,
    /// Whether stores reach memory at once.
    pub unbuffered: bool,
}

impl<H: Hardware, T: Strategy<PlatformOf<H>>> Script<H, T> {
    /// The explorer of this script.
    #[must_use]
    pub fn open(self) -> Box<dyn Explored> {
        Box::new(Explorer::new(self))
    }
}

impl<H: Hardware, T: Strategy<PlatformOf<H>>> Scenario for Script<H, T> {
    type World = World<H, T>;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn config(&self) -> Config {
        let config = H::config(self.cpus.len()).with_levels(2);
        if self.unbuffered { config.with_buffers(Buffers::None) } else { config }
    }

    fn build(&self) -> &'static Self::World {
        keep(World::new(self.cpus.len(), self.spaces, self.tags))
    }

    fn run(&self, world: &'static Self::World, cpu: CpuId) {
        for &act in self.cpus[cpu.index()] {
            world.act(act);
            // A script remembers nothing but how far it has come.
            milestone();
        }
    }

    fn interrupt(&self, world: &'static Self::World, cpu: CpuId) {
        world.interrupt(cpu);
    }
}

impl<S: Scenario> Explored for Explorer<S> {
    fn explore(&mut self, depth: Depth, budget: Budget) -> Report {
        match depth {
            Depth::Exhaust => self.exhaust(budget),
            Depth::Bounded(preemptions) => self.bounded(preemptions, budget),
            Depth::Random(schedules) => {
                let random = self.random(1, schedules);
                if random.failure.is_some() { random } else { self.pct(1, 4, schedules) }
            }
        }
    }

    fn shrink(&mut self, failure: &Failure) -> Failure {
        Explorer::shrink(self, failure)
    }

    fn explain(&mut self, failure: &Failure) -> Result<String, ScheduleError> {
        Explorer::explain(self, failure)
    }

    fn replay(&mut self, schedule: &Schedule) -> Result<Option<Failure>, ScheduleError> {
        let replay = Explorer::replay(self, schedule)?;
        Ok(replay.violation.map(|violation| Failure { violation, schedule: schedule.clone() }))
    }
}

/// Epochs with few tags: `usable` of them, and room for `pins`.
pub fn epochs<P: Platform<Word = Word>>(
    platform: &P,
    usable: u32,
    pins: u32,
) -> Result<Epochs<'static, P>, Error> {
    let tags = usable + 2;
    let words = Vec::leak((0..Epochs::<P>::words_for(tags)).map(|_| Word::ZERO).collect());
    Epochs::new(platform, EpochsConfig { tags, pins, ..Default::default() }, words)
}

impl<P: Platform<Word = Word> + 'static> Strategy<P> for Epochs<'static, P> {
    fn witness(_: &Here<'_, P, Self>, space: &Space<'_, P>) {
        oracle::identity("cookie", space.tag_word().peek(), space.id());
    }

    fn pin(here: &Here<'_, P, Self>, space: &Space<'_, P>) -> Result<(), Error> {
        here.pin(space).map(drop)
    }

    fn unpin(here: &Here<'_, P, Self>, space: &Space<'_, P>) -> Result<(), Error> {
        here.unpin(space)
    }
}

impl<P, const SLOTS: usize, R> Strategy<P> for Recent<SLOTS, R>
where
    P: Platform<Word = Word> + 'static,
    R: Replacement + 'static,
{
    fn witness(_: &Here<'_, P, Self>, space: &Space<'_, P>) {
        oracle::identity("identifier", space.id(), space.root().table);
    }

    fn pin(_: &Here<'_, P, Self>, _: &Space<'_, P>) -> Result<(), Error> {
        Err(Error::Unsupported("pins"))
    }

    fn unpin(_: &Here<'_, P, Self>, _: &Space<'_, P>) -> Result<(), Error> {
        Err(Error::Unsupported("pins"))
    }
}
