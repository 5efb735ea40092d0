//! What `lookaside replay` prints for programs: JSON and CSV.

use lookaside_replay::Replayed;
use lookaside_simulation::sensitivity::Interval;
use lookaside_terminal::grid::Grid;
use lookaside_traces::reconstruct::Flushes;
use serde_json::{Value, json};

use super::{super::run, Plan, Shown, operations_of, plausible_of, ratio, turned};

/// The version of the JSON: it changes when a key goes or means something else.
const VERSION: u32 = 3;

impl Plan<'_> {
    pub(super) fn to_csv(&self, shown: &Shown) -> String {
        let Shown { runs, answer } = shown;
        let mut grid =
            Grid::new(["strategy", "table", "row", "column", "value", "unit"], &[0, 1, 2, 3, 5]);
        for (place, run) in runs.iter().enumerate() {
            let mut row = |table: &str, row: &str, column: &str, value: String, unit: &str| {
                grid.row([run.strategy.as_str(), table, row, column, &value, unit]);
            };
            for (cause, time) in run.upkeep.iter() {
                row("time", cause, "time", time.to_string(), "ps");
            }
            row("time", "total", "time", run.total.to_string(), "ps");
            row("time", "total", "share", run.share().to_string(), "");
            row("time", "known", "time", run.known().to_string(), "ps");
            row("time", "known", "share", run.share_of(run.known()).to_string(), "");
            row("time", "rest", "time", run.rest.total().to_string(), "ps");
            let band = run.refills_band.into_iter().flatten();
            for (name, refills) in ["refills_low", "refills_high"].iter().zip(band) {
                row("time", name, "time", refills.to_string(), "ps");
            }
            for (name, count) in operations_of(run) {
                row("operations", name, "count", count.to_string(), "");
            }
            for (metric, interval) in answer.iter().flat_map(|answer| plausible_of(answer, place)) {
                let Interval { low, median, high } = interval;
                for (name, value) in [("low", low), ("median", median), ("high", high)] {
                    row("plausible", metric.key, name, value.to_string(), metric.unit);
                }
            }
            if let Some(answer) = answer {
                row("plausible", "best_on", "count", answer.best[place].to_string(), "");
                row("plausible", "machines", "count", answer.machines.to_string(), "");
                let turned = u8::from(turned(shown).is_some());
                row("plausible", "order", "turned", turned.to_string(), "");
            }
            for latency in &run.latencies {
                let quantiles = [
                    ("p50", latency.p50),
                    ("p90", latency.p90),
                    ("p99", latency.p99),
                    ("max", latency.max),
                ];
                for (name, time) in quantiles {
                    row("latency", latency.of, name, time.to_string(), "ps");
                }
            }
            for blame in &run.blame {
                let who = format!("{};{}", blame.process, blame.operation);
                row("blame", &who, "count", blame.count.to_string(), "");
                row("blame", &who, "interrupts", blame.interrupts.to_string(), "");
                for (cause, time) in blame.upkeep.iter() {
                    row("blame", &who, cause, time.to_string(), "ps");
                }
            }
        }
        grid.to_csv()
    }

    pub(super) fn about(&self) -> Value {
        let mut about = json!({
            "version": VERSION,
            "file": self.arguments.file.file_name().unwrap_or_default().display().to_string(),
            "machine": self.machine.key,
            "cpus": self.inputs.cpus,
            "recorded_cpus": self.inputs.script.cpus.len(),
            "events": self.trace.events.len(),
            "traced_ns": self.inputs.script.length,
            "time_unit": "ps",
            "flushes": if self.inputs.flushes == Flushes::Recorded { "recorded" } else { "calls" },
            "working_set": self.inputs.working_set,
            "seed": self.arguments.seed,
            "assumptions": self.basis().sentences(),
        });
        self.costs().add_to(&mut about);
        about
    }

    pub(super) fn to_json(&self, shown: &Shown) -> String {
        let Shown { runs, answer } = shown;
        let mut document = self.about();
        document["certainty"] = match answer {
            Some(answer) => run::certainty(answer, &self.inputs.strategies),
            None => Value::Null,
        };
        document["answer"] = super::page::headline(shown).into();
        document["turned"] = turned(shown).into();
        let one = |run: &Replayed| {
            let mut value = json!(run);
            value["total_share"] = json!(run.share());
            value["total_ratio"] = json!(ratio(run, &runs[0], |run| run.total));
            value["known"] = json!(run.known());
            value["known_share"] = json!(run.share_of(run.known()));
            value["known_ratio"] = json!(ratio(run, &runs[0], Replayed::known));
            value
        };
        document["strategies"] = runs.iter().map(one).collect();
        format!("{document:#}\n")
    }
}
