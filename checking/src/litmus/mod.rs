//! Litmus tests of others, run on the machine and compared with what they recorded.

mod bound;
mod condition;
mod instruction;
mod isla;
mod names;
mod program;
mod read;
mod recorded;
mod results;
mod suite;
mod system;
mod text;
mod traces;
mod verdict;

pub use bound::{Bound, Shares};
pub use condition::{FaultAtom, Observation, Observed, Proposition, Taken};
pub use names::{Names, Place};
pub use program::{Program, Space, Step, Value};
pub use read::{Labels, Litmus, Quantifier, Runs};
pub use recorded::Recorded;
pub use results::{Results, in_full};
pub use suite::{Case, Compared, Mode, Score, Skipped, Suite};
pub use text::Trouble;
pub use traces::{Trace, Traces};
pub use verdict::Verdict;

use std::collections::BTreeSet;

use lookaside_machine::litmus::{Final, Hardware, explore, witness};

/// What the machine makes of a test.
#[derive(Clone, Debug)]
pub struct Found {
    /// The final states, as the test shows them.
    pub states: BTreeSet<Observation>,
    /// A change needed break-before-make and lacked it, in some execution.
    pub broke: bool,
    /// How many states the machine went through.
    pub explored: usize,
}

impl Litmus {
    /// Runs every execution; nothing if that is not finished within a bound.
    #[must_use]
    pub fn run(&self, hardware: Hardware, bound: Bound) -> Option<Found> {
        let found = match &self.runs {
            Runs::OutOfOrder(test) => {
                explore(test, hardware, &mut |effort| bound.is_reached(effort))?
            }
            Runs::Explored(program) => program.explore(bound)?,
        };
        let states = found.finals.iter().map(|state| self.observed.of(state, &self.labels));
        let states = states.collect();
        Some(Found { states, broke: found.broke, explored: found.states })
    }

    /// The steps of an execution that ends in a state, in words; nothing if none was found within a
    /// bound, or if the explorer ran it, which tells of states only.
    #[must_use]
    pub fn witness(
        &self,
        hardware: Hardware,
        state: &Observation,
        bound: Bound,
    ) -> Option<Vec<String>> {
        let Runs::OutOfOrder(test) = &self.runs else { return None };
        let wanted = |found: &Final| &self.observed.of(found, &self.labels) == state;
        witness(test, hardware, &wanted, &mut |effort| bound.is_reached(effort))
    }

    /// Whether the proposition holds in some of the states, in all, or in none.
    #[must_use]
    pub fn verdict(&self, states: &BTreeSet<Observation>) -> &'static str {
        match states.iter().filter(|state| self.proposition.holds(state)).count() {
            0 => "never",
            count if count == states.len() => "always",
            _ => "sometimes",
        }
    }

    /// A state in words.
    #[must_use]
    pub fn show(&self, state: &Observation) -> String {
        let mut text = String::new();
        for (place, value) in &state.values {
            let (place, value) = (self.names.show_place(*place), self.names.show(*value));
            text.push_str(&format!("{place}={value}; "));
        }
        for fault in &state.faults {
            let label = fault.label.as_ref().map_or(String::new(), |label| format!(":{label}"));
            let on = fault.on.map_or(String::new(), |on| match on {
                Place::Contents(of) => format!(",{}", self.names.name(of)),
                other => format!(",{}", self.names.show_place(other)),
            });
            let kind = fault.kind.map_or(String::new(), |kind| format!(",MMU:{kind:?}"));
            text.push_str(&format!("Fault(P{}{label}{on}{kind}); ", fault.thread));
        }
        text
    }
}
