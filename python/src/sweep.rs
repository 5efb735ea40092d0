//! A sweep: a task for each point of each curve, with all its samples.

use std::collections::BTreeMap;

use lookaside_simulation::{
    data::Better,
    reproduce::{Book, Settings},
    seeds::Spread,
    sweep::{ParameterSweep, Prepared, Sample, column, crossovers, page, price},
};
use lookaside_terminal::Refused;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    job::Work,
    source::Source,
    table::{Document, Kind, Table},
};

/// What is to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) workload: Source,
    pub(crate) machines: Vec<Source>,
    pub(crate) strategies: Vec<String>,
    pub(crate) over: String,
    pub(crate) values: Vec<f64>,
    pub(crate) options: BTreeMap<String, f64>,
    pub(crate) prices: BTreeMap<String, f64>,
    pub(crate) metric: Option<String>,
    pub(crate) seed: u64,
    pub(crate) seeds: u64,
    pub(crate) plausible: bool,
}

/// The most samples of a point.
const MOST: u64 = 10_000;

impl Spec {
    pub(crate) fn work(self) -> Result<Points, Refused> {
        if self.seeds > MOST {
            return Err(Refused(format!("{} samples of each point; at most {MOST}", self.seeds)));
        }
        if let Some((name, value)) = self.options.iter().find(|(_, value)| !value.is_finite()) {
            return Err(Refused(format!("option `{name}` is {value}, which is no number")));
        }
        let mut book = Book::shipped()?;
        let mut machines = Vec::new();
        for machine in &self.machines {
            let key = machine.machine(&mut book)?;
            machines.push(book.machine(&key)?.clone());
        }
        let prices = self.prices.iter().map(|(name, value)| price(name, *value));
        let sweep = ParameterSweep {
            workload: self.workload.workload()?,
            machines,
            strategies: self.strategies,
            over: (self.over, self.values),
            cpus: None,
            options: self.options,
            defaults: book.options(self.workload.name(), &Settings::new()),
            prices: prices.collect::<Result<_, _>>()?,
            seeds: [self.seed, self.seeds],
            plausible: self.plausible.then_some(book.ranges),
            metric: self.metric,
        };
        let workload = self.workload.name().to_owned();
        Ok(Points { workload, prepared: sweep.prepare()? })
    }
}

/// The points of a sweep.
pub(crate) struct Points {
    workload: String,
    prepared: Prepared,
}

impl Points {
    /// The machine, the strategy and the value of a point.
    fn place(&self, point: usize) -> (&str, &str, f64) {
        let sweep = self.prepared.sweep();
        let [machine, strategy, value] = self.prepared.place(point);
        (&sweep.machines[machine].key, &sweep.strategies[strategy], sweep.over.1[value])
    }
}

impl Work for Points {
    fn tasks(&self) -> usize {
        self.prepared.points()
    }

    fn label(&self, task: usize) -> String {
        let (machine, strategy, value) = self.place(task);
        format!("{machine}, {strategy}, {}={value}", self.prepared.sweep().over.0)
    }

    fn run(&self, task: usize) -> Result<Value, Refused> {
        let one = |sample| self.prepared.sample(task, sample).map_err(|Refused(why)| why);
        let all: Vec<Result<Sample, String>> = (0..self.prepared.samples()).map(one).collect();
        serde_json::to_value(all).map_err(Refused::because)
    }

    fn gather(&self, results: Vec<Value>) -> Result<Document, Refused> {
        let sweep = self.prepared.sweep();
        let mut samples: Vec<Result<Sample, Refused>> = Vec::new();
        for result in results {
            let of_point: Vec<Result<Sample, String>> =
                serde_json::from_value(result).map_err(Refused::because)?;
            if of_point.len() != self.prepared.samples() {
                return Err(Refused("a result has another number of samples".to_owned()));
            }
            samples.extend(of_point.into_iter().map(|one| one.map_err(Refused)));
        }
        let swept = self.prepared.gather(&samples)?;
        let over = &sweep.over.0;
        let x = column(over, &swept.metric);
        let start = [("machine", Kind::Text), ("strategy", Kind::Text), (x, Kind::Number)];
        let columns = |more: &[(&'static str, Kind)]| [&start[..], more].concat();
        let more = [("seed", Kind::Whole), ("value", Kind::Number), ("problem", Kind::Text)];
        let mut rows = Table::new("samples", &columns(&more));
        for (number, sample) in samples.iter().enumerate() {
            let (machine, strategy, x) = self.place(number / self.prepared.samples());
            let seed = sweep.seeds[0].wrapping_add((number % self.prepared.samples()) as u64);
            let (value, problem) = match sample {
                Ok(sample) => (json!(sample.value), json!(sample.remark)),
                Err(Refused(why)) => (Value::Null, json!(why)),
            };
            rows.row([json!(machine), json!(strategy), json!(x), json!(seed), value, problem]);
        }
        let more = [
            ("median", Kind::Number),
            ("least", Kind::Number),
            ("greatest", Kind::Number),
            ("bistable", Kind::Truth),
            ("problem", Kind::Text),
        ];
        let mut summary = Table::new("summary", &columns(&more));
        for curve in &swept.curves {
            for point in &curve.points {
                let numbers = match &point.samples {
                    Ok(samples) => {
                        let spread = Spread::of(samples);
                        let all = [spread.median(), spread.least(), spread.greatest()];
                        let [median, least, greatest] = all.map(|number| json!(number));
                        [
                            median,
                            least,
                            greatest,
                            json!(spread.sides().is_some()),
                            json!(point.remark),
                        ]
                    }
                    Err(why) => [Value::Null, Value::Null, Value::Null, Value::Null, json!(why)],
                };
                let [median, least, greatest, bistable, problem] = numbers;
                let place = [json!(curve.machine), json!(curve.strategy), json!(point.x)];
                let [machine, strategy, x] = place;
                summary.row([machine, strategy, x, median, least, greatest, bistable, problem]);
            }
        }
        let columns = [
            ("machine", Kind::Text),
            ("before", Kind::Text),
            ("after", Kind::Text),
            ("at", Kind::Number),
            ("least", Kind::Number),
            ("greatest", Kind::Number),
            ("certainty", Kind::Number),
        ];
        let mut crossing = Table::new("crossovers", &columns);
        for one in crossovers(&swept) {
            let [before, after] = one.strategies;
            let [least, greatest] = one.between;
            crossing.row([
                json!(one.machine),
                json!(before),
                json!(after),
                json!(one.at),
                json!(least),
                json!(greatest),
                json!(one.certainty),
            ]);
        }
        let count = sweep.seeds[1];
        let band = if sweep.plausible.is_some() { "plausible machines" } else { "seeds" };
        let heading = page::Heading {
            title: &format!("{} over {over}", self.workload),
            over,
            about: &format!(
                "Bands: from the least to the greatest of {count} {band}. lookaside {}.",
                env!("CARGO_PKG_VERSION")
            ),
        };
        let facts = json!({
            "workload": self.workload,
            "over": over,
            "metric": swept.metric,
            "unit": swept.unit,
            "better": match swept.better { Better::Lower => "lower", Better::Higher => "higher" },
            "events": swept.events,
        });
        let Value::Object(facts) = facts else { unreachable!("facts are an object") };
        let tables = vec![rows, summary, crossing];
        Ok(Document { facts, tables, page: Some(page::html(&swept, &heading)) })
    }
}
