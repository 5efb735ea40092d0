//! Lengths of time between things that happen at random.

use lookaside_machine::timed::{self, Ps};

/// An exponentially distributed time, by John von Neumann's method: comparisons of uniform numbers
/// alone, so that it is the same on every host.
pub(super) fn exponential(mean: Ps) -> Ps {
    let mut whole = 0;
    loop {
        let first = timed::random();
        let (mut last, mut odd) = (first, true);
        loop {
            let next = timed::random();
            if next >= last {
                break;
            }
            last = next;
            odd = !odd;
        }
        if odd {
            let part = (u128::from(first) * u128::from(mean)) >> 64;
            return whole * mean + part as u64;
        }
        whole += 1;
    }
}

/// True with a probability.
pub(super) fn happens(probability: f64) -> bool {
    (timed::random() >> 11) as f64 / ((1_u64 << 53) as f64) < probability
}
