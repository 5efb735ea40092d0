//! A page is made read-only and writable again, and written; the second thread, if there is one,
//! computes meanwhile on another CPU.
//!
//! What the two calls take is measured apart from the write. Where an invalidation of one page removes
//! everything ([`lookaside_machine::timed::TlbShape::fractured`]), it matters which pages of the kernel
//! are used between two invalidations: those before the flush of a call, those after it, and those of
//! the page fault with which the write begins.

use core::cell::Cell;

use lookaside::{Ordering, Word as _};
use lookaside_machine::timed::{self, Arena, Ps, Word, tables};

use super::{
    Entry, Metric, Outcome, Setup,
    stage::{self, NS, US},
};
use crate::{
    data::Refused,
    kernel::{Change, Kernel, Process},
};

/// All of them.
pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "mprotect_pair",
    about: "mprotect to read-only, mprotect to writable, and a write; x - 1 other threads compute",
    x_name: Some("threads"),
    run,
}];

const WARM_UP: u32 = 16;
const ITERATIONS: u32 = 256;

/// Pages of the kernel, from the first on.
#[derive(Clone, Copy)]
struct Pages(u64, u64);

impl Pages {
    fn touch(self) {
        let Self(first, end) = self;
        let touch = || timed::touch_kernel(first, end - first).expect("the kernel is mapped");
        timed::during("kernel pages", touch);
    }
}

struct Loop<'a> {
    process: Process,
    done: &'a Word,
    /// What a call uses before its flush, and after it.
    before: Pages,
    after: Pages,
    fault: Pages,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let threads = setup.cpus.unwrap_or(setup.x.unwrap_or(1.0) as usize);
    let writes = setup.option_or("write", 1.0) != 0.0;
    let pages = |name: &str| setup.option_or(name, 0.0) as u64;
    // A call uses `call_pages`, of which the flush has the last `late_pages` after it; a fault uses
    // `fault_pages`, of which `common_pages` are used by a call, too.
    let (call, late) = (pages("call_pages"), pages("late_pages"));
    let (fault, common) = (pages("fault_pages"), pages("common_pages"));
    let first_fault = call.saturating_sub(common);
    let paths = [setup.machine.path("mprotect_read")?, setup.machine.path("mprotect_write")?];
    let arena = Arena::new(1 << 24);
    let measured: Cell<[Ps; 2]> = Cell::new([0; 2]);
    let (_, report) = stage::run(
        setup,
        &arena,
        threads,
        |kernel| {
            tables::create_kernel(call.max(first_fault + fault));
            let done = arena.put(Word::ZERO);
            Loop {
                process: kernel.spawn(1, 1),
                done,
                before: Pages(0, call),
                after: Pages(call.saturating_sub(late), call),
                fault: Pages(first_fault, first_fault + fault),
            }
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
                        state.fault.touch();
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
    Ok(Outcome { metrics, report })
}

impl Loop<'_> {
    /// One call, and how long it took. A page that nobody has written since it was last made
    /// read-only still is, so there is nothing to flush; a kernel that flushes promotions does not
    /// look.
    fn call(&self, kernel: &Kernel<'_>, change: Change, path: Ps, writes: bool) -> Ps {
        let begin = timed::now();
        self.before.touch();
        kernel.path("mprotect", path);
        if writes || kernel.strategy().flushes_promotions() {
            kernel.change(&self.process, 0, 1, change);
        }
        self.after.touch();
        timed::now() - begin
    }
}
