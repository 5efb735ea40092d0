//! Two processes on one CPU that wake each other in turn.
//!
//! An iteration is one hand-over: a process is switched to, touches what it touches, and hands over.
//! Its own pages, of code, stack and libraries, are here and there in its space, so that they need
//! tables of their own; the pages that it touches on purpose lie side by side. Each touch of these is a
//! load, at the price of any other.

use core::{array, cell::Cell};

use lookaside_machine::timed::{self, Arena, Price, Ps, tables};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS},
};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "pingpong",
    about: "two processes on one CPU wake each other through eventfds, touching `pages` pages each time",
    x_name: None,
    run,
}];

const WARM_UP: u64 = 64;
const ITERATIONS: u64 = 2000;

/// Pages of one table.
const TABLE: u64 = 512;

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let pages = setup.option_or("pages", 0.0) as u64;
    let own = setup.option("own_pages")? as u64;
    let own_tables = setup.option_or("own_tables", 1.0).max(1.0) as u64;
    let kernel_pages = setup.option_or("kernel_pages", 0.0) as u64;
    let path = setup.machine.path("pingpong")?;
    let loads = pages * setup.machine.model.prices.charge(Price::Hit);
    let arena = Arena::new(1 << 24);
    // At 16 different places in their tables, as a line of page table entries is of 8 pages.
    let own_page = |i: u64| i % own_tables * TABLE + (i * 48 + 16) % TABLE;
    let array = own_tables * TABLE;
    let measured: Cell<(Ps, u64)> = Cell::new((0, 0));
    let (_, report) = stage::run(
        setup,
        &arena,
        1,
        |kernel| {
            tables::create_kernel(kernel_pages);
            array::from_fn::<_, 2, _>(|_| kernel.spawn(array + pages, array + pages))
        },
        |kernel, processes, _| {
            let mut begin = (0, 0);
            let now = || (timed::now(), timed::counters().walks);
            for i in 0..WARM_UP + ITERATIONS {
                if i == WARM_UP {
                    begin = now();
                }
                let process = &processes[(i % 2) as usize];
                kernel.switch(process);
                kernel.path("eventfd", path);
                timed::during("touch", || {
                    timed::touch_kernel(0, kernel_pages).expect("the kernel is mapped");
                    (0..own).for_each(|i| kernel.touch(process, own_page(i), 1));
                    kernel.touch(process, array, pages);
                    timed::work(loads);
                });
            }
            let end = now();
            measured.set((end.0 - begin.0, end.1 - begin.1));
        },
    )?;
    let (time, walks) = measured.get();
    let each = |total: u64| total as f64 / ITERATIONS as f64;
    let metrics = vec![
        Metric { key: "time_per_iteration", unit: "ns", value: each(time) / NS as f64 },
        Metric { key: "misses_per_iteration", unit: "walks", value: each(walks) },
    ];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
