//! One run: programs as coroutines, and the loop that resumes the CPU with the earliest time.

use core::{convert::Infallible, mem::ManuallyDrop};

use corosensei::{Coroutine, Yielder, stack::DefaultStack};
use lookaside::platform::CpuId;

use super::{
    arena::Arena,
    current::{self, Current, Handler},
    machine::Machine,
    model::Model,
    price::Ps,
    queue::{NEVER, cpu_of, time_of},
    report::{Failure, Report},
};

/// What runs on a timed machine.
pub trait World {
    /// The program of one CPU. When it is over the CPU idles with interrupts on, and answers them until
    /// all programs are over.
    fn run(&self, cpu: CpuId);

    /// The handler of interrupts, on the CPU that takes one.
    fn interrupt(&self) {}
}

/// How a world is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many CPUs run programs: the first of the machine.
    pub cpus: usize,
    /// What pseudo-random numbers begin with.
    pub seed: u64,
    /// A run ends as failed that takes longer, in simulated picoseconds.
    pub limit: Ps,
    /// How many moments are kept for [`Report::timeline`], the latest; 0 for none.
    pub timeline: usize,
}

type Program = Coroutine<(), (), Infallible, DefaultStack>;

/// Enough for the library, a model kernel and a few frames of a workload. The system provides it when
/// it is used.
const STACK: usize = 64 * 1024;

/// Builds a world and runs it to its end: the same world, with what it has noted, and where the time
/// went. What `build` does takes no time.
///
/// Everything depends on the arguments alone: two runs are the same, byte by byte.
///
/// # Errors
///
/// [`Failure`] says why the run was given up.
pub fn simulate<W: World>(
    model: &Model,
    arena: &Arena,
    options: Options,
    build: impl FnOnce() -> W,
) -> Result<(W, Report), Failure> {
    model.check()?;
    let cpus = options.cpus;
    if cpus == 0 || cpus > model.topology.cpus() {
        return Err(Failure::Cpus { asked: cpus, limit: model.topology.cpus() });
    }
    let machine = Machine::new(model.clone(), arena.addresses(), options);
    let machine = Owned(Box::into_raw(Box::new(machine)));
    let result = {
        let _current = Current::enter(machine.0);
        let world = build();
        let end = run(&world, cpus);
        end.map(|()| world)
    };
    result.map(|world| (world, Report::new(machine.take())))
}

/// A machine that programs reach through a pointer, so that no reference to it may live meanwhile.
struct Owned(*mut Machine);

impl Owned {
    fn take(self) -> Machine {
        let machine = ManuallyDrop::new(self).0;
        // SAFETY: made by `into_raw`, and not dropped here as well. Programs, which use the pointer,
        // are gone with `run`.
        *unsafe { Box::from_raw(machine) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: as in `take`; this is where a run failed or a program panicked.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

unsafe fn interrupt<W: World>(world: *const ()) {
    // SAFETY: `run` passes a pointer to a `W` that it borrows until the last program has ended.
    unsafe { (*world.cast::<W>()).interrupt() }
}

unsafe fn program<W: World>(world: *const (), cpu: CpuId) {
    // SAFETY: as in `interrupt`.
    unsafe { (*world.cast::<W>()).run(cpu) }
}

fn run<W: World>(world: &W, cpus: usize) -> Result<(), Failure> {
    // Coroutines must not borrow; so the world goes to them as a pointer without a type.
    let world = core::ptr::from_ref(world).cast::<()>();
    let program = program::<W> as unsafe fn(*const (), CpuId);
    current::set_handler(Handler { world, call: interrupt::<W> });
    let mut programs = Programs { all: Vec::with_capacity(cpus) };
    for cpu in 0..cpus {
        let stack = DefaultStack::new(STACK).map_err(|_| Failure::Memory)?;
        let body = move |yielder: &Yielder<(), ()>, ()| {
            current::with(|machine| machine.cpus[cpu].yielder = yielder);
            // SAFETY: `run` borrows the world until every program has ended or was given up.
            unsafe { program(world, CpuId(cpu as u32)) };
            current::end();
        };
        programs.all.push(Coroutine::with_stack(stack, body));
    }
    current::with(Machine::start);
    loop {
        let next = current::with(|machine| {
            let next = machine.queue.min();
            if next == NEVER || machine.failure.is_some() {
                return None;
            }
            let cpu = cpu_of(next);
            machine.queue.set(cpu, NEVER);
            machine.running = cpu;
            machine.resumed_at = time_of(next);
            Some(cpu)
        });
        let Some(cpu) = next else { break };
        // A program that is over never returns: its CPU goes on to answer interrupts.
        let _ = programs.all[cpu].resume(());
    }
    current::with(|machine| {
        machine.started = false;
        if let Some(failure) = machine.failure.take() {
            return Err(failure);
        }
        let stuck =
            |(cpu, c): (usize, &super::cpu::Cpu)| c.ended.is_none().then_some((cpu as u32, c.now));
        let waiting: Vec<_> = machine.cpus.iter().enumerate().filter_map(stuck).collect();
        if waiting.is_empty() {
            Ok(())
        } else {
            Err(Failure::Deadlock { waiting, history: machine.history.to_lines() })
        }
    })
}

/// The programs, none of which ever returns.
struct Programs {
    all: Vec<Program>,
}

impl Drop for Programs {
    fn drop(&mut self) {
        for program in &mut self.all {
            if program.started() && !program.done() {
                // SAFETY: what is on the stack is forgotten, not used: values that refer to the world
                // and to the arena, and that would only do more steps if they were dropped.
                unsafe { program.force_reset() };
            }
        }
    }
}
