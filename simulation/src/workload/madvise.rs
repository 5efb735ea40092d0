//! One thread gives a page back and touches it again, while others of its process compute.
//!
//! An iteration is `madvise(MADV_DONTNEED)` of one page and a write to it: two entries into the kernel,
//! one flush of one page on every CPU that runs the process, one fault.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS, US},
};
use crate::kernel::Change;

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "madvise",
    about: "one of x threads gives a page back and touches it again; the others compute",
    x_name: Some("threads"),
    run,
}];

const WARM_UP: u64 = 64;
const ITERATIONS: u64 = 2000;

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let threads = setup.cpus.or(setup.x.map(|x| x as usize)).unwrap_or(2);
    let path = setup.machine.path("madvise")?;
    let arena = Arena::new(1 << 24);
    let measured: Cell<Ps> = Cell::new(0);
    let (_, report) = stage::run(
        setup,
        &arena,
        threads,
        |kernel| kernel.spawn(1, 0),
        |kernel, process, cpu| {
            kernel.switch(process);
            if cpu != 0 {
                while measured.get() == 0 {
                    timed::work(5 * US);
                }
                return;
            }
            // The others have begun.
            timed::work(5 * US);
            let mut begin = 0;
            for i in 0..WARM_UP + ITERATIONS {
                if i == WARM_UP {
                    begin = timed::now();
                }
                timed::during("touch", || kernel.touch(process, 0, 1));
                kernel.path("madvise", path);
                kernel.change(process, 0, 1, Change::Unmap);
            }
            measured.set(timed::now() - begin);
        },
    )?;
    let value = measured.get() as f64 / ITERATIONS as f64 / NS as f64;
    let metrics = vec![Metric { key: "time_per_iteration", unit: "ns", value }];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
