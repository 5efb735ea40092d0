//! One thread that moves over CPUs and gives a page back on each: `MADV_DONTNEED` of one page, a touch
//! of it, and a move to the next CPU.
//!
//! The CPU that is left has nothing else to run: it idles, polling, with the thread's space loaded.
//! The next CPU does the same until the thread is put on it, so that no interrupt is needed to wake
//! it.

use core::cell::Cell;

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Arena, Ps, Word};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS},
};
use crate::kernel::{Change, Kernel, Process};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "migrate",
    about: "a thread gives back a page with MADV_DONTNEED, touches it, and moves to the next CPU",
    x_name: None,
    run,
}];

const WARM_UP: u64 = 64;
const ITERATIONS: u64 = 1024;
const DONE: u64 = u64::MAX;

/// What an idle CPU polls: which iteration it is to run, or [`DONE`].
#[repr(align(64))]
struct Flag(Word);

struct State<'a> {
    process: Process,
    flags: &'a [Flag],
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let cpus = setup.cpus.unwrap_or(setup.option("cpus")? as usize);
    let own = setup.option("own_pages")? as u64;
    let path = setup.machine.path("migrate")?;
    let arena = Arena::new(1 << 24);
    let measured: Cell<Ps> = Cell::new(0);
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| {
            let flags = arena.fill(cpus, |_| Flag(Word::ZERO));
            timed::name(flags, "flags of idle CPUs");
            State { process: kernel.spawn(own + 1, own + 1), flags }
        },
        |kernel, State { process, flags }, cpu| {
            let next = |i: u64| &flags[i as usize % cpus].0;
            if cpu == 0 {
                flags[0].0.store(1, Ordering::Release);
            }
            loop {
                let i = timed::during("idle", || poll(&flags[cpu].0));
                if i == DONE {
                    return;
                }
                if i == 1 + WARM_UP {
                    measured.set(timed::now());
                }
                turn(kernel, process, own, path);
                if i == WARM_UP + ITERATIONS {
                    measured.set(timed::now() - measured.get());
                    for flag in flags.iter() {
                        flag.0.store(DONE, Ordering::Release);
                    }
                    return;
                }
                flags[cpu].0.set(0);
                next(i).store(i + 1, Ordering::Release);
            }
        },
    )?;
    let value = measured.get() as f64 / ITERATIONS as f64 / NS as f64;
    let metrics = vec![Metric { key: "time_per_iteration", unit: "ns", value }];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}

/// Waits until there is something to run.
fn poll(flag: &Word) -> u64 {
    loop {
        let work = flag.load(Ordering::Acquire);
        if work != 0 {
            return work;
        }
        timed::relax();
    }
}

/// One iteration, on the CPU that it runs on.
fn turn(kernel: &Kernel<'_>, process: &Process, own: u64, path: Ps) {
    kernel.switch(process);
    timed::during("touch", || kernel.touch(process, 0, own));
    kernel.change(process, own, 1, Change::Unmap);
    timed::during("touch", || kernel.touch(process, own, 1));
    kernel.path("system calls, fault and move", path);
    kernel.idle();
}
