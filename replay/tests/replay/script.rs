//! Scripts to replay: one step after the other by hand, or at random.

use lookaside_replay::{Replayed, Setup, WorkingSet, replay};
use lookaside_simulation::{data::Machine, reproduce::Book};
use lookaside_traces::{
    Call,
    reconstruct::{Act, Initiator, Operation, Script, Space, SpaceId, Step},
};

/// A working set that is small enough to follow by hand: 10 hot pages, each used once in 100 us.
pub(crate) const SMALL: WorkingSet = WorkingSet { window: 100_000, hot: 10, others: 0, pool: 0 };

/// A shipped machine.
pub(crate) fn machine(key: &str) -> Machine {
    Book::shipped().unwrap().machine(key).unwrap().clone()
}

/// Replays a script that is right.
#[track_caller]
pub(crate) fn run(script: &Script, machine: &Machine, strategy: &str, cpus: usize) -> Replayed {
    let setup = Setup { machine, strategy, cpus, working_set: SMALL, seed: 1, arrivals: None };
    replay(script, &setup).unwrap_or_else(|refused| panic!("{strategy}, {cpus} CPUs: {refused}"))
}

/// A script under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    pub(crate) script: Script,
}

impl Builder {
    /// A script for so many CPUs that takes so many microseconds.
    pub(crate) fn new(cpus: usize, length: u64) -> Self {
        let script =
            Script { cpus: vec![Vec::new(); cpus], length: length * 1000, ..Script::default() };
        Self { script }
    }

    pub(crate) fn space(&mut self, name: &str, pages: u64, threads: u32) -> SpaceId {
        self.script.spaces.push(Space {
            name: name.to_owned(),
            pages,
            threads,
            recorded: true,
            older: false,
        });
        SpaceId(self.script.spaces.len() as u32 - 1)
    }

    /// A step at so many microseconds.
    pub(crate) fn step(
        &mut self,
        cpu: usize,
        time: u64,
        task: u32,
        operation: Operation,
        act: Act,
    ) {
        let process = match act {
            Act::Run(space)
            | Act::Map { space, .. }
            | Act::Restrict { space, .. }
            | Act::Unmap { space, .. }
            | Act::PageOut { space, .. }
            | Act::Fork { parent: space, .. }
            | Act::End(space) => self.script.spaces[space.0 as usize].name.clone(),
            Act::Idle => "idle".to_owned(),
        };
        let initiator = Initiator { process, operation, function: None, recorded: true };
        let known = self.script.initiators.iter().position(|other| *other == initiator);
        let initiator = known.unwrap_or_else(|| {
            self.script.initiators.push(initiator);
            self.script.initiators.len() - 1
        }) as u32;
        self.script.cpus[cpu].push(Step { time: time * 1000, task, initiator, counted: true, act });
    }

    pub(crate) fn run(&mut self, cpu: usize, time: u64, task: u32, space: SpaceId) {
        self.step(cpu, time, task, Operation::Switch, Act::Run(space));
    }

    pub(crate) fn idle(&mut self, cpu: usize, time: u64) {
        self.step(cpu, time, 0, Operation::Switch, Act::Idle);
    }

    pub(crate) fn mprotect(&mut self, cpu: usize, time: u64, task: u32, space: SpaceId) {
        let act = Act::Restrict { space, first: 0, pages: 1, whole: false };
        self.step(cpu, time, task, Operation::Call(Call::Mprotect), act);
    }
}

/// Numbers that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % limit as u64) as usize
    }
}

/// A thread of a random script.
struct Thread {
    task: u32,
    space: SpaceId,
    /// Where it runs.
    cpu: Option<usize>,
}

/// A script of `steps` steps on `cpus` CPUs, one a microsecond: processes with one thread and with more,
/// that run here and there, change pages, fork and end.
pub(crate) fn random(seed: u64, cpus: usize, steps: u64) -> Script {
    let mut random = Random(seed);
    let mut builder = Builder::new(cpus, steps + 100);
    let mut threads: Vec<Thread> = Vec::new();
    for process in 0..3 {
        let count = 1 + random.below(3) as u32;
        let pages = [40, 600, 2000][random.below(3)];
        let space = builder.space(&format!("process {process}"), pages, count);
        let first = threads.len() as u32 + 1;
        threads.extend((first..first + count).map(|task| Thread { task, space, cpu: None }));
    }
    let mut tasks = threads.len() as u32;
    for time in 0..steps {
        let cpu = random.below(cpus);
        let running = threads.iter().position(|thread| thread.cpu == Some(cpu));
        let act = random.below(12);
        let Some(running) = running.filter(|_| act > 2) else {
            let ready: Vec<usize> = (0..threads.len())
                .filter(|&thread| threads[thread].cpu.is_none_or(|at| at == cpu))
                .collect();
            if let Some(running) = running {
                threads[running].cpu = None;
            }
            if ready.is_empty() || random.below(4) == 0 {
                builder.idle(cpu, time);
            } else {
                let next = &mut threads[ready[random.below(ready.len())]];
                next.cpu = Some(cpu);
                let (task, space) = (next.task, next.space);
                builder.run(cpu, time, task, space);
            }
            continue;
        };
        let Thread { task, space, .. } = threads[running];
        let room = builder.script.spaces[space.0 as usize].pages as usize;
        let most = [1, 8, 60][random.below(3)];
        let pages = (1 + random.below(most)).min(room);
        let first = random.below(room - pages + 1) as u32;
        let (pages, whole) = (pages as u32, random.below(8) == 0);
        let munmap = Operation::Call(Call::Munmap);
        match act {
            3..=5 => {
                builder.step(cpu, time, task, Operation::Fault, Act::Map { space, first, pages })
            }
            6 | 7 => {
                let act = Act::Restrict { space, first, pages, whole };
                builder.step(cpu, time, task, Operation::Call(Call::Mprotect), act);
            }
            8 | 9 => {
                let tables = random.below(3) == 0;
                let act = Act::Unmap { space, first, pages, tables, whole };
                builder.step(cpu, time, task, munmap, act);
            }
            10 => {
                let parent = space;
                let name = builder.script.spaces[parent.0 as usize].name.clone();
                let child = builder.space(&name, room as u64, 1);
                builder.step(cpu, time, task, Operation::Fork, Act::Fork { parent, child });
                tasks += 1;
                threads.push(Thread { task: tasks, space: child, cpu: None });
            }
            _ => {
                // Who is alone in its space, and not the last, ends.
                let users = threads.iter().filter(|thread| thread.space == space).count();
                if users == 1 && threads.len() > 2 {
                    builder.step(cpu, time, task, Operation::Exit, Act::End(space));
                    threads.swap_remove(running);
                }
            }
        }
    }
    builder.script
}
