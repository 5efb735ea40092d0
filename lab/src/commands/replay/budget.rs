//! What a replay with a report may take: all that it does shares one budget, and what that does not suffice for is said.

use core::sync::atomic::{AtomicU64, Ordering};

use lookaside_replay::{BAND, Replayed, plausible::Sampling, with_band};
use lookaside_simulation::sensitivity::Answer;
use lookaside_terminal::{Refused, counted};
use rayon::prelude::*;

use super::Plan;

/// How many events are simulated in a second of the budget. The work, and so what is left out, is the same on every
/// machine.
const EVENTS: u64 = 5_000_000;

/// What may still be done.
pub(super) struct Budget {
    seconds: u64,
    /// How many events may still be simulated; without a report there is no limit.
    left: Option<u64>,
    /// What was not done: sentences.
    pub(super) left_out: Vec<String>,
}

impl Budget {
    /// So many seconds, or no limit.
    pub(super) fn new(seconds: Option<u64>) -> Self {
        let left = seconds.map(|seconds| seconds.saturating_mul(EVENTS));
        Self { seconds: seconds.unwrap_or(0), left, left_out: Vec::new() }
    }

    pub(super) fn spend(&mut self, events: u64) {
        self.left = self.left.map(|left| left.saturating_sub(events));
    }

    /// A half of what is left, so that something is left for others; everything where there is no limit.
    pub(super) fn half(&self) -> u64 {
        self.left.map_or(u64::MAX, |left| left / 2)
    }

    /// All that is left.
    pub(super) fn rest(&self) -> u64 {
        self.left.unwrap_or(u64::MAX)
    }

    fn lacks(&mut self, what: &str) {
        let seconds = self.seconds;
        self.left_out.push(format!("{what}, for which a budget of {seconds} s does not suffice."));
    }

    /// Takes off the replays themselves, which are done in any case.
    pub(super) fn begin(&mut self, runs: &[Replayed]) {
        let events: u64 = runs.iter().map(|run| run.events).sum();
        self.spend(events);
        if self.left == Some(0) {
            let seconds = counted(events.div_ceil(EVENTS) as usize, "second", "seconds");
            self.left_out.push(format!(
                "The replays themselves take {seconds} of a budget of {} s.",
                self.seconds
            ));
        }
    }

    /// Adds the ranges of refills, if a half of what is left suffices for them.
    pub(super) fn bands(
        &mut self,
        plan: &Plan<'_>,
        runs: Vec<Replayed>,
        done: &(dyn Fn() + Sync),
    ) -> Result<Vec<Replayed>, Refused> {
        let events: u64 = runs.iter().map(events_of_band).sum();
        if events > self.half() {
            let sets = format!("a quarter and with {BAND} times the assumed working set");
            self.lacks(&format!("Refills were not replayed with {sets}"));
            return Ok(runs);
        }
        self.spend(events);
        let one = |run: Replayed| {
            let strategy = run.strategy.clone();
            let band = with_band(&plan.inputs.script, &plan.setup(&strategy), run);
            done();
            band.map_err(|Refused(why)| Refused(format!("strategy `{strategy}`: {why}")))
        };
        runs.into_par_iter().with_max_len(1).map(one).collect()
    }

    /// Asks plausible machines, as many as a half of what is left suffices for, or so many as were asked for.
    pub(super) fn plausible(
        &mut self,
        plan: &Plan<'_>,
        runs: &[Replayed],
    ) -> Result<Option<Answer>, Refused> {
        let arguments = plan.arguments;
        let (spent, half) = (AtomicU64::new(0), self.half());
        let mut wanted = false;
        let answer = arguments.plausible.ask(|machines, done| {
            wanted = true;
            let most = self.left.map(|_| half);
            let of = Sampling { machines, most, seed: arguments.seed, spent: &spent };
            plan.inputs.on_plausible_machines(plan.machine, plan.ranges, of, done)
        })?;
        self.spend(spent.load(Ordering::Relaxed));
        if wanted && answer.is_none() && !runs.iter().any(Replayed::is_idle) {
            self.lacks("Plausible machines were not asked how sure the answer is");
        }
        Ok(answer)
    }

    /// That numbers of CPUs are not in the curve, and that so many numbers were not varied.
    pub(super) fn left_out_of_report(&mut self, too_large: &[usize], numbers: usize) {
        if !too_large.is_empty() {
            let counts: Vec<String> = too_large.iter().map(usize::to_string).collect();
            let seconds = self.seconds;
            self.left_out.push(format!(
                "The curve leaves out {} CPUs, for which a budget of {seconds} s does not suffice: `--budget` or `--curve` \
                 has them.",
                counts.join(", ")
            ));
        }
        if numbers > 0 {
            self.lacks(&counted(
                numbers,
                "number of the machine was not varied",
                "numbers of the machine were not varied",
            ));
        }
    }
}

/// How many events the replays with the smaller and the larger working set have at most: accesses are fewer and more.
fn events_of_band(run: &Replayed) -> u64 {
    let accesses = run.operations.accesses.min(run.events);
    let band = u64::from(BAND);
    2 * (run.events - accesses) + accesses.div_ceil(band) + band * accesses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_said() {
        let mut budget = Budget::new(Some(60));
        budget.left_out_of_report(&[], 0);
        assert!(budget.left_out.is_empty());
        budget.left_out_of_report(&[32, 64], 7);
        let notes = budget.left_out;
        assert!(notes[0].contains("32, 64 CPUs") && notes[1].starts_with("7 numbers"), "{notes:?}");
    }

    #[test]
    fn all_work_shares_one_budget_and_without_a_report_nothing_is_limited() {
        let mut budget = Budget::new(Some(2));
        budget.spend(4_000_000);
        assert_eq!((budget.half(), budget.rest()), (3_000_000, 6_000_000));
        budget.spend(u64::MAX);
        assert_eq!(budget.rest(), 0);
        let mut none = Budget::new(None);
        none.spend(u64::MAX);
        assert_eq!(none.rest(), u64::MAX);
    }
}
