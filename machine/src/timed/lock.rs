//! A fair lock of a model kernel.

use std::collections::VecDeque;

use lookaside::platform::Word as _;

use super::{
    account::Cause,
    current::{self, step, wait},
    queue::key,
    word::Word,
};

/// The holder of a lock, and the CPUs that wait for it.
#[derive(Debug, Default)]
pub(crate) struct State {
    owner: Option<usize>,
    queue: VecDeque<usize>,
}

/// A lock that is handed on in the order in which it was asked for, as queued locks and sleeping locks
/// of kernels are. It costs its cache line: one atomic to take it, one to leave it, and the way of the
/// line to the next owner.
pub struct Lock {
    word: Word,
    number: usize,
}

impl Lock {
    /// A free lock. Put it into the arena.
    #[must_use]
    pub fn new() -> Self {
        let number = current::with(|machine| {
            machine.locks.push(State::default());
            machine.locks.len() - 1
        });
        Self { word: Word::ZERO, number }
    }

    /// Calls `f` with the lock taken. Interrupts that are on stay on.
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        self.take();
        let result = f();
        self.leave();
        result
    }

    /// Takes the lock, and waits for it if need be.
    pub fn take(&self) {
        let mine = step(|machine| {
            let line = machine.line(self.word.address());
            machine.modify_line(line);
            let cpu = machine.running;
            let lock = &mut machine.locks[self.number];
            if lock.owner.is_none() {
                lock.owner = Some(cpu);
                return true;
            }
            lock.queue.push_back(cpu);
            false
        });
        while !mine && current::with(|machine| !self.is_mine(machine)) {
            wait(Cause::Locks, None);
            current::turn();
        }
    }

    fn is_mine(&self, machine: &super::machine::Machine) -> bool {
        machine.locks[self.number].owner == Some(machine.running)
    }

    /// Passes the lock to the CPU that has waited longest.
    ///
    /// # Panics
    ///
    /// If this CPU does not have it.
    pub fn leave(&self) {
        step(|machine| {
            assert!(self.is_mine(machine), "a CPU leaves a lock that it does not have");
            let line = machine.line(self.word.address());
            machine.modify_line(line);
            let next = machine.locks[self.number].queue.pop_front();
            machine.locks[self.number].owner = next;
            if let Some(next) = next {
                let (from, now) = (machine.running as u16, machine.cpu().now);
                let way = machine.places.distance(from, next as u16).line(&machine.model.prices);
                let when = key(now + way, next);
                if machine.cpus[next].waiting {
                    machine.queue.set(next, machine.queue.get(next).min(when));
                }
            }
        });
    }
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}
