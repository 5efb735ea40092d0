//! All CPUs shoot at each other: every one changes a page of its own again and again.
//!
//! The pages are those of one process that all CPUs run, or with the option `kernel` the kernel's. In
//! all there are `operations`, divided among the first `senders` CPUs; the others compute.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps, tables};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS, START, US},
};
use crate::kernel::Change;

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "storm",
    about: "every CPU has all others forget a page of its own, again and again: `operations` in all",
    x_name: Some("CPUs"),
    run,
}];

/// How long after one CPU the next enters the process.
const APART: Ps = 500 * NS;
/// How many operations there are where nobody says so.
const OPERATIONS: f64 = 20_000.0;

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let cpus = setup.cpus.or(setup.x.map(|x| x as usize));
    let cpus = cpus.unwrap_or(setup.machine.model.topology.cpus());
    let operations = setup.option_or("operations", OPERATIONS);
    if operations < 1.0 {
        return Err(Refused(format!("`operations` is {operations}, and has to be 1 or more")));
    }
    let kernels = setup.option_or("kernel", 0.0) > 0.0;
    let senders = (setup.option_or("senders", cpus as f64) as usize).clamp(1, cpus.max(1));
    // What a CPU computes between two operations.
    let gap = (setup.option_or("gap", 0.0) * NS as f64) as Ps;
    let each = ((operations / senders as f64) as u64).max(1);
    // Some strategies keep a cache line for each pair of CPUs.
    let arena = Arena::new((1 << 24) + cpus * (1 << 13) + (cpus * cpus) * 64);
    let spent: Cell<Ps> = Cell::new(0);
    let ended = Cell::new(0);
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| {
            tables::create_kernel(cpus as u64);
            kernel.spawn(cpus as u64, cpus as u64)
        },
        |kernel, process, cpu| {
            // They come one after the other, and begin together.
            timed::idle_until(START + cpu as u64 * APART);
            kernel.switch(process);
            // Not in step: who is first at a line may decide who waits for whom for good.
            let begin = START + cpus as u64 * APART + 20 * US + timed::random_below(APART);
            while timed::now() < begin {
                timed::idle_until(begin);
            }
            let page = cpu as u64;
            let mine = if cpu < senders { each } else { 0 };
            for _ in 0..mine {
                let begin = timed::now();
                if kernels {
                    kernel.recycle_kernel(page, 1);
                } else {
                    kernel.change(process, page, 1, Change::Restrict);
                }
                spent.set(spent.get() + timed::now() - begin);
                timed::work(gap);
            }
            if mine > 0 {
                ended.set(ended.get() + 1);
            }
            // It goes on serving others.
            while ended.get() < senders {
                timed::work(20 * US);
            }
        },
    )?;
    let all = (each * senders as u64) as f64;
    let begin = START + cpus as u64 * APART + 20 * US;
    let seconds = report.elapsed.saturating_sub(begin) as f64 / 1e12;
    let metric = |key, unit, value| Metric { key, unit, value };
    let metrics = vec![
        metric("operation_time", "ns", spent.get() as f64 / all / NS as f64),
        metric("operations", "1/s", all / seconds),
    ];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
