//! Explorers: strategies that choose which executions of a scenario are run.
//!
//! Of an execution only its choices are stored: an explorer begins each execution anew, and the machine
//! undoes the one before. The choices are which CPU executes its next operation, which CPU takes a pending
//! interrupt or an NMI, which buffered store reaches memory, which of several translations an access
//! uses, and which value an early load returns.
//!
//! * [`Explorer::exhaust`] runs every execution.
//! * [`Explorer::bounded`] runs every execution with at most so many pre-emptions. While the CPU that
//!   executed the last step can continue, any other choice costs one: another CPU, an interrupt, a buffered
//!   store; and so does an early load. If that CPU cannot continue, every choice is free.
//!   [`Explorer::deepen`] raises the bound step by step.
//! * [`Explorer::random`] and [`Explorer::pct`] choose at random, for scenarios that are too large.
//!
//! # Why exhausting leaves nothing out
//!
//! Five kinds of executions are skipped, the last three by [`Explorer::exhaust`] alone.
//!
//! **A state that was reached before.** A program is a function of the results of its operations, so a
//! CPU's part of a state is the hash of all results since its program began, or since its last
//! [`milestone`](crate::adversary::milestone). A waiting loop that gets the same results in two rounds is
//! in the same state ([`relax`](crate::adversary::relax)); the results of an interrupt handler are dropped
//! when it returns, since it has no effect but on words. The rest of the state is memory, the store
//! buffers, old values that early loads may still return, registers, TLBs, invalidations under way,
//! pending and masked interrupts, and the state of the oracle. Two executions that reach the same state have
//! the same futures, and the first visit explores all of them. States are compared by 64-bit hashes: among
//! ten million, the chance that any two are confused is about 3 in a million.
//!
//! **The turn of a local operation.** An operation is executed as soon as it is announced if it is
//! enabled and commutes with every transition of other CPUs before it: a plain store into a store
//! buffer, a fence or `DSB` with nothing to wait for, the read of a register, the end of a program
//! with an empty buffer. Each is a persistent set of one: whichever transition comes first, it stays enabled,
//! does the same, and does not change what other CPUs do. Where an interrupt or an NMI of the same
//! CPU could come in between and see the difference, the operation is not local. As every local operation
//! advances its program and executions are bounded, none of the others is put off for ever. A claim
//! to the oracle after a local operation does not commute, and is a step of its own.
//! [`relax`](crate::adversary::relax) is local, too, once anything has changed: to go around a
//! waiting loop early adds rounds, and takes none away.
//!
//! **An equivalent order.** Two transitions commute if different CPUs go on in them, they do
//! nothing but read and write words, neither writes what the other reads or writes, and no CPU begins to
//! wait. The footprint is that of the executed transition, not of the announced one: a transition is
//! everything from one choice to the next. Where a choice was tried together with all that can follow it, it
//! *sleeps* after its siblings for as long as the transitions commute with it: to choose it there leads to a
//! state that was reached in the other order. These are sleep sets, with states (P. Godefroid, *Partial-Order
//! Methods for the Verification of Concurrent Systems*, LNCS 1032, 1996, chapters 5 and 6): with each state
//! its sleep set is stored, and transitions that sleep no more at a later visit are tried then. Sleep
//! sets leave out transitions and no states.
//!
//! **A store that reaches memory before any CPU reads it.** While no other CPU is about to touch the word of
//! a buffered store, none has one to the same word, no walker reads it, and nothing that is behind it in the
//! buffer is in one of these cases, it makes no difference whether the store has reached memory: it may
//! do so later, just before another CPU reads the word, or when its own CPU waits for it. If no other
//! transition is enabled, or a CPU waits for any change, or loads are early, the store is a choice like
//! any other.
//!
//! **The turn of an operation on a word that only one CPU accesses.** Such a load or atomic operation, before
//! which no store of the CPU has to reach memory, commutes with every transition of other CPUs, and is
//! chosen at once. All executions so far have shown that only one CPU accesses the word; if a later one shows
//! otherwise, exploration begins anew, and a touch by another CPU that would be missed for it cannot be the
//! first one. If the transition turns out to be more than words, because a claim to the oracle follows, the
//! other choices are tried after all.
//!
//! `tests/reductions.rs` compares this with [`Explorer::exhaust_plainly`], which skips nothing.

mod casemate;
mod chance;
mod depth_first;
mod exhaust;
mod graph;
mod replay;
mod report;
mod schedule;
mod shrink;

use core::{panic::Location, time::Duration};
use std::{collections::BTreeSet, time::Instant};

use crate::adversary::{
    Scenario, Violation,
    execution::{Choice, Chooser, End, Executor, Point},
};

pub use casemate::Exported;
pub use graph::{Edge, Graph, State};
pub use replay::Replay;
pub use schedule::{Schedule, ScheduleError};

/// The limit at which an explorer gives up.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// After how many executions.
    pub schedules: u64,
    /// After how many steps of all executions together.
    pub steps: u64,
    /// After how much time.
    pub time: Duration,
}

impl Budget {
    /// No end.
    pub const UNLIMITED: Self = Self { schedules: u64::MAX, steps: u64::MAX, time: Duration::MAX };

