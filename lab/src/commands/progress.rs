//! How far the work has come, on standard error: a bar where that is a terminal, and elsewhere a line now and then of work
//! that takes long.

use core::time::Duration;
use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Instant,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lookaside_terminal::tell;

/// Work that takes no longer is done in silence where standard error is no terminal.
const QUIET: Duration = Duration::from_secs(5);
/// The longest time between two lines; up to that each comes twice as late as the one before.
const ROUND: Duration = Duration::from_secs(60);

/// A bar.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// It is dropped with the bar, which ends the lines; none on a terminal.
    _lines: Option<Sender<()>>,
}

impl Bar {
    /// So much more is done.
    pub(crate) fn inc(&self, more: u64) {
        self.bar.inc(more);
    }

    /// One more of so many is done; of how many is not known yet where it is 0.
    #[cfg(feature = "traces")]
    pub(crate) fn of(&self, length: u64) {
        if length > 0 {
            self.bar.set_length(length);
        }
        self.inc(1);
    }

    #[cfg(any(feature = "checks", all(feature = "traces", target_os = "linux")))]
    pub(crate) fn set_position(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// What is done besides.
    pub(crate) fn set_message(&self, message: String) {
        self.bar.set_message(message);
    }

    pub(crate) fn finish_and_clear(self) {
        self.bar.finish_and_clear();
    }
}

/// A bar, or a count if it is not known how much there is to do. `unit` is what is counted, in the plural.
pub(crate) fn styled(length: Option<u64>, template: &str, unit: &'static str) -> Bar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    // The first of it may take long.
    bar.tick();
    // By a thread of its own: a single piece of the work may take minutes.
    let lines = bar.is_hidden().then(|| {
        let (sender, ended) = mpsc::channel();
        let bar = bar.clone();
        thread::spawn(move || {
            tell(QUIET, &ended, &mut |elapsed| tell!("{}", line(&bar, unit, elapsed)));
        });
        sender
    });
    Bar { bar, _lines: lines }
}

/// Tells, first after `first`, until the work has ended.
fn tell(first: Duration, ended: &Receiver<()>, say: &mut dyn FnMut(Duration)) {
    let begin = Instant::now();
    let mut next = first;
    while ended.recv_timeout(next.saturating_sub(begin.elapsed())) == Err(RecvTimeoutError::Timeout)
    {
        say(begin.elapsed());
        next += next.min(ROUND);
    }
}

/// How far it has come.
fn line(bar: &ProgressBar, unit: &str, elapsed: Duration) -> String {
    let (done, seconds) = (bar.position(), elapsed.as_secs());
    let message = bar.message();
    let more = if message.is_empty() { String::new() } else { format!("; {message}") };
    match bar.length().filter(|&length| length > 0) {
        Some(length) => {
            let left = match seconds * length.saturating_sub(done) {
                _ if done == 0 || done >= length => String::new(),
                left => format!(", about {} s are left", left / done),
            };
            format!("{done} of {length} {unit} done after {seconds} s{left}{more}")
        }
        None => format!("{done} {unit} after {seconds} s{more}"),
    }
}

/// A bar for so many runs.
pub(crate) fn bar(runs: usize) -> Bar {
    styled(Some(runs as u64), "{bar:40} {pos} of {len} runs, {elapsed}, {eta} left", "runs")
}

/// How far checking has come, in millions of steps.
#[cfg(feature = "checks")]
pub(crate) fn checking() -> Bar {
    styled(None, "{pos} million steps, {elapsed}; {msg}", "million steps")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(length: Option<u64>) -> ProgressBar {
        ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden())
    }

    #[test]
    fn a_line_says_what_is_done_and_what_is_left() {
        let bar = hidden(Some(40));
        let after = |bar: &ProgressBar| line(bar, "runs", Duration::from_millis(10_900));
        assert_eq!(after(&bar), "0 of 40 runs done after 10 s");
        bar.inc(10);
        assert_eq!(after(&bar), "10 of 40 runs done after 10 s, about 30 s are left");
        let bar = hidden(None);
        bar.set_position(7);
        bar.set_message("round 2: 3 of 5 scenarios");
        let said = line(&bar, "million steps", Duration::from_secs(5));
        assert_eq!(said, "7 million steps after 5 s; round 2: 3 of 5 scenarios");
    }

    /// Nobody else says that the work goes on while one piece of it lasts.
    #[test]
    fn lines_come_though_nothing_is_counted_and_end_with_the_work() {
        let (sender, ended) = mpsc::channel::<()>();
        let (said, heard) = mpsc::channel();
        let teller = thread::spawn(move || {
            tell(Duration::from_millis(1), &ended, &mut |_| said.send(()).unwrap());
        });
        for _ in 0..4 {
            heard.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        drop(sender);
        teller.join().unwrap();
    }
}
