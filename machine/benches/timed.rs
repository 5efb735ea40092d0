//! How many events of the timed machine one core simulates in a second: storms of the library's own
//! switches and flushes, by number of CPUs.
//!
//! `cargo bench -p lookaside-machine`. The machine is deterministic, so a ratio between two commits is
//! one of speed alone, as long as both simulate the same number of events (which is printed).

#[path = "support/mod.rs"]
mod support;

use core::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lookaside_machine::timed::{Failure, Report};
use support::{Flush, Storm};

type Run = fn(Storm, u64) -> Result<Report, Failure>;

fn storms(c: &mut Criterion) {
    let kinds: [(&str, Run); 2] = [("x86", support::x86), ("arm", support::arm)];
    for (kind, run) in kinds {
        let mut group = c.benchmark_group(kind);
        group.sample_size(10);
        for cpus in [1, 2, 32] {
            let flushes = 2000 / cpus;
            let flush = Flush::Right;
            let storm = Storm { cpus, group: cpus, flushes, switches: 4, touched: 4, flush };
            let events = run(storm, 1).expect("the library is right").events;
            println!("{kind}, {cpus} CPUs: {events} events");
            group.throughput(Throughput::Elements(events));
            group.bench_with_input(BenchmarkId::from_parameter(cpus), &storm, |b, &storm| {
                b.iter(|| run(black_box(storm), 1));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, storms);
criterion_main!(benches);
