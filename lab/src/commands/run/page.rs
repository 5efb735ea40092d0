//! What `lookaside run` prints.

use lookaside_simulation::{
    seeds,
    sensitivity::{self, Answer, words},
};
use lookaside_terminal::{
    counted,
    grid::{Grid, number, times, wrapped},
};
use serde_json::{Value, json};

use super::{Arguments, Metric, PLAUSIBLE, Results, Shown, certainty};

/// What is to be said of strategies whose results depend on the seed: they wander, or fall on one of two sides.
fn spread(results: &[Results], metric: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    for one in results {
        let Some(metric) = deciding(one, metric).map(|place| &one.metrics[place]) else { continue };
        if let Some(how) = seeds::Spread::of(&metric.all).words() {
            lines.push(format!("{} of {} {how}", metric.key, one.strategy));
        }
    }
    lines
}

/// The place of the metric that decides: the one that was named, or the first.
fn deciding(results: &Results, metric: Option<&str>) -> Option<usize> {
    match metric {
        None => (!results.metrics.is_empty()).then_some(0),
        Some(name) => results.metrics.iter().position(|one| one.key == name),
    }
}

/// What is to be known of the results, each once.
fn notes(results: &[Results]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for note in results.iter().flat_map(|one| &one.notes) {
        if !all.contains(&note.as_str()) {
            all.push(note);
        }
    }
    all
}

/// What is to be said of values of the file that are outside what plausible machines give.
fn implausible(shown: &Shown, answer: &Answer, metric: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    for (one, intervals) in shown.results.iter().zip(&answer.intervals) {
        let Some(place) = deciding(one, metric) else { continue };
        let (metric, interval) = (&one.metrics[place], &intervals[place]);
        let of = format!("{} of {}", metric.key, one.strategy);
        lines.extend(words::implausible(&of, metric.values[0], metric.unit, interval));
    }
    lines
}

/// How numbers and ratios are written.
#[derive(Clone, Copy)]
struct Form {
    number: fn(f64) -> String,
    ratio: fn(f64) -> String,
}

/// For people: four digits, and `1.50x`.
const READ: Form = Form { number, ratio: times };
/// For programs: all digits, and nothing beside them.
const PLAIN: Form = Form { number: plain, ratio: plain };

fn plain(value: f64) -> String {
    value.to_string()
}

/// The metrics, those of the same name together. What plausible machines say comes first: a value with the numbers of the
/// file alone may not even be among theirs. With `remarks`, which are sentences beside the table otherwise, in a column.
fn metrics(shown: &Shown, spread: bool, form: Form, remarks: bool) -> Grid {
    let Shown { results, answer, .. } = shown;
    let mut header = vec!["metric", "unit", "strategy"];
    if answer.is_some() {
        header.extend(["plausible", "from", "to"]);
    }
    header.extend(match (spread, answer.is_some()) {
        (true, false) => &["median", "least", "greatest"][..],
        (_, true) => &["file's value"],
        (false, false) => &["value"],
    });
    header.push("ratio");
    if remarks {
        header.push("remark");
    }
    let mut grid = Grid::new(header, &[0, 1, 2]);
    for metric in &results[0].metrics {
        for (strategy, one) in results.iter().enumerate() {
            let place = one.metrics.iter().position(|found| found.key == metric.key);
            let Some(place) = place else { continue };
            let found = &one.metrics[place];
            let mut row = vec![found.key.to_owned(), found.unit.to_owned(), one.strategy.clone()];
            if let Some(answer) = answer {
                let sensitivity::Interval { low, median, high } = answer.intervals[strategy][place];
                row.extend([median, low, high].map(form.number));
            }
            // The extremes of seeds are in the spread of plausible machines, which have a seed each.
            let all = spread && answer.is_none();
            let values = if all { &found.values[..] } else { &found.values[..1] };
            row.extend(values.iter().map(|&value| (form.number)(value)));
            let ratio = match answer {
                Some(answer) => {
                    let first = results[0].metrics.iter().position(|first| first.key == found.key);
                    let median = |of: usize, place: usize| answer.intervals[of][place].median;
                    first.map(|first| median(strategy, place) / median(0, first))
                }
                None => one.ratio(&results[0], found.key),
            };
            row.push(ratio.filter(|ratio| ratio.is_finite()).map(form.ratio).unwrap_or_default());
            if remarks {
                row.push(found.remark.clone().unwrap_or_default());
            }
            grid.row(row);
        }
    }
    grid
}

fn counters(results: &[Results]) -> Grid {
    let strategies = results.iter().map(|one| one.strategy.as_str());
    let mut grid = Grid::new(["counter"].into_iter().chain(strategies), &[0]);
    for (i, (name, _)) in results[0].counters.iter().enumerate() {
        let values: Vec<u64> =
            results.iter().filter_map(|one| one.counters.iter().nth(i)).map(|(_, n)| n).collect();
        if values.iter().any(|&value| value > 0) {
            let values = values.iter().map(u64::to_string);
            grid.row([name.replace('_', " ")].into_iter().chain(values));
        }
    }
    grid
}

/// The metrics for a spreadsheet.
pub(super) fn to_csv(arguments: &Arguments, shown: &Shown) -> String {
    metrics(shown, arguments.seeds > 1, PLAIN, true).to_csv()
}

