//! Runs the rounds on several threads.

use core::{panic::AssertUnwindSafe, time::Duration};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::{Condvar, Mutex, MutexGuard},
    thread,
    time::Instant,
};

use lookaside_machine::explore::{Budget, Report};

use super::{Checked, Found, Outcome, Round, Shard, Subject, demanded, round, rounds_for};

/// What to check.
pub struct Request {
    /// The scenarios.
    pub subjects: Vec<Subject>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The part of the rounds to run.
    pub shard: Shard,
    /// Limits.
    pub until: Until,
    /// Number of threads.
    pub threads: usize,
}

/// Limits of a check: the first one reached ends it. Only the limit of time interrupts a round that has
/// begun.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// Time.
    pub time: Duration,
    /// Steps.
    pub steps: u64,
    /// Rounds of every scenario.
    pub rounds: u32,
    /// Pre-emptions, at most [`DEEPEST`](super::DEEPEST), for which all schedules of every scenario must be
    /// explored, or the number [`demanded`](super::demanded) of it. The limits of steps and rounds apply only
    /// after that; the limit of time always.
    pub least: Option<u32>,
}

/// Progress of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Steps.
    pub steps: u64,
    /// Scenarios of which all schedules were explored.
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
    /// Whether demanded rounds are left.
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
    /// A thread has panicked in a round, which does not end.
    has_panicked: bool,
}

impl State {
    /// Selects the scenario for the next round. Scenarios with demanded rounds left come first, that with the
    /// lowest round before the others; then the scenario with the fewest steps so far, so that all get equal
    /// shares and exhausted scenarios leave theirs to the others.
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
    /// Other threads run all rounds that are left.
    Wait,
    Nothing,
}

/// Checks the scenarios. Calls `progress` before each round.
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
        state: Mutex::new(State { runners, steps: 0, has_panicked: false }),
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
    /// Signalled when a round ends.
    done: Condvar,
    progress: &'r (dyn Fn(Progress) + Sync),
}

impl Work<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the state")
    }

    fn run(&self) {
        while let Some((index, number, subject)) = self.next() {
            let left = self.request.until.time.saturating_sub(self.begin.elapsed());
            let round = round(subject.entry, number, self.request.seed, self.request.until.least);
            let explored = catch_unwind(AssertUnwindSafe(|| explore(&subject, round, left)));
            let mut state = self.lock();
            let (report, found) = match explored {
                Ok(explored) => explored,
                Err(panic) => {
                    state.has_panicked = true;
                    drop(state);
                    self.done.notify_all(); // Others wait for the end of this round.
                    resume_unwind(panic)
                }
            };
            state.steps += report.steps;
            let runner = &mut state.runners[index];
            runner.checked.add(number, round, &report, found);
            runner.busy = false;
            runner.next += self.request.shard.of;
            drop(state);
            self.done.notify_all();
        }
        // Wakes threads that wait for a round to end: no round follows.
        self.done.notify_all();
    }

    fn next(&self) -> Option<(usize, u32, Subject)> {
        let until = &self.request.until;
        let mut state = self.lock();
        loop {
            if self.begin.elapsed() >= until.time || state.has_panicked {
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

/// Runs one round.
fn explore(subject: &Subject, round: Round, left: Duration) -> (Report, Option<Found>) {
    use lookaside_scenarios::scenario::Depth;
    let mut explored = subject.entry.open();
    let within = |steps| Budget { steps, ..Budget::time(left) };
    let report = match round {
        Round::Bounded { preemptions, steps } => {
            explored.explore(Depth::Bounded(preemptions), within(steps))
        }
        Round::Exhaust { steps } => explored.explore(Depth::Exhaust, within(steps)),
        Round::Random { seed, schedules } => explored.chance(seed, schedules),
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
        State { runners: runners.collect(), steps, has_panicked: false }
    }

    /// The order in which scenarios get their next round.
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
    fn the_scenario_with_the_fewest_steps_is_next() {
        let mut state = state(&[(9, 50), (1, 70), (4, 10)], None);
        assert_eq!(order(&mut state, &UNTIL), [2, 0, 1]);
    }

    #[test]
    fn demanded_rounds_come_first_and_ignore_the_limits() {
        // Two pre-emptions are explored in the third round.
        let mut state = state(&[(9, 50), (1, 700), (2, 10), (3, 0)], Some(2));
        assert_eq!(order(&mut state, &UNTIL), [1, 2, 3, 0]);
        // When the step limit is reached, no other scenario goes on.
        state.runners.iter_mut().for_each(|runner| runner.busy = false);
        assert_eq!(order(&mut state, &Until { steps: 1, rounds: 0, ..UNTIL }), [1, 2]);
    }

    #[test]
    fn an_exhausted_scenario_gets_no_further_round() {
        let mut state = state(&[(0, 0), (1, 1)], Some(2));
        state.runners[0].checked.exhausted = true;
        assert_eq!(order(&mut state, &UNTIL), [1]);
    }
}
