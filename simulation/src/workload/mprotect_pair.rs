//! A page is made read-only and writable again, and written; the second thread, if there is one,
//! computes meanwhile on another CPU.
//!
//! What the two calls take is measured apart from the write. Where an invalidation of one page removes
//! everything ([`lookaside_machine::timed::TlbShape::fractured`]), it matters which pages of the kernel
//! are used between two invalidations: those before the flush of a call, those after it, and those of
//! the page fault with which the write begins.

use core::cell::Cell;

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::{self, Arena, Ps, Word, tables};
use lookaside_terminal::Refused;

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS, US},
};
use crate::kernel::{Change, Kernel, Process};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "mprotect_pair",
    about: "mprotect to read-only, mprotect to writable, and a write; x - 1 other threads compute",
    x_name: Some("threads"),
    run,
}];

const WARM_UP: u32 = 16;
const ITERATIONS: u32 = 256;

/// Pages of the kernel: from the first to before the second.
type Pages = (u64, u64);

fn touch_kernel((first, end): Pages) {
    let touch = || timed::touch_kernel(first, end - first).expect("the kernel is mapped");
    timed::during("kernel pages", touch);
}

/// Which pages of the kernel are used when.
struct Kernels {
    /// By a call before its flush.
    before: Pages,
    /// By a call after its flush: some of those before it, and others.
    after: Pages,
    /// By a page fault: some of those of a call, and others.
    fault: [Pages; 2],
}

impl Kernels {
    fn new(setup: &Setup<'_>) -> Self {
        let pages = |name: &str| setup.option_or(name, 0.0) as u64;
        let (before, both) = (pages("before_pages"), pages("both_pages"));
        let first_after = before.saturating_sub(both);
        let end = first_after + pages("after_pages").max(both);
        let [only_before, of_both, only_after, of_none] =
            ["fault_before", "fault_both", "fault_after", "fault_own"].map(pages);
        Self {
            before: (0, before),
            after: (first_after, end),
            fault: [
                (first_after.saturating_sub(only_before), first_after + of_both),
                (end.saturating_sub(only_after), end + of_none),
            ],
        }
    }

    const fn count(&self) -> u64 {
        self.fault[1].1
    }
}

struct Loop<'a> {
    process: Process,
    done: &'a Word,
    pages: Kernels,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let threads = setup.cpus.unwrap_or(setup.x.unwrap_or(1.0) as usize);
    let writes = setup.option_or("write", 1.0) != 0.0;
    let paths = [setup.machine.path("mprotect_read")?, setup.machine.path("mprotect_write")?];
    let arena = Arena::new(1 << 24);
    let measured: Cell<[Ps; 2]> = Cell::new([0; 2]);
    let (_, report) = stage::run(
        setup,
        &arena,
        threads,
        |kernel| {
            let pages = Kernels::new(setup);
            tables::create_kernel(pages.count());
            Loop { process: kernel.spawn(1, 1), done: arena.put(Word::ZERO), pages }
        },
        |kernel, state, cpu| {
            kernel.switch(&state.process);
            if cpu != 0 {
                while state.done.load(Ordering::Acquire) == 0 {
                    timed::during("other thread", || timed::work(US));
                }
                return;
            }
            for i in 0..WARM_UP + ITERATIONS {
                if i == WARM_UP {
                    measured.set([0; 2]);
                }
                let read = state.call(kernel, Change::Restrict, paths[0], writes);
                let write = state.call(kernel, Change::Promote, paths[1], writes);
                let [reads, promotions] = measured.get();
                measured.set([reads + read, promotions + write]);
                if writes {
                    timed::during("write", || {
                        state.pages.fault.into_iter().for_each(touch_kernel);
                        kernel.touch(&state.process, 0, 1);
                    });
                }
            }
            state.done.store(1, Ordering::Release);
        },
    )?;
    let each = |total: Ps| total as f64 / f64::from(ITERATIONS) / NS as f64;
    let [read, write] = measured.get().map(each);
    let metrics = vec![
        Metric { key: "time_of_read", unit: "ns", value: read },
        Metric { key: "time_of_write", unit: "ns", value: write },
    ];
    Ok(Outcome { metrics, report, notes: Vec::new() })
}

impl Loop<'_> {
    /// One call, and how long it took. A page that nobody has written since it was last made
    /// read-only still is, so there is nothing to flush; a kernel that flushes promotions does not
    /// look.
    fn call(&self, kernel: &Kernel<'_>, change: Change, path: Ps, writes: bool) -> Ps {
        let begin = timed::now();
        touch_kernel(self.pages.before);
        kernel.path("mprotect", path);
        if writes || kernel.strategy().flushes_promotions() {
            kernel.change(&self.process, 0, 1, change);
        }
        touch_kernel(self.pages.after);
        timed::now() - begin
    }
}
