//! Single runs: each once, several at a time, with results in a fixed order.

use std::collections::BTreeMap;

use lookaside_machine::timed::Ps;
use lookaside_terminal::Refused;
use rayon::prelude::*;

use super::book::{Book, Settings};
use crate::{
    data::Machine,
    workload::{self, Metric, Outcome, Setup},
};

/// One run of a workload. The same run gives the same numbers, byte by byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The key of the machine.
    pub machine: String,
    /// The workload.
    pub workload: String,
    /// The strategy.
    pub strategy: String,
    /// All options of the workload.
    pub options: Settings,
    /// The place on the curve.
    pub x: Option<f64>,
    /// How many CPUs, where that was asked for.
    pub cpus: Option<usize>,
    /// What pseudo-random numbers begin with.
    pub seed: u64,
}

/// What a run has measured, without where the time went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The results.
    pub metrics: Vec<Metric>,
    /// How long it took, in simulated picoseconds.
    pub elapsed: Ps,
    /// How many CPUs it had.
    pub cpus: usize,
    /// How many steps were simulated.
    pub events: u64,
}

impl Measured {
    /// A metric by name.
    ///
    /// # Errors
    ///
    /// If the workload has none of that name.
    pub fn metric(&self, key: &str) -> Result<f64, Refused> {
        let metric = self.metrics.iter().find(|metric| metric.key == key);
        metric.map(|metric| metric.value).ok_or_else(|| {
            lookaside_terminal::names::unknown(
                "metric",
                key,
                self.metrics.iter().map(|metric| metric.key),
            )
        })
    }
}

impl From<Outcome> for Measured {
    fn from(outcome: Outcome) -> Self {
        let Outcome { metrics, report, .. } = outcome;
        Self { metrics, elapsed: report.elapsed, cpus: report.cpus.len(), events: report.events }
    }
}

/// What executes a run on its machine. Tests have one that makes results up.
pub type Execute<'e> = dyn Fn(&Machine, &Run) -> Result<Measured, Refused> + Sync + 'e;

impl Run {
    /// Runs it on the timed machine, with where the time went and with a timeline of so many moments;
    /// 0 for none.
    ///
    /// # Errors
    ///
    /// If the machine, the workload or the strategy refuses it, or if it fails.
    pub fn outcome(&self, machine: &Machine, timeline: usize) -> Result<Outcome, Refused> {
        workload::run(&self.workload, &self.setup(machine, timeline))
    }

    /// As [`Self::outcome`], and refuses before it an option among those `given` that the workload does not read.
    ///
    /// # Errors
    ///
    /// As there, or with the nearest option.
    pub fn outcome_with<'g>(
        &self,
        machine: &Machine,
        given: impl Iterator<Item = &'g str>,
        timeline: usize,
    ) -> Result<Outcome, Refused> {
        let mut given = given.peekable();
        if given.peek().is_some() {
            workload::check_options(&self.workload, &self.setup(machine, 0), given)?;
        }
        self.outcome(machine, timeline)
    }

    fn setup<'m>(&'m self, machine: &'m Machine, timeline: usize) -> Setup<'m> {
        Setup {
            machine,
            strategy: &self.strategy,
            cpus: self.cpus,
            x: self.x,
            options: &self.options,
            seed: self.seed,
            timeline,
        }
    }

    /// As [`Self::outcome`], only the results.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn measure(&self, machine: &Machine) -> Result<Measured, Refused> {
        self.outcome(machine, 0).map(Measured::from)
    }

    /// The same text for the same run, and no other.
    fn key(&self) -> String {
        format!("{self:?}")
    }
}

/// Runs to be executed, each once.
#[derive(Debug, Default)]
pub struct Runs {
    runs: Vec<Run>,
    known: BTreeMap<String, usize>,
}

impl Runs {
    /// Adds a run, if it is not among them: its number.
    pub fn add(&mut self, run: Run) -> usize {
        let Self { runs, known } = self;
        *known.entry(run.key()).or_insert_with(|| {
            runs.push(run);
            runs.len() - 1
        })
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// A run by its number.
    #[must_use]
    pub fn get(&self, number: usize) -> &Run {
        &self.runs[number]
    }

    /// What these runs have measured with further seeds, by number: those of more than `most` events are left out,
    /// where each further seed would cost as much again.
    pub fn execute_seeds(
        &self,
        book: &Book,
        execute: &Execute<'_>,
        first: &[Result<Measured, Refused>],
        seeds: u64,
        most: u64,
    ) -> Vec<Vec<Measured>> {
        let further = 1..seeds.max(1);
        let of = |(run, measured): (&Run, &Result<Measured, Refused>)| -> Vec<Measured> {
            let Ok(measured) = measured else { return Vec::new() };
            if measured.events > most {
                return Vec::new();
            }
            let again = further.clone().filter_map(|more| {
                let run = Run { seed: run.seed.wrapping_add(more), ..run.clone() };
                execute(book.machine(&run.machine).ok()?, &run).ok()
            });
            [measured.clone()].into_iter().chain(again).collect()
        };
        let pairs: Vec<_> = self.runs.iter().zip(first).collect();
        pairs.into_par_iter().with_max_len(1).map(of).collect()
    }

    /// Executes all of them on all CPUs of the host, calls `done` after each, and returns what each
    /// has measured, by number.
    pub fn execute(
        &self,
        book: &Book,
        execute: &Execute<'_>,
        done: &(dyn Fn() + Sync),
    ) -> Vec<Result<Measured, Refused>> {
        let one = |run: &Run| {
            let measured = book.machine(&run.machine).and_then(|machine| execute(machine, run));
            done();
            measured
        };
        // One at a time from the front: neighbours take similarly long.
        self.runs.par_iter().with_max_len(1).map(one).collect()
    }
}
