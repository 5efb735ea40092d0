//! Every execution of a litmus test.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::{
    Hardware,
    order::{Event, Rules},
    state::State,
    test::{Final, Instruction, Named, Test, named},
};

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

/// Runs every execution of a test; nothing if it has more states than the limit.
#[must_use]
pub fn explore(test: &Test, hardware: Hardware, limit: usize) -> Option<Outcomes> {
    let rules = Rules { test, hardware, changing: changing(test) };
    let mut outcomes = Outcomes::default();
    let mut seen = FxHashSet::default();
    let mut stack = vec![rules.initial()];
    while let Some(state) = stack.pop() {
        if seen.len() >= limit {
            return None;
        }
        if let Some(found) = rules.finished(&state) {
            outcomes.broke |= state.broke;
            outcomes.finals.insert(found);
        }
        for event in rules.events(&state) {
            if let Some(next) = rules.after(&state, &event)
                && seen.insert(next.clone())
            {
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

/// The events of an execution that ends as `wanted` says, in words; nothing if there is none.
#[must_use]
pub fn witness(
    test: &Test,
    hardware: Hardware,
    wanted: &dyn Fn(&Final) -> bool,
) -> Option<Vec<String>> {
    let rules = Rules { test, hardware, changing: changing(test) };
    let mut seen = FxHashSet::default();
    let mut path = Vec::new();
    search(&rules, &rules.initial(), wanted, &mut seen, &mut path)
        .then(|| path.iter().map(|event| rules.describe(event)).collect())
}

fn search(
    rules: &Rules<'_>,
    state: &State,
    wanted: &dyn Fn(&Final) -> bool,
    seen: &mut FxHashSet<State>,
    path: &mut Vec<Event>,
) -> bool {
    if rules.finished(state).is_some_and(|found| wanted(&found)) {
        return true;
    }
    for event in rules.events(state) {
        if let Some(next) = rules.after(state, &event)
            && seen.insert(next.clone())
        {
            path.push(event);
            if search(rules, &next, wanted, seen, path) {
                return true;
            }
            path.pop();
        }
    }
    false
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
            Event::Touch { variable } => {
                format!("hardware sets the access flag of variable {variable}")
            }
        }
    }
}
