//! What a trace holds, in numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Trace;

/// What a trace holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many CPUs.
    pub cpus: u32,
    /// How many threads existed when it began.
    pub tasks: usize,
    /// From the first event to the last, in nanoseconds.
    pub length: u64,
    /// How many events.
    pub events: usize,
    /// Events by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Events that the kernel had no room for.
    pub lost: u64,
    /// Events that are not of interest.
    pub foreign: u64,
    /// Lines that could not be read.
    pub damaged: u64,
    /// Events that had to be put in order.
    pub reordered: u64,
    /// Whether the end is missing.
    pub truncated: bool,
}

impl Summary {
    /// Of that trace.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let mut kinds = BTreeMap::new();
        for event in &trace.events {
            *kinds.entry(event.kind.word()).or_default() += 1;
        }
        let time = |event: Option<&super::Event>| event.map_or(0, |event| event.time);
        let (first, last) = (time(trace.events.first()), time(trace.events.last()));
        let losses = trace.origin.losses;
        Self {
            cpus: trace.origin.cpus,
            tasks: trace.tasks.len(),
            length: last.saturating_sub(first),
            events: trace.events.len(),
            kinds,
            lost: losses.lost,
            foreign: losses.foreign,
            damaged: losses.damaged,
            reordered: losses.reordered,
            truncated: losses.truncated,
        }
    }
}
