//! How far the work has come, on standard error: a bar where that is a terminal, and elsewhere a line now and then of work
//! that takes long.

use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes no longer is done in silence where standard error is no terminal.
const QUIET: Duration = Duration::from_secs(20);
/// How often it is told how far work has come whose amount is not known in advance.
const ROUND: u64 = 60;

/// A bar.
pub(crate) struct Bar {
    bar: ProgressBar,
    begin: Instant,
    /// How often a line was written, by tenths or by rounds.
    told: AtomicU64,
}

impl Bar {
    /// So much more is done.
    pub(crate) fn inc(&self, more: u64) {
        self.bar.inc(more);
        let (elapsed, done) = (self.begin.elapsed(), self.bar.position());
        if !self.bar.is_hidden() || elapsed < QUIET {
            return;
        }
        let length = self.bar.length().filter(|&length| length > 0);
        let seconds = elapsed.as_secs();
        let part = length.map_or(seconds / ROUND, |length| 10 * done / length);
        if self.told.fetch_max(part + 1, Ordering::Relaxed) > part {
            return;
        }
        match length {
            Some(length) => {
                let left = seconds * length.saturating_sub(done) / done.max(1);
                eprintln!(
                    "{done} of {length} runs are done after {seconds} s, about {left} s are left"
                );
            }
            None => eprintln!("{done} runs are done after {seconds} s"),
        }
    }

    /// One more of so many is done; of how many is not known yet where it is 0.
    pub(crate) fn of(&self, length: u64) {
        if length > 0 {
            self.bar.set_length(length);
        }
        self.inc(1);
    }

    /// Whether standard error is no terminal.
    pub(crate) fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    pub(crate) fn set_position(&self, position: u64) {
        self.bar.set_position(position);
    }

    #[cfg(feature = "checks")]
    pub(crate) fn set_message(&self, message: String) {
        self.bar.set_message(message);
    }

    pub(crate) fn finish_and_clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar, or a count if it is not known how much there is to do.
pub(crate) fn styled(length: Option<u64>, template: &str) -> Bar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    // The first of it may take long.
    bar.tick();
    Bar { bar, begin: Instant::now(), told: AtomicU64::new(0) }
}

/// A bar for so many runs.
pub(crate) fn bar(runs: usize) -> Bar {
    styled(Some(runs as u64), "{bar:40} {pos} of {len} runs, {elapsed}, {eta} left")
}

/// How far checking has come, in millions of steps.
#[cfg(feature = "checks")]
pub(crate) fn checking() -> Bar {
    styled(None, "{pos} million steps, {elapsed}; {msg}")
}
