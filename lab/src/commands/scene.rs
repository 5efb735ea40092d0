//! What `diff` and `what-if` replay: traces on a machine, several times.

use std::path::{Path, PathBuf};

use lookaside_replay::{
    OVERFULL, Replayed, WorkingSet,
    assume::{usual_flushes, usual_strategies},
    difference::{Change, Difference, Per, Side},
    inputs::has_flushes,
    machine::fitting_machine,
    plausible::SHARE,
    what_if::{Knob, Scenario},
};
use lookaside_simulation::{reproduce::Book, sensitivity::Answer};
use lookaside_terminal::{
    Refused,
    grid::{Grid, number, percent, wrapped},
};
use lookaside_traces::{Trace, import, reconstruct::reconstruct};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::{output::Output, progress};

/// The version of the JSON of `diff` and `what-if`.
pub(super) const VERSION: u32 = 2;

/// What a side without knobs is called.
pub(super) const AS_RECORDED: &str = "as recorded";

/// How many initiators are shown.
const INITIATORS: usize = 12;

/// Options of replays that are compared.
#[derive(clap::Args)]
pub(super) struct Options {
    /// The machine, as `lookaside list machines` shows it, or the path of a machine file, as `lookaside calibrate`
    /// writes it. Default: a machine of the trace's architecture.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// The strategy of TLB coherence. Default: that of Linux on the machine.
    #[arg(long, value_name = "STRATEGY")]
    strategy: Option<String>,
    /// How often each trace is replayed, each time with other pseudo-random numbers: the spread is of these.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    #[command(flatten)]
    pub(super) output: Output,
}

/// A trace that was read, with what messages call it.
pub(super) struct Read {
    pub(super) name: String,
    pub(super) trace: Trace,
}

impl Read {
    /// Reads a trace.
    pub(super) fn open(path: &Path) -> super::Result<Self> {
        let trace = import::open(path)?;
        super::replay::check_programs(path, &trace)?;
        super::replay::note_losses(path, &trace);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, trace })
    }

    /// The program that was recorded, or else the file.
    pub(super) fn subject(&self) -> &str {
        self.trace.origin.command.first().unwrap_or(&self.name)
    }
}

impl Options {
    /// Whether the machine is chosen for the trace.
    pub(super) fn is_chosen(&self) -> bool {
        self.machine.is_none()
    }

    /// The trace on the machine, under the strategy, as it was recorded.
    pub(super) fn scenario(&self, read: &Read, book: &mut Book) -> super::Result<Scenario> {
        let trace = &read.trace;
        let key = match &self.machine {
            Some(name) => book.admit(name)?,
            None => fitting_machine(&trace.origin, &book.machines)?.to_owned(),
        };
        let machine = book.machine(&key)?.clone();
        let linux = usual_strategies(&machine)[0];
        let strategy = self.strategy.clone().unwrap_or_else(|| linux.to_owned());
        lookaside_simulation::strategy::find(&strategy, &machine)?;
        let flushes = usual_flushes(&machine, has_flushes(trace));
        let script = reconstruct(trace, flushes)?;
        let cpus = script.cpus.len();
        let options = book.options("build", &std::collections::BTreeMap::new());
        let working_set = WorkingSet::of_build(&options)?;
        Ok(Scenario { machine, script, strategy, cpus, working_set, assumed: Vec::new() })
    }

    /// Replays each of these sides, which are several scenarios each.
    pub(super) fn sides(&self, sides: &[&[Scenario]]) -> Result<Vec<Side>, Refused> {
        let tries: Vec<(usize, &Scenario, u64)> = sides
            .iter()
            .enumerate()
            .flat_map(|(i, side)| side.iter().map(move |scenario| (i, scenario)))
            .flat_map(|(i, scenario)| (1..=self.seeds).map(move |seed| (i, scenario, seed)))
            .collect();
        let bar = progress::bar(tries.len());
        let one = |&(i, scenario, seed): &(usize, &Scenario, u64)| {
            let replayed = scenario.replay(seed);
            bar.inc(1);
            replayed.map(|replayed| (i, replayed))
        };
        let runs: Result<Vec<(usize, Replayed)>, Refused> =
            tries.par_iter().with_max_len(1).map(one).collect();
        bar.finish_and_clear();
        let runs = runs?;
        let side = |i: usize| {
            let runs: Vec<Replayed> =
                runs.iter().filter(|(of, _)| *of == i).map(|(_, run)| run.clone()).collect();
            let counts = runs.iter().map(|run| run.observed.clone()).collect::<Option<_>>();
            Side { runs, counts: counts.unwrap_or_default() }
        };
        Ok((0..sides.len()).map(side).collect())
    }
}

