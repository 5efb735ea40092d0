//! Jobs as bytes, and their tasks.

use std::collections::BTreeSet;

use lookaside_checking::check;
use lookaside_terminal::Refused;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{generate, replay, sweep, table::Document};

/// Tasks that can be run in any order, in several processes, and twice.
pub(crate) trait Work: Send + Sync {
    /// How many tasks there are.
    fn tasks(&self) -> usize;

    /// What a task is about.
    fn label(&self, task: usize) -> String;

    /// Runs a task: a function of the job and of the task's number, whatever else runs.
    fn run(&self, task: usize) -> Result<Value, Refused>;

    /// Makes tables of the results of all tasks, in the order of the tasks.
    fn gather(&self, results: Vec<Value>) -> Result<Document, Refused>;
}

/// What is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Spec {
    ParameterSweep(sweep::Spec),
    Check(super::check::Spec),
    Generate(generate::Spec),
    Replay(replay::Spec),
}

/// The head of a job: results of another version, or of another library, are those of other functions.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    version: String,
    /// The SHA-256 of the library's source.
    library: String,
}

impl Made {
    fn here() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), library: check::SOURCE.to_owned() }
    }
}

impl Spec {
    /// A line about who made it, a line that says what is to be done, and the trace, if there is one.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let line = |value: Value| format!("{value}\n").into_bytes();
        let mut bytes = line(json!(Made::here()));
        bytes.extend(line(json!(self)));
        if let Self::Replay(spec) = self {
            bytes.extend(&spec.trace);
        }
        bytes
    }

    /// What these bytes say.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Refused> {
        let bad = || Refused("these bytes are no job of lookaside".to_owned());
        let mut parts = bytes.splitn(3, |&byte| byte == b'\n');
        let mut part = || parts.next().ok_or_else(bad);
        let (made, spec, trace) = (part()?, part()?, part()?);
        let made: Made = serde_json::from_slice(made).map_err(|_| bad())?;
        let here = Made::here();
        if made != here {
            let [there, here] = [made, here].map(|Made { version, mut library }| {
                library.truncate(12);
                format!("lookaside {version} with library {library}")
            });
            return Err(Refused(format!(
                "the job was made by {there}, and this is {here}: install the same package everywhere"
            )));
        }
        let mut spec = serde_json::from_slice(spec).map_err(|_| bad())?;
        if let Self::Replay(spec) = &mut spec {
            spec.trace = trace.to_vec();
        }
        Ok(spec)
    }

    /// The tasks, with all names looked up.
    pub(crate) fn work(self) -> Result<Box<dyn Work>, Refused> {
        Ok(match self {
            Self::ParameterSweep(spec) => Box::new(spec.work()?),
            Self::Check(spec) => Box::new(spec.work()?),
            Self::Generate(spec) => Box::new(spec.work()?),
            Self::Replay(spec) => Box::new(spec.work()?),
        })
    }
}

/// The SHA-256 of a job's bytes.
pub(crate) fn digest(job: &[u8]) -> String {
    Sha256::digest(job).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a task of the job with this digest has given, or why it was refused, with which task it is. A refusal is a result: to
/// run the task again gives it again.
pub(crate) fn result(work: &dyn Work, digest: &str, task: usize) -> String {
    let (key, value) = match work.run(task) {
        Ok(value) => ("ok", value),
        Err(Refused(why)) => ("refused", json!(why)),
    };
    json!({ "job": digest, "task": task, key: value }).to_string()
}

/// The tables of all results, which come in any order, as a text.
pub(crate) fn gather(work: &dyn Work, digest: &str, results: &[String]) -> Result<String, Refused> {
    let tasks = work.tasks();
    if results.len() != tasks {
        return Err(Refused(format!("{} results of {tasks} tasks", results.len())));
    }
    let mut in_order: Vec<Option<Value>> = vec![None; tasks];
    for text in results {
        let bad = || Refused("a result is no result of a task of lookaside".to_owned());
        let result: Value = serde_json::from_str(text).map_err(|_| bad())?;
        let (job, task) = (result["job"].as_str(), result["task"].as_u64());
        let (job, task) = (job.ok_or_else(bad)?, task.ok_or_else(bad)? as usize);
        if job != digest {
            return Err(Refused(format!("a result of task {task} is of another job")));
        }
        let place = in_order.get_mut(task).ok_or_else(bad)?;
        if place.replace(result).is_some() {
            let label = work.label(task);
            return Err(Refused(format!("there are two results of task {task} ({label})")));
        }
    }
    let mut values = Vec::new();
    // As many as there are tasks, and none of them twice.
    for mut result in in_order.into_iter().flatten() {
        let bad = || Refused("a result has nothing that a task gave".to_owned());
        if let Some(why) = result["refused"].as_str() {
            return Err(Refused(why.to_owned()));
        }
        values.push(result.get_mut("ok").map(Value::take).ok_or_else(bad)?);
    }
    let document = work.gather(values)?;
    serde_json::to_string(&document).map_err(Refused::because)
}

/// Refuses a seed that is there twice: its programs or schedules would be counted twice.
pub(crate) fn distinct(seeds: &[u32]) -> Result<(), Refused> {
    let mut known = BTreeSet::new();
    match seeds.iter().find(|&seed| !known.insert(seed)) {
        None => Ok(()),
        Some(seed) => Err(Refused(format!("seed {seed} is named twice: leave one out"))),
    }
}
