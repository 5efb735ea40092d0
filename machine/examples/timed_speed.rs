//! How many events of the timed machine one core simulates in a second.
//!
//! `cargo run --release --example timed_speed [NAME…]`

#[path = "../benches/support/mod.rs"]
mod support;

use std::time::Instant;

use lookaside_machine::timed::{Failure, Report};
use support::{Flush, Storm};

type Run = fn(Storm, u64) -> Result<Report, Failure>;

fn main() {
    let flush = Flush::Right;
    let switching =
        |cpus, flushes| Storm { cpus, group: cpus, flushes, switches: 4, touched: 4, flush };
    let storm =
        |cpus, group, flushes| Storm { cpus, group, flushes, switches: 0, touched: 1, flush };
    let runs: [(&str, Run, Storm); 9] = [
        ("x86-1", support::x86, switching(1, 200_000)),
        ("x86-2", support::x86, switching(2, 100_000)),
        ("x86-32", support::x86, switching(32, 2_000)),
        ("arm-1", support::arm, switching(1, 200_000)),
        ("arm-2", support::arm, switching(2, 100_000)),
        ("arm-32", support::arm, switching(32, 10_000)),
        ("arm-4096", support::arm, storm(4096, 4096, 25)),
        ("x86-4096-by-4", support::x86, storm(4096, 4, 25)),
        ("x86-4096-by-64", support::x86, storm(4096, 64, 25)),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for (name, run, storm) in runs {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name == wanted) {
            continue;
        }
        let begin = Instant::now();
        let report = run(storm, 1).unwrap_or_else(|failure| panic!("{failure}"));
        let seconds = begin.elapsed().as_secs_f64();
        let simulated = report.elapsed as f64 / 1e9;
        println!(
            "{name:16} {:>12} events {seconds:7.2} s {:6.1} million events/s {simulated:9.2} ms simulated",
            report.events,
            report.events as f64 / seconds / 1e6,
        );
    }
}