/// Reads knobs.
pub(super) fn knobs(texts: &[String]) -> Result<Vec<Knob>, Refused> {
    texts.iter().map(|text| text.parse()).collect()
}

/// Of what the counts of a comparison are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// What the kernels counted that were recorded.
    ByKernel,
    /// What the replays did, in the kernel's terms.
    ByModel,
}

/// The tables of a comparison.
pub(super) fn tables(
    of: &Difference,
    sides: [&str; 2],
    counted: Counted,
    form: fn(&Grid) -> String,
) -> String {
    let per = match of.per {
        Per::Run => "per recording",
        Per::Second => "per second",
    };
    let ms = |value: f64| number(value / 1e9);
    let mut text = format!("time by cause, in ms of all CPUs, {per}\n\n");
    let causes = of.causes.iter().filter(|cause| {
        cause.what != ["refills"] && (cause.before.high > 0.0 || cause.after.high > 0.0)
    });
    let rows =
        causes.chain([&of.known]).chain(of.causes.iter().filter(|cause| cause.what == ["refills"]));
    text += &form(&grid(["cause"], rows, sides, &ms));
    if !of.reasons.is_empty() {
        let by = match counted {
            Counted::ByKernel => "kernel counted",
            Counted::ByModel => "model counts",
        };
        text += &format!("\nas the {by}, {per}\n\n");
        text += &form(&grid(["count"], of.reasons.iter(), sides, &number));
    }
    text += &format!("\nwhere it changed most, in ms of all CPUs, {per}, refills not included\n\n");
    let most = of.initiators.iter().take(INITIATORS);
    text + &form(&grid(["process", "operation"], most, sides, &ms))
}

/// All of a comparison in one table for programs, times in picoseconds: what was replayed with the file's numbers, and what
/// plausible machines say.
pub(super) fn to_csv(of: &Difference, answer: Option<&Answer>, is_turned: bool) -> String {
    let ends = ["before", "before_low", "before_high", "after", "after_low", "after_high"];
    let names = ["table", "row", "operation", "unit"];
    let mut grid = Grid::new(names.into_iter().chain(ends), &[0, 1, 2, 3]);
    let (time, count) = match of.per {
        Per::Run => ("ps", ""),
        Per::Second => ("ps/s", "1/s"),
    };
    let mut row = |table: &str, what: [&str; 2], unit: &str, numbers: [f64; 6]| {
        let names = [table, what[0], what[1], unit].map(str::to_owned);
        grid.row(names.into_iter().chain(numbers.map(|number| number.to_string())));
    };
    let known = core::slice::from_ref(&of.known);
    let share = core::slice::from_ref(&of.known_share);
    for (table, unit, all) in [
        ("time", time, &of.causes[..]),
        ("time", time, known),
        ("share", "", share),
        ("count", count, &of.reasons),
        ("initiator", time, &of.initiators),
    ] {
        for Change { what, before, after } in all {
            let what = [0, 1].map(|place| what.get(place).map_or("", String::as_str));
            let numbers =
                [before.median, before.low, before.high, after.median, after.low, after.high];
            row(table, what, unit, numbers);
        }
    }
    if let Some(answer) = answer {
        // The same times, which plausible machines give in milliseconds.
        for (place, metric) in answer.outcomes[0][0].iter().enumerate() {
            let [before, after] = [0, 1].map(|side| answer.intervals[side][place]);
            let numbers =
                [before.median, before.low, before.high, after.median, after.low, after.high];
            match metric.key {
                SHARE => row("plausible", [metric.key, ""], "", numbers),
                _ => row("plausible", [metric.key, ""], time, numbers.map(|ms| ms * 1e9)),
            }
        }
        for (what, [before, after]) in [
            ("best_on", [answer.best[0], answer.best[1]]),
            ("machines", [answer.machines; 2]),
            ("turned", [usize::from(is_turned); 2]),
        ] {
            let [before, after] = [before, after].map(|count| count as f64);
            row("plausible", [what, ""], "", [before, before, before, after, after, after]);
        }
    }
    grid.to_csv()
}

