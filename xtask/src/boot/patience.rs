//! How long an emulator may go on without getting anywhere.
//!
//! A loaded host is no failure of the kernel. So what counts is the processor time that the emulator has used
//! since a test last ended, where the system tells it, and not the time of day. A kernel that hangs with
//! all CPUs asleep uses none: the clock ends that, much later.

use core::time::Duration;
use std::fs;

/// By how much more the clock may advance than the processor time: what a host may be overloaded.
const OVERLOAD: u32 = 10;
/// In how many parts Linux counts a second of processor time (`USER_HZ`; `man 5 proc`).
const TICKS: u64 = 100;

/// How long an emulator may run without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// So long on a host that does nothing else.
    pub(super) time: Duration,
    /// With so many CPUs, each of which uses processor time of its own.
    pub(super) cpus: u32,
}

/// Watches one run.
pub(super) struct Watch {
    patience: Patience,
    progress: usize,
    used: Duration,
    clock: Duration,
}

impl Watch {
    pub(super) fn new(patience: Patience) -> Self {
        Self { patience, progress: 0, used: Duration::ZERO, clock: Duration::ZERO }
    }

    /// Whether there was no progress for too long. `progress` is how many tests have ended, `used` the
    /// processor time since the start, if it is known, and `clock` the time since the start.
    pub(super) fn is_over(
        &mut self,
        progress: usize,
        used: Option<Duration>,
        clock: Duration,
    ) -> bool {
        if progress > self.progress {
            self.progress = progress;
            self.used = used.unwrap_or_default();
            self.clock = clock;
        }
        let Patience { time, cpus } = self.patience;
        let waited = clock.saturating_sub(self.clock);
        match used {
            Some(used) => {
                used.saturating_sub(self.used) >= time.saturating_mul(cpus)
                    || waited >= time.saturating_mul(OVERLOAD)
            }
            None => waited >= time,
        }
    }
}

/// The processor time that a process and its threads have used; none where the system does not tell.
pub(super) fn processor_time(process: u32) -> Option<Duration> {
    used(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// What a line of `/proc/PID/stat` says: user and system time are its fields 14 and 15. The second, a name in
/// parentheses, may hold anything.
fn used(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(Duration::from_millis((user + system) * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch() -> Watch {
        Watch::new(Patience { time: 10 * SECOND, cpus: 4 })
    }

    #[test]
    fn a_loaded_host_is_no_failure() {
        let mut watch = watch();
        assert!(!watch.is_over(0, Some(2 * SECOND), 99 * SECOND), "it was given little to run on");
        assert!(!watch.is_over(0, Some(39 * SECOND), 99 * SECOND), "four CPUs for less than 10 s");
        assert!(watch.is_over(0, Some(40 * SECOND), 99 * SECOND));
    }

    #[test]
    fn a_kernel_that_sleeps_for_ever_is_stopped() {
        assert!(!watch().is_over(0, Some(SECOND), 99 * SECOND));
        assert!(watch().is_over(0, Some(SECOND), 100 * SECOND));
    }

    #[test]
    fn each_test_that_ends_gives_new_time() {
        let mut watch = watch();
        for test in 1..=20 {
            let now = test * 9 * SECOND;
            assert!(!watch.is_over(test as usize, Some(4 * now), now));
        }
        assert!(watch.is_over(20, Some(20 * 36 * SECOND + 40 * SECOND), 190 * SECOND));
    }

    #[test]
    fn where_processor_time_is_unknown_the_clock_decides() {
        assert!(!watch().is_over(0, None, 9 * SECOND));
        assert!(watch().is_over(0, None, 10 * SECOND));
    }

    #[test]
    fn processor_time_is_read_whatever_the_name_is() {
        let stat = "7 (a) R 1) S 1 7 7 0 -1 4194304 95 0 0 0 250 150 0 0 20 0 1 0 99 1 1";
        assert_eq!(used(stat), Some(4 * SECOND));
        assert_eq!(used("7 (a) S 1 7"), None);
        assert_eq!(used(""), None);
    }
}
