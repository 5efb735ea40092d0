//! The threads of a process that give single pages back, all at the same time: will-it-scale's
//! `tlb_flush2_threads`.
//!
//! Each thread has 256 pages of its own in one mapping. For each of them in turn it writes (a fault,
//! and a page to be cleared), gives the page back with `madvise(MADV_DONTNEED)` (one flush of one page
//! on every CPU that runs the process) and reads (a fault that maps the page of zeros): that is one
//! iteration. After the last page it unmaps all and maps them again. What a thread does alone in an
//! iteration is the path `iteration`.
//!
//! What the threads share besides: a word of the mapping, which is one for all of them and which each
//! fault counts up and down; one of the address space that `madvise` and `munmap` count up and down; a
//! lock for what pages come from and go to (path `pages`); and, with the option `lru_drain`, the lock of
//! the lists of pages by age, which `madvise` took until the end of 2024 (path `lru`). That `munmap`
//! keeps all others out is left out: it is one call in 256.

use core::cell::Cell;

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Arena, Lock, Ps, Word};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, START, US},
};
use crate::kernel::{Change, Kernel, Process};

use crate::line::Line;

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "tlb_flush2",
    about: "x threads of a process write, give back and read one page after another, each its own",
    x_name: Some("threads"),
    run,
}];

/// Pages of a thread.
const PAGES: u64 = 256;
/// What is not counted.
const WARM_UP: Ps = 300 * US;
/// What is counted: enough for some iterations of each thread.
const LEAST: Ps = 3000 * US;
/// How many iterations are wanted, of all threads.
const WANTED: u64 = 2000;

struct State<'a> {
    process: Process,
    /// Counted up and down by each fault.
    mapping: &'a Line,
    /// Counted up and down by each call.
    calls: &'a Line,
    pages: &'a Lock,
    lru: &'a Lock,
    /// Iterations that were counted.
    count: Cell<u64>,
    end: Cell<Ps>,
}

/// Lengths of time of the kernel's paths, in picoseconds.
struct Paths {
    iteration: Ps,
    pages: Ps,
    lru: Option<Ps>,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let machine = setup.machine;
    let threads = setup.x.map(|x| x as usize).or(setup.cpus);
    let asked_for = setup.option_or("threads", machine.model.topology.cpus() as f64);
    let threads = threads.unwrap_or(asked_for as usize);
    let drains = setup.option_or("lru_drain", 0.0) > 0.0;
    let paths = Paths {
        iteration: machine.path("iteration")?,
        pages: machine.path_or_none("pages"),
        lru: if drains { Some(machine.path("lru")?) } else { None },
    };
    let arena = Arena::new((1 << 24) + threads.pow(2) * 64);
    let place = &arena;
    let (state, report) = stage::run(
        setup,
        &arena,
        threads,
        move |kernel| {
            let line = |name| {
                let line = place.put(Line(Word::ZERO));
                timed::name(line, name);
                line
            };
            let lock = |name| {
                let lock = place.put(Lock::new());
                timed::name(lock, name);
                lock
            };
            State {
                process: kernel.spawn(threads as u64 * PAGES, 0),
                mapping: line("lock of the mapping"),
                calls: line("lock of the address space"),
                pages: lock("lock of free pages"),
                lru: lock("lock of the lists by age"),
                count: Cell::new(0),
                end: Cell::new(Ps::MAX),
            }
        },
        |kernel, state, cpu| {
            kernel.switch(&state.process);
            let first = cpu as u64 * PAGES;
            let mut page = 0;
            while timed::now() < state.end.get() {
                iterate(kernel, state, &paths, first + page);
                page += 1;
                if page == PAGES {
                    page = 0;
                    remap(kernel, state, first);
                }
                let now = timed::now();
                if now >= START + WARM_UP && now < state.end.get() {
                    state.count.set(state.count.get() + 1);
                    if state.count.get() >= WANTED && now >= START + WARM_UP + LEAST {
                        state.end.set(now);
                    }
                }
            }
        },
    )?;
    let seconds = (state.end.get() - START - WARM_UP) as f64 / 1e12;
    let flush = report.spent_in("flush") + report.spent_in("interrupt");
    let total: Ps = report.cpus.iter().map(|cpu| cpu.elapsed - START).sum();
    let metric = |key, unit, value| Metric { key, unit, value };
    let metrics = vec![
        metric("iterations", "1/s", state.count.get() as f64 / seconds),
        metric("flush_share", "", flush as f64 / total as f64),
    ];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}

/// Calls `f` as a reader of what `line` guards: counted up before, down after.
fn read<R>(line: &Line, f: impl FnOnce() -> R) -> R {
    line.0.fetch_add(1, Ordering::Acquire);
    let result = f();
    line.0.fetch_add(u64::MAX, Ordering::Release);
    result
}

fn iterate(kernel: &Kernel<'_>, state: &State<'_>, paths: &Paths, page: u64) {
    timed::during("locks", || {
        read(state.mapping, || {
            // By up to a quarter more or less: otherwise the threads fall into step.
            let least = paths.iteration / 4 * 3;
            kernel.path("iteration", least + timed::random_below(paths.iteration / 2 + 1));
            hold(state.pages, paths.pages);
        });
    });
    kernel.touch(&state.process, page, 1);
    timed::during("locks", || {
        read(state.calls, || {
            if let Some(lru) = paths.lru {
                hold(state.lru, lru);
            }
            kernel.change(&state.process, page, 1, Change::Unmap);
            hold(state.pages, paths.pages);
        });
        read(state.mapping, || ());
    });
    kernel.touch(&state.process, page, 1);
}

/// Takes a lock and has it for so long, with interrupts off, as the kernel has both of these.
fn hold(lock: &Lock, time: Ps) {
    if time > 0 {
        lock.with(|| timed::interrupts_off(|| timed::work(time)));
    }
}

/// Unmaps all pages of a thread.
fn remap(kernel: &Kernel<'_>, state: &State<'_>, first: u64) {
    timed::during("locks", || {
        read(state.calls, || kernel.change(&state.process, first, PAGES, Change::Unmap));
    });
}
