//! Where threads block: semaphores, barriers, and locks for one writer or many readers.

use core::cell::Cell;

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Arena, Lock, Word};

use super::{Count, List};
use crate::line::Line;

/// What a writer takes of a lock. A reader takes 1.
pub(super) const WHOLE: u64 = 1 << 32;

/// What threads wait at.
pub(super) struct Gate<'a> {
    /// What is left to take: posts that nobody has waited for, or what is free of a lock.
    open: Count,
    /// Threads that wait, in order, with what each takes.
    waiting: List<(usize, u64)>,
    /// The line that all touch who take or give.
    line: &'a Line,
    /// For a lock, the lock that threads spin at.
    pub(super) spin: &'a Lock,
}

impl<'a> Gate<'a> {
    pub(super) fn new(arena: &'a Arena, name: &'static str, open: u64) -> Self {
        let line = arena.put(Line(Word::ZERO));
        timed::name(line, name);
        let spin = arena.put(Lock::new());
        timed::name(spin, "locks");
        Self { open: Cell::new(open), waiting: List::default(), line, spin }
    }

    /// Touches the line, as an atomic does.
    pub(super) fn touch(&self) {
        self.line.0.fetch_add(1, Ordering::AcqRel);
    }

    /// A thread takes so much, or waits behind all who wait, and takes it then: a reader does not pass a writer who waits.
    #[must_use]
    pub(super) fn take(&self, thread: usize, amount: u64) -> bool {
        self.touch();
        let left = self.open.get().checked_sub(amount);
        match left.filter(|_| self.waiting.borrow().is_empty()) {
            Some(left) => self.open.set(left),
            None => {
                self.wait(thread, amount);
                return false;
            }
        }
        true
    }

    /// A thread waits behind all who wait.
    pub(super) fn wait(&self, thread: usize, amount: u64) {
        self.waiting.borrow_mut().push_back((thread, amount));
    }

    /// Gives so much, and says who has waited for it and goes on.
    pub(super) fn give(&self, amount: u64) -> Vec<usize> {
        self.touch();
        let mut left = self.open.get() + amount;
        let mut waiting = self.waiting.borrow_mut();
        let mut on = Vec::new();
        while let Some(&(thread, amount)) = waiting.front()
            && amount <= left
        {
            left -= amount;
            waiting.pop_front();
            on.push(thread);
        }
        self.open.set(left);
        on
    }

    /// Gives back what the writer of a lock has, or one of its readers.
    pub(super) fn unlock(&self) -> Result<Vec<usize>, String> {
        match self.open.get() {
            0 => Ok(self.give(WHOLE)),
            WHOLE => Err("it unlocks what nobody has locked".to_owned()),
            _ => Ok(self.give(1)),
        }
    }

    /// How many threads wait.
    pub(super) fn waiters(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// All threads that wait: they go on.
    pub(super) fn all(&self) -> Vec<usize> {
        self.waiting.borrow_mut().drain(..).map(|(thread, _)| thread).collect()
    }
}
