//! Doing the rounds, on several threads.

use core::time::Duration;
use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
    time::Instant,
};

use lookaside_machine::explore::{Budget, Report};

use super::{Checked, Found, Outcome, Rung, Shard, Subject, demanded, rounds_for, rung};

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
    /// But, unless time is over, not before every scenario was explored with so many pre-emptions, or as
    /// many as are [`demanded`](super::demanded) of it, however many steps and rounds that takes;
    /// [`DEEPEST`](super::DEEPEST) at most.
    pub least: Option<u32>,
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
    /// Whether it has not had all the rounds that are demanded.
    fn is_behind(&self) -> bool {
        self.next < self.checked.demanded.map_or(0, rounds_for)
    }

    fn is_over(&self) -> bool {
        self.checked.exhausted || self.checked.failure.is_some()
    }
}

struct State {
    runners: Vec<Runner>,
    steps: u64,
}

impl State {
    /// The scenario that goes on. First those that have not come as far as is demanded, the furthest behind
    /// before the others; then the one that had the fewest steps so far, so that each has its fair share,
    /// and what some do not need is dealt out among the others.
    fn take(&mut self, until: &Until) -> Next {
        let may_go_on = self.steps < until.steps;
        let mut busy = false;
        let mut first: Option<(usize, (u32, u64))> = None;
        for (index, runner) in self.runners.iter().enumerate() {
            let behind = runner.is_behind();
            let may_go_on = behind || may_go_on && runner.next < until.rounds;
            if runner.is_over() || !may_go_on {
                continue;
            }
            let steps = runner.checked.steps;
            let key = if behind { (runner.next, steps) } else { (u32::MAX, steps) };
            if runner.busy {
                busy = true;
            } else if first.is_none_or(|(_, first)| key < first) {
                first = Some((index, key));
            }
        }
        match first {
            Some((index, _)) => {
                self.runners[index].busy = true;
                Next::Round(index, self.runners[index].next)
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
        let demanded = request.until.least.map(|least| demanded(subject.entry, least));
        let checked = Checked::new(subject, demanded);
        Runner { subject: *subject, next, busy: false, checked }
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
    Outcome::new(request, scenarios, begin.elapsed().as_secs_f64())
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
            let rung = rung(subject.entry, round, self.request.seed, self.request.until.least);
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
            if self.begin.elapsed() >= until.time {
                return None;
            }
            match state.take(until) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::select;

    fn state(scenarios: &[(u32, u64)], demanded: Option<u32>) -> State {
        let subject = select(&["tour".to_owned()]).expect("the tour")[0];
        let runners = scenarios.iter().map(|&(next, steps)| {
            let checked = Checked { steps, ..Checked::new(&subject, demanded) };
            Runner { subject, next, busy: false, checked }
        });
        let steps = scenarios.iter().map(|(_, steps)| steps).sum();
        State { runners: runners.collect(), steps }
    }

    /// The order in which they go on.
    fn order(state: &mut State, until: &Until) -> Vec<usize> {
        let next = || match state.take(until) {
            Next::Round(index, _) => Some(index),
            Next::Wait | Next::Nothing => None,
        };
        core::iter::from_fn(next).collect()
    }

    const UNTIL: Until =
        Until { time: Duration::MAX, steps: u64::MAX, rounds: u32::MAX, least: None };

    #[test]
    fn who_had_the_fewest_steps_goes_on() {
        let mut state = state(&[(9, 50), (1, 70), (4, 10)], None);
        assert_eq!(order(&mut state, &UNTIL), [2, 0, 1]);
    }

    #[test]
    fn who_is_behind_goes_first_whatever_it_costs() {
        // Two pre-emptions are explored in the third round.
        let mut state = state(&[(9, 50), (1, 700), (2, 10), (3, 0)], Some(2));
        assert_eq!(order(&mut state, &UNTIL), [1, 2, 3, 0]);
        // When there were steps enough, nobody else goes on.
        state.runners.iter_mut().for_each(|runner| runner.busy = false);
        assert_eq!(order(&mut state, &Until { steps: 1, rounds: 0, ..UNTIL }), [1, 2]);
    }

    #[test]
    fn who_is_exhausted_does_not_go_on() {
        let mut state = state(&[(0, 0), (1, 1)], Some(2));
        state.runners[0].checked.exhausted = true;
        assert_eq!(order(&mut state, &UNTIL), [1]);
    }
}
