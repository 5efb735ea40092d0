//! A bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar, or a count if nobody knows how much there is to do. Where standard error is no terminal it shows nothing.
pub(crate) fn styled(length: Option<u64>, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// A bar for so many runs.
pub(crate) fn bar(runs: usize) -> ProgressBar {
    styled(Some(runs as u64), "{bar:40} {pos} of {len} runs, {elapsed}, {eta} left")
}

/// How far checking has come, in millions of steps.
#[cfg(feature = "checks")]
pub(crate) fn checking() -> ProgressBar {
    styled(None, "{pos} million steps, {elapsed}; {msg}")
}
