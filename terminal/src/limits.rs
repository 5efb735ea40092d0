//! Limits of a run, as arguments.

use core::{num::NonZero, time::Duration};

/// The longest time that is taken: 31 years. A clock can be that much ahead, and nobody waits longer.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);
/// The most threads. Each has a stack: a million of them would keep a machine busy before any work begins.
const MOST: usize = 4096;

/// A time in seconds, above 0.
///
/// # Errors
///
/// If it is none.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero() && *time <= LONGEST)
        .ok_or_else(|| "a time is a number of seconds above 0, and at most 1e9".to_owned())
}

/// A number of threads.
///
/// # Errors
///
/// If there cannot be as many.
pub fn threads(text: &str) -> Result<NonZero<usize>, String> {
    let number = text.parse().ok().filter(|&number| number <= MOST).and_then(NonZero::new);
    number.ok_or_else(|| format!("there can be 1 to {MOST} threads"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_above_zero_and_one_that_a_clock_can_reach() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("1e9"), Ok(Duration::from_secs(1_000_000_000)));
        for bad in ["0", "-0", "-1", "nan", "inf", "1e300", "1e-300", "", "1s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn there_are_some_threads_and_not_too_many() {
        assert_eq!(threads("4096").map(NonZero::get), Ok(4096));
        for bad in ["0", "4097", "1000000", "-1", "x"] {
            assert!(threads(bad).is_err(), "{bad}");
        }
    }
}
