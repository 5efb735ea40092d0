//! A build with as many jobs as CPUs: compilers that compute, and switches between them and to the
//! kernel's own threads.
//!
//! A compiler uses pages as one was seen to do: some in every window of instructions, others now and
//! then. A part of a second is simulated. What comes out is how much longer it takes than what is
//! computed in it; a machine that has a path `build`, what the whole build computes, gets an elapsed
//! time from that.

use core::cell::Cell;

use lookaside_machine::timed::{self, Arena, Ps};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    intervals::{exponential, happens},
    lat_ctx,
    stage::{self, US},
};
use crate::kernel::{Change, Kernel, Process};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "build",
    about: "compilers on each CPU, with switches between them and to the kernel's threads",
    x_name: None,
    run,
}];

/// Compilers that take turns on a CPU.
const COMPILERS: usize = 2;
const SECOND: f64 = 1e12;
/// What each CPU computes, in windows.
const WARM_UP: u64 = 100;
const WINDOWS: u64 = 350;

/// How compilers use pages, and how often CPUs switch.
struct Build {
    /// How long a window is.
    window: Ps,
    /// Pages that are used in each window.
    hot: u64,
    /// Pages that are used now and then, and how many of them in a window.
    others: u64,
    others_per_window: u64,
    /// Translations of the kernel.
    kernel: u64,
    /// Flushes of a page in a window.
    flushes: f64,
    /// Time between two switches of a CPU, in the mean.
    slice: Ps,
    /// How many of the switches lead through the kernel's own threads.
    through_kernel: f64,
}

impl Build {
    fn new(setup: &Setup<'_>) -> Result<Self, Refused> {
        let window = (setup.option("window")? * US as f64) as Ps;
        let direct = setup.option("user_switches")?;
        let through = setup.option("kernel_switches")?;
        let build = Self {
            window,
            hot: setup.option("hot_pages")? as u64,
            others: setup.option("other_pages")? as u64,
            others_per_window: setup.option("others_per_window")? as u64,
            kernel: setup.option("kernel_entries")? as u64,
            flushes: setup.option("flushes")? * window as f64 / SECOND,
            slice: (SECOND / (direct + through)) as Ps,
            through_kernel: through / (direct + through),
        };
        if build.window == 0 || build.slice == 0 || build.others == 0 || build.kernel > 512 {
            return Err(Refused("a build computes, switches and has pages".into()));
        }
        Ok(build)
    }

    fn compute(&self, kernel: &Kernel<'_>, compiler: &Process) {
        kernel.path("build", self.window);
        lat_ctx::touch_kernel(self.kernel);
        timed::during("user translations", || {
            kernel.touch(compiler, 0, self.hot);
            for _ in 0..self.others_per_window {
                kernel.touch(compiler, self.hot + timed::random_below(self.others), 1);
            }
        });
        if happens(self.flushes) {
            let page = timed::random_below(self.hot);
            kernel.change(compiler, page, 1, Change::Restrict);
        }
    }

    fn run(&self, kernel: &Kernel<'_>, compilers: &[Process]) -> Ps {
        let mut running = 0;
        let mut left = exponential(self.slice);
        let mut begin = 0;
        kernel.switch(&compilers[running]);
        for window in 0..WARM_UP + WINDOWS {
            if window == WARM_UP {
                begin = timed::now();
            }
            self.compute(kernel, &compilers[running]);
            if left >= self.window {
                left -= self.window;
                continue;
            }
            left = exponential(self.slice);
            if happens(self.through_kernel) {
                kernel.idle();
            } else {
                running = (running + 1) % COMPILERS;
            }
            kernel.switch(&compilers[running]);
        }
        timed::now() - begin
    }
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let build = Build::new(setup)?;
    let cpus = setup.cpus.unwrap_or(setup.machine.model.topology.cpus());
    let arena = Arena::new((1 << 22) + cpus * (1 << 15));
    let total: Cell<Ps> = Cell::new(0);
    let pages = build.hot + build.others;
    let (_, report) = stage::run(
        setup,
        &arena,
        cpus,
        |kernel| {
            lat_ctx::create_kernel();
            let compilers = |_| [(); COMPILERS].map(|()| kernel.spawn(pages, pages));
            (0..cpus).map(compilers).collect::<Vec<_>>()
        },
        |kernel, compilers, cpu| {
            let time = build.run(kernel, &compilers[cpu]);
            total.set(total.get() + time);
        },
    )?;
    let computed = cpus as u64 * WINDOWS * build.window;
    let slowdown = total.get() as f64 / computed as f64;
    let mut metrics = vec![Metric { key: "slowdown", unit: "times", value: slowdown }];
    if let Ok(path) = setup.machine.path("build") {
        let value = path as f64 * slowdown / SECOND;
        metrics.push(Metric { key: "elapsed", unit: "s", value });
    }
    Ok(Outcome { metrics, report, notes: Vec::new() })
}