    /// A number of executions.
    #[must_use]
    pub const fn schedules(schedules: u64) -> Self {
        Self { schedules, ..Self::UNLIMITED }
    }

    /// A number of steps. What is explored within it is the same on every machine.
    #[must_use]
    pub const fn steps(steps: u64) -> Self {
        Self { steps, ..Self::UNLIMITED }
    }

    /// A time.
    #[must_use]
    pub const fn time(time: Duration) -> Self {
        Self { time, ..Self::UNLIMITED }
    }
}

/// An execution that broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it broke.
    pub violation: Violation,
    /// How to get there.
    pub schedule: Schedule,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}\n  schedule {}", self.violation, self.schedule)
    }
}

/// What an explorer did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Executions, abandoned ones included.
    pub schedules: u64,
    /// Steps of all executions.
    pub steps: u64,
    /// Different states at which more than one thing could happen; 0 if none were counted.
    pub states: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether everything was explored that the explorer is for.
    pub complete: bool,
    /// What executions came to: see [`crate::adversary::outcome`].
    pub outcomes: BTreeSet<u64>,
    /// What happened in at least one execution: see [`crate::adversary::saw`].
    pub seen: BTreeSet<&'static str>,
    /// Where in the source operations were executed.
    pub sites: BTreeSet<&'static Location<'static>>,
    /// The first failure; exploration ends with it.
    pub failure: Option<Failure>,
}

impl Report {
    /// # Panics
    ///
    /// If exploration was not complete or found a failure.
    #[track_caller]
    pub fn assert_proved(&self) {
        if let Some(failure) = &self.failure {
            panic!("{failure}");
        }
        assert!(self.complete, "gave up after {} schedules", self.schedules);
    }

    /// The rule that was broken.
    ///
    /// # Panics
    ///
    /// If none was.
    #[track_caller]
    #[must_use]
    pub fn broken(&self) -> crate::adversary::Rule {
        self.failure.as_ref().expect("a rule is broken").violation.rule
    }
}

/// A scenario that can be explored in several ways, one after the other.
///
/// An explorer belongs to one thread; several can run at the same time on several threads.
///
/// Its type does not name the scenario's: exploring is compiled once, whatever is explored.
pub struct Explorer {
    executor: Executor,
}

/// Remembers what was chosen.
struct Recorded<C> {
    chooser: C,
    chosen: Vec<u32>,
    /// How many of the choices were that a CPU that could go on did not.
    preemptions: u32,
}

impl<C> Recorded<C> {
    fn new(chooser: C) -> Self {
        Self { chooser, chosen: Vec::with_capacity(256), preemptions: 0 }
    }

    fn restart(&mut self) {
        self.chosen.clear();
        self.preemptions = 0;
    }
}

impl<C: Chooser> Chooser for Recorded<C> {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        let index = self.chooser.choose(point)?;
        self.chosen.push(index as u32);
        self.preemptions += u32::from(point.goes_on && index != 0);
        Some(index)
    }
}

/// Decides what every execution chooses, until nothing is left to explore.
trait Strategy: Chooser {
    /// Prepares the next execution; `false` if there is none.
    fn next(&mut self) -> bool;

    /// How many states it has seen.
    fn states(&self) -> u64 {
        0
    }
}

impl Explorer {
    /// Builds the world of a scenario.
    pub fn new(scenario: impl Scenario) -> Self {
        Self { executor: Executor::new(scenario) }
    }

    /// The name that schedules of the scenario carry.
    #[must_use]
    pub fn name(&self) -> String {
        self.executor.scenario().name()
    }

    fn explore(&mut self, strategy: &mut impl Strategy, budget: Budget) -> Report {
        let begin = Instant::now();
        let (steps, executions) = (self.executor.steps, self.executor.executions);
        let mut outcomes = BTreeSet::new();
        self.executor.take_seen();
        let _ = self.executor.take_sites();
        let mut failure = None;
        let mut complete = false;
        loop {
            let done = self.executor.executions - executions;
            let timed_out = done.is_multiple_of(64) && begin.elapsed() >= budget.time;
            let spent = self.executor.steps - steps >= budget.steps;
            if done >= budget.schedules || spent || timed_out {
                break;
            }
            if !strategy.next() {
                complete = true;
                break;
            }
            let mut recorded = Recorded::new(&mut *strategy);
            recorded.restart();
            match self.executor.execute(&mut recorded) {
                End::Abandoned => {}
                End::Done => outcomes.extend(self.executor.outcome()),
                End::Violated(violation) => {
                    let name = self.executor.scenario().name();
                    let schedule = Schedule::new(name, &recorded.chosen);
                    failure = Some(Failure { violation, schedule });
                    break;
                }
            }
        }
        Report {
            schedules: self.executor.executions - executions,
            steps: self.executor.steps - steps,
            states: strategy.states(),
            elapsed: begin.elapsed(),
            complete,
            outcomes,
            seen: self.executor.take_seen().into_iter().collect(),
            sites: self.executor.take_sites(),
            failure,
        }
    }
}

impl<C: Chooser + ?Sized> Chooser for &mut C {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        (**self).choose(point)
    }
}
