//! Running a small program in every way that loom can tell apart.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use lookaside::counts::Outcome;

use crate::{
    arena,
    word::{self, Reading},
};

/// How far loom looks.
#[derive(Clone, Copy, Debug)]
pub struct Exploration {
    /// The name of the program, for the line that is printed.
    pub name: &'static str,
    /// How often a thread may be interrupted by another where it need not wait.
    pub preemptions: Option<usize>,
    /// The outcomes that flushes must have had, each in some execution; otherwise a path was not reached.
    pub outcomes: &'static [Outcome],
}

/// How many operations one execution may have.
const BRANCHES: usize = 10_000;

/// Runs `program` in every way that loom can tell apart, under both readings of `SeqCst`, and prints how
/// many those were. The program is given a place for how its flushes ended.
///
/// # Panics
///
/// If an execution fails, or if an expected outcome is missing.
pub fn explore(exploration: Exploration, program: fn(&'static Mutex<Vec<Outcome>>)) {
    let Exploration { name, preemptions, outcomes } = exploration;
    for reading in [Reading::FenceAfterStores, Reading::FenceBeforeLoads] {
        let seen: &'static Mutex<Vec<Outcome>> = Box::leak(Box::default());
        let executions = Arc::new(AtomicUsize::new(0));
        let mut builder = loom::model::Builder::new();
        builder.max_branches = BRANCHES;
        builder.preemption_bound = builder.preemption_bound.or(preemptions);
        let started = Instant::now();
        let counter = Arc::clone(&executions);
        builder.check(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            // SAFETY: loom has ended all threads of the last execution, and the program has kept
            // nothing outside.
            unsafe { arena::clear() };
            word::begin(reading);
            program(seen);
        });
        println!(
            "{name}, {reading:?}: {} executions in {:.1} s",
            executions.load(Ordering::Relaxed),
            started.elapsed().as_secs_f64(),
        );
        let seen = seen.lock().expect("nobody panics with it");
        for outcome in outcomes {
            assert!(seen.contains(outcome), "no execution ended with {outcome:?}");
        }
    }
}
