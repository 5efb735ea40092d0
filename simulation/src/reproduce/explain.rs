//! Where the time of a run went: by what was done and why, by cache line, by CPU.

use lookaside_machine::timed::{Cause, CpuReport, Price, Ps, Report};
use lookaside_terminal::grid::{Grid, number, wrapped};
use serde_json::{Value as Json, json};

use super::execute::Run;
use crate::{
    data::{Machine, Origin, Value},
    workload::Outcome,
};

/// What a CPU does before its program begins: left out of shares.
const BEFORE: [&str; 2] = ["boot", "start"];
/// So many CPUs are shown by themselves.
const SHOWN: usize = 3;

/// A run and what it has given.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'r> {
    /// The run.
    pub run: &'r Run,
    /// Its machine.
    pub machine: &'r Machine,
    /// What it has given.
    pub outcome: &'r Outcome,
}

/// What all CPUs spent on one thing.
struct Spent {
    activity: &'static str,
    cause: Cause,
    time: Ps,
}

/// All that was spent, by activity and cause, the most first; the time before programs began last.
///
/// # Panics
///
/// If it is not what has elapsed, to the last picosecond.
fn spent(report: &Report) -> (Vec<Spent>, Ps) {
    let mut all = Vec::new();
    let mut before = 0;
    for (i, &activity) in report.activities.iter().enumerate() {
        for &cause in Cause::ALL {
            let time = report.cpus.iter().map(|cpu| cpu.spent(i, cause)).sum();
            if BEFORE.contains(&activity) {
                before += time;
            } else if time > 0 {
                all.push(Spent { activity, cause, time });
            }
        }
    }
    all.sort_by_key(|spent| (core::cmp::Reverse(spent.time), spent.activity, spent.cause));
    let sum = before + all.iter().map(|spent| spent.time).sum::<Ps>();
    let elapsed: Ps = report.cpus.iter().map(|cpu| cpu.elapsed).sum();
    assert_eq!(sum, elapsed, "every picosecond is put down to something");
    (all, before)
}

/// What one CPU spent on a cause after its program had begun.
fn of_cpu(report: &Report, cpu: &CpuReport, cause: Cause) -> Ps {
    let during = report.activities.iter().enumerate().filter(|(_, name)| !BEFORE.contains(name));
    during.map(|(i, _)| cpu.spent(i, cause)).sum()
}

fn ns(time: f64) -> String {
    number(time / 1e3)
}

fn share(part: Ps, whole: Ps) -> String {
    if whole == 0 { String::new() } else { format!("{:.2} %", 100.0 * part as f64 / whole as f64) }
}

