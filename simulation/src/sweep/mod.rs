//! Sweeps: a workload over many values of something, on several machines, with several strategies, each point with
//! several samples, and where curves cross.
//!
//! A sample is a seed, and where plausible machines are asked, a machine of its own as well. All strategies have the
//! same samples, so that a difference between two of them is not one between their samples.
//!
//! A [`ParameterSweep`] says what to run. [`Prepared`], it runs at once, or sample by sample, in any order and in
//! several processes, and [gathers](Prepared::gather) what they gave.

mod columns;
mod crossover;
pub mod page;
mod values;

use lookaside_machine::timed::Price;
use lookaside_terminal::{Refused, counted, names};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use columns::column;
pub use crossover::{Crossover, crossovers};
pub use values::values;

use crate::{
    data::{Better, Machine, Ranges},
    reproduce::{Run, Settings},
    sensitivity::{best_of, plausible},
    strategy, workload,
};

/// What is swept over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// The number of CPUs.
    Cpus,
    /// The place on the workload's curve.
    X,
    /// A price of the machine, in nanoseconds.
    Price(Price),
    /// An option of the workload.
    Option(String),
}

impl Over {
    /// What a name stands for: anything that is neither `cpus` nor `x` nor a price is an option of the workload.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let key = name.strip_prefix("prices.").unwrap_or(name);
        match (name, Price::ALL.iter().find(|price| price.key() == key)) {
            ("cpus", _) => Self::Cpus,
            ("x", _) => Self::X,
            (_, Some(&price)) => Self::Price(price),
            _ => Self::Option(name.to_owned()),
        }
    }
}

/// A sweep.
#[derive(Clone, Debug, Default)]
pub struct ParameterSweep {
    /// The workload, by name or by the path of its file.
    pub workload: String,
    /// The machines.
    pub machines: Vec<Machine>,
    /// The strategies.
    pub strategies: Vec<String>,
    /// What it is over, as it was named, and the values.
    pub over: (String, Vec<f64>),
    /// How many CPUs, for workloads that do not fix it; none where it is over that.
    pub cpus: Option<usize>,
    /// Options of the workload that were given. One that the workload does not read is refused.
    pub options: Settings,
    /// What options are unless they are given.
    pub defaults: Settings,
    /// Prices of all machines, in nanoseconds.
    pub prices: Vec<(Price, f64)>,
    /// The first seed and how many samples.
    pub seeds: [u64; 2],
    /// The ranges of prices, where each sample has a plausible machine of its own.
    pub plausible: Option<Ranges>,
    /// The metric; the first of the workload if none is named.
    pub metric: Option<String>,
}

/// A sweep whose names were looked up and whose machines were drawn. Each sample is a function of it and of the
/// sample's place, so that places can be dealt out to several processes.
#[derive(Clone, Debug)]
pub struct Prepared {
    sweep: ParameterSweep,
    over: Over,
    /// The machine of each sample, by machine.
    machines: Vec<Vec<Machine>>,
}

/// What one sample has given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way it is better.
    pub better: Better,
    /// Its value.
    pub value: f64,
    /// How many CPUs it ran on.
    pub cpus: usize,
    /// How many events were simulated.
    pub events: u64,
    /// What is to be known of the value: that it is 0 as nothing was counted.
    pub remark: Option<String>,
}

/// A point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where it is.
    pub x: f64,
    /// How many CPUs it ran on; none if it did not.
    pub cpus: Option<usize>,
    /// The samples, in order; or why there are none.
    pub samples: Result<Vec<f64>, String>,
    /// What is to be known of the samples: of which the metric is 0 as no thread came to it.
    pub remark: Option<String>,
}

/// The curve of a strategy on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The key of the machine.
    pub machine: String,
    /// The strategy.
    pub strategy: String,
    /// Its points.
    pub points: Vec<Point>,
}

/// What a sweep has given.
#[derive(Clone, Debug, PartialEq)]
pub struct Swept {
    /// Machine by machine, in each strategy by strategy.
    pub curves: Vec<Curve>,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way it is better.
    pub better: Better,
    /// How many events were simulated.
    pub events: u64,
}

