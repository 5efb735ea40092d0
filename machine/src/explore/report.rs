//! A failure as a table that a person can read, 100 columns wide.

use core::{fmt::Write, panic::Location};

use super::{Explorer, Failure, Replay, ScheduleError};
use crate::adversary::Line;

const WIDTH: usize = 100;
const PLACE: usize = 28;

impl Explorer {
    /// Replays a failure and writes down what happens: the step, the CPU, the place in the
    /// source, the operation; under it what it did to buffers and TLBs; and what was broken.
    ///
    /// # Errors
    ///
    /// Those of [`Self::replay`].
    pub fn explain(&mut self, failure: &Failure) -> Result<String, ScheduleError> {
        let replay = self.replay(&failure.schedule)?;
        Ok(table(failure, &replay, self.executor.scenario().config().cpus))
    }
}

fn table(failure: &Failure, replay: &Replay, cpus: usize) -> String {
    let mut out = String::new();
    let columns = if cpus <= 8 { cpus * 2 } else { 4 };
    let head = (0..cpus).fold(String::new(), |head, cpu| head + &format!("{cpu} "));
    let head = if cpus <= 8 { head } else { "cpu ".to_owned() };
    let _ = writeln!(out, "schedule {}", failure.schedule);
    let _ = writeln!(out, " step {head} {:PLACE$} what happens", "where");
    for line in &replay.lines {
        let step = line.step.map_or(String::new(), |step| step.to_string());
        let place = line.location.map_or(String::new(), place);
        let text = if line.step.is_some() { line.text.clone() } else { format!("  {}", line.text) };
        let before = format!("{step:>5} {} {place:PLACE$} ", mark(line, cpus));
        let room = WIDTH - (8 + columns + PLACE);
        for (index, part) in wrap(&text, room).into_iter().enumerate() {
            let indent = " ".repeat(before.chars().count() + 2);
            let _ = writeln!(out, "{}{part}", if index == 0 { &before } else { &indent });
        }
    }
    let end = match &replay.violation {
        Some(violation) => format!("broken: {violation}"),
        None => "nothing was broken this time".to_owned(),
    };
    for part in wrap(&end, WIDTH) {
        let _ = writeln!(out, "{part}");
    }
    // No line ends in blanks.
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The columns of the CPUs, with a mark in that of the line.
fn mark(line: &Line, cpus: usize) -> String {
    if cpus > 8 {
        return format!("{:<4}", line.cpu);
    }
    let own = if line.step.is_some() { '#' } else { ':' };
    (0..cpus).flat_map(|cpu| [if cpu == line.cpu { own } else { '.' }, ' ']).collect()
}

/// As much of the end of the path as there is room for, and the line.
fn place(location: &Location<'_>) -> String {
    let line = location.line().to_string();
    let room = PLACE.saturating_sub(line.len() + 1);
    let mut path = location.file();
    while path.chars().count() > room
        && let Some((_, rest)) = path.split_once('/')
    {
        path = rest;
    }
    let skip = path.chars().count().saturating_sub(room);
    let end: String = path.chars().skip(skip).collect();
    format!("{end}:{line}")
}

/// Breaks at blanks so that no part is wider than `width`, unless a word is.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut room = width;
    // The blanks that a text begins with are its indentation.
    let indent = text.len() - text.trim_start().len();
    parts[0].push_str(&text[..indent]);
    room -= indent.min(room);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let last = parts.last_mut().map_or(0, |part| part.trim_start().len());
        if last > 0 && length + 1 > room {
            parts.push(String::new());
            room = width - 2;
        }
        if let Some(part) = parts.last_mut() {
            if !part.trim_start().is_empty() {
                part.push(' ');
                room = room.saturating_sub(1);
            }
            part.push_str(word);
            room = room.saturating_sub(length);
        }
    }
    parts
}
