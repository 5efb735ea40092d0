//! On how many plausible machines other settings are better, and on which price that turns.

use lookaside_simulation::{
    data::{Machine, Ranges},
    sensitivity::Answer,
};
use lookaside_terminal::Refused;

use super::{Knob, Scenario};
use crate::{
    difference::Per,
    plausible::{Comparison, Done},
};

/// What the settings without knobs are called.
pub const RECORDED: &str = "the recorded settings";

/// One side of a comparison: recordings, and the knobs that are turned for each of them.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'s> {
    /// The recordings without these knobs, at least one.
    pub scenarios: &'s [Scenario],
    /// The knobs.
    pub knobs: &'s [Knob],
}

impl Setting<'_> {
    /// What [plausible machines](crate::plausible) say of this side and of another on the same machine.
    ///
    /// # Errors
    ///
    /// As [`Scenario::with`] and [`Scenario::replay`].
    pub fn on_plausible_machines(
        &self,
        other: &Self,
        per: Per,
        (ranges, machines): (&Ranges, Option<usize>),
        done: &Done<'_>,
    ) -> Result<Option<Answer>, Refused> {
        let both = [self, other];
        let one = |scenario: &Scenario, machine: &Machine| Scenario {
            machine: machine.clone(),
            working_set: scenario.working_set.hardly_used(),
            ..scenario.clone()
        };
        let run = |machine: &Machine, side: usize, seed: u64| {
            let Setting { scenarios, knobs } = both[side];
            let replayed = |scenario: &Scenario| one(scenario, machine).with(knobs)?.replay(seed);
            scenarios.iter().map(replayed).collect()
        };
        let Some(first) = self.scenarios.first() else { return Ok(None) };
        // As many CPUs more do as much more work.
        let by_share = both.iter().flat_map(|of| of.knobs).any(|one| matches!(one, Knob::Cpus(_)));
        let (machine, sides, most, seed) = (&first.machine, 2, None, 1);
        Comparison { machine, ranges, sides, machines, most, seed, per, by_share }
            .answer(&run, done)
    }
}
