//! A replay: a task for each strategy.

use std::path::Path;

use lookaside_replay::{
    Upkeep,
    inputs::{Choice, Inputs},
    replay, with_band,
};
use lookaside_simulation::{data::Machine, reproduce::Book};
use lookaside_terminal::{Refused, names};
use lookaside_traces::{Trace, file, import, reconstruct::Flushes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    job::Work,
    source::Source,
    table::{Document, Kind, Table},
};

/// What is to be replayed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The name of the trace's file, for messages.
    pub(crate) name: String,
    pub(crate) machine: Option<Source>,
    pub(crate) cpus: Option<usize>,
    pub(crate) strategies: Vec<String>,
    pub(crate) flushes: Option<String>,
    pub(crate) working_set: Vec<(String, f64)>,
    pub(crate) seed: u64,
    /// The trace in the project's own format.
    #[serde(skip)]
    pub(crate) trace: Vec<u8>,
}

/// The trace of a file, in any format that `lookaside import` reads, and the name of the file.
pub(crate) fn read(path: &str) -> Result<(String, Vec<u8>), Refused> {
    let trace = import::open(Path::new(path)).map_err(Refused::because)?;
    let mut bytes = Vec::new();
    file::write(&trace, &mut bytes).map_err(Refused::because)?;
    let name = Path::new(path).file_name().unwrap_or_default();
    Ok((name.to_string_lossy().into_owned(), bytes))
}

impl Spec {
    pub(crate) fn work(self) -> Result<Strategies, Refused> {
        let trace = file::read(&self.trace[..], Path::new(&self.name)).map_err(Refused::because)?;
        let mut book = Book::shipped()?;
        let named = self.machine.as_ref().map(|machine| machine.machine(&mut book)).transpose()?;
        let flushes = match self.flushes.as_deref() {
            None => None,
            Some("recorded") => Some(Flushes::Recorded),
            Some("calls") => Some(Flushes::FromCalls),
            Some(other) => {
                let known = ["recorded", "calls"].into_iter();
                return Err(names::unknown("source of flushes", other, known));
            }
        };
        let choice = Choice {
            machine: named.as_deref(),
            cpus: self.cpus,
            strategies: &self.strategies,
            flushes,
            working_set: &self.working_set,
            ..Choice::default()
        };
        let inputs = choice.inputs(&trace, &mut book)?;
        let machine = book.machine(&inputs.machine)?.clone();
        Ok(Strategies { trace, inputs, machine, seed: self.seed })
    }
}

/// The strategies of a replay.
pub(crate) struct Strategies {
    trace: Trace,
    inputs: Inputs,
    machine: Machine,
    seed: u64,
}

impl Strategies {
    fn assumptions(&self) -> Vec<String> {
        let Self { trace, inputs, machine, .. } = self;
        let basis = inputs.basis(&trace.origin, machine);
        trace.missing().into_iter().map(|what| what.to_string()).chain(basis.sentences()).collect()
    }
}

impl Work for Strategies {
    fn tasks(&self) -> usize {
        self.inputs.strategies.len()
    }

    fn label(&self, task: usize) -> String {
        format!("{}, {}", self.machine.key, self.inputs.strategies[task])
    }

    fn run(&self, task: usize) -> Result<Value, Refused> {
        let Inputs { script, strategies, .. } = &self.inputs;
        let strategy = &strategies[task];
        let setup = self.inputs.setup(&self.machine, strategy, self.seed);
        let replayed = replay(script, &setup).and_then(|done| with_band(script, &setup, done));
        let replayed =
            replayed.map_err(|Refused(why)| Refused(format!("strategy `{strategy}`: {why}")))?;
        let mut value = json!(replayed);
        value["total_share"] = json!(replayed.share());
        value["known"] = json!(replayed.known());
        value["known_share"] = json!(replayed.share_of(replayed.known()));
        value["rest"] = json!(replayed.rest.total());
        Ok(value)
    }

