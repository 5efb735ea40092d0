//! Threads of one process that map, touch and unmap pieces of a file, two threads on each CPU.
//!
//! All of it happens under the lock of the process's address space. A thread that does not get the lock
//! sleeps, and so does its neighbour, which wants the same lock; so their CPU idles, and is woken by
//! the thread that passes the lock to it. The tables of all pieces of a CPU go with the last of them.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Arena, Ps, Word};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS, START},
};
use crate::kernel::{Change, Kernel, Process};

use crate::line::Line;

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "pthread_mmap",
    about: "threads of one process map pieces of a file, touch them, and unmap them",
    x_name: None,
    run,
}];

/// So many rounds are simulated; each is as the one before.
const ROUNDS: u64 = 8;

/// A lock whose waiters sleep.
struct SleepingLock<'a> {
    taken: &'a Line,
    /// Set when a CPU is given the lock.
    given: &'a [Line],
    waiting: RefCell<VecDeque<usize>>,
}

impl<'a> SleepingLock<'a> {
    fn new(arena: &'a Arena, cpus: usize) -> Self {
        let taken = arena.put(Line(Word::ZERO));
        timed::name(taken, "lock of the address space");
        let given = arena.fill(cpus, |_| Line(Word::ZERO));
        timed::name(given, "flags of idle CPUs");
        Self { taken, given, waiting: RefCell::new(VecDeque::new()) }
    }

    /// Gives the lock to the thread that has waited longest.
    fn hand_on(&self) -> bool {
        let next = self.waiting.borrow_mut().pop_front();
        if let Some(next) = next {
            self.given[next].0.store(1, Ordering::Release);
        }
        next.is_some()
    }

    fn with(&self, kernel: &Kernel<'_>, process: &Process, f: impl FnOnce()) {
        let cpu = timed::cpu().index();
        let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.taken.0.compare_exchange(0, 1, acquire, relaxed).is_err() {
            self.waiting.borrow_mut().push_back(cpu);
            kernel.idle();
            timed::during("lock", || {
                while self.given[cpu].0.load(Ordering::Acquire) == 0 {
                    timed::relax();
                }
            });
            self.given[cpu].0.store(0, Ordering::Relaxed);
            kernel.switch(process);
        }
        f();
        if self.hand_on() {
            return;
        }
        self.taken.0.swap(0, Ordering::SeqCst);
        // Somebody may have come since nobody was found waiting.
        let waited_for = !self.waiting.borrow().is_empty();
        if waited_for && self.taken.0.compare_exchange(0, 1, acquire, relaxed).is_ok() {
            self.hand_on();
        }
    }
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let cpus = setup.cpus.unwrap_or(setup.option("cpus")? as usize);
    let threads = setup.option("threads")? as usize;
    let (rounds, pieces) = (setup.option("rounds")?, setup.option("pieces")? as u64);
    // A third each for the mapping, the fault of the touch, and the unmapping.
    let step = setup.machine.path("pthread_mmap")? / 3;
    let here = threads.div_ceil(cpus) as u64 * pieces;
    let arena = Arena::new(1 << 24);
    let end: Cell<Ps> = Cell::new(START);
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| {
            let pages = here * cpus as u64;
            (SleepingLock::new(&arena, cpus), kernel.spawn(pages, 0))
        },
        |kernel, (lock, process), cpu| {
            kernel.switch(process);
            let mine = here * cpu as u64;
            for _ in 0..ROUNDS {
                for page in mine..mine + here {
                    lock.with(kernel, process, || kernel.path("mmap", step));
                    lock.with(kernel, process, || {
                        kernel.path("page fault", step);
                        kernel.touch(process, page, 1);
                    });
                }
                for page in mine..mine + here {
                    kernel.touch(process, page, 1);
                    lock.with(kernel, process, || {
                        kernel.path("munmap", step);
                        let last = page + 1 == mine + here;
                        let change = if last { Change::Free } else { Change::Unmap };
                        kernel.change(process, page, 1, change);
                    });
                }
            }
            kernel.idle();
            end.set(end.get().max(timed::now()));
        },
    )?;
    let value = (end.get() - START) as f64 * rounds / ROUNDS as f64 / NS as f64;
    let metrics = vec![Metric { key: "elapsed", unit: "ns", value }];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
