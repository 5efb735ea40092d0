//! Sweeps: a workload over many values of something, on several machines, with several strategies, each point with
//! several samples, and where curves cross.
//!
//! A sample is a seed, and where plausible machines are asked, a machine of its own as well. All strategies have the
//! same samples, so that a difference between two of them is not one between their samples.

mod crossover;
pub mod page;
mod values;

use std::collections::BTreeMap;

use lookaside_machine::timed::Price;
use lookaside_terminal::{Refused, names};
use rayon::prelude::*;

pub use crossover::{Crossover, crossovers};
pub use values::values;

use crate::{
    data::{Better, Machine, Ranges},
    reproduce::Run,
    sensitivity::{best_of, plausible},
    strategy,
    workload::Metric,
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
#[derive(Clone, Debug)]
pub struct ParameterSweep<'s> {
    /// The workload, by name or by the path of its file.
    pub workload: &'s str,
    /// The machines.
    pub machines: Vec<&'s Machine>,
    /// The strategies.
    pub strategies: &'s [String],
    /// What it is over, as it was named, and the values.
    pub over: (String, Vec<f64>),
    /// Options of the workload.
    pub options: &'s BTreeMap<String, f64>,
    /// Prices of all machines, in nanoseconds.
    pub prices: &'s [(Price, f64)],
    /// The first seed and how many samples.
    pub seeds: [u64; 2],
    /// The ranges of prices, where each sample has a plausible machine of its own.
    pub plausible: Option<&'s Ranges>,
    /// The metric; the first of the workload if none is named.
    pub metric: Option<&'s str>,
}

/// A point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where it is.
    pub x: f64,
    /// The samples, in order; or why there are none.
    pub samples: Result<Vec<f64>, String>,
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
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Which way it is better.
    pub better: Better,
    /// How many events were simulated.
    pub events: u64,
}

/// One sample: which curve, which point, which sample.
type Place = [usize; 3];

impl ParameterSweep<'_> {
    /// How many runs it takes.
    #[must_use]
    pub fn runs(&self) -> usize {
        let curves = self.machines.len() * self.strategies.len();
        curves * self.over.1.len() * self.seeds[1] as usize
    }

    /// Runs it. `done` is called after each run.
    ///
    /// # Errors
    ///
    /// If a strategy does not exist, if no point of it can be run, or if the workload has no such metric.
    pub fn run(&self, done: &(dyn Fn() + Sync)) -> Result<Swept, Refused> {
        for name in self.strategies {
            if !strategy::all().any(|entry| entry.name == name) {
                let known = strategy::all().map(|entry| entry.name);
                return Err(names::unknown("strategy", name, known));
            }
        }
        let [seed, count] = self.seeds;
        let machines = self.samples(seed, count as usize)?;
        let (over, values) = (Over::of(&self.over.0), &self.over.1);
        let curves = self.machines.len() * self.strategies.len();
        let mut places: Vec<Place> = Vec::new();
        for curve in 0..curves {
            for point in 0..values.len() {
                places.extend((0..count as usize).map(|sample| [curve, point, sample]));
            }
        }
        let one = |&[curve, point, sample]: &Place| -> Result<(Metric, u64), Refused> {
            let which = curve / self.strategies.len();
            let strategy = &self.strategies[curve % self.strategies.len()];
            let mut machine = machines[which][sample].clone();
            let value = values[point];
            let mut run = Run {
                machine: machine.key.clone(),
                workload: self.workload.to_owned(),
                strategy: strategy.clone(),
                options: self.options.clone(),
                x: None,
                cpus: None,
                seed: seed.wrapping_add(sample as u64),
            };
            match &over {
                Over::Cpus => run.cpus = Some(value as usize),
                Over::X => run.x = Some(value),
                Over::Price(price) => set(&mut machine, *price, value),
                Over::Option(name) => {
                    run.options.insert(name.clone(), value);
                }
            }
            let measured = run.measure(&machine);
            done();
            let measured = measured?;
            let metrics = &measured.metrics;
            let found = match self.metric {
                None => metrics.first(),
                Some(name) => {
                    measured.metric(name)?;
                    metrics.iter().find(|metric| metric.key == name)
                }
            };
            let metric = found.cloned().ok_or_else(|| Refused("it measures nothing".to_owned()))?;
            Ok((metric, measured.events))
        };
        let results: Vec<Result<(Metric, u64), Refused>> =
            places.par_iter().with_max_len(1).map(one).collect();
        let first = results.iter().find_map(|result| result.as_ref().ok());
        let Some((metric, _)) = first.cloned() else {
            return Err(results.into_iter().find_map(Result::err).unwrap_or(Refused(
                "there is nothing to run: no machine, no strategy or no value".to_owned(),
            )));
        };
        let events = results.iter().flatten().map(|(_, events)| events).sum();
        let mut samples = results.chunks(count as usize);
        let mut swept = Vec::new();
        for curve in 0..curves {
            let points = values.iter().zip(&mut samples).map(|(&x, results)| Point {
                x,
                samples: results
                    .iter()
                    .map(|result| match result {
                        Ok((metric, _)) => Ok(metric.value),
                        Err(Refused(why)) => Err(why.clone()),
                    })
                    .collect(),
            });
            swept.push(Curve {
                machine: self.machines[curve / self.strategies.len()].key.clone(),
                strategy: self.strategies[curve % self.strategies.len()].clone(),
                points: points.collect(),
            });
        }
        let better = best_of(&metric);
        Ok(Swept { curves: swept, metric: metric.key, unit: metric.unit, better, events })
    }

    /// The machine of each sample, by machine.
    fn samples(&self, seed: u64, count: usize) -> Result<Vec<Vec<Machine>>, Refused> {
        let of = |machine: &&Machine| -> Result<Vec<Machine>, Refused> {
            let mut all = match self.plausible {
                None => vec![(*machine).clone(); count],
                Some(ranges) => {
                    let assumed = match crate::workload::file::is_path(self.workload) {
                        true => crate::workload::opened(self.workload)?.assumed(machine),
                        false => Vec::new(),
                    };
                    let all = plausible(machine, ranges, &assumed, count, seed)?;
                    all.into_iter().map(|one| one.machine).collect()
                }
            };
            for machine in &mut all {
                self.prices.iter().for_each(|&(price, value)| set(machine, price, value));
            }
            Ok(all)
        };
        self.machines.iter().map(of).collect()
    }
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
}

#[cfg(test)]
mod tests;
