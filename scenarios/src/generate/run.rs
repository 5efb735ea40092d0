//! A run: programs are drawn one after the other, and explored on several threads.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Condvar, Mutex, MutexGuard},
    thread,
    time::Instant,
};

use lookaside_machine::adversary::Rule;

use super::{
    corpus::Corpus,
    draw,
    explore::{Found, effort_for, explore},
    pairs::{Pairs, Tally},
    random::Random,
    shorten::shorten,
};
use crate::scenario::Program;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The seed of the random numbers.
    pub seed: u64,
    /// The run ends after so many programs.
    pub scripts: u64,
    /// The run ends after so many steps.
    pub steps: u64,
    /// The run ends after so much time. Then the result depends on the clock.
    pub time: Duration,
    /// About how many steps each program is explored for.
    pub effort: u64,
    /// The run ends after so many programs that fail.
    pub failures: usize,
    /// On how many threads.
    pub threads: usize,
}

/// A program that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The number of the program that was drawn.
    pub number: u64,
    /// The seed that it was drawn from, and explored with.
    pub seed: u64,
    /// The program, shortened.
    pub script: String,
    /// A shortened schedule that replays it.
    pub schedule: String,
    /// The rule.
    pub rule: String,
    /// What happened.
    pub message: String,
    /// The program panicked.
    pub panicked: bool,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Programs.
    pub scripts: u64,
    /// Steps.
    pub steps: u64,
    /// Pairs of operations.
    pub pairs: Tally,
    /// Programs that fail.
    pub failures: usize,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Programs.
    pub scripts: u64,
    /// Steps of all executions of all programs.
    pub steps: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Pairs of operations on one space.
    pub pairs: Tally,
    /// The events that were observed.
    pub seen: BTreeSet<&'static str>,
    /// The places of the library's source at which a program has executed an operation of the machine.
    pub sites: BTreeSet<Site>,
    /// Programs that break a rule, by their number.
    pub failures: Vec<Failing>,
}

/// A place in the source: file and line.
pub type Site = (&'static str, u32);

/// A program is drawn with the results of all but so many before it, so that threads need not wait for each
/// other, and the same programs are drawn with any number of threads.
const BEHIND: u64 = 64;

/// How the paths of the library's source begin.
const LIBRARY: &str = "lookaside/src/";

impl Outcome {
    /// How many programs break a rule, but for panics.
    #[must_use]
    pub fn stale(&self) -> usize {
        self.failures.iter().filter(|failing| !failing.panicked).count()
    }

    /// How many panic.
    #[must_use]
    pub fn panics(&self) -> usize {
        self.failures.len() - self.stale()
    }
}

/// A program that is to be explored.
struct Drawn {
    number: u64,
    seed: u64,
    program: Program,
    /// The pairs of all programs up to this one.
    pairs: Tally,
}

/// The result of a program.
struct Done {
    number: u64,
    pairs: Tally,
    steps: u64,
    failing: Option<Failing>,
}

struct State {
    random: Random,
    pairs: Pairs,
    corpus: Corpus,
    /// What is not in the corpus yet, by the number of the program.
    learnt: BTreeMap<u64, (Program, BTreeSet<Site>)>,
    drawn: u64,
    done: Vec<Done>,
    /// What was seen, and which places were come to; each with the number of the first program.
    seen: BTreeMap<&'static str, u64>,
    sites: BTreeMap<Site, u64>,
    steps: u64,
    failures: usize,
}

impl State {
    /// Adds the result of a program.
    fn add(&mut self, drawn: &Drawn, found: &Found, failing: Option<Failing>) {
        let number = drawn.number;
        let first = |known: &mut u64| *known = number.min(*known);
        for &what in &found.seen {
            self.seen.entry(what).and_modify(first).or_insert(number);
        }
        let sites = found.sites.iter().map(|place| (place.file(), place.line()));
        let sites: BTreeSet<_> = sites.filter(|(file, _)| file.starts_with(LIBRARY)).collect();
        for &site in &sites {
            self.sites.entry(site).and_modify(first).or_insert(number);
        }
        self.learnt.insert(number, (drawn.program.clone(), sites));
        self.steps += found.steps;
        self.failures += usize::from(failing.is_some());
        let pairs = drawn.pairs;
        self.done.push(Done { number, pairs, steps: found.steps, failing });
    }

    /// Takes into the corpus what the next program may know of. Says whether that is there.
    fn learn(&mut self) -> bool {
        let Some(last) = self.drawn.checked_sub(BEHIND) else { return true };
        // The program before it was drawn with all but this one.
        match self.learnt.remove(&last) {
            Some((program, sites)) => self.corpus.add(program, sites.into_iter()),
            None => return false,
        }
        true
    }
}

struct Work<'r> {
    request: &'r Request,
    begin: Instant,
    state: Mutex<State>,
    /// A program is done.
    done: Condvar,
    progress: &'r (dyn Fn(Progress) + Sync),
}

