//! Processes that change the protection of a page of their own as fast as they can, one on each CPU.
//!
//! Each process has one thread that runs, so every flush concerns one CPU, whatever the hardware does.
//! What an iteration takes besides its flushes is the path `mprotect` of the machine.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, US},
};
use crate::kernel::Change;

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "mprotect",
    about: "a process on each CPU calls mprotect in a loop, `flushes` flushes an iteration",
    x_name: None,
    run,
}];

const WARM_UP: u64 = 8;
const ITERATIONS: u64 = 200;
/// Pages that a process has besides the one that it changes.
const OWN: u64 = 7;

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let flushes = setup.option("flushes")? as u64;
    let pages = setup.option_or("pages", 1.0) as u64;
    if flushes == 0 || !(1..=1 << 16).contains(&pages) {
        return Err(Refused("an iteration has at least one flush and 1 to 65536 pages".into()));
    }
    let cpus = setup.cpus.unwrap_or(setup.machine.model.topology.cpus());
    let path = setup.machine.path("mprotect")? / flushes;
    let arena = Arena::new((1 << 22) + cpus * (1 << 14));
    let total: Cell<Ps> = Cell::new(0);
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| (0..cpus).map(|_| kernel.spawn(OWN + pages, OWN + pages)).collect::<Vec<_>>(),
        |kernel, processes, cpu| {
            let process = &processes[cpu];
            kernel.switch(process);
            let mut begin = 0;
            for i in 0..WARM_UP + ITERATIONS {
                if i == WARM_UP {
                    begin = timed::now();
                }
                for _ in 0..flushes {
                    kernel.path("mprotect", path);
                    kernel.touch(process, 0, OWN + pages);
                    kernel.change(process, OWN, pages, Change::Restrict);
                }
            }
            total.set(total.get() + (timed::now() - begin));
        },
    )?;
    let value = total.get() as f64 / (ITERATIONS * cpus as u64) as f64 / US as f64;
    let metrics = vec![Metric { key: "time_per_iteration", unit: "us", value }];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
