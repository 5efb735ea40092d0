//! How long, and in how much memory, tests are run before they count as not finished.

use core::time::Duration;
use std::time::Instant;

use lookaside_machine::litmus::Effort;

/// What a single run of a test may take.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Bytes, as far as the machine can estimate what its states take up.
    pub bytes: usize,
    /// When it must have ended.
    pub until: Option<Instant>,
}

/// What a run may take up in memory if nothing else is said.
const BYTES: usize = 1 << 30;

impl Default for Bound {
    /// A gibibyte, and no limit in time.
    fn default() -> Self {
        Self { bytes: BYTES, until: None }
    }
}

impl Bound {
    /// Whether a run has taken what it may.
    #[must_use]
    pub fn is_reached(self, effort: Effort) -> bool {
        effort.bytes > self.bytes || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// How much time is left, if that is bounded.
    #[must_use]
    pub fn left(self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

/// A bound on many runs together: each gets its share of what time the runs before it have left.
/// So a run that is long takes nothing from those after it, and short ones leave theirs to others.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    bound: Bound,
    runs: u32,
}

impl Shares {
    /// `runs` runs that must end within `bound`, which has memory for each.
    #[must_use]
    pub fn new(bound: Bound, runs: usize) -> Self {
        Self { bound, runs: u32::try_from(runs).unwrap_or(u32::MAX) }
    }

    /// The bound of the next run.
    pub fn next_bound(&mut self) -> Bound {
        let now = Instant::now();
        let runs = self.runs.max(1);
        self.runs = runs - 1;
        let share = |until: Instant| now + until.saturating_duration_since(now) / runs;
        Bound { until: self.bound.until.map(share), ..self.bound }
    }
}