/// All of it for people.
pub(super) fn to_text(
    arguments: &Arguments,
    machine: &str,
    shown: &Shown,
    form: fn(&Grid) -> String,
) -> String {
    let Arguments { workload, cpus, x, option, seed, seeds, .. } = arguments;
    let metric = arguments.metric.as_deref();
    let mut heading = format!("{workload} on {machine}");
    if cpus.is_some() {
        heading += &format!(", {}", counted(shown.results[0].cpus, "CPU", "CPUs"));
    }
    if let Some(x) = x {
        heading += &format!(", x = {x}");
    }
    for (name, value) in option {
        heading += &format!(", {name} = {value}");
    }
    heading += &match seeds {
        1 => format!(", seed {seed}"),
        _ => format!(", {seeds} seeds from {seed} on"),
    };
    let metrics = form(&metrics(shown, *seeds > 1, READ, false));
    let counters = form(&counters(&shown.results));
    let first = if *seeds > 1 { " with the first seed" } else { "" };
    let mut certainty = String::new();
    for line in spread(&shown.results, metric) {
        certainty += &wrapped(&line, 0);
    }
    for line in notes(&shown.results) {
        certainty += &wrapped(line, 0);
    }
    if !shown.assumed.is_empty() {
        let paths = shown.assumed.join(", ");
        let line =
            format!("Assumed, as {machine} has no such path: {paths} (published/ranges.toml).");
        certainty += &wrapped(&line, 0);
    }
    if let Some(answer) = &shown.answer {
        let about = format!(
            "plausible, from, to: the median of {} plausible machines, and where at least 80 % of them are. The ratio is of these \
             medians; the file's value is with the numbers of the machine file alone.",
            answer.machines
        );
        certainty += &wrapped(&about, 0);
        for line in implausible(shown, answer, metric) {
            certainty += &wrapped(&line, 0);
        }
        let strategies: Vec<String> =
            shown.results.iter().map(|one| one.strategy.clone()).collect();
        for line in words::sentences(answer, &strategies, machine) {
            certainty += &wrapped(&line, 0);
        }
    }
    let ran = shown.results[0].cpus;
    if let Some(given) = cpus.filter(|&given| given != ran) {
        let line = format!(
            "`--cpus {given}` changes nothing: the workload has a number of CPUs of its own, {ran}."
        );
        certainty += &wrapped(&line, 0);
    }
    if let Some(gaps) = &shown.gaps {
        certainty += &wrapped(gaps, 0);
    }
    if let Some(events) = shown.left_out {
        let line = format!(
            "How certain this is was not asked: a run has {} million events, and {} plausible machines would take minutes. \
             `--plausible {}` asks them.",
            number((events as f64 / 1e6).round()),
            PLAUSIBLE[0],
            PLAUSIBLE[0]
        );
        certainty += &wrapped(&line, 0);
    }
    if !certainty.is_empty() {
        certainty.push('\n');
    }
    format!("{heading}\n\n{metrics}\n{certainty}of all CPUs, start included{first}\n\n{counters}")
}

/// All of it for programs.
pub(super) fn to_json(arguments: &Arguments, machine: &str, shown: &Shown) -> String {
    let results = &shown.results;
    let row = |one: &Results, metric: &Metric| {
        let [median, least, greatest] = metric.values;
        json!({
            "strategy": one.strategy,
            "metric": metric.key,
            "unit": metric.unit,
            "value": median,
            "least": least,
            "greatest": greatest,
            "ratio": one.ratio(&results[0], metric.key),
        })
    };
    let rows = results.iter().flat_map(|one| one.metrics.iter().map(move |m| row(one, m)));
    let counters = results.iter().map(|one| {
        let counters: serde_json::Map<String, Value> =
            one.counters.iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        (one.strategy.clone(), json!(counters))
    });
    let strategies: Vec<String> = results.iter().map(|one| one.strategy.clone()).collect();
    let Arguments { workload, cpus, x, option, seed, seeds, .. } = arguments;
    let options: serde_json::Map<String, Value> =
        option.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let certainty = shown.answer.as_ref().map(|answer| {
        let mut certainty = certainty(answer, &strategies);
        certainty["otherwise"] = otherwise(answer, &strategies);
        certainty
    });
    let document = json!({
        "version": 1,
        "workload": workload,
        "machine": machine,
        "cpus": cpus,
        "x": x,
        "options": options,
        "seed": seed,
        "seeds": seeds,
        "results": rows.collect::<Vec<_>>(),
        "notes": notes(results),
        "counters": counters.collect::<serde_json::Map<_, _>>(),
        "events": results.iter().map(|one| one.events).sum::<u64>(),
        "seconds": results.iter().map(|one| one.simulated).sum::<u64>() as f64 / 1e12,
        "certainty": certainty,
    });
    format!("{document:#}\n")
}

/// The other metrics by which another strategy is best, for programs.
fn otherwise(answer: &Answer, strategies: &[String]) -> Value {
    let says = |one: sensitivity::Otherwise| json!({ "metric": one.metric, "first": strategies[one.strategy], "best_on": one.best_on });
    answer.otherwise().into_iter().map(says).collect()
}