/// Draws programs and explores them, and tells `progress` after each how far it has come.
pub fn run(request: &Request, progress: &(dyn Fn(Progress) + Sync)) -> Outcome {
    let begin = Instant::now();
    let state = State {
        random: Random::new(request.seed),
        pairs: Pairs::new(),
        corpus: Corpus::default(),
        learnt: BTreeMap::new(),
        drawn: 0,
        done: Vec::new(),
        seen: BTreeMap::new(),
        sites: BTreeMap::new(),
        steps: 0,
        failures: 0,
    };
    let work = Work { request, begin, state: Mutex::new(state), done: Condvar::new(), progress };
    thread::scope(|scope| {
        for _ in 0..request.threads.max(1) {
            scope.spawn(|| work.run());
        }
    });
    let state = work.state.into_inner().expect("no thread panics while it holds the state");
    sum(request, state, begin.elapsed())
}

/// What came after the last failure that was asked for is not counted: how much that is depends on the
/// threads.
fn sum(request: &Request, mut state: State, time: Duration) -> Outcome {
    state.done.sort_by_key(|done| done.number);
    let mut outcome = Outcome {
        scripts: 0,
        steps: 0,
        seconds: time.as_secs_f64(),
        pairs: Pairs::new().tally(),
        seen: BTreeSet::new(),
        sites: BTreeSet::new(),
        failures: Vec::new(),
    };
    for done in state.done {
        outcome.scripts += 1;
        outcome.steps += done.steps;
        outcome.pairs = done.pairs;
        outcome.failures.extend(done.failing);
        if outcome.failures.len() >= request.failures {
            break;
        }
    }
    // Programs are numbered without gaps.
    let counted = |number: &u64| *number < outcome.scripts;
    let seen = state.seen.into_iter().filter(|(_, first)| counted(first));
    let sites = state.sites.into_iter().filter(|(_, first)| counted(first));
    let (seen, sites) =
        (seen.map(|(what, _)| what).collect(), sites.map(|(site, _)| site).collect());
    Outcome { seen, sites, ..outcome }
}

impl Work<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the state")
    }

    fn run(&self) {
        while let Some(drawn) = self.next() {
            let Drawn { number, seed, program, .. } = &drawn;
            let effort = effort_for(*seed, self.request.effort);
            let found = explore(program, *seed, effort);
            let failing = found.failure.as_ref().map(|failure| {
                let (program, failure) = shorten(program, failure, *seed, effort);
                Failing {
                    number: *number,
                    seed: *seed,
                    script: program.to_string(),
                    schedule: failure.schedule.to_string(),
                    rule: failure.violation.rule.to_string(),
                    message: failure.violation.message,
                    panicked: failure.violation.rule == Rule::Panic,
                }
            });
            let mut state = self.lock();
            state.add(&drawn, &found, failing);
            let progress = Progress {
                scripts: state.done.len() as u64,
                steps: state.steps,
                pairs: state.pairs.tally(),
                failures: state.failures,
            };
            drop(state);
            self.done.notify_all();
            (self.progress)(progress);
        }
    }

    /// The next program. Programs depend on those that were drawn before, and on nothing else.
    fn next(&self) -> Option<Drawn> {
        let request = self.request;
        let mut state = self.lock();
        loop {
            if state.drawn >= request.scripts
                || state.steps >= request.steps
                || state.failures >= request.failures
                || self.begin.elapsed() >= request.time
            {
                return None;
            }
            if state.learn() {
                break;
            }
            state = self.done.wait(state).expect("no thread panics while it holds the state");
        }
        let State { random, pairs, corpus, drawn, .. } = &mut *state;
        let program = draw::program(random, pairs, corpus);
        let seed = random.next();
        pairs.add(&program);
        *drawn += 1;
        Some(Drawn { number: *drawn - 1, seed, program, pairs: pairs.tally() })
    }
}