impl Swept {
    /// On how many CPUs it ran, in words: nothing where that is what it is over, or if nothing ran.
    #[must_use]
    pub fn cpus(&self, over: &str) -> Option<String> {
        let all = || self.curves.iter().flat_map(|curve| &curve.points).filter_map(|one| one.cpus);
        let (least, most) = (all().min()?, all().max()?);
        match over {
            "cpus" => None,
            _ if least == most => Some(counted(least, "CPU", "CPUs")),
            _ => Some(format!("{least} to {most} CPUs")),
        }
    }
}

impl ParameterSweep {
    /// Looks names up, and draws the machine of each sample.
    ///
    /// # Errors
    ///
    /// If a strategy or the metric does not exist, if the workload cannot be read, or if there is nothing to run.
    pub fn prepare(self) -> Result<Prepared, Refused> {
        for name in &self.strategies {
            if !strategy::all().any(|entry| entry.name == name) {
                let known = strategy::all().map(|entry| entry.name);
                return Err(names::unknown("strategy", name, known));
            }
        }
        let is_file = workload::file::is_path(&self.workload);
        let opened = is_file.then(|| workload::opened(&self.workload)).transpose()?;
        if !is_file {
            workload::find(&self.workload)?;
        }
        let over = Over::of(&self.over.0);
        self.check(&over)?;
        if let Some(metric) = &self.metric {
            workload::check_metric(&self.workload, metric)?;
        }
        let [seed, count] = self.seeds;
        let is_empty = self.machines.is_empty() || self.strategies.is_empty() || count == 0;
        if is_empty || self.over.1.is_empty() {
            let why = "there is nothing to run: no machine, no strategy, no value or no sample";
            return Err(Refused(why.to_owned()));
        }
        let of = |machine: &Machine| -> Result<Vec<Machine>, Refused> {
            let mut all = match &self.plausible {
                None => vec![machine.clone(); count as usize],
                Some(ranges) => {
                    let assumed = opened.as_ref().map(|one| one.assumed(machine));
                    let assumed = assumed.unwrap_or_default();
                    let all = plausible(machine, ranges, &assumed, count as usize, seed)?;
                    all.into_iter().map(|one| one.machine).collect()
                }
            };
            for machine in &mut all {
                self.prices.iter().for_each(|&(price, value)| set(machine, price, value));
            }
            Ok(all)
        };
        let machines = self.machines.iter().map(of).collect::<Result<_, _>>()?;
        Ok(Prepared { over, machines, sweep: self })
    }

    /// Refuses values that what is swept over cannot have, and what is given twice.
    fn check(&self, over: &Over) -> Result<(), Refused> {
        let (name, values) = &self.over;
        let twice = match over {
            Over::Option(name) => self.options.contains_key(name),
            Over::Price(price) => self.prices.iter().any(|(one, _)| one == price),
            Over::Cpus => self.cpus.is_some(),
            Over::X => false,
        };
        if twice {
            let why = "is swept over and given a value as well";
            return Err(Refused(format!("`{name}` {why}: leave one out")));
        }
        let counts_cpus =
            |name: &str| workload::find(name).is_ok_and(workload::Entry::x_counts_cpus);
        if self.cpus.is_some() && *over == Over::X && counts_cpus(&self.workload) {
            let why =
                "x is the number of CPUs of this workload: leave it or the number of CPUs out";
            return Err(Refused(format!("workload `{}`: {why}", self.workload)));
        }
        for &value in values {
            match over {
                Over::Price(_) => drop(price(name, value)?),
                Over::Cpus if value.fract() != 0.0 || !(1.0..=MOST_CPUS).contains(&value) => {
                    let why = format!("a number of CPUs is whole and from 1 to {MOST_CPUS}");
                    return Err(Refused(format!("`{name}` has {value}; {why}")));
                }
                Over::X => workload::check_x(&self.workload, value)?,
                Over::Cpus | Over::Option(_) => {}
            }
        }
        for (what, names) in [
            ("machine", self.machines.iter().map(|one| one.key.as_str()).collect::<Vec<_>>()),
            ("strategy", self.strategies.iter().map(String::as_str).collect()),
        ] {
            if let Some(name) = names::repeated(&names) {
                return Err(Refused(format!("{what} `{name}` is named twice")));
            }
        }
        Ok(())
    }
}

/// No machine has more CPUs.
const MOST_CPUS: f64 = 4096.0;

impl Prepared {
    /// What is prepared.
    #[must_use]
    pub const fn sweep(&self) -> &ParameterSweep {
        &self.sweep
    }