/// A table of changes: both sides with their spread, and the change where it is beyond that.
fn grid<'c, const N: usize>(
    first: [&str; N],
    rows: impl Iterator<Item = &'c Change>,
    sides: [&str; 2],
    form: &dyn Fn(f64) -> String,
) -> Grid {
    let header = first.into_iter().chain([sides[0], "from, to", sides[1], "from, to", "change"]);
    let left: Vec<usize> = (0..N).collect();
    let mut grid = Grid::new(header, &left);
    for row in rows {
        let range = |spread: &lookaside_replay::difference::Spread| match spread.low == spread.high
        {
            true => String::new(),
            false => format!("{}, {}", form(spread.low), form(spread.high)),
        };
        let change = match row.ratio() {
            _ if !row.differs() => "~".to_owned(),
            Some(ratio) => percent(ratio - 1.0),
            None => "new".to_owned(),
        };
        let what = match row.what.as_slice() {
            [one] if one == "known" => vec!["all but refills".to_owned()],
            [one] if one == "refills" => vec!["refills, as assumed".to_owned()],
            what => what.to_vec(),
        };
        let cells = [
            form(row.before.median),
            range(&row.before),
            form(row.after.median),
            range(&row.after),
            change,
        ];
        grid.row(what.into_iter().chain(cells));
    }
    grid
}

/// Both sides as one value for programs.
pub(super) fn to_json(of: &Difference, sides: [&str; 2], about: &Value) -> Value {
    let mut value = json!({
        "version": VERSION,
        "time_unit": "ps",
        "before": sides[0],
        "after": sides[1],
    });
    for (key, content) in about.as_object().into_iter().flatten() {
        value[key] = content.clone();
    }
    value["difference"] = json!(of);
    value
}

/// What is to be said of shares above 100 %: nothing where there are none.
pub(super) fn overfull<'d>(all: impl IntoIterator<Item = &'d Difference>) -> String {
    let is_overfull =
        |of: &Difference| of.known_share.before.median > 1.0 || of.known_share.after.median > 1.0;
    match all.into_iter().any(is_overfull) {
        true => format!("{}\n", wrapped(OVERFULL, 0)),
        false => String::new(),
    }
}

/// A share for people: of what is below a hundredth of a percent two digits that count, so that two that differ look so.
pub(super) fn share(part: f64) -> String {
    let percent = 100.0 * part;
    if percent == 0.0 || percent >= 0.01 {
        return format!("{percent:.3} %");
    }
    if percent < 0.000_001 {
        return "under 0.000001 %".to_owned();
    }
    let digits = format!("{percent:.1e}");
    let exponent: i32 = digits.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(1 - exponent).unwrap_or(0);
    format!("{percent:.decimals$} %")
}

/// The knob arguments of one side, in words.
pub(super) fn side_name(knobs: &[Knob]) -> String {
    match knobs {
        [] => AS_RECORDED.to_owned(),
        knobs => knobs.iter().map(Knob::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// The name of a side that has settings of its own.
pub(super) fn with_knobs(name: String, knobs: &[Knob]) -> String {
    match knobs {
        [] => name,
        knobs => format!("{name}, {}", side_name(knobs)),
    }
}

/// The change of what is known that is largest, of those that go its way: beside a decrease an increase explains nothing.
pub(super) fn largest(of: &Difference) -> Option<&Change> {
    let is_less = of.known.more() < 0.0;
    of.initiators.iter().find(|one| one.differs() && (one.more() < 0.0) == is_less)
}

/// The paths of one side: several recordings of the same, separated by commas.
pub(super) fn paths(text: &str) -> Vec<PathBuf> {
    if Path::new(text).exists() {
        vec![text.into()]
    } else {
        text.split(',').filter(|path| !path.is_empty()).map(PathBuf::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_have_two_digits() {
        let shown = [0.0, 0.2339, 0.000_46, 0.000_1, 0.000_099, 6.06e-6, 5.3e-6, 1e-7, 1e-9];
        let expected = [
            "0.000 %",
            "23.390 %",
            "0.046 %",
            "0.010 %",
            "0.0099 %",
            "0.00061 %",
            "0.00053 %",
            "0.000010 %",
            "under 0.000001 %",
        ];
        assert_eq!(shown.map(share), expected);
    }
}
