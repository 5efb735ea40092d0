//! The CPUs of a workload file: each has a queue of threads that are ready.

use std::collections::BTreeSet;

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Distance, Price, Ps};

use super::{
    price_of,
    state::State,
    thread::{Next, Thread},
};
use crate::{
    data::{Machine, Ranges},
    kernel::{Kernel, Process},
    workload::stage::{NS, US},
};

/// The place of a thread, which is not there while a CPU runs it and when it is over.
pub(super) struct Place {
    pub(super) thread: Option<Box<Thread>>,
    pub(super) group: usize,
    /// Its CPU.
    pub(super) home: usize,
    pub(super) has_run: bool,
}

/// What it takes to interrupt a CPU that sleeps. Its way out of the halt is the path `halt`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    send: Ps,
    /// Until the handler is over on the CPU that slept, within a socket and between two.
    near: Ps,
    far: Ps,
}

impl Wake {
    pub(super) fn new(machine: &Machine, ranges: &Ranges) -> Self {
        let price = |price| price_of(machine, ranges, price);
        let handler = price(Price::InterruptEntry) + price(Price::InterruptExit);
        Self {
            send: price(Price::InterruptSend),
            near: handler + price(Price::InterruptDeliver),
            far: handler + price(Price::InterruptDeliverRemote),
        }
    }
}

