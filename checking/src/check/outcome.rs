//! The outcome of checking, and merging the outcomes of several machines.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use lookaside_machine::{adversary::oracle::CLAIM, explore::Report};
use lookaside_scenarios::zoo::Judgement;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Request, Round, Shard, Subject};
use crate::litmus::Results;

/// The version of the format. Since 2 its key is `version`, which was `format`.
const VERSION: u32 = 2;

/// The SHA-256 of the library's source, in hexadecimal digits; `build.rs` computes it.
pub const SOURCE: &str = env!("LOOKASIDE_SOURCE");

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The version of this format.
    #[serde(alias = "format")]
    pub version: u32,
    /// The SHA-256 of the library's source, every file with its name.
    pub source: String,
    /// The seed of the random numbers.
    pub seed: u64,
    /// Which parts of the rounds this is, in order.
    pub shards: Vec<(u32, u32)>,
    /// All schedules.
    pub schedules: u64,
    /// Steps of all schedules.
    pub steps: u64,
    /// The number of scenarios in which a rule was broken.
    pub stale: usize,
    /// Whether zoo, litmus tests and mutants were as they should be, where they were asked for.
    pub agrees: bool,
    /// Duration in seconds; of merged outcomes, the sum.
    pub seconds: f64,
    /// The results by scenario.
    pub scenarios: Vec<Checked>,
    /// The results of the mutants.
    pub mutants: Option<Value>,
    /// The verdicts on the protocols of other systems.
    pub zoo: Option<Value>,
    /// The results of litmus tests and traces.
    pub litmus: Option<Value>,
}

/// The results of one scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// Its name.
    pub name: String,
    /// The protocol that it exercises.
    pub protocol: String,
    /// The rounds that were run.
    pub rounds: BTreeSet<u32>,
    /// Whether all schedules were explored.
    pub exhausted: bool,
    /// The number of pre-emptions for which all schedules had to be explored.
    #[serde(default)]
    pub demanded: Option<u32>,
    /// The largest number of pre-emptions for which all schedules were explored.
    pub preemptions: Option<u32>,
    /// Random and PCT schedules.
    pub random: u64,
    /// All schedules.
    pub schedules: u64,
    /// Steps of all schedules.
    pub steps: u64,
    /// The largest number of distinct states that one round reached.
    pub states: u64,
    /// Events that at least one schedule reached.
    pub seen: BTreeSet<String>,
    /// The first failure.
    pub failure: Option<Found>,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The rule that was broken.
    pub rule: String,
    /// What happened.
    pub message: String,
    /// A shortened schedule that replays it.
    pub schedule: String,
}

/// Why results cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// There are none.
    Nothing,
    /// The results are of another version of the format.
    Version(u32),
    /// The results are of different sources, seeds or scenarios.
    Different(&'static str),
    /// The results are of parts of different sizes.
    Parts,
    /// One part is there more than once.
    Twice(Shard),
    /// A part is missing.
    Missing(Shard),
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "there is nothing to merge"),
            Self::Version(found) => {
                write!(
                    f,
                    "the results are of version {found}; this program merges version {VERSION}"
                )
            }
            Self::Different(what) => write!(f, "the results have different {what}"),
            Self::Parts => write!(f, "the results are not parts of one whole"),
            Self::Twice(Shard { index, of }) => write!(f, "shard {index}/{of} is there twice"),
            Self::Missing(Shard { index, of }) => write!(f, "shard {index}/{of} is missing"),
        }
    }
}

impl core::error::Error for MergeError {}

impl Checked {
    /// An unexplored scenario.
    pub(super) fn new(subject: &Subject, demanded: Option<u32>) -> Self {
        Self {
            name: subject.entry.name.to_owned(),
            protocol: subject.protocol.to_owned(),
            rounds: BTreeSet::new(),
            exhausted: false,
            demanded,
            preemptions: None,
            random: 0,
            schedules: 0,
            steps: 0,
            states: 0,
            seen: BTreeSet::new(),
            failure: None,
        }
    }

    /// Adds the result of a round.
    pub(super) fn add(&mut self, number: u32, round: Round, report: &Report, found: Option<Found>) {
        match round {
            Round::Bounded { preemptions, .. } if report.complete => {
                self.preemptions = self.preemptions.max(Some(preemptions));
            }
            Round::Exhaust { .. } => self.exhausted |= report.complete,
            Round::Random { .. } => self.random += report.schedules,
            Round::Bounded { .. } => {}
        }
        self.schedules += report.schedules;
        self.steps += report.steps;
        self.states = self.states.max(report.states);
        self.seen.extend(report.seen.iter().map(|&what| what.to_owned()));
        self.rounds.insert(number);
        self.failure = self.failure.take().or(found);
    }

    fn merge(&mut self, other: Self) {
        self.rounds.extend(other.rounds);
        self.exhausted |= other.exhausted;
        self.preemptions = self.preemptions.max(other.preemptions);
        self.random += other.random;
        self.schedules += other.schedules;
        self.steps += other.steps;
        self.states = self.states.max(other.states);
        self.seen.extend(other.seen);
        self.failure = self.failure.take().or(other.failure);
    }
}

