//! Generated programs: a task for each seed.

use core::time::Duration;

use lookaside_checking::check;
use lookaside_scenarios::generate::{self, Request};
use lookaside_terminal::Refused;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    job::{Work, distinct},
    table::{Document, Kind, Table},
};

/// What is to be generated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Programs of each seed.
    pub(crate) programs: u64,
    pub(crate) seeds: Vec<u32>,
    /// About how many steps each program is explored for.
    pub(crate) effort: u64,
    /// A seed ends after so many failing programs.
    pub(crate) failures: usize,
}

impl Spec {
    pub(crate) fn work(self) -> Result<Self, Refused> {
        let numbers = [
            ("programs", self.programs),
            ("effort", self.effort),
            ("failures", self.failures as u64),
        ];
        if let Some((name, _)) = numbers.iter().find(|(_, number)| *number == 0) {
            return Err(Refused(format!("`{name}` is 0, which asks for nothing")));
        }
        distinct(&self.seeds)?;
        match self.seeds.is_empty() {
            true => Err(Refused("there is no seed".to_owned())),
            false => Ok(self),
        }
    }
}

impl Work for Spec {
    fn tasks(&self) -> usize {
        self.seeds.len()
    }

    fn label(&self, task: usize) -> String {
        format!("{} programs of seed {}", self.programs, self.seeds[task])
    }

    fn run(&self, task: usize) -> Result<Value, Refused> {
        let request = Request {
            seed: self.seeds[task].into(),
            scripts: self.programs,
            steps: u64::MAX,
            time: Duration::MAX,
            effort: self.effort,
            failures: self.failures,
            threads: 1,
        };
        let outcome = generate::run(&request, &|_| ());
        let failures = outcome.failures.iter().map(|failing| {
            json!([failing.number, failing.rule, failing.message, failing.script, failing.schedule])
        });
        Ok(json!({
            "row": [outcome.scripts, outcome.steps, outcome.pairs.covered, outcome.pairs.total,
                outcome.stale(), outcome.panics()],
            "failures": failures.collect::<Vec<_>>(),
        }))
    }

    fn gather(&self, results: Vec<Value>) -> Result<Document, Refused> {
        let whole = |name| (name, Kind::Whole);
        let columns =
            ["seed", "programs", "steps", "pairs_covered", "pairs_total", "stale", "panics"];
        let mut programs = Table::new("programs", &columns.map(whole));
        let text = |name| (name, Kind::Text);
        let [rule, message, program, schedule] =
            ["rule", "message", "program", "schedule"].map(text);
        let columns = [whole("seed"), whole("number"), rule, message, program, schedule];
        let mut failures = Table::new("failures", &columns);
        let mut broken = 0;
        for (mut result, &seed) in results.into_iter().zip(&self.seeds) {
            let of = |values: &mut Value, i: usize| values[i].take();
            let row = &mut result["row"];
            let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|i| of(row, i));
            programs.row([json!(seed), a, b, c, d, e, f]);
            for failing in result["failures"].as_array_mut().into_iter().flatten() {
                let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|i| of(failing, i));
                failures.row([json!(seed), a, b, c, d, e]);
                broken += 1;
            }
        }
        let facts = json!({ "clean": broken == 0, "broken": broken, "library": check::SOURCE });
        let Value::Object(facts) = facts else { unreachable!("facts are an object") };
        Ok(Document { facts, tables: vec![programs, failures], page: None })
    }
}
