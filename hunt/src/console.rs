//! The guest's console: read as it comes, answered by a script.

use std::{
    io::{Read, Write},
    process::{ChildStdin, ChildStdout},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Instant,
};

use crate::kernel::Line;

/// What was said so far.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<String>>);

impl Said {
    /// Collects what the guest says, in a thread of its own.
    pub(crate) fn collect(mut from: ChildStdout) -> Self {
        let said = Self::default();
        let into = said.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                into.with(|text| text.push_str(&String::from_utf8_lossy(&buffer[..length])));
            }
        });
        said
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut String) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where a script has got to.
pub(crate) struct Script<'a> {
    lines: &'a [Line],
    next: usize,
    /// How much of the console the lines before have used up.
    heard: usize,
    since: Instant,
}

impl<'a> Script<'a> {
    pub(crate) fn new(lines: &'a [Line]) -> Self {
        Self { lines, next: 0, heard: 0, since: Instant::now() }
    }

    /// Says the next line if what it waits for has come.
    pub(crate) fn go_on(&mut self, said: &Said, to: &mut ChildStdin) {
        let Some(line) = self.lines.get(self.next) else { return };
        let found =
            said.with(|text| Some(text.get(self.heard..)?.find(&line.wait)? + line.wait.len()));
        let Some(found) = found else { return };
        self.heard += found;
        self.next += 1;
        self.since = Instant::now();
        // If the guest is gone, the end of the run says so.
        let _ = to.write_all(format!("{}\n", line.say).as_bytes()).and_then(|()| to.flush());
    }

    /// The line whose words never came.
    pub(crate) fn stuck(&self) -> Option<String> {
        let line = self.lines.get(self.next)?;
        let seconds = self.since.elapsed().as_secs();
        Some(format!(
            "the script waited {seconds} s for `{}`, to say `{}`, and it never came; line {} of {} was the \
             last that was said",
            line.wait,
            line.say,
            self.next,
            self.lines.len()
        ))
    }
}
