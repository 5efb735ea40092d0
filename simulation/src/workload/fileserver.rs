//! A file server that maps and unmaps buffers in the kernel's address space.
//!
//! Every CPU has such work at random times and has all CPUs forget one page each time; between, it
//! computes with interrupts on. The times do not depend on how long a shootdown takes.
//!
//! The handler, from its first instruction to its last, is: the machine's path `handler` (registers
//! saved, the interrupt controller told, registers restored), reading what is asked for, removing it,
//! and saying so. Reading and removing are the useful part; the rest is synchronisation. The entry
//! before the first instruction and the return after the last are not in it, and so is not the wait
//! for a store that the return makes.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Cause, Ps, tables};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS, START},
};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "fileserver",
    about: "every CPU shoots down single pages of the kernel at random times, `rate` a second in all",
    x_name: None,
    run,
}];

/// About how many shootdowns there are, on all CPUs together.
const SHOOTDOWNS: u64 = 3000;
/// A second, in picoseconds.
const SECOND: f64 = 1e12;

#[derive(Default)]
struct State {
    /// How many shootdowns there were, and how long they took.
    count: Cell<u64>,
    spent: Cell<Ps>,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let cpus = setup.cpus.unwrap_or(setup.machine.model.topology.cpus());
    let rate = setup.option("rate")?;
    if rate.is_nan() || rate <= 0.0 {
        return Err(Refused(format!("the option `rate` is {rate}, and has to be more than 0")));
    }
    // Both in picoseconds.
    let gap = (cpus as f64 / rate * SECOND) as Ps;
    let end = START + (SHOOTDOWNS as f64 / rate * SECOND) as Ps;
    let arena = Arena::new((1 << 24) + cpus.pow(2) * 64);
    let (state, report) = stage::run(
        setup,
        &arena,
        cpus,
        |_| {
            tables::create_kernel(cpus as u64);
            State::default()
        },
        |kernel, state, cpu| {
            let mut next = START;
            loop {
                // Between none and twice the mean, each as likely.
                next += timed::random_below(2 * gap);
                timed::work(next.min(end).saturating_sub(timed::now()));
                if next >= end {
                    break;
                }
                let _ = timed::touch_kernel(cpu as u64, 1);
                let begin = timed::now();
                kernel.recycle_kernel(cpu as u64, 1);
                state.count.set(state.count.get() + 1);
                state.spent.set(state.spent.get() + timed::now() - begin);
            }
            // It goes on serving others.
            timed::work(gap / 8);
        },
    )?;
    let counters = report.counters();
    let seconds = (end - START) as f64 / SECOND;
    // What the machine adds before the first instruction and after the last.
    let outside =
        report.spent("interrupt", Cause::Interrupts) + report.spent("interrupt", Cause::Fences);
    let useful = (report.spent_in("interrupt") - outside) as f64;
    let rest = (report.spent_in("handler") + report.spent_in("answer")) as f64;
    let removed = report.spent("interrupt", Cause::Invalidations) as f64;
    let shootdown = state.spent.get() as f64 / state.count.get() as f64 / NS as f64;
    let metric = |key, unit, value| Metric { key, unit, value };
    let metrics = vec![
        metric("shootdown_time", "ns", shootdown),
        metric("useful_share", "", useful / (useful + rest)),
        metric("handler_time", "ns", (useful + rest) / counters.taken as f64 / NS as f64),
        metric("invalidate_time", "ns", removed / counters.taken as f64 / NS as f64),
        metric("rate", "1/s", counters.taken as f64 / seconds),
    ];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