    /// How many points all curves have: each value of each strategy of each machine, in this order from the
    /// innermost.
    #[must_use]
    pub const fn points(&self) -> usize {
        let Self { sweep, machines, .. } = self;
        machines.len() * sweep.strategies.len() * sweep.over.1.len()
    }

    /// How many samples each point has.
    #[must_use]
    pub const fn samples(&self) -> usize {
        self.sweep.seeds[1] as usize
    }

    /// How many runs it takes.
    #[must_use]
    pub const fn runs(&self) -> usize {
        self.points() * self.samples()
    }

    /// The machine, the strategy and the value of a point, by their numbers.
    #[must_use]
    pub const fn place(&self, point: usize) -> [usize; 3] {
        let (values, strategies) = (self.sweep.over.1.len(), self.sweep.strategies.len());
        [point / values / strategies, point / values % strategies, point % values]
    }

    /// A sample of a point.
    ///
    /// # Errors
    ///
    /// If it cannot be run, if the workload has no such metric, or does not read an option that was given.
    pub fn sample(&self, point: usize, sample: usize) -> Result<Sample, Refused> {
        let [machine, strategy, value] = self.place(point);
        let sweep = &self.sweep;
        let mut machine = self.machines[machine][sample].clone();
        let value = sweep.over.1[value];
        let mut given = sweep.options.clone();
        let (mut x, mut cpus) = (None, sweep.cpus);
        match &self.over {
            Over::Cpus => cpus = Some(value as usize),
            Over::X => x = Some(value),
            Over::Price(price) => set(&mut machine, *price, value),
            Over::Option(name) => {
                given.insert(name.clone(), value);
            }
        }
        let mut options = sweep.defaults.clone();
        options.extend(given.clone());
        let run = Run {
            machine: machine.key.clone(),
            workload: sweep.workload.clone(),
            strategy: sweep.strategies[strategy].clone(),
            options,
            x,
            cpus,
            seed: sweep.seeds[0].wrapping_add(sample as u64),
        };
        let names = given.keys().map(String::as_str);
        let outcome = run.outcome_with(&machine, names, 0)?;
        let metrics = &outcome.metrics;
        let found = match &sweep.metric {
            None => metrics.first(),
            Some(name) => {
                outcome.metric(name)?;
                metrics.iter().find(|metric| metric.key == name)
            }
        };
        let metric = found.ok_or_else(|| Refused("it measures nothing".to_owned()))?;
        if !metric.value.is_finite() {
            return Err(Refused(format!("`{}` was not measured: it is no number", metric.key)));
        }
        Ok(Sample {
            metric: metric.key.to_owned(),
            unit: metric.unit.to_owned(),
            better: best_of(metric),
            value: metric.value,
            cpus: outcome.report.cpus.len(),
            events: outcome.report.events,
            remark: unreached(&outcome.notes, metric.key).map(str::to_owned),
        })
    }

