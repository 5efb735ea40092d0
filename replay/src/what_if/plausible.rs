//! On how many plausible machines other settings are better, and on which price that turns.

use lookaside_simulation::{
    data::{Machine, Ranges},
    sensitivity::{Answer, FEW, Question},
    workload::Metric,
};
use lookaside_terminal::Refused;

use super::{Knob, Scenario};
use crate::advice::{TIE, affordable};

/// How many events the plausible machines may take, unless their number is given: some five seconds of two CPUs.
const EVENTS: u64 = 100_000_000;

/// What the settings without knobs are called.
pub const RECORDED: &str = "the recorded settings";

impl Scenario {
    /// What [plausible machines](lookaside_simulation::sensitivity) say of these knobs, called `settings`: the same question
    /// as `lookaside advise` asks of mechanisms, of the same [known](crate::Replayed::known) time. Without their number, as many
    /// are asked as do not take long.
    ///
    /// # Errors
    ///
    /// As [`Self::with`] and [`Self::replay`].
    pub fn on_plausible_machines(
        &self,
        (knobs, settings): (&[Knob], &str),
        ranges: &Ranges,
        machines: Option<usize>,
        seed: u64,
    ) -> Result<Answer, Refused> {
        let hardly = |machine: &Machine| Self {
            machine: machine.clone(),
            working_set: self.working_set.hardly_used(),
            ..self.clone()
        };
        let run = |machine: &Machine, side: &str, seed: u64| match side == RECORDED {
            true => hardly(machine).replay(seed),
            false => hardly(machine).with(knobs)?.replay(seed),
        };
        let sides = [RECORDED.to_owned(), settings.to_owned()];
        let machines = match machines {
            Some(machines) => machines,
            None => {
                let events: Result<Vec<u64>, Refused> =
                    sides.iter().map(|side| Ok(run(&self.machine, side, seed)?.events)).collect();
                affordable(&events?, EVENTS)
            }
        };
        let question = Question {
            machine: &self.machine,
            ranges,
            assumed: &[],
            strategies: &sides,
            machines,
            seed,
            tie: TIE,
            near: 0.0,
            influences: machines > FEW,
        };
        question.answer(&|machine, side, seed| {
            let replayed = run(machine, side, seed)?;
            let value = replayed.known() as f64 * 1e3 / replayed.traced as f64;
            Ok(vec![Metric { key: "time", unit: "ms/s", value }])
        })
    }
}
