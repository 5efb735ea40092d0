//! A copy of gperftools' `tcmalloc_large_heap_fragmentation_unittest` on each CPU, all started at once.
//!
//! The test allocates and frees large blocks that it never touches, so that its flushes are not those
//! of the heap: nothing is present there. They are those of its start. In a build tree it is started by
//! a wrapper, a shell script that forks and executes a few programs, and all of these copy pages.
//! Nearly all of the flushes come in the first tenth of the run; then it only computes.
//!
//! What a run computes is the path `tcmalloc` of the machine; the start takes the same share of it as
//! where it was counted.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    intervals::exponential,
    stage::{self, START},
};
use crate::kernel::{Change, Kernel, Process};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "tcmalloc",
    about: "a program on each CPU that is started by a shell script and then computes",
    x_name: None,
    run,
}];

/// Pages of the script's shell, and of what it forks.
const PAGES: u64 = 787;

/// A run, as the counts describe it.
struct Run {
    flushes: u64,
    forks: u64,
    /// The first phases: how long each is, and which flush it ends before.
    phases: [(Ps, u64); 2],
    /// The rest, with the flushes that are left.
    rest: Ps,
}

impl Run {
    fn new(setup: &Setup<'_>) -> Result<Self, Refused> {
        let (flushes, forks) = (setup.option("flushes")?, setup.option("forks")?);
        let (first, second) = (setup.option("first_share")?, setup.option("second_share")?);
        let phase = setup.option("phase")?;
        let whole = setup.machine.path("tcmalloc")?;
        let sensible = flushes >= 4.0 * forks
            && flushes <= 1e6
            && [first, second, phase].iter().all(|share| (0.0..=1.0).contains(share))
            && first + second <= 1.0
            && 2.0 * phase <= 1.0;
        if !sensible {
            return Err(Refused("shares are parts of 1, and a fork has at least 4 flushes".into()));
        }
        let length = (whole as f64 * phase) as Ps;
        let ends = [first, first + second].map(|share| (flushes * share) as u64);
        Ok(Self {
            flushes: flushes as u64,
            forks: forks as u64,
            phases: ends.map(|end| (length, end)),
            rest: whole - 2 * length,
        })
    }

    /// What is computed before a flush: in the phases at random, then evenly.
    fn think(&self, flush: u64) -> Ps {
        let mut begin = 0;
        for (length, end) in self.phases {
            if flush < end {
                return exponential(length / (end - begin));
            }
            begin = end;
        }
        // What is left, before each of the flushes that are left and after the last.
        self.rest / (self.flushes - begin + 1)
    }

    /// The whole run, on the CPU that calls.
    fn run(&self, kernel: &Kernel<'_>, shell: Process) {
        let mut flush = 0;
        let mut compute = || {
            kernel.path("tcmalloc", self.think(flush));
            flush += 1;
        };
        let write = |process: &Process, page| {
            kernel.touch(process, page, 1);
            kernel.change(process, page, 1, Change::Restrict);
            kernel.touch(process, page, 1);
        };
        kernel.switch(&shell);
        // A fork has one flush of the shell and one of the child as a whole.
        let copies = self.flushes - 2 * self.forks;
        for fork in 0..self.forks {
            let copies = copies * (fork + 1) / self.forks - copies * fork / self.forks;
            compute();
            kernel.change(&shell, 0, PAGES, Change::Restrict);
            for page in 0..copies / 2 {
                compute();
                write(&shell, page % PAGES);
            }
            let child = kernel.spawn(PAGES, PAGES);
            kernel.switch(&child);
            for page in copies / 2..copies {
                compute();
                write(&child, page % PAGES);
            }
            compute();
            kernel.exit(&child, Some(&shell));
        }
        kernel.path("tcmalloc", self.think(self.flushes));
    }
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let script = Run::new(setup)?;
    let cpus = setup.cpus.unwrap_or(setup.machine.model.topology.cpus());
    let arena = Arena::new((1 << 24) + cpus * (1 << 18));
    let last: Cell<Ps> = Cell::new(0);
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| (0..cpus).map(|_| kernel.spawn(PAGES, PAGES)).collect::<Vec<_>>(),
        |kernel, shells, cpu| {
            script.run(kernel, shells[cpu]);
            last.set(last.get().max(timed::now()));
        },
    )?;
    let value = (last.get() - START) as f64 / 1e12;
    let metrics = vec![Metric { key: "elapsed", unit: "s", value }];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
