//! A gate: threads work while it is open, and stand still, outside, while memory is changed.
//!
//! They forget nothing meanwhile: a translation that a thread's CPU should have lost is still there
//! when the gate opens again.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::{system, threads::Thread};

/// The most threads that a gate has.
pub(crate) const MEMBERS: usize = 3;

/// How often a member works before it lets others run.
const TURNS: u64 = 64;

const END: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Gate {
    /// Even: open. Odd: closed.
    phase: AtomicU64,
    /// For each member the last phase that it has worked in, or stood outside.
    at: [AtomicU64; MEMBERS],
}

impl Gate {
    /// A closed gate.
    pub(crate) const fn new() -> Self {
        Self { phase: AtomicU64::new(1), at: [const { AtomicU64::new(0) }; MEMBERS] }
    }

    /// A member's life: to do `work`, again and again, while the gate is open.
    pub(crate) fn attend(&self, member: usize, mut work: impl FnMut()) {
        for turn in 1_u64.. {
            // Acquire: the changes made while the gate was closed.
            let phase = self.phase.load(Ordering::Acquire);
            if phase == END {
                return;
            }
            let open = phase.is_multiple_of(2);
            if open {
                work();
            }
            // Release: the work is done. Pairs with the Acquire in `all_are_here`.
            self.at[member].store(phase, Ordering::Release);
            if open && turn.is_multiple_of(TURNS) {
                system::yield_now();
            } else if !open {
                // Relaxed: the next turn looks properly.
                system::wait_until(|| self.phase.load(Ordering::Relaxed) != phase);
            }
        }
    }

    /// Opens the gate. What was done while it was closed is visible inside.
    pub(crate) fn open(&self) {
        self.phase.fetch_add(1, Ordering::Release); // Release: pairs with `attend`.
    }

    /// Waits until every one of so many members has worked since the gate was opened.
    pub(crate) fn wait_for_work(&self, members: usize) {
        system::wait_until(|| self.all_are_here(members));
    }

    /// Closes the gate, and waits until no member is inside any more.
    pub(crate) fn close(&self, members: usize) {
        self.phase.fetch_add(1, Ordering::Release); // Release: as in `open`.
        system::wait_until(|| self.all_are_here(members));
    }

    /// Sends the members home.
    pub(crate) fn end(&self, threads: impl IntoIterator<Item = Thread>) {
        self.phase.store(END, Ordering::Release);
        threads.into_iter().for_each(Thread::join);
    }

    fn all_are_here(&self, members: usize) -> bool {
        let phase = self.phase.load(Ordering::Relaxed); // Relaxed: this thread has stored it.
        // Acquire: the members' earlier accesses.
        self.at[..members].iter().all(|at| at.load(Ordering::Acquire) == phase)
    }
}