impl Outcome {
    /// The outcome of these scenarios.
    pub(super) fn new(request: &Request, scenarios: Vec<Checked>, seconds: f64) -> Self {
        let Shard { index, of } = request.shard;
        let mut outcome = Self {
            version: VERSION,
            source: SOURCE.into(),
            seed: request.seed,
            shards: vec![(index, of)],
            schedules: 0,
            steps: 0,
            stale: 0,
            agrees: true,
            seconds,
            scenarios,
            mutants: None,
            zoo: None,
            litmus: None,
        };
        outcome.sum();
        outcome
    }

    fn sum(&mut self) {
        self.schedules = self.scenarios.iter().map(|checked| checked.schedules).sum();
        self.steps = self.scenarios.iter().map(|checked| checked.steps).sum();
        self.stale = self.scenarios.iter().filter(|checked| checked.failure.is_some()).count();
    }

    /// Puts the parts together that several machines have found.
    ///
    /// # Errors
    ///
    /// If they are not all the parts of one whole, each once.
    pub fn merge(parts: Vec<Self>) -> Result<Self, MergeError> {
        if let Some(part) = parts.iter().find(|part| part.version != VERSION) {
            return Err(MergeError::Version(part.version));
        }
        let mut parts = parts.into_iter();
        let mut whole = parts.next().ok_or(MergeError::Nothing)?;
        for part in parts {
            whole.join(part)?;
        }
        let of = whole.shards.first().map_or(1, |&(_, of)| of);
        if whole.shards.iter().any(|&(_, other)| other != of) {
            return Err(MergeError::Parts);
        }
        whole.shards.sort_unstable();
        if let Some(pair) = whole.shards.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(MergeError::Twice(Shard { index: pair[0].0, of }));
        }
        let missing = (0..of).find(|&index| !whole.shards.contains(&(index, of)));
        if let Some(index) = missing {
            return Err(MergeError::Missing(Shard { index, of }));
        }
        whole.shards = vec![(0, 1)];
        whole.sum();
        Ok(whole)
    }

    fn join(&mut self, part: Self) -> Result<(), MergeError> {
        if part.source != self.source {
            return Err(MergeError::Different("sources"));
        }
        if part.seed != self.seed {
            return Err(MergeError::Different("seeds"));
        }
        let demanded = |outcome: &Self| -> BTreeSet<Option<u32>> {
            outcome.scenarios.iter().map(|checked| checked.demanded).collect()
        };
        if demanded(&part) != demanded(self) {
            return Err(MergeError::Different("depths"));
        }
        let names = |outcome: &Self| -> BTreeSet<String> {
            outcome.scenarios.iter().map(|checked| checked.name.clone()).collect()
        };
        if names(&part) != names(self) {
            return Err(MergeError::Different("scenarios"));
        }
        let mut others: BTreeMap<_, _> =
            part.scenarios.into_iter().map(|checked| (checked.name.clone(), checked)).collect();
        for checked in &mut self.scenarios {
            if let Some(other) = others.remove(&checked.name) {
                checked.merge(other);
            }
        }
        self.shards.extend(part.shards);
        self.seconds += part.seconds;
        self.agrees &= part.agrees;
        self.mutants = self.mutants.take().or(part.mutants);
        self.zoo = self.zoo.take().or(part.zoo);
        self.litmus = self.litmus.take().or(part.litmus);
        Ok(())
    }

    /// Adds the verdicts on the protocols of other systems.
    pub fn add_zoo(&mut self, judgements: impl Iterator<Item = Judgement>) {
        let judgements: Vec<_> = judgements.collect();
        let agree = judgements.iter().filter(|judgement| judgement.agrees()).count();
        self.zoo = Some(json!({
            "total": judgements.len(), "agree": agree, "protocols": judgements,
        }));
        self.agrees &= agree == judgements.len();
    }

    /// Adds the results of litmus tests and traces.
    pub fn add_litmus(&mut self, results: &Results<'_>) {
        self.litmus = Some(results.to_json());
        self.agrees &= results.agree(false) && results.is_finished();
    }

    /// Adds the results of the mutants, as `cargo xtask mutants --format json` writes them.
    pub fn add_mutants(&mut self, mutants: Value) {
        self.agrees &= mutants["survived"].as_array().is_some_and(Vec::is_empty);
        self.mutants = Some(mutants);
    }

    /// The scenarios that were not explored to the demanded depth. Empty for a shard, which has only a part
    /// of the rounds.
    pub fn behind(&self) -> impl Iterator<Item = &Checked> {
        let whole = self.shards == [(Shard::WHOLE.index, Shard::WHOLE.of)];
        self.scenarios.iter().filter(move |checked| {
            let over = checked.exhausted || checked.failure.is_some();
            whole && !over && checked.preemptions < checked.demanded
        })
    }

    /// The scenarios in which no claim was made, so that no rule could be broken.
    pub fn empty(&self) -> impl Iterator<Item = &Checked> {
        self.scenarios.iter().filter(|checked| {
            let explored = checked.exhausted || checked.preemptions.is_some();
            explored && checked.failure.is_none() && !checked.seen.contains(CLAIM)
        })
    }

    /// Whether no rule was broken, every scenario made a claim and reached the demanded depth, and mutants,
    /// zoo and litmus tests gave the expected results.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let done = self.behind().next().is_none() && self.empty().next().is_none();
        self.stale == 0 && self.agrees && done
    }

    /// The outcome as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers and strings are JSON");
        text.push('\n');
        text
    }
}
