//! The comparison as JSON, for other programs.

use serde::Serialize;

use super::row::{Comparison, Place, Reproduction, Row};
use crate::data::Better;

/// A whole comparison. The documentation of [`super`] says what the keys are.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    results: Vec<Flat<'a>>,
    events: u64,
    seconds: f64,
}

/// A row with all that it needs to stand alone.
#[derive(Serialize)]
pub(super) struct Flat<'a> {
    id: &'a str,
    seed: Option<u32>,
    source: &'a str,
    machine: &'a str,
    workload: &'a str,
    x: Option<f64>,
    variant: &'a str,
    strategy: &'a str,
    metric: &'a str,
    unit: &'a str,
    better: &'static str,
    published: Option<f64>,
    modelled: Option<f64>,
    ratio_published: Option<f64>,
    ratio_modelled: Option<f64>,
    error: Option<f64>,
    role: Option<&'static str>,
    test: Option<&'static str>,
    least: Option<f64>,
    greatest: Option<f64>,
    plausible_low: Option<f64>,
    plausible_high: Option<f64>,
    turns_on: Option<&'a str>,
    recommended: Option<f64>,
    recommended_strategy: &'a str,
    recommended_over_best: Option<f64>,
    cause: Option<&'a str>,
    problem: Option<&'a str>,
}

impl<'a> Flat<'a> {
    fn new(comparison: &'a Comparison<'_>, place: &'a Place<'_>, row: &'a Row) -> Self {
        let result = comparison.result;
        Self {
            id: &result.id,
            seed: result.seed,
            source: &result.source,
            machine: place.machine,
            workload: &result.workload,
            x: place.x,
            variant: &row.variant,
            strategy: &row.strategy,
            metric: &result.metric,
            unit: &result.unit,
            better: match result.better {
                Better::Lower => "lower",
                Better::Higher => "higher",
            },
            published: row.published.map(|pair| pair.value),
            modelled: row.modelled.map(|pair| pair.value),
            ratio_published: row.published.and_then(|pair| pair.ratio),
            ratio_modelled: row.modelled.and_then(|pair| pair.ratio),
            error: row.error,
            role: row.standing.map(super::Standing::word),
            test: row.test.map(super::Test::word),
            least: row.spread.as_ref().map(crate::seeds::Spread::least),
            greatest: row.spread.as_ref().map(crate::seeds::Spread::greatest),
            plausible_low: row.certainty.as_ref().map(|certainty| certainty.interval.low),
            plausible_high: row.certainty.as_ref().map(|certainty| certainty.interval.high),
            turns_on: row.certainty.as_ref().and_then(super::Certainty::turns_on),
            recommended: row.recommended.map(|pair| pair.value),
            recommended_strategy: &result.recommended.strategy,
            recommended_over_best: place.over_best,
            cause: row.cause.as_deref(),
            problem: row.problem.as_deref(),
        }
    }
}

/// All rows, in order.
pub(super) fn flat<'a>(reproduction: &'a Reproduction<'_>) -> Vec<Flat<'a>> {
    let mut rows = Vec::new();
    for comparison in &reproduction.comparisons {
        for place in &comparison.places {
            rows.extend(place.rows.iter().map(|row| Flat::new(comparison, place, row)));
        }
    }
    rows
}

/// The comparison as JSON, one key a line.
#[must_use]
pub fn to_json(reproduction: &Reproduction<'_>) -> String {
    let document = Document {
        version: 1,
        results: flat(reproduction),
        events: reproduction.events,
        seconds: reproduction.simulated as f64 / 1e12,
    };
    let mut text = serde_json::to_string_pretty(&document).expect("numbers and strings are JSON");
    text.push('\n');
    text
}
