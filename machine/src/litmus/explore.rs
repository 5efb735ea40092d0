//! Every execution of a litmus test.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::{
    Hardware,
    order::{Event, Rules},
    test::{Final, Instruction, Named, Test, named},
};

/// How many states are visited between two questions whether to stop.
const BETWEEN_STOPS: usize = 256;

/// What all executions of a test have left behind.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// The final states.
    pub finals: BTreeSet<Final>,
    /// In some execution a change needed break-before-make and lacked it.
    pub broke: bool,
    /// How many states there were.
    pub states: usize,
}

/// How much has been explored when a bound is asked whether that is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Different states that were met.
    pub states: usize,
    /// What these states take up in memory: an estimate, in bytes.
    pub bytes: usize,
}

/// Runs every execution of a test, until `stop` says that it was enough; nothing then. `stop` is
/// asked before the first state and every 256 states from there on.
#[must_use]
pub fn explore(
    test: &Test,
    hardware: Hardware,
    stop: &mut dyn FnMut(Effort) -> bool,
) -> Option<Outcomes> {
    let rules = Rules { test, hardware, changing: changing(test) };
    let mut outcomes = Outcomes::default();
    let mut seen = FxHashSet::default();
    let mut stack = vec![rules.initial()];
    let mut visits = 0_usize;
    let mut effort = Effort::default();
    while let Some(state) = stack.pop() {
        if visits.is_multiple_of(BETWEEN_STOPS) && stop(effort) {
            return None;
        }
        visits += 1;
        if let Some(found) = rules.finished(&state) {
            outcomes.broke |= state.broke;
            outcomes.finals.insert(found);
        }
        for event in rules.events(&state) {
            if let Some(next) = rules.after(&state, &event)
                && seen.insert(next.clone())
            {
                effort.states += 1;
                // Once in the set, and once on the stack.
                effort.bytes += 2 * next.bytes();
                stack.push(next);
            }
        }
    }
    outcomes.states = seen.len();
    Some(outcomes)
}

/// The variables whose descriptors something may write: hardware, or a thread that has the address.
fn changing(test: &Test) -> Vec<bool> {
    let variables = test.contents.len();
    let managed = test.threads.iter().any(|thread| thread.accessed || thread.dirty);
    let mut changing = vec![managed; variables];
    let values = test.threads.iter().flat_map(|thread| {
        let constants = thread.code.iter().filter_map(|what| match *what {
            Instruction::Move { value, .. } => Some(value),
            _ => None,
        });
        thread.registers.iter().map(|&(_, value)| value).chain(constants)
    });
    for value in values.chain(test.contents.iter().copied()) {
        if let Some(Named::Descriptor(of)) = named(value, variables) {
            changing[of] = true;
        }
    }
    changing
}

/// The events of an execution that ends as `wanted` says, in words; nothing if there is none, or
/// if `stop` says that it was enough, which is asked as in [`explore`].
#[must_use]
pub fn witness(
    test: &Test,
    hardware: Hardware,
    wanted: &dyn Fn(&Final) -> bool,
    stop: &mut dyn FnMut(Effort) -> bool,
) -> Option<Vec<String>> {
    let rules = Rules { test, hardware, changing: changing(test) };
    let mut seen = FxHashSet::default();
    let mut effort = Effort::default();
    // The states of the current execution, each with its events that were not gone into yet, and
    // the events that led there: one fewer.
    let first = rules.initial();
    if rules.finished(&first).is_some_and(|found| wanted(&found)) {
        return Some(Vec::new());
    }
    let mut path = Vec::new();
    let mut open = vec![(rules.events(&first), first)];
    let mut visits = 0_usize;
    while let Some((events, state)) = open.last_mut() {
        let Some(event) = events.pop() else {
            open.pop();
            path.pop();
            continue;
        };
        let Some(next) = rules.after(state, &event) else { continue };
        if !seen.insert(next.clone()) {
            continue;
        }
        effort.states += 1;
        effort.bytes += 2 * next.bytes();
        if visits.is_multiple_of(BETWEEN_STOPS) && stop(effort) {
            return None;
        }
        visits += 1;
        path.push(event);
        if rules.finished(&next).is_some_and(|found| wanted(&found)) {
            return Some(path.iter().map(|event| rules.describe(event)).collect());
        }
        open.push((rules.events(&next), next));
    }
    None
}

impl Rules<'_> {
    fn describe(&self, event: &Event) -> String {
        let name = |thread: usize, step: usize| format!("P{thread} #{step}");
        match event {
            Event::Walk { thread, step, walk } => {
                let name = name(*thread, *step);
                let version = walk.version.map_or("fixed".to_owned(), |at| format!("version {at}"));
                match walk.fault {
                    Some(kind) => format!("{name} walks ({version}): {kind:?} fault"),
                    None => format!("{name} walks ({version}) to cell {}", walk.cell),
                }
            }
            Event::Update { thread, step } => {
                format!("hardware updates the descriptor of {}", name(*thread, *step))
            }
            Event::Read { thread, step, source } => {
                format!("{} reads from {source:?}", name(*thread, *step))
            }
            Event::Do { thread, step } => format!("{} is done", name(*thread, *step)),
            Event::Guess { thread, step, guess } => {
                format!("{} is guessed: {guess}", name(*thread, *step))
            }
            Event::Touch { variable } => {
                format!("hardware sets the access flag of variable {variable}")
            }
        }
    }
}
