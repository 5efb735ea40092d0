//! The graph of all states of a small scenario: what can happen in each, and what that leads to.

use std::collections::HashMap;

use super::{Choice, Chooser, End, Explorer, Point};
use crate::adversary::{
    Line, View, Violation,
    hash::{BuildIdentity, mix},
};

/// All states that an execution can reach between two choices. The first is where every execution begins.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The states.
    pub states: Vec<State>,
    /// What happens before the first choice.
    pub begin: Vec<Line>,
}

/// A state at which something is chosen, or an execution ends.
#[derive(Clone, Debug)]
pub struct State {
    /// What the machine is.
    pub view: View,
    /// What can happen; nothing at the end of an execution.
    pub edges: Vec<Edge>,
    /// The rule that was broken on the way here; the execution has ended.
    pub violation: Option<Violation>,
}

/// Something that can happen in a state.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The CPU that takes the step, or whose store reaches memory.
    pub cpu: Option<usize>,
    /// What it is, if it is not the next operation of a program.
    pub kind: &'static str,
    /// All that happens until the next choice.
    pub lines: Vec<Line>,
    /// The index of the state that it leads to.
    pub to: usize,
}

/// Where the present execution went.
struct Place {
    state: usize,
    choices: Vec<Choice>,
    chosen: usize,
}

#[derive(Default)]
struct Mapper {
    states: Vec<State>,
    known: HashMap<u64, usize, BuildIdentity>,
    way: Vec<Place>,
    at: usize,
    /// How many lines of the present execution belong to the way so far.
    seen: usize,
    begin: Vec<Line>,
    limit: usize,
}

impl Mapper {
    /// The state of this key, and whether it is new.
    fn state(&mut self, key: u64, view: impl FnOnce() -> View) -> (usize, bool) {
        let next = self.states.len();
        let state = *self.known.entry(key).or_insert(next);
        if state == next {
            self.states.push(State { view: view(), edges: Vec::new(), violation: None });
        }
        (state, state == next)
    }

    /// Adds the edge that the last choice is.
    fn link(&mut self, to: usize, lines: &[Line]) {
        let lines = lines[self.seen.min(lines.len())..].to_vec();
        let Some(place) = self.way.last() else {
            self.begin = lines;
            return;
        };
        let (cpu, kind) = match place.choices[place.chosen] {
            Choice::Step(cpu) => (Some(cpu), "step"),
            Choice::Interrupt(cpu) => (Some(cpu), "interrupt"),
            Choice::Nmi(cpu) => (Some(cpu), "NMI"),
            Choice::Drain(cpu, _) => (Some(cpu), "store"),
            Choice::Value(_) => (None, "value"),
            Choice::Update(_) | Choice::Rest => (None, "hardware"),
        };
        self.states[place.state].edges.push(Edge { cpu, kind, lines, to });
    }

    /// Prepares the next execution; `false` if there is none.
    fn next(&mut self) -> bool {
        self.at = 0;
        self.seen = 0;
        while let Some(last) = self.way.last_mut() {
            if last.chosen + 1 < last.choices.len() {
                last.chosen += 1;
                return true;
            }
            self.way.pop();
        }
        false
    }
}

impl Chooser for Mapper {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        let lines = point.machine.trace.as_ref().map_or(&[][..], |trace| &trace.lines);
        let at = self.at;
        self.at += 1;
        if let Some(place) = self.way.get(at) {
            self.seen = lines.len();
            return Some(place.chosen);
        }
        let mut key = point.machine.hash();
        if matches!(point.choices[0], Choice::Value(_))
            && let Some(place) = self.way.last()
        {
            // In the middle of an access the state says nothing of the access.
            key = mix(key, mix(place.state as u64, place.chosen as u64));
        }
        let (state, is_new) = self.state(key, || point.machine.see());
        self.link(state, lines);
        self.seen = lines.len();
        if !is_new || self.states.len() > self.limit {
            return None;
        }
        self.way.push(Place { state, choices: point.choices.to_vec(), chosen: 0 });
        Some(0)
    }
}

impl Explorer {
    /// Visits every state, if there are at most `limit`. Only operations that commute with everything other CPUs do are
    /// executed without a choice, as in [`Self::exhaust`]; no order of the others is left out.
    pub fn graph(&mut self, limit: usize) -> Option<Graph> {
        let mut mapper = Mapper { limit, ..Mapper::default() };
        loop {
            let (end, lines) = self.executor.trace(&mut mapper);
            let violation = match end {
                End::Abandoned => None,
                End::Done => Some(None),
                End::Violated(violation) => Some(Some(violation)),
            };
            if let Some(violation) = violation {
                let machine = self.executor.seen_machine();
                let broken =
                    violation.as_ref().map_or(0, |violation| violation.message.len() as u64);
                let key = mix(machine.hash(), broken ^ 0xe0d);
                let (state, _) = mapper.state(key, || machine.see());
                mapper.states[state].violation = violation;
                mapper.link(state, &lines);
            }
            if mapper.states.len() > limit {
                return None;
            }
            if !mapper.next() {
                return Some(Graph { states: mapper.states, begin: mapper.begin });
            }
        }
    }
}