impl Explanation<'_> {
    /// Where the time went, by activity and cause.
    ///
    /// # Panics
    ///
    /// If that is not all the time that has elapsed.
    #[must_use]
    pub fn time(&self) -> Grid {
        let report = &self.outcome.report;
        let (all, before) = spent(report);
        let cpus = report.cpus.len() as f64;
        let whole: Ps = all.iter().map(|spent| spent.time).sum();
        let mut grid = Grid::new(["activity", "cause", "share", "ns per CPU"], &[0, 1]);
        let per_cpu = |time: Ps| ns(time as f64 / cpus);
        for Spent { activity, cause, time } in &all {
            let (activity, cause) = ((*activity).to_owned(), cause.key().to_owned());
            grid.row([activity, cause, share(*time, whole), per_cpu(*time)]);
        }
        grid.row(["sum".to_owned(), String::new(), share(whole, whole), per_cpu(whole)]);
        let label = "before programs began".to_owned();
        grid.row([label, String::new(), String::new(), per_cpu(before)]);
        grid
    }

    fn causes(&self) -> Vec<(Cause, Ps)> {
        let report = &self.outcome.report;
        let sum = |&cause: &Cause| report.cpus.iter().map(|c| of_cpu(report, c, cause)).sum();
        let mut causes: Vec<(Cause, Ps)> =
            Cause::ALL.iter().map(|cause| (*cause, sum(cause))).filter(|(_, t)| *t > 0).collect();
        causes.sort_by_key(|&(cause, time)| (core::cmp::Reverse(time), cause));
        causes
    }

    fn lines(&self) -> Grid {
        let report = &self.outcome.report;
        let sum: Ps = report.lines.iter().map(|line| line.spent).sum();
        let cpus = report.cpus.len() as f64;
        let mut grid = Grid::new(["cache lines of", "lines", "moves", "share", "ns per CPU"], &[0]);
        for line in &report.lines {
            grid.row([
                line.name.to_owned(),
                line.lines.to_string(),
                line.moves.to_string(),
                share(line.spent, sum),
                ns(line.spent as f64 / cpus),
            ]);
        }
        grid
    }

    fn cpus(&self) -> Grid {
        let report = &self.outcome.report;
        let busy = |cpu: &CpuReport| Cause::ALL.iter().map(|&c| of_cpu(report, cpu, c)).sum::<Ps>();
        let mut worst: Vec<(usize, Ps)> = report.cpus.iter().map(busy).enumerate().collect();
        worst.sort_by_key(|&(cpu, time)| (core::cmp::Reverse(time), cpu));
        worst.truncate(if report.cpus.len() > 1 { SHOWN } else { 0 });
        let named = worst.iter().map(|(cpu, _)| format!("CPU {cpu}"));
        let header = ["ns", "least", "median", "most"].map(str::to_owned).into_iter().chain(named);
        let mut grid = Grid::new(header, &[0]);
        let mut row = |name: &str, of: &dyn Fn(&CpuReport) -> Ps| {
            let mut times: Vec<Ps> = report.cpus.iter().map(of).collect();
            let shown: Vec<Ps> = worst.iter().map(|&(cpu, _)| times[cpu]).collect();
            times.sort_unstable();
            let [least, median, most] = [times[0], times[times.len() / 2], times[times.len() - 1]];
            let cells = [least, median, most].into_iter().chain(shown);
            let cells = cells.map(|time| ns(time as f64));
            grid.row([name.to_owned()].into_iter().chain(cells));
        };
        row("all", &busy);
        for (cause, _) in self.causes() {
            row(cause.key(), &|cpu| of_cpu(report, cpu, cause));
        }
        grid
    }

    fn counters(&self) -> Grid {
        let report = &self.outcome.report;
        let cpus = report.cpus.len() as f64;
        let mut grid = Grid::new(["counter", "all CPUs", "per CPU"], &[0]);
        for (name, count) in report.counters().iter().filter(|&(_, count)| count > 0) {
            grid.row([name.replace('_', " "), count.to_string(), number(count as f64 / cpus)]);
        }
        grid
    }

    /// The values of a table of the machine file, with where they come from.
    fn values(&self, table: &str) -> Grid {
        let mut grid = Grid::new([table, "", "unit", "from"], &[0, 2, 3]);
        for value in &self.machine.values {
            let Some(("", key)) = value
                .name
                .split_once(table)
                .map(|(before, rest)| (before, rest.trim_start_matches('.')))
            else {
                continue;
            };
            grid.row([key.to_owned(), value.number.to_string(), value.unit.clone(), origin(value)]);
        }
        grid
    }

    fn unknown(&self) -> Vec<&'static str> {
        let prices = &self.machine.model.prices;
        let unknown = Price::ALL.iter().filter(|&&price| prices.get(price).is_none());
        unknown.map(|price| price.key()).collect()
    }

    fn heading(&self) -> String {
        let Run { machine, workload, strategy, options, x, seed, .. } = self.run;
        let mut text = format!("{workload} on {machine} with {strategy}");
        if let Some(x) = x {
            text += &format!(", x = {x}");
        }
        for (name, value) in options {
            text += &format!(", {name} = {value}");
        }
        text + &format!(", seed {seed}\n")
    }

    fn metrics(&self) -> Grid {
        let mut grid = Grid::new(["metric", "value", "unit"], &[0, 2]);
        for metric in &self.outcome.metrics {
            grid.row([metric.key.to_owned(), number(metric.value), metric.unit.to_owned()]);
        }
        grid
    }

    /// The parts with their titles.
    fn parts(&self) -> Vec<(String, Grid)> {
        let report = &self.outcome.report;
        let cpus = report.cpus.len();
        let plural = if cpus == 1 { "CPU" } else { "CPUs" };
        let title = |text: &str| text.to_owned();
        vec![
            (title("What came out"), self.metrics()),
            (format!("Where the time of {cpus} {plural} went"), self.time()),
            (title("Cache lines that went from CPU to CPU"), self.lines()),
            (title("By CPU, since programs began"), self.cpus()),
            (title("Counters, from the start of the machine"), self.counters()),
            (title("Prices of the machine"), self.values("prices")),
            (title("Paths of its kernel"), self.values("paths")),
        ]
    }

    fn closing(&self) -> String {
        let unknown = self.unknown();
        if unknown.is_empty() {
            return "Every price is known.\n".to_owned();
        }
        let text = format!(
            "Nobody knows these prices here; for them nothing is charged: {}.",
            unknown.join(", ")
        );
        wrapped(&text, 0)
    }

    /// For a terminal.
    ///
    /// # Panics
    ///
    /// As [`Self::time`].
    #[must_use]
    pub fn to_text(&self) -> String {
        let parts = self.parts().into_iter().filter(|(_, grid)| !grid.is_empty());
        let parts: String =
            parts.map(|(title, grid)| format!("\n{title}\n{}", grid.to_text())).collect();
        format!("{}{parts}\n{}", self.heading(), self.closing())
    }

    /// As Markdown.
    ///
    /// # Panics
    ///
    /// As [`Self::time`].
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let parts = self.parts().into_iter().filter(|(_, grid)| !grid.is_empty());
        let parts: String =
            parts.map(|(title, grid)| format!("\n### {title}\n\n{}", grid.to_markdown())).collect();
        format!("{}{parts}\n{}", self.heading(), self.closing())
    }
}

