//! Running all tasks of a job on the threads of this process.

use core::{
    num::NonZero,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use std::{sync::mpsc, thread};

use pyo3::prelude::*;

use super::job::{self, Work};

/// How often signals are looked for.
const SIGNALS: Duration = Duration::from_millis(100);

/// Runs all tasks, on so many threads. Between tasks an interrupt from the keyboard, or an exception of `progress`,
/// ends the run: no further task begins, and those that have begun come to their end.
pub(crate) fn run(
    py: Python<'_>,
    (work, digest): (&dyn Work, &str),
    threads: usize,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Vec<String>> {
    let tasks = work.tasks();
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    };
    // Relaxed: the number of a task is all that is passed on, and results come through the channel.
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut results: Vec<Option<String>> = vec![None; tasks];
    py.detach(|| {
        thread::scope(|scope| {
            let (send, receive) = mpsc::channel();
            for _ in 0..threads.min(tasks) {
                let (send, next, stop) = (send.clone(), &next, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let task = next.fetch_add(1, Ordering::Relaxed);
                        if task >= tasks
                            || send.send((task, job::result(work, digest, task))).is_err()
                        {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let mut done = 0;
            let ended = loop {
                let finished = match receive.recv_timeout(SIGNALS) {
                    Ok((task, result)) => {
                        results[task] = Some(result);
                        done += 1;
                        true
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => false,
                    Err(mpsc::RecvTimeoutError::Disconnected) => break Ok(()),
                };
                let told = Python::attach(|py| {
                    py.check_signals()?;
                    match progress {
                        Some(progress) if finished => progress.call1(py, (done, tasks)).map(drop),
                        _ => Ok(()),
                    }
                });
                if told.is_err() {
                    break told;
                }
            };
            stop.store(true, Ordering::Relaxed);
            ended
        })
    })?;
    Ok(results.into_iter().flatten().collect())
}
