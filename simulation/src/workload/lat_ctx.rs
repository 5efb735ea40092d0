//! Processes on one CPU that pass a token round a ring of pipes: lmbench's `lat_ctx`, size 0.
//!
//! A hop is what the benchmark calls a context switch: a process is switched to, reads the token from
//! its pipe and writes it to the next. What this touches was counted; what it takes otherwise is the
//! path `lat_ctx` of the machine.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps, tables};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS},
};
use crate::kernel::{Kernel, Process};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "lat_ctx",
    about: "a ring of `processes` processes on one CPU pass a token, and do nothing else",
    x_name: None,
    run,
}];

const LAPS_TO_WARM_UP: u64 = 4;
const LAPS: u64 = 100;

/// What a last-level table maps, in entries.
const TABLE: u64 = 512;
/// Regions of a process, each with tables of its own: the program, the library with what is mapped
/// beside it, and the stack.
const REGIONS: u64 = 3;
/// Regions of the kernel: its image, the map of all memory, stacks, and the array of pages.
const KERNEL_REGIONS: u64 = 4;

/// So many entries of a region when `count` are spread over `regions`.
const fn share(count: u64, regions: u64, region: u64) -> u64 {
    (count + regions - 1 - region) / regions
}

/// Kernel translations that switches and system calls use, `count` of them.
pub(super) fn create_kernel() {
    tables::create_kernel(KERNEL_REGIONS * TABLE);
}

/// Uses them. A number stands for whatever one translation covers.
pub(super) fn touch_kernel(count: u64) {
    timed::during("kernel translations", || {
        for region in 0..KERNEL_REGIONS {
            let touched = timed::touch_kernel(region * TABLE, share(count, KERNEL_REGIONS, region));
            touched.expect("the kernel is mapped");
        }
    });
}

fn touch_user(kernel: &Kernel<'_>, process: &Process, pages: u64) {
    timed::during("user translations", || {
        for region in 0..REGIONS {
            kernel.touch(process, region * TABLE, share(pages, REGIONS, region));
        }
    });
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let processes = setup.option("processes")? as u64;
    let user = setup.option("user_pages")? as u64;
    let kernel_entries = setup.option("kernel_entries")? as u64;
    if !(2..=1000).contains(&processes) || user > TABLE || kernel_entries > TABLE {
        let limits = format!("2 to 1000 processes, at most {TABLE} pages and kernel entries");
        return Err(Refused(format!("a ring has {limits}")));
    }
    let path = setup.machine.path("lat_ctx")?;
    let arena = Arena::new(1 << 24);
    let measured: Cell<Ps> = Cell::new(0);
    let (_, report) = stage::run(
        setup,
        &arena,
        1,
        |kernel| {
            create_kernel();
            let pages = REGIONS * TABLE;
            (0..processes).map(|_| kernel.spawn(pages, pages)).collect::<Vec<_>>()
        },
        |kernel, ring, _| {
            let mut begin = 0;
            for lap in 0..LAPS_TO_WARM_UP + LAPS {
                if lap == LAPS_TO_WARM_UP {
                    begin = timed::now();
                }
                for process in ring {
                    kernel.switch(process);
                    touch_kernel(kernel_entries);
                    touch_user(kernel, process, user);
                    kernel.path("lat_ctx", path);
                }
            }
            measured.set(timed::now() - begin);
        },
    )?;
    let value = measured.get() as f64 / (LAPS * processes) as f64 / NS as f64;
    let metrics = vec![Metric { key: "time_per_switch", unit: "ns", value }];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
