//! What plausible machines say, for programs.

use lookaside_simulation::{
    experiment::RECORD,
    sensitivity::{self, Answer},
    workload,
};
use serde_json::json;

/// What an answer turns on, for programs.
pub(in super::super) fn influence(one: &sensitivity::Influence) -> serde_json::Value {
    json!({
        "number": one.number.name,
        "quality": one.number.quality.word(),
        "low_ns": one.number.low / 1e3,
        "high_ns": one.number.high / 1e3,
        "correlation": one.correlation,
        "ends": one.ends,
        "narrows": one.narrows,
    })
}

/// What plausible machines say, for programs.
pub(in super::super) fn certainty(answer: &Answer, strategies: &[String]) -> serde_json::Value {
    let [leader, second] = answer.pair;
    let interval = |one: &sensitivity::Interval| json!([one.low, one.median, one.high]);
    let of = |(strategy, name): (usize, &String)| {
        json!({
            "strategy": name,
            "best_on": answer.best[strategy],
            "lost": answer.lost[strategy],
            "intervals": answer.intervals[strategy].iter().map(interval).collect::<Vec<_>>(),
        })
    };
    let metrics = answer.outcomes.first().and_then(|machines| machines.first());
    let name = |metric: &workload::Metric| json!({ "key": metric.key, "unit": metric.unit });
    json!({
        "machines": answer.machines,
        "tied_on": answer.tied,
        "metric": answer.metric,
        "first": strategies[leader],
        "second": strategies[second],
        "gain": interval(&answer.gain),
        "strategies": strategies.iter().enumerate().map(of).collect::<Vec<_>>(),
        "turns_on": answer.influences.iter().map(influence).collect::<Vec<_>>(),
        "metrics": metrics.into_iter().flatten().map(name).collect::<Vec<_>>(),
        "unpriced": answer.gaps.unpriced,
        "assumed_prices": answer.gaps.assumed,
        "record": record(),
    })
}

/// How far the model has been off, for programs.
pub(in super::super) fn record() -> serde_json::Value {
    json!({
        "comparisons": RECORD.directed,
        "right": RECORD.right,
        "values": RECORD.all,
        "half_within": RECORD.half_within,
        "most_within": RECORD.most_within,
    })
}
