//! A scenario: a world, a program for each CPU, and a final check.

use lookaside::platform::CpuId;

use super::{
    config::Config,
    cpu::Handler,
    current::{self, step},
    machine::Phase,
    op::Op,
};

/// A scenario that can be explored.
///
/// # Rules for programs
///
/// * All that CPUs share, and all that outlives a call, is in [`crate::adversary::Word`]s.
///   The machine takes back what an execution did to words, and nothing else.
/// * A program holds no value that must be dropped across an operation of the machine: most
///   executions are abandoned half-way, and their stacks are reused without unwinding.
/// * A program does the same whenever its operations return the same: no clocks, no addresses as values, no
///   random numbers.
pub trait Scenario: 'static {
    /// The state that the programs share.
    type World: 'static;

    /// The name that schedules carry. Letters, digits, `-`, `_` and `/`.
    fn name(&self) -> String;

    /// The machine that the scenario needs.
    fn config(&self) -> Config;

    /// Makes the world. Operations act directly; the state that this leaves behind is the one that
    /// every execution begins with. [`leak`] makes the reference.
    fn build(&self) -> &'static Self::World;

    /// The program of a CPU.
    fn run(&self, world: &'static Self::World, cpu: CpuId);

    /// The interrupt handler of a CPU. Interrupts are off while it runs.
    fn interrupt(&self, world: &'static Self::World, cpu: CpuId) {
        let _ = (world, cpu);
    }

    /// The handler of the NMIs of a CPU, which come while interrupts are off, too, and in the middle of the
    /// interrupt handler ([`Config::with_nmis`]). Like that, it leaves nothing behind but words.
    fn nmi(&self, world: &'static Self::World, cpu: CpuId) {
        let _ = (world, cpu);
    }

    /// Inspects what an execution has left behind. Operations act directly.
    fn finish(&self, world: &'static Self::World) {
        let _ = world;
    }
}

/// A scenario with the world that it has built, and both types erased.
pub(crate) trait Programs {
    /// [`Scenario::name`].
    fn name(&self) -> String;

    /// [`Scenario::config`].
    fn config(&self) -> Config;

    /// [`Scenario::run`].
    fn run(&self, cpu: CpuId);

    /// [`Scenario::interrupt`] or [`Scenario::nmi`].
    fn handle(&self, handler: Handler, cpu: CpuId);

    /// [`Scenario::finish`].
    fn finish(&self);
}

struct Built<S: Scenario> {
    scenario: S,
    world: &'static S::World,
}

impl<S: Scenario> Programs for Built<S> {
    fn name(&self) -> String {
        self.scenario.name()
    }

    fn config(&self) -> Config {
        self.scenario.config()
    }

    fn run(&self, cpu: CpuId) {
        self.scenario.run(self.world, cpu);
    }

    fn handle(&self, handler: Handler, cpu: CpuId) {
        match handler {
            Handler::Interrupt => self.scenario.interrupt(self.world, cpu),
            Handler::Nmi => self.scenario.nmi(self.world, cpu),
        }
    }

    fn finish(&self) {
        self.scenario.finish(self.world);
    }
}

/// Builds the world of a scenario, on the machine of this thread.
pub(crate) fn build(scenario: impl Scenario) -> Box<dyn Programs> {
    let world = scenario.build();
    Box::new(Built { scenario, world })
}

/// Makes a value live for ever, which worlds do: there is one for each explorer.
pub fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Runs construction code as a given CPU.
pub fn as_cpu<R>(cpu: CpuId, f: impl FnOnce() -> R) -> R {
    let before = current::with(|machine| {
        assert!(machine.phase != Phase::Running, "a program is its own CPU");
        assert!(cpu.index() < machine.config.cpus, "there is no {cpu}");
        core::mem::replace(&mut machine.running, cpu.index())
    });
    let result = f();
    current::with(|machine| machine.running = before);
    result
}

/// Declares that the state of this program is a function of how many milestones it has passed and of
/// the words it can read: no other result of its operations is part of its state. Exploration can then
/// treat executions that differ only in what the program has forgotten as one.
///
/// A wrong milestone hides executions from [`Explorer::exhaust`](crate::explore::Explorer::exhaust).
pub fn milestone() {
    current::with(|machine| {
        let cpu = &mut machine.cpus[machine.running];
        // The results of a handler are dropped when it returns.
        if machine.phase == Phase::Running && cpu.depth == 0 {
            cpu.milestones += 1;
            cpu.history = super::hash::mix(cpu.milestones, 0x3115);
            cpu.round = Default::default();
            let cpu = machine.running;
            machine.forget_looked(cpu);
        }
    });
}

/// Records the outcome of an execution, in [`Scenario::finish`]; explorers report the set of all
/// outcomes.
pub fn outcome(value: u64) {
    current::with(|machine| machine.outcome = Some(value));
}

/// Records that something happened in an execution, be it abandoned later; explorers report the set
/// of all events. A scenario shows with it that it is not vacuous.
pub fn saw(what: &'static str) {
    current::with(|machine| {
        if !machine.seen.contains(&what) {
            machine.seen.push(what);
        }
    });
}

/// Turns interrupts off on the CPU that runs.
#[track_caller]
pub fn irq_off() {
    let matters = current::with(|machine| {
        let open = machine.open & 1 << machine.running != 0;
        machine.phase == Phase::Running && open && machine.config.interrupts
    });
    if matters {
        step(Op::IrqOff);
    }
}

/// The interrupt controller of the CPU that runs, with interrupts off, is initialised: a pending interrupt is lost.
#[track_caller]
pub fn reset() {
    let matters =
        current::with(|machine| machine.phase == Phase::Running && machine.config.interrupts);
    if matters {
        step(Op::Reset);
    }
}

/// Turns interrupts on on the CPU that runs.
///
/// # Panics
///
/// In an interrupt handler, which runs with interrupts off.
pub fn irq_on() {
    current::with(|machine| {
        if machine.phase == Phase::Running {
            let cpu = machine.running;
            assert!(machine.cpus[cpu].depth == 0, "interrupts stay off in a handler");
            machine.open |= 1 << cpu;
            machine.footprint.more();
        }
    });
}