fn origin(value: &Value) -> String {
    match &value.origin {
        Origin::Source { key, proxy: false, .. } => key.clone(),
        Origin::Source { key, proxy: true, .. } => format!("{key}, of a similar machine"),
        Origin::Fitted { to } => format!("fitted to {to}"),
        Origin::Assumed { low, high } => format!("assumed, {low} to {high} {}", value.unit),
    }
}

/// The same as JSON: times in picoseconds, summed over all CPUs, from the start of the machine.
///
/// # Panics
///
/// As [`Explanation::time`].
#[must_use]
pub fn to_json(explanation: &Explanation<'_>) -> String {
    let Explanation { run, outcome, .. } = explanation;
    let report = &outcome.report;
    let (all, before) = spent(report);
    let time = all.iter().map(
        |spent| json!({ "activity": spent.activity, "cause": spent.cause.key(), "ps": spent.time }),
    );
    let line = |line: &lookaside_machine::timed::LineReport| json!({ "name": line.name, "lines": line.lines, "moves": line.moves, "ps": line.spent });
    let cpu = |cpu: &CpuReport| {
        let causes: serde_json::Map<String, Json> = Cause::ALL
            .iter()
            .map(|&cause| (cause.key().to_owned(), json!(of_cpu(report, cpu, cause))))
            .collect();
        json!({ "elapsed": cpu.elapsed, "causes": causes })
    };
    let counters: serde_json::Map<String, Json> =
        report.counters().iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    let metrics = outcome
        .metrics
        .iter()
        .map(|metric| json!({ "metric": metric.key, "value": metric.value, "unit": metric.unit }));
    let document = json!({
        "version": 1,
        "workload": run.workload,
        "machine": run.machine,
        "strategy": run.strategy,
        "options": run.options,
        "x": run.x,
        "seed": run.seed,
        "metrics": metrics.collect::<Vec<_>>(),
        "before": before,
        "time": time.collect::<Vec<_>>(),
        "lines": report.lines.iter().map(line).collect::<Vec<_>>(),
        "cpus": report.cpus.iter().map(cpu).collect::<Vec<_>>(),
        "counters": counters,
        "unknown_prices": explanation.unknown(),
    });
    format!("{document:#}\n")
}
