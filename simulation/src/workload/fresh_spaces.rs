//! Every CPU runs one new space after the other: measures the allocation of tags.
//!
//! Nothing is touched, nothing is flushed and no space ends, so that what is seen is the way to a tag
//! alone: taking one, and the rollover when there are none left.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS, START},
};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "fresh_spaces",
    about: "each of x CPUs switches to `spaces` spaces that never ran before",
    x_name: Some("CPUs"),
    run,
}];

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let cpus = setup.cpus.unwrap_or(setup.x.unwrap_or(1.0) as usize);
    let spaces = setup.option_or("spaces", 512.0) as usize;
    // An arena of more than this is none that a host has for one run.
    const MOST: usize = 1 << 33;
    // A space takes 256 bytes and two bits a CPU; a CPU a kilobyte; the tags half a megabyte.
    let bytes = cpus * spaces * (512 + cpus / 4) + cpus * 4096 + (1 << 24);
    if bytes > MOST {
        let gib = bytes >> 30;
        return Err(Refused(format!("{spaces} spaces of {cpus} CPUs take {gib} GiB: too much")));
    }
    let arena = Arena::new(bytes);
    let ends = vec![Cell::new(0); cpus];
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| (0..cpus * spaces).map(|_| kernel.spawn(1, 1)).collect::<Vec<_>>(),
        |kernel, processes, cpu| {
            for process in &processes[cpu * spaces..][..spaces] {
                kernel.switch(process);
            }
            ends[cpu].set(timed::now());
        },
    )?;
    let end: Ps = ends.iter().map(Cell::get).max().unwrap_or(START);
    let value = (end - START) as f64 / spaces as f64 / NS as f64;
    let metrics = vec![Metric { key: "time_per_switch", unit: "ns", value }];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
