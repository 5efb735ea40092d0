//! A check of the catalogue: a task for each scenario and seed.

use core::time::Duration;

use lookaside_checking::check::{self, DEEPEST, Outcome, Request, Shard, Subject, Until};
use lookaside_terminal::Refused;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    job::{Work, distinct},
    table::{Document, Kind, Table},
};

/// What is to be checked, and how far. Nothing depends on the clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Protocols or scenarios; all if there is none.
    pub(crate) names: Vec<String>,
    pub(crate) seeds: Vec<u32>,
    /// Rounds of each scenario.
    pub(crate) rounds: Option<u32>,
    /// Steps of each scenario; the round that comes to them is finished.
    pub(crate) steps: Option<u64>,
    /// Pre-emptions with which all schedules of each scenario are explored.
    pub(crate) preemptions: Option<u32>,
}

impl Spec {
    pub(crate) fn work(self) -> Result<Scenarios, Refused> {
        let Self { rounds, steps, preemptions, .. } = self;
        if rounds.is_none() && steps.is_none() && preemptions.is_none() {
            let why = "a check without a limit has no end: give `rounds`, `steps` or `preemptions`";
            return Err(Refused(why.to_owned()));
        }
        if let Some(deep) = preemptions.filter(|deep| !(1..=DEEPEST).contains(deep)) {
            return Err(Refused(format!("{deep} pre-emptions; from 1 to {DEEPEST} are explored")));
        }
        distinct(&self.seeds)?;
        let subjects = check::select(&self.names)?;
        let each = |seed: u32| subjects.iter().map(move |&subject| (seed, subject));
        let tasks: Vec<_> = self.seeds.iter().flat_map(|&seed| each(seed)).collect();
        if tasks.is_empty() {
            return Err(Refused("there is no seed".to_owned()));
        }
        // With a depth alone a check ends there.
        let more = rounds.is_some() || steps.is_some();
        let until = Until {
            time: Duration::MAX,
            steps: steps.unwrap_or(if more { u64::MAX } else { 0 }),
            rounds: rounds.unwrap_or(u32::MAX),
            least: preemptions,
        };
        Ok(Scenarios { tasks, until })
    }
}

/// Scenarios with a seed each.
pub(crate) struct Scenarios {
    tasks: Vec<(u32, Subject)>,
    until: Until,
}

impl Work for Scenarios {
    fn tasks(&self) -> usize {
        self.tasks.len()
    }

    fn label(&self, task: usize) -> String {
        let (seed, subject) = &self.tasks[task];
        format!("{}, seed {seed}", subject.entry.name)
    }

    fn run(&self, task: usize) -> Result<Value, Refused> {
        let (seed, subject) = self.tasks[task];
        let request = Request {
            subjects: vec![subject],
            seed: seed.into(),
            shard: Shard::WHOLE,
            until: self.until,
            threads: 1,
        };
        // How long it took is no function of the task.
        let outcome = Outcome { seconds: 0.0, ..check::run(&request, &|_| ()) };
        serde_json::to_value(outcome).map_err(Refused::because)
    }

    fn gather(&self, results: Vec<Value>) -> Result<Document, Refused> {
        let columns = [
            ("seed", Kind::Whole),
            ("protocol", Kind::Text),
            ("scenario", Kind::Text),
            ("clean", Kind::Truth),
            ("exhausted", Kind::Truth),
            ("rounds", Kind::Whole),
            ("preemptions", Kind::Whole),
            ("random", Kind::Whole),
            ("schedules", Kind::Whole),
            ("steps", Kind::Whole),
            ("states", Kind::Whole),
            ("rule", Kind::Text),
            ("message", Kind::Text),
            ("schedule", Kind::Text),
        ];
        let mut table = Table::new("scenarios", &columns);
        let (mut broken, mut unclean) = (0, 0);
        for (result, (seed, _)) in results.into_iter().zip(&self.tasks) {
            let outcome: Outcome = serde_json::from_value(result).map_err(Refused::because)?;
            broken += outcome.stale;
            unclean += usize::from(!outcome.is_clean());
            for checked in &outcome.scenarios {
                let failure = checked.failure.as_ref();
                table.row([
                    json!(seed),
                    json!(checked.protocol),
                    json!(checked.name),
                    json!(outcome.is_clean()),
                    json!(checked.exhausted),
                    json!(checked.rounds.len()),
                    json!(checked.preemptions),
                    json!(checked.random),
                    json!(checked.schedules),
                    json!(checked.steps),
                    json!(checked.states),
                    json!(failure.map(|found| &found.rule)),
                    json!(failure.map(|found| &found.message)),
                    json!(failure.map(|found| &found.schedule)),
                ]);
            }
        }
        let facts = json!({ "clean": unclean == 0, "broken": broken, "library": check::SOURCE });
        let Value::Object(facts) = facts else { unreachable!("facts are an object") };
        Ok(Document { facts, tables: vec![table], page: None })
    }
}
