//! A bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for so many runs. Where standard error is no terminal it shows nothing.
pub(crate) fn bar(runs: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} runs, {elapsed}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// A count of runs of which nobody knows how many they will be.
pub(crate) fn count() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{pos} runs, {elapsed}") {
        bar.set_style(style);
    }
    bar
}

/// How far checking has come, in millions of steps.
pub(crate) fn checking() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{pos} million steps, {elapsed}; {msg}") {
        bar.set_style(style);
    }
    bar
}

/// A count of events of which nobody knows how many they will be.
#[cfg(target_os = "linux")]
pub(crate) fn events() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{human_pos} events, {elapsed}") {
        bar.set_style(style);
    }
    bar
}

/// A bar for so many hundredths of what is to be done.
#[cfg(target_os = "linux")]
pub(crate) fn share() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent} %, {elapsed}") {
        bar.set_style(style);
    }
    bar
}
