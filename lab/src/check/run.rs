//! Doing the rounds, on several threads.

use core::time::Duration;
use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
    time::Instant,
};

use lookaside_machine::explore::{Budget, Report};

use super::{Checked, Found, Outcome, Rung, Shard, Subject, rung};

/// What is to be checked.
pub struct Request {
    /// The scenarios.
    pub subjects: Vec<Subject>,
    /// What the random numbers begin with.
    pub seed: u64,
    /// Which of the rounds.
    pub shard: Shard,
    /// When it ends.
    pub until: Until,
    /// On how many threads.
    pub threads: usize,
}

/// When checking ends: with whatever comes first. A round that has begun is cut off by time, and by
/// nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// After so much time.
    pub time: Duration,
    /// After so many steps.
    pub steps: u64,
    /// After so many rounds of every scenario.
    pub rounds: u32,
}

/// How far checking has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Steps.
    pub steps: u64,
    /// Scenarios in which everything was explored.
    pub exhausted: usize,
    /// Scenarios in all.
    pub scenarios: usize,
    /// Scenarios in which a rule was broken.
    pub stale: usize,
    /// The round that began last.
    pub round: u32,
}

/// A scenario between its rounds.
struct Runner {
    subject: Subject,
    next: u32,
    busy: bool,
    checked: Checked,
}

impl Runner {
    fn is_over(&self) -> bool {
        self.checked.exhausted || self.checked.failure.is_some()
    }
}

struct State {
    runners: Vec<Runner>,
    steps: u64,
}

impl State {
    /// The scenario that is the furthest behind.
    fn take(&mut self, rounds: u32) -> Next {
        let open = |runner: &&mut Runner| !runner.is_over() && runner.next < rounds;
        let mut busy = false;
        let mut first: Option<(usize, u32)> = None;
        for (index, runner) in self.runners.iter_mut().enumerate() {
            if !open(&runner) {
                continue;
            }
            if runner.busy {
                busy = true;
            } else if first.is_none_or(|(_, round)| runner.next < round) {
                first = Some((index, runner.next));
            }
        }
        match first {
            Some((index, round)) => {
                self.runners[index].busy = true;
                Next::Round(index, round)
            }
            None if busy => Next::Wait,
            None => Next::Nothing,
        }
    }

    fn progress(&self, round: u32) -> Progress {
        Progress {
            steps: self.steps,
            exhausted: self.runners.iter().filter(|runner| runner.checked.exhausted).count(),
            scenarios: self.runners.len(),
            stale: self.runners.iter().filter(|r| r.checked.failure.is_some()).count(),
            round,
        }
    }
}

enum Next {
    Round(usize, u32),
    /// All that is left is being done by others.
    Wait,
    Nothing,
}

/// Checks, and tells `progress` before each round how far it has come.
pub fn run(request: &Request, progress: &(dyn Fn(Progress) + Sync)) -> Outcome {
    let begin = Instant::now();
    let runner = |(index, subject): (usize, &Subject)| {
        let mut next = 0;
        while !request.shard.has(index, next) {
            next += 1;
        }
        Runner { subject: *subject, next, busy: false, checked: Checked::new(subject) }
    };
    let runners = request.subjects.iter().enumerate().map(runner).collect();
    let work = Work {
        request,
        begin,
        state: Mutex::new(State { runners, steps: 0 }),
        done: Condvar::new(),
        progress,
    };
    thread::scope(|scope| {
        for _ in 0..request.threads.max(1) {
            scope.spawn(|| work.run());
        }
    });
    let state = work.state.into_inner().expect("no thread panics while it holds the state");
    let scenarios = state.runners.into_iter().map(|runner| runner.checked).collect();
    Outcome::new(request.seed, request.shard, scenarios, begin.elapsed().as_secs_f64())
}

struct Work<'r> {
    request: &'r Request,
    begin: Instant,
    state: Mutex<State>,
    /// Some round is over.
    done: Condvar,
    progress: &'r (dyn Fn(Progress) + Sync),
}

impl Work<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the state")
    }

    fn run(&self) {
        while let Some((index, round, subject)) = self.next() {
            let left = self.request.until.time.saturating_sub(self.begin.elapsed());
            let rung = rung(subject.entry, round, self.request.seed);
            let (report, found) = explore(&subject, rung, left);
            let mut state = self.lock();
            state.steps += report.steps;
            let runner = &mut state.runners[index];
            runner.checked.add(round, rung, &report, found);
            runner.busy = false;
            runner.next += self.request.shard.of;
            drop(state);
            self.done.notify_all();
        }
        // Who waits for a round to end learns that there will be no other.
        self.done.notify_all();
    }

    fn next(&self) -> Option<(usize, u32, Subject)> {
        let until = &self.request.until;
        let mut state = self.lock();
        loop {
            if self.begin.elapsed() >= until.time || state.steps >= until.steps {
                return None;
            }
            match state.take(until.rounds) {
                Next::Round(index, round) => {
                    (self.progress)(state.progress(round));
                    return Some((index, round, state.runners[index].subject));
                }
                Next::Nothing => return None,
                Next::Wait => {
                    state =
                        self.done.wait(state).expect("no thread panics while it holds the state");
                }
            }
        }
    }
}

/// Does one round.
fn explore(subject: &Subject, rung: Rung, left: Duration) -> (Report, Option<Found>) {
    use crate::scenario::Depth;
    let mut explored = subject.entry.open();
    let within = |steps| Budget { steps, ..Budget::time(left) };
    let report = match rung {
        Rung::Bounded { preemptions, steps } => {
            explored.explore(Depth::Bounded(preemptions), within(steps))
        }
        Rung::Exhaust { steps } => explored.explore(Depth::Exhaust, within(steps)),
        Rung::Chance { seed, schedules } => explored.chance(seed, schedules),
    };
    let found = report.failure.as_ref().map(|failure| {
        let short = explored.shrink(failure);
        Found {
            rule: short.violation.rule.to_string(),
            message: short.violation.message.clone(),
            schedule: short.schedule.to_string(),
        }
    });
    (report, found)
}
