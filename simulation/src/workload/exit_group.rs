//! A compiler exits, on Arm, with memory in contiguous blocks.
//!
//! One CPU runs one process after the other: it computes, and its exit takes all of its pages out of
//! the page tables, one flush of the space at the end. The other CPUs of the machine compute, and
//! receive what is broadcast. The strategy says how blocks are taken down ([`Way`]).
//!
//! Counted, on live systems: how many pages a compiler has at its exit, and how many of them are
//! memory in complete runs of sixteen. What becomes of a page besides its entry (its reverse map, its
//! counters, its place in the list of pages to be freed) is the path `zap_page`.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps, tables};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS, US},
};
use crate::{
    kernel::{Change, Kernel, Process},
    strategy::blocks::{PageTables, Way, Zap},
};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "exit_group",
    about: "a compiler exits: `pages` pages, `block_pages` of them in contiguous blocks; the other \
            CPUs compute",
    x_name: None,
    run,
}];

/// How many processes exit.
const PROCESSES: usize = 2;
/// The others look so often whether it is over.
const SLICE: Ps = 100 * US;

/// What programs share.
struct State<'a> {
    processes: Vec<Process>,
    tables: PageTables<'a>,
    measured: Cell<Ps>,
    computed: Cell<Ps>,
    over: Cell<bool>,
}

/// The kernel around a way to clear entries.
struct Exit<'a> {
    kernel: &'a Kernel<'a>,
    process: &'a Process,
    zap_page: Ps,
}

impl Zap for Exit<'_> {
    fn flush_block(&self, first: u64) {
        self.kernel.change(self.process, first, 16, Change::Restrict);
    }

    fn gone(&self, pages: u64) {
        self.kernel.path("zap_page", pages * self.zap_page);
    }
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let way = Way::of(setup.strategy)?;
    let pages = setup.option("pages")? as usize;
    let in_blocks = setup.option("block_pages")? as usize;
    let zap_page = setup.machine.path("zap_page")?;
    let compile = setup.machine.path_or_none("compile");
    let cpus = setup.cpus.unwrap_or(setup.machine.model.topology.cpus());
    let arena = Arena::new(1 << 24);
    let (state, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| {
            let tables = PageTables::new(&arena, pages, in_blocks);
            let (pages, in_blocks) = (tables.pages(), tables.in_blocks());
            let processes = (0..PROCESSES).map(|_| {
                let process = kernel.spawn(pages, pages);
                if way.has_blocks() {
                    tables::map(process.root, 0, in_blocks, 4);
                }
                process
            });
            State {
                processes: processes.collect(),
                tables,
                measured: Cell::new(0),
                computed: Cell::new(0),
                over: Cell::new(false),
            }
        },
        |kernel, state, cpu| {
            if cpu > 0 {
                while !state.over.get() {
                    kernel.path("compile", SLICE);
                }
                return;
            }
            for process in &state.processes {
                state.tables.fill(way.has_blocks());
                kernel.switch(process);
                let begin = timed::now();
                kernel.path("compile", compile);
                state.computed.set(state.computed.get() + timed::now() - begin);
                let begin = timed::now();
                timed::during("clear", || {
                    way.clear(&state.tables, &Exit { kernel, process, zap_page });
                });
                kernel.exit(process, None);
                state.measured.set(state.measured.get() + timed::now() - begin);
            }
            state.over.set(true);
        },
    )?;
    let (measured, computed) = (state.measured.get() as f64, state.computed.get() as f64);
    let each = measured / PROCESSES as f64 / NS as f64;
    let share = 100.0 * measured / (measured + computed);
    let metrics = vec![
        Metric { key: "exit_time", unit: "ns", value: each },
        Metric { key: "exit_share", unit: "%", value: share },
    ];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::data::Machine;

    #[test]
    fn the_library_takes_blocks_down_without_invalidations() {
        let machine = Machine::named("altra_1node").expect("a machine of the repository");
        let options = [("pages", 640.0), ("block_pages", 320.0)];
        let options: BTreeMap<_, _> = options.map(|(name, value)| (name.to_owned(), value)).into();
        let (x, strategy) = (None, "lookaside");
        let setup = Setup {
            machine: &machine,
            strategy,
            cpus: Some(2),
            x,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        let outcome = run(&setup).expect("the machine has what it takes");
        let counters = outcome.report.counters();
        assert_eq!((counters.page_flushes, counters.broadcasts), (0, 0));
        let pages = 640.0 * machine.path("zap_page").expect("a path") as f64 / NS as f64;
        let time = outcome.metric("exit_time").expect("a metric");
        assert!(time > pages && time < 1.2 * pages, "{time} {pages}");
    }

    #[test]
    fn strategies_without_blocks_are_refused() {
        let machine = Machine::named("altra_1node").expect("a machine of the repository");
        let options = BTreeMap::new();
        let strategy = "lookaside-untagged";
        let setup = Setup {
            machine: &machine,
            strategy,
            cpus: None,
            x: None,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        assert!(run(&setup).is_err_and(|refused| refused.0.contains("contiguous blocks")));
    }
}