    fn gather(&self, mut results: Vec<Value>) -> Result<Document, Refused> {
        let operations = [
            "switches",
            "flushes",
            "interrupts",
            "page_flushes",
            "full_flushes",
            "broadcasts",
            "walks",
            "accesses",
        ];
        let whole = |name| (name, Kind::Whole);
        let causes = Upkeep::NAMES.map(whole);
        let mut upkeep = Table::new(
            "strategies",
            &[
                ("machine", Kind::Text),
                ("strategy", Kind::Text),
                whole("cpus"),
                whole("total"),
                ("total_share", Kind::Number),
                whole("known"),
                ("known_share", Kind::Number),
                ("known_ratio", Kind::Number),
                causes[0],
                causes[1],
                causes[2],
                causes[3],
                causes[4],
                causes[5],
                whole("refills_least"),
                whole("refills_greatest"),
                whole("rest"),
            ],
        );
        let mut counts = Table::new(
            "operations",
            &[("strategy", Kind::Text), ("operation", Kind::Text), whole("count")],
        );
        let mut latencies = Table::new(
            "latencies",
            &[
                ("strategy", Kind::Text),
                ("of", Kind::Text),
                whole("count"),
                whole("p50"),
                whole("p90"),
                whole("p99"),
                whole("max"),
            ],
        );
        let mut initiators = Table::new(
            "initiators",
            &[
                ("strategy", Kind::Text),
                ("process", Kind::Text),
                ("operation", Kind::Text),
                whole("count"),
                whole("interrupts"),
                causes[0],
                causes[1],
                causes[2],
                causes[3],
                causes[4],
                causes[5],
            ],
        );
        let first = results.first().and_then(|run| run["known"].as_f64()).unwrap_or_default();
        for run in &mut results {
            let strategy = run["strategy"].take();
            let ratio = run["known"].as_f64().map(|known| known / first);
            let ratio = json!(ratio.filter(|ratio| ratio.is_finite()));
            let time = |of: &mut Value| Upkeep::NAMES.map(|cause| of["upkeep"][cause].take());
            let [a, b, c, d, e, f] = time(run);
            let machine = run["machine"].take();
            let [cpus, total, share, known, known_share, rest] =
                ["cpus", "total", "total_share", "known", "known_share", "rest"]
                    .map(|key| run[key].take());
            let [least, greatest] = [0, 1].map(|i| run["refills_band"][i].take());
            upkeep.row([
                machine,
                strategy.clone(),
                cpus,
                total,
                share,
                known,
                known_share,
                ratio,
                a,
                b,
                c,
                d,
                e,
                f,
                least,
                greatest,
                rest,
            ]);
            for operation in operations {
                let count = run["operations"][operation].take();
                counts.row([strategy.clone(), json!(operation), count]);
            }
            for one in run["latencies"].as_array_mut().into_iter().flatten() {
                let [of, count, p50, p90, p99, max] =
                    ["of", "count", "p50", "p90", "p99", "max"].map(|key| one[key].take());
                latencies.row([strategy.clone(), of, count, p50, p90, p99, max]);
            }
            for one in run["blame"].as_array_mut().into_iter().flatten() {
                let [a, b, c, d, e, f] = time(one);
                let [process, operation, count, interrupts] =
                    ["process", "operation", "count", "interrupts"].map(|key| one[key].take());
                let name = strategy.clone();
                initiators.row([name, process, operation, count, interrupts, a, b, c, d, e, f]);
            }
        }
        let facts = json!({
            "machine": self.machine.key,
            "cpus": self.inputs.cpus,
            "recorded_cpus": self.inputs.script.cpus.len(),
            "traced": self.inputs.script.length,
            "flushes": if self.inputs.flushes == Flushes::Recorded { "recorded" } else { "calls" },
            "assumptions": self.assumptions(),
        });
        let Value::Object(facts) = facts else { unreachable!("facts are an object") };
        Ok(Document { facts, tables: vec![upkeep, counts, latencies, initiators], page: None })
    }
}