    /// Makes curves of all samples, point by point.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn gather(&self, samples: &[Result<Sample, Refused>]) -> Result<Swept, Refused> {
        let Some(first) = samples.iter().find_map(|one| one.as_ref().ok()) else {
            let why = samples.iter().find_map(|one| one.as_ref().err()).cloned();
            return Err(why.unwrap_or_else(|| Refused("there is no sample".to_owned())));
        };
        let values = &self.sweep.over.1;
        let of_points: Vec<_> = samples.chunks(self.samples()).collect();
        let point = |(&x, samples): (&f64, &&[Result<Sample, Refused>])| Point {
            x,
            cpus: samples.iter().flatten().map(|one| one.cpus).next(),
            samples: samples
                .iter()
                .map(|one| one.as_ref().map(|one| one.value).map_err(|why| summary(&why.0)))
                .collect(),
            remark: remark(samples.iter().flatten().map(|one| one.remark.as_deref())),
        };
        let curve = |(number, samples): (usize, &[&[Result<Sample, Refused>]])| {
            let [machine, strategy, _] = self.place(number * values.len());
            Curve {
                machine: self.sweep.machines[machine].key.clone(),
                strategy: self.sweep.strategies[strategy].clone(),
                points: values.iter().zip(samples).map(point).collect(),
            }
        };
        Ok(Swept {
            curves: of_points.chunks(values.len()).enumerate().map(curve).collect(),
            metric: first.metric.clone(),
            unit: first.unit.clone(),
            better: first.better,
            events: samples.iter().flatten().map(|one| one.events).sum(),
        })
    }

    /// The points that failed although one of the machines has as many CPUs and the strategy can run on it: the machine, the
    /// strategy, the value, and why.
    #[must_use]
    pub fn failed<'w>(&self, swept: &'w Swept) -> Vec<(&'w Curve, f64, &'w str)> {
        let mut all = Vec::new();
        let machines = self.sweep.machines.iter();
        let machines =
            machines.flat_map(|one| core::iter::repeat_n(one, self.sweep.strategies.len()));
        for (curve, machine) in swept.curves.iter().zip(machines) {
            if strategy::find(&curve.strategy, machine).is_err() {
                continue;
            }
            let of = |machine: &Machine| machine.model.topology.cpus();
            let most = self.sweep.machines.iter().map(of).max().unwrap_or(0);
            let has_room = of(machine) as f64;
            let room = |x: f64| {
                !matches!(self.over, Over::Cpus | Over::X) || x <= has_room || x > most as f64
            };
            let of = curve.points.iter().filter(|point| room(point.x));
            all.extend(of.filter_map(|point| {
                Some((curve, point.x, point.samples.as_ref().err()?.as_str()))
            }));
        }
        all
    }

    /// Runs all of it on all CPUs of the host. `done` is called after each run.
    ///
    /// # Errors
    ///
    /// If nothing of it can be run.
    pub fn run(&self, done: &(dyn Fn() + Sync)) -> Result<Swept, Refused> {
        let one = |place: usize| {
            let sample = self.sample(place / self.samples(), place % self.samples());
            done();
            sample
        };
        let samples: Vec<_> = (0..self.runs()).into_par_iter().with_max_len(1).map(one).collect();
        self.gather(&samples)
    }
}

/// A price by name, with or without `prices.` before it, and its value in nanoseconds.
///
/// # Errors
///
/// If there is none of that name, or the value is not from 0 to a second.
pub fn price(name: &str, nanoseconds: f64) -> Result<(Price, f64), Refused> {
    let key = name.strip_prefix("prices.").unwrap_or(name);
    let Some(&price) = Price::ALL.iter().find(|price| price.key() == key) else {
        return Err(names::unknown("price", key, Price::ALL.iter().map(|price| price.key())));
    };
    match (0.0..=1e9).contains(&nanoseconds) {
        true => Ok((price, nanoseconds)),
        false => {
            Err(Refused(format!("`{name}` is {nanoseconds} ns; a price is from 0 to a second")))
        }
    }
}

/// The note of a run that says why this metric is 0: what counts it was never reached.
#[must_use]
pub fn unreached<'n>(notes: &'n [String], metric: &str) -> Option<&'n str> {
    let begin = format!("`{metric}` is 0 as ");
    notes.iter().find(|note| note.contains(&begin)).map(String::as_str)
}

/// What is to be known of several runs of which some have such a note: the first, with how many they are if not all.
pub fn remark<'n>(runs: impl Iterator<Item = Option<&'n str>>) -> Option<String> {
    let runs: Vec<Option<&str>> = runs.collect();
    let notes: Vec<&str> = runs.iter().flatten().copied().collect();
    let first = notes.first()?;
    Some(match notes.len() == runs.len() {
        true => (*first).to_owned(),
        false => format!("in {} of {} samples: {first}", notes.len(), runs.len()),
    })
}

/// A failure in one line: what comes before its history.
fn summary(why: &str) -> String {
    why.lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
}

fn set(machine: &mut Machine, price: Price, nanoseconds: f64) {
    machine.model.prices.set(price, (nanoseconds * 1e3).round() as u64);
}

impl Swept {
    /// The curves of a machine.
    pub fn of<'w>(&'w self, machine: &'w str) -> impl Iterator<Item = &'w Curve> {
        self.curves.iter().filter(move |curve| curve.machine == machine)
    }

    /// The keys of the machines.
    #[must_use]
    pub fn machines(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.curves.iter().map(|one| one.machine.as_str()).collect();
        all.dedup();
        all
    }

    /// Whether any machine has several curves.
    #[must_use]
    pub fn compares(&self) -> bool {
        self.curves.len() > self.machines().len()
    }
}

#[cfg(test)]
mod tests;
