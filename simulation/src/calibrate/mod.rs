//! Calibration: a machine file of the machine that this runs on, measured from user space.
//!
//! [`mod@measure`] takes short blocks of everything in turn; what that is says [`probe`]. [`counts`] says which of
//! them were disturbed; [`series`] what is left of them. [`findings`] works out what follows ([`capacity`],
//! [`lines`]), or why nothing does: what cannot be known is refused, not guessed. [`fit`] takes off what the model
//! charges beside, [`file`](mod@file) writes, and [`predict`] compares what nothing was fitted to.
//! Only [`mod@measure`] asks the time; all the others are functions of what was measured.

pub mod capacity;
pub mod counts;
pub mod facts;
pub mod file;
pub mod findings;
pub mod fit;
pub mod lines;
pub mod measure;
pub mod only;
pub mod predict;
pub mod probe;
pub mod series;
mod system;
pub mod topology;

use core::time::Duration;
use std::time::Instant;

use lookaside_terminal::Refused;
use serde::{Deserialize, Serialize};

use self::{
    counts::Counts,
    facts::Facts,
    measure::Bench,
    probe::{Probe, Samples, Scope},
    series::Series,
};

/// What was measured on a machine, and what it says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Record", into = "Record")]
pub struct Recording {
    /// What the machine says of itself.
    pub facts: Facts,
    /// What was measured.
    pub samples: Samples,
}

/// A recording as JSON has it, where names are texts.
#[derive(Serialize, Deserialize)]
struct Record {
    facts: Facts,
    series: Vec<(Probe, Series)>,
}

impl From<Record> for Recording {
    fn from(Record { facts, series }: Record) -> Self {
        Self { facts, samples: series.into_iter().collect() }
    }
}

impl From<Recording> for Record {
    fn from(Recording { facts, samples }: Recording) -> Self {
        Self { facts, series: samples.into_iter().collect() }
    }
}

/// Measures this machine for so long. `progress` is told which share of the time is over.
///
/// # Errors
///
/// If the machine cannot be described, or if the kernel refuses something.
pub fn measure(time: Duration, scope: Scope, progress: &dyn Fn(f64)) -> Result<Recording, Refused> {
    let refused = |what: &str, why: String| Refused(format!("{what}: {why}"));
    let mut bench = Bench::new().map_err(Refused)?;
    let mut facts = Facts::read(bench.cpus.clone());
    facts.usable = bench.allowed.len();
    facts.no_real_time.clone_from(&bench.no_real_time);
    let counts = || Counts::now().map_err(|why| refused("counts of the kernel", why.to_string()));
    let (before, begin) = (counts()?, Instant::now());
    let done = bench.measure(time, scope, progress);
    let (after, elapsed) = (counts()?, begin.elapsed());
    facts.flushes = bench.flushes;
    let used = bench.allowed.clone();
    let samples = bench.into_samples();
    done.map_err(|why| refused("the kernel refuses a measurement", why.to_string()))?;
    facts.stolen = after.stolen_since(&before, &used, elapsed);
    Ok(Recording { facts, samples })
}