impl State<'_> {
    /// Takes a thread out of its place, unless it is over.
    fn take(&self, thread: usize) -> Option<Box<Thread>> {
        self.threads.borrow_mut()[thread].thread.take()
    }

    fn put_back(&self, id: usize, thread: Box<Thread>) {
        self.threads.borrow_mut()[id].thread = Some(thread);
    }

    /// Adds a thread that another one has made, which is not ready yet.
    pub(super) fn add(&self, thread: impl FnOnce(usize) -> Thread, cpu: usize) -> usize {
        let mut threads = self.threads.borrow_mut();
        let id = threads.len();
        let thread = thread(id);
        let group = thread.group;
        threads.push(Place { thread: Some(Box::new(thread)), group, home: cpu, has_run: false });
        self.active.set(self.active.get() + 1);
        let is_bounded = self.workload.groups[group].is_bounded;
        self.bounded.set(self.bounded.get() + u64::from(is_bounded));
        id
    }

    /// Moves a thread to another CPU, and says whether it is another one.
    pub(super) fn move_to(&self, thread: usize, cpu: usize) -> bool {
        core::mem::replace(&mut self.threads.borrow_mut()[thread].home, cpu) != cpu
    }

    /// Puts a thread into the queue of its CPU.
    pub(super) fn ready(&self, kernel: &Kernel<'_>, thread: usize) {
        let cpu = self.threads.borrow()[thread].home;
        self.queues[cpu].borrow_mut().push_back(thread);
        if timed::cpu().index() != cpu {
            if let Some(wake) = self.wake.filter(|_| self.asleep[cpu].replace(false)) {
                timed::during("wake", || timed::work(wake.send));
                let model = &kernel.machine().model;
                let distance = model.topology.distance(timed::cpu().0, cpu as u32);
                let is_far = matches!(distance, Distance::Remote(_));
                let way = if is_far { wake.far } else { wake.near };
                self.called[cpu].set(way + distance.hops(&model.prices));
                self.woken.set(self.woken.get() + 1);
            }
            self.bells[cpu].0.fetch_add(1, Ordering::Release);
        }
    }

    /// Makes threads ready that waited.
    pub(super) fn wake(&self, kernel: &Kernel<'_>, threads: Vec<usize>) {
        for thread in threads {
            self.active.set(self.active.get() + 1);
            self.path(kernel, "wake");
            self.ready(kernel, thread);
        }
    }

    /// A thread begins to wait. If nobody is left who could wake it, that is a deadlock, unless the time is up.
    fn has_blocked(&self) {
        self.active.set(self.active.get() - 1);
        if self.active.get() > 0 || self.over.get() {
            return;
        }
        let is_over = self.end.is_some_and(|end| timed::now() >= end);
        let why = (!is_over).then(|| self.deadlock());
        self.stop(why);
    }

    /// Who waits where.
    fn deadlock(&self) -> String {
        let mut lines = BTreeSet::new();
        for place in self.threads.borrow().iter() {
            if let Some(line) = place.thread.as_ref().and_then(|thread| thread.waits_in) {
                lines.insert((line, self.workload.groups[place.group].name.clone()));
            }
        }
        let first = lines.first().map_or(0, |(line, _)| *line);
        let all: Vec<String> =
            lines.iter().map(|(line, name)| format!("`{name}` in line {line}")).collect();
        let list = all.join(", ");
        format!(
            "{first}: a deadlock: every thread waits: {list}; nobody is left who posts, unlocks or comes"
        )
    }

    fn next(&self, cpu: usize) -> Option<usize> {
        let now = timed::now();
        let mut sleepers = self.sleepers[cpu].borrow_mut();
        sleepers.sort_unstable();
        while sleepers.first().is_some_and(|&(time, _)| time <= now) {
            let (_, thread) = sleepers.remove(0);
            self.queues[cpu].borrow_mut().push_back(thread);
        }
        drop(sleepers);
        self.queues[cpu].borrow_mut().pop_front()
    }

    /// What a CPU does.
    pub(super) fn run_cpu(&self, kernel: &Kernel<'_>, cpu: usize) {
        let quantum = (self.workload.program.quantum * NS as f64) as Ps;
        let mut runs: Option<(usize, Process)> = None;
        loop {
            if self.over.get() {
                break;
            }
            let Some(id) = self.next(cpu) else {
                if runs.take().is_some() {
                    self.path(kernel, "switch");
                    kernel.idle();
                }
                self.rest(kernel, cpu);
                continue;
            };
            let Some(mut thread) = self.take(id) else { continue };
            // What comes on only when all is over has done nothing.
            if !self.is_over() {
                self.threads.borrow_mut()[id].has_run = true;
            }
            if runs.is_none_or(|(last, _)| last != id) {
                self.path(kernel, "switch");
                kernel.switch(&thread.process);
            }
            let until = timed::now() + quantum;
            let next = loop {
                match thread.step(self, kernel) {
                    Next::Go if timed::now() < until || thread.spins > 0 => {}
                    Next::Go if self.queues[cpu].borrow().is_empty() => {}
                    Next::Go => break Next::Again,
                    other => break other,
                }
                if self.has_failed() {
                    break Next::Over;
                }
            };
            let process = thread.process;
            let is_bounded = self.workload.groups[thread.group].is_bounded;
            self.put_back(id, thread);
            runs = Some((id, process));
            match next {
                Next::Go | Next::Again => self.queues[cpu].borrow_mut().push_back(id),
                Next::Sleeps => {}
                Next::Moved => self.ready(kernel, id),
                Next::Waits => self.has_blocked(),
                Next::Over => {
                    self.take(id);
                    self.leave(is_bounded);
                }
                Next::Exited => {
                    runs = None; // It has no space any more.
                    self.take(id);
                    self.leave(is_bounded);
                }
            }
        }
        if runs.is_some() {
            kernel.idle();
        }
    }

    /// A thread has come to its end.
    fn leave(&self, is_bounded: bool) {
        if is_bounded {
            self.bounded.set(self.bounded.get() - 1);
            self.last.set(self.last.get().max(timed::now()));
            if self.bounded.get() == 0 {
                return self.stop(None);
            }
        }
        self.has_blocked();
    }

    /// Waits until there is something to run.
    fn rest(&self, kernel: &Kernel<'_>, cpu: usize) {
        let nothing = |state: &Self| state.queues[cpu].borrow().is_empty() && !state.over.get();
        timed::during("idle", || {
            let next = self.sleepers[cpu].borrow().iter().map(|&(time, _)| time).min();
            if let Some(time) = next {
                // It looks for others again and again, who cannot interrupt a sleep.
                timed::idle_until(time.min(timed::now() + 5 * US));
                return;
            }
            self.asleep[cpu].set(true);
            if self.wake.is_some() {
                kernel.set_halted(kernel.machine().path_or_none("halt"));
            }
            while nothing(self) {
                let _ = self.bells[cpu].0.load(Ordering::Acquire);
                if nothing(self) {
                    timed::relax();
                }
            }
            self.asleep[cpu].set(false);
            kernel.set_halted(0);
        });
        let called = self.called[cpu].take();
        if called > 0 {
            timed::during("interrupt", || timed::work(called));
            self.path(kernel, "halt");
        }
    }
}
