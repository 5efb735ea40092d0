//! A scenario out of functions, and what the tests ask about one.
#![allow(dead_code, reason = "each test file uses a part")]

use lookaside::CpuId;
use lookaside_machine::{
    adversary::{Buffers, Config, Rule, Scenario, leak},
    explore::{Budget, Explorer, Report},
};

/// A scenario out of functions.
pub(crate) struct Programs<W> {
    pub(crate) config: Config,
    pub(crate) build: fn() -> W,
    pub(crate) run: fn(&W, usize),
    pub(crate) interrupt: fn(&W, usize),
    pub(crate) finish: fn(&W),
}

impl<W: 'static> Scenario for Programs<W> {
    type World = W;

    fn name(&self) -> String {
        "test".to_owned()
    }

    fn config(&self) -> Config {
        self.config.clone()
    }

    fn build(&self) -> &'static W {
        leak((self.build)())
    }

    fn run(&self, world: &'static W, cpu: CpuId) {
        (self.run)(world, cpu.index());
    }

    fn interrupt(&self, world: &'static W, cpu: CpuId) {
        (self.interrupt)(world, cpu.index());
    }

    fn finish(&self, world: &'static W) {
        (self.finish)(world);
    }
}

/// A scenario that checks nothing in the end and takes no interrupts.
pub(crate) fn programs<W>(config: Config, build: fn() -> W, run: fn(&W, usize)) -> Programs<W> {
    Programs { config, build, run, interrupt: |_, _| {}, finish: |_| {} }
}

pub(crate) fn exhaust<W: 'static>(programs: &Programs<W>) -> Report {
    let again = Programs { config: programs.config.clone(), ..*programs };
    Explorer::new(again).exhaust(Budget::UNLIMITED)
}

/// All outcomes with the given buffers.
pub(crate) fn outcomes<W: 'static>(programs: &Programs<W>, buffers: Buffers) -> Vec<u64> {
    let mut config = programs.config.clone();
    config.buffers = buffers;
    config.check_private = false;
    let report = exhaust(&Programs { config, ..*programs });
    report.assert_proved();
    report.outcomes.into_iter().collect()
}

/// Asserts that nothing can go wrong.
#[track_caller]
pub(crate) fn holds<W: 'static>(programs: &Programs<W>) {
    exhaust(programs).assert_proved();
}

/// Asserts that a rule can be broken.
#[track_caller]
pub(crate) fn breaks<W: 'static>(programs: &Programs<W>, rule: Rule) {
    assert_eq!(exhaust(programs).broken(), rule);
}
