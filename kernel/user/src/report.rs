//! The cost of a workload: the kernel's counts, before and after.

use core::fmt;

use crate::{
    println,
    system::{self, Counter},
};

const COUNTERS: [(Counter, &str); 13] = [
    (Counter::Switches, "switches"),
    (Counter::FreshTags, "fresh tags"),
    (Counter::Rollovers, "rollovers"),
    (Counter::CaughtUp, "switches that flushed"),
    (Counter::FlushesNoCpu, "flushes without a CPU"),
    (Counter::FlushesLocal, "local"),
    (Counter::FlushesRetagged, "by another tag"),
    (Counter::FlushesBroadcast, "by broadcast"),
    (Counter::FlushesIpis, "by interrupt"),
    (Counter::Interrupted, "CPUs interrupted"),
    (Counter::Pages, "pages"),
    (Counter::Faults, "faults"),
    (Counter::Spurious, "of them spurious"),
];

/// The counts at some moment.
#[derive(Debug)]
pub(crate) struct Report {
    counts: [usize; COUNTERS.len()],
    clock: u64,
}

impl Report {
    pub(crate) fn start() -> Self {
        let counts = COUNTERS.map(|(counter, _)| system::counter(counter));
        Self { counts, clock: system::clock() }
    }

    /// Prints a result and the counts since [`Self::start`], in which other programs may have a part.
    pub(crate) fn end(self, name: &str, done: fmt::Arguments<'_>) {
        let end = Self::start();
        println!("{name}: {done}{}", Difference(&self, &end));
    }
}

struct Difference<'r>(&'r Report, &'r Report);

impl fmt::Display for Difference<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (_, name)) in COUNTERS.iter().enumerate() {
            write!(to, ", {} {name}", self.1.counts[i].wrapping_sub(self.0.counts[i]))?;
        }
        write!(to, ", (emulated) {} ms", (self.1.clock - self.0.clock) / 1_000_000)
    }
}
