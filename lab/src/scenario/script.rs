//! A scenario out of scripts: what each CPU does, one act after the other.

use lookaside::{
    CpuId, Epochs, EpochsConfig, Error, Here, Platform, Recent, Replacement, Space, Word as _,
    arch::Tag,
};
use lookaside_machine::{
    adversary::{Config, Scenario, Word, milestone, oracle, outcome},
    explore::{Budget, Explorer, Exported, Failure, Report, Schedule, ScheduleError},
};

use super::{
    Depth, Explored,
    act::Act,
    hardware::Hardware,
    world::{PlatformOf, Strategy, World, keep},
};

/// Scripts for the CPUs of a machine with hardware `H` and strategy `T`.
pub(super) struct Script<H: Hardware, T: Strategy<PlatformOf<H>>> {
    /// Its name.
    pub(super) name: &'static str,
    /// What each CPU does.
    pub(super) cpus: &'static [&'static [Act]],
    /// Makes the strategy.
    pub(super) tags: fn(&PlatformOf<H>) -> Result<T, Error>,
}

impl<H: Hardware, T: Strategy<PlatformOf<H>>> Script<H, T> {
    fn spaces(&self) -> usize {
        self.cpus.iter().copied().flatten().filter_map(|act| act.space()).max().map_or(0, |n| n + 1)
    }
}

impl<H: Hardware, T: Strategy<PlatformOf<H>>> Scenario for Script<H, T> {
    type World = World<H, T>;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn config(&self) -> Config {
        H::config(self.cpus.len()).with_levels(2)
    }

    fn build(&self) -> &'static Self::World {
        keep(World::new(self.cpus, self.spaces(), self.tags))
    }

    fn run(&self, world: &'static Self::World, cpu: CpuId) {
        for &act in self.cpus[cpu.index()] {
            world.act(act);
            // A script remembers nothing but how far it has come.
            if !act.leaves_memories() {
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

/// How many pre-emptions are explored before everything is.
const SHALLOW: u32 = 3;
/// How many orderings a bug may take that PCT is to find: most of the record take two to four.
const DEPTH: u32 = 4;

impl<S: Scenario> Explored for Explorer<S> {
    fn explore(&mut self, depth: Depth, budget: Budget) -> Report {
        match depth {
            Depth::Exhaust => {
                // Most bugs need few pre-emptions: what they need is looked at first.
                let shallow = self.deepen(SHALLOW, budget);
                if shallow.failure.is_some() { shallow } else { self.exhaust(budget) }
            }
            Depth::Bounded(preemptions) => self.bounded(preemptions, budget),
            Depth::Random(schedules) => self.chance(1, schedules),
        }
    }

    fn chance(&mut self, seed: u64, schedules: u64) -> Report {
        let random = self.random(seed, schedules);
        if random.failure.is_some() {
            return random;
        }
        let mut both = self.pct(seed, DEPTH, schedules);
        both.schedules += random.schedules;
        both.steps += random.steps;
        both.elapsed += random.elapsed;
        both.outcomes.extend(random.outcomes);
        both.seen.extend(random.seen);
        both
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

    fn name(&self) -> String {
        Explorer::name(self)
    }

    fn at_random(&mut self, seed: u64, schedules: u64) -> Vec<Schedule> {
        Explorer::at_random(self, seed, schedules)
    }

    fn casemate(&mut self, schedule: &Schedule) -> Result<Exported, ScheduleError> {
        Explorer::casemate(self, schedule)
    }
}

/// The few tags of an epoch scenario.
#[derive(Clone, Copy)]
pub(super) struct Few {
    /// How many tags spaces can have.
    pub(super) usable: u32,
    /// How many of them may be pinned.
    pub(super) pins: u32,
    /// The epoch that never ends.
    pub(super) last_epoch: u64,
}

/// Epochs with few tags.
pub(super) fn epochs<P: Platform<Word = Word>>(
    platform: &P,
    few: Few,
) -> Result<Epochs<'static, P>, Error> {
    let tags = few.usable + 2;
    let words = Vec::leak((0..Epochs::<P>::words_for(tags)).map(|_| Word::ZERO).collect());
    let config = EpochsConfig { tags, pins: few.pins, last_epoch: few.last_epoch };
    Epochs::new(platform, config, words)
}

impl<P: Platform<Word = Word> + 'static> Strategy<P> for Epochs<'static, P> {
    fn witness(_: &Here<'_, P, Self>, space: &Space<'_, P>) {
        // SAFETY: it is looked at.
        let cookie = unsafe { space.tag_word() }.peek();
        // In the last epoch spaces have no tags of their own.
        if cookie != 0 {
            oracle::identity("cookie", cookie, space.id());
        }
    }

    fn progress(&self) -> u64 {
        self.epoch()
    }

    fn pin(here: &Here<'_, P, Self>, space: &Space<'_, P>) -> Result<Tag, Error> {
        here.pin(space)
    }

    fn unpin(here: &Here<'_, P, Self>, space: &Space<'_, P>) -> Result<(), Error> {
        // SAFETY: a device of a scenario does nothing but have its tag looked at, before this.
        unsafe { here.unpin(space) }
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

    fn progress(&self) -> u64 {
        0
    }

    fn pin(_: &Here<'_, P, Self>, _: &Space<'_, P>) -> Result<Tag, Error> {
        Err(Error::Unsupported("pins"))
    }

    fn unpin(_: &Here<'_, P, Self>, _: &Space<'_, P>) -> Result<(), Error> {
        Err(Error::Unsupported("pins"))
    }
}
