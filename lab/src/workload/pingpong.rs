//! Two processes on one CPU that wake each other in turn.
//!
//! An iteration is one hand-over: a process is switched to, touches what it touches, and hands over.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps};

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS},
};
use crate::data::Refused;

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "pingpong",
    about: "two processes on one CPU wake each other through eventfds, touching `pages` pages each time",
    x_name: None,
    run,
}];

const WARM_UP: u64 = 64;
const ITERATIONS: u64 = 2000;

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let pages = setup.option_or("pages", 0.0) as u64;
    let own = setup.option("own_pages")? as u64;
    let path = setup.machine.path("pingpong")?;
    let arena = Arena::new(1 << 24);
    let measured: Cell<Ps> = Cell::new(0);
    let (_, report) = stage::run(
        setup,
        &arena,
        1,
        |kernel| [0, 1].map(|_| kernel.spawn(own + pages, own + pages)),
        |kernel, processes, _| {
            let mut begin = 0;
            for i in 0..WARM_UP + ITERATIONS {
                if i == WARM_UP {
                    begin = timed::now();
                }
                let process = &processes[(i % 2) as usize];
                kernel.switch(process);
                kernel.path("eventfd", path);
                timed::during("touch", || kernel.touch(process, 0, own + pages));
            }
            measured.set(timed::now() - begin);
        },
    )?;
    let value = measured.get() as f64 / ITERATIONS as f64 / NS as f64;
    let metrics = vec![Metric { key: "time_per_iteration", unit: "ns", value }];
    Ok(Outcome { metrics, report })
}
