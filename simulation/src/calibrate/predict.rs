//! What the model makes of a calibrated machine, beside what was measured there.
//!
//! Compared is what no number of the file was fitted to: a ping-pong in which both processes go through
//! 512 pages, and `mprotect` while another thread of the process computes.

use super::{
    facts::Facts,
    fit,
    probe::{Probe, Samples},
    series::Summary,
};
use lookaside_terminal::Refused;

use crate::data::Machine;

/// How many pages each process touches.
pub const PAGES: usize = 512;
/// A prediction within this share of what was measured is right.
pub const BOUND: f64 = 0.15;

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// What is compared.
    pub about: &'static str,
    /// What was measured, in nanoseconds, or why it cannot be used.
    pub measured: Result<Summary, String>,
    /// What the model gives, or why it gives nothing.
    pub predicted: Result<f64, String>,
    /// Why the model must miss it, if it must.
    pub beyond: Option<&'static str>,
}

impl Prediction {
    /// By which share of the measured value the model is off.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let measured = self.measured.as_ref().ok()?.median;
        Some(self.predicted.as_ref().ok()? / measured - 1.0)
    }

    /// Whether it is right; none if there is nothing to compare, or if it must miss.
    #[must_use]
    pub fn is_right(&self) -> Option<bool> {
        if self.beyond.is_some() {
            return None;
        }
        Some(self.error()?.abs() <= BOUND)
    }
}

/// The probes whose series are compared.
pub const COMPARED: [Probe; 4] = [
    Probe::PingPong { processes: true, pages: PAGES, apart: false },
    Probe::PingPong { processes: true, pages: PAGES, apart: true },
    Probe::Protect { pages: 1, others: 1 },
    Probe::Allow { pages: 1, others: 1 },
];

/// Compares a machine with what was measured.
#[must_use]
pub fn predictions(machine: &Machine, samples: &Samples, facts: &Facts) -> Vec<Prediction> {
    let measured = |probe: Probe| {
        let series = samples.get(&probe).ok_or("it takes two CPUs")?;
        series.summary()?.within(0.3)
    };
    let metric = |workload, cpus, options: &[(&str, f64)], metric: &str| {
        fit::run(machine, facts, workload, cpus, options)
            .and_then(|outcome| outcome.metric(metric))
            .map_err(|Refused(why)| why)
    };
    let round = metric("pingpong", None, &[("pages", PAGES as f64)], "time_per_iteration");
    let round = round.map(|hop| 2.0 * hop);
    let [together, apart, read, write] = COMPARED;
    let prediction = |about, probe, predicted, beyond| Prediction {
        about,
        measured: measured(probe),
        predicted,
        beyond,
    };
    vec![
        prediction("ping-pong, 512 pages each", together, round.clone(), None),
        prediction(
            "ping-pong, 512 frames each of its own",
            apart,
            round,
            Some("twice as many lines, and the model has no caches of data"),
        ),
        prediction(
            "mprotect read-only, 2 threads",
            read,
            metric("mprotect_pair", Some(2), &[], "time_of_read"),
            None,
        ),
        prediction(
            "mprotect writable, 2 threads",
            write,
            metric("mprotect_pair", Some(2), &[], "time_of_write"),
            None,
        ),
    ]
}
