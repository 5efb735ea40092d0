//! A mapping of a file is written to and unmapped.
//!
//! The pages are dirty pages of a file, and code that cleans such a page must be sure that no CPU writes
//! it any more before the table's lock is given up; so the kernel flushes once for each page table
//! (2 MiB), from the first page there to the last that was present, whatever lies between.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS},
    tlbi,
};
use crate::kernel::{Change, Kernel, Process};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "munmap",
        about: "one thread writes every `stride`th page of the first `mib` MiB of a mapped file and \
                unmaps it",
        x_name: Some("MiB touched"),
        run: |setup| {
            let mib = setup.x.map_or_else(|| setup.option("mib"), Ok)?;
            run(setup, mib, setup.cpus)
        },
    },
    Entry {
        name: "munmap_cores",
        about: "the same, by how many CPUs are online",
        x_name: Some("CPUs online"),
        run: |setup| {
            let cpus = setup.x.map(|cpus| cpus as usize).or(setup.cpus);
            run(setup, setup.option("mib")?, cpus)
        },
    },
];

/// Pages of one page table.
const TABLE: u64 = 512;
/// Calls before the first that counts, and those that count.
const CALLS: [u64; 2] = [1, 2];

fn run(setup: &Setup<'_>, mib: f64, cpus: Option<usize>) -> Result<Outcome, Refused> {
    let stride = setup.option_or("stride", 1.0).max(1.0) as u64;
    // A page is present if its first byte is in the part that was written to.
    let touched = (mib * 256.0).ceil().max(1.0) as u64;
    let machine = match setup.option_or("stage2", 0.0) {
        0.0 => setup.machine.clone(),
        _ => tlbi::with_stage2(setup.machine)?,
    };
    let setup = &Setup { machine: &machine, ..*setup };
    let (fixed, page) = (machine.path("munmap")?, machine.path("munmap_page")?);
    let cpus = cpus.unwrap_or(machine.model.topology.cpus());
    let arena = Arena::new(1 << 24);
    let measured: Cell<Ps> = Cell::new(0);
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| kernel.spawn(touched.next_multiple_of(TABLE), 0),
        |kernel, process, cpu| {
            if cpu > 0 {
                kernel.idle();
                return;
            }
            kernel.switch(process);
            let mut total = 0;
            for call in 0..CALLS[0] + CALLS[1] {
                timed::during("touch", || {
                    for page in (0..touched).step_by(stride as usize) {
                        kernel.touch(process, page, 1);
                    }
                });
                let begin = timed::now();
                kernel.path("munmap", fixed);
                unmap(kernel, process, touched, stride, page);
                if call >= CALLS[0] {
                    total += timed::now() - begin;
                }
            }
            measured.set(total);
        },
    )?;
    let value = measured.get() as f64 / CALLS[1] as f64 / NS as f64;
    Ok(Outcome {
        metrics: vec![Metric { key: "munmap_time", unit: "ns", value }],
        report,
        notes: Vec::new(),
    })
}

fn unmap(kernel: &Kernel<'_>, process: &Process, touched: u64, stride: u64, page: Ps) {
    for table in (0..touched).step_by(TABLE as usize) {
        let end = touched.min(table + TABLE);
        let first = table.next_multiple_of(stride);
        if first >= end {
            continue;
        }
        let pages = (end - first).div_ceil(stride);
        kernel.path("munmap_page", pages * page);
        kernel.change(process, first, (pages - 1) * stride + 1, Change::Unmap);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::data::Machine;

    #[test]
    fn touched_pages_are_flushed_under_both_tags_and_fault_again() {
        let machine = Machine::named("phytium_n80").expect("a machine of the repository");
        assert!(machine.features.paired);
        let options = BTreeMap::new();
        let (x, strategy) = (Some(0.25), "lookaside");
        let setup = Setup {
            machine: &machine,
            strategy,
            cpus: Some(1),
            x,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        let outcome = (ENTRIES[0].run)(&setup).expect("the machine has what it takes");
        let counters = outcome.report.counters();
        let calls = CALLS[0] + CALLS[1];
        assert_eq!(counters.page_flushes, calls * 64 * 2);
        assert_eq!(counters.walks, calls * 64);
    }
}
