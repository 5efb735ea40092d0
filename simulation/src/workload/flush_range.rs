//! A flush of x pages of a process that runs on one CPU, or of all that it has.
//!
//! The time is that between two tracepoints around the flush: the machine's path `flush_range`, which
//! has what tracing adds, and what the flush itself takes.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps, tables};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS},
};
use crate::{kernel::Change, strategy::Flush};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "flush_range",
    about: "a flush of x pages on one CPU; of everything with the option `full`",
    x_name: Some("pages"),
    run,
}];

/// Pages that are touched to have them refilled: as many as the second level of the TLB takes.
const REFILL: u64 = 512;
const ROUNDS: u64 = 200;

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let machine = setup.machine;
    let pages = setup.x.unwrap_or(1.0) as u64;
    let full = setup.option_or("full", 0.0) > 0.0;
    let path = machine.path("flush_range")?;
    let clock = machine.values.iter().find(|value| value.name == "cpu.clock");
    let Some(clock) = clock.map(|value| value.number) else {
        return Err(Refused(format!("machine `{}` has no clock to count cycles", machine.key)));
    };
    let arena = Arena::new(1 << 22);
    let measured: Cell<[Ps; 2]> = Cell::new([0; 2]);
    let (_, report) = stage::run(
        setup,
        &arena,
        1,
        |kernel| kernel.spawn(REFILL.max(pages), REFILL.max(pages)),
        |kernel, process, _| {
            kernel.switch(process);
            let (mut flushes, mut misses) = (0, 0);
            for _ in 0..ROUNDS {
                kernel.touch(process, 0, pages);
                let begin = timed::now();
                kernel.path("flush_range", path);
                if full {
                    let stamp = tables::revoke(process.root, 0, process.pages, true);
                    let flush = Flush { tables: false, ..Flush::everything(process.id) };
                    timed::during("flush", || kernel.strategy().flush(&flush));
                    tables::flushed(process.root, 0, process.pages, stamp);
                } else {
                    kernel.change(process, 0, pages, Change::Restrict);
                }
                flushes += timed::now() - begin;
                let begin = timed::now();
                kernel.touch(process, 0, if full { REFILL } else { pages });
                misses += timed::now() - begin;
            }
            measured.set([flushes, misses]);
        },
    )?;
    let [flushes, misses] = measured.get();
    let walks = report.counters().walks.max(1);
    let metric = |key, unit, value| Metric { key, unit, value };
    let metrics = vec![
        metric("flush_cycles", "cycles", flushes as f64 / ROUNDS as f64 / NS as f64 * clock),
        metric("miss_cost", "ns", misses as f64 / walks as f64 / NS as f64),
    ];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
