//! What `lookaside replay` prints for people.

use lookaside_replay::{BAND, Blame, OVERFULL, Replayed, Upkeep, inputs::Inputs, report};
use lookaside_simulation::{
    sensitivity::{Answer, Interval},
    workload::Metric,
};
use lookaside_terminal::{
    counted,
    grid::{Grid, number, times, wrapped},
};

use super::{
    super::scene::share, Plan, Shown, operations_of, plausible, plausible_of, ratio, turned,
};

/// Number of initiators in the table.
const INITIATORS: usize = 12;

impl Plan<'_> {
    pub(super) fn heading(&self) -> String {
        let Self { machine, arguments, inputs: Inputs { cpus, script, .. }, .. } = self;
        let file = arguments.file.file_name().unwrap_or_default().display();
        let seconds = number(script.length as f64 / 1e9);
        let steps: usize = script.cpus.iter().map(Vec::len).sum();
        format!(
            "{file}: {seconds} s of {}, {}, {}; on {}, {}, seed {}",
            counted(script.cpus.len(), "CPU", "CPUs"),
            counted(self.trace.events.len(), "event", "events"),
            counted(steps, "step", "steps"),
            machine.key,
            counted(*cpus, "CPU", "CPUs"),
            arguments.seed
        )
    }

    pub(super) fn assumptions(&self) -> String {
        let all = self.basis().besides();
        all.iter().map(|text| format!("* {}", wrapped(text, 0))).collect()
    }

    pub(super) fn to_text(&self, shown: &Shown, form: fn(&Grid) -> String) -> String {
        let Shown { runs, answer } = shown;
        let first = &runs[0];
        let costs = self.costs();
        let mut text = format!("{}\n\n{}\n", self.heading(), wrapped(&headline(shown), 0));
        text += &costs.text();
        let more: Vec<String> =
            answer.iter().flat_map(|answer| implausible(runs, answer)).collect();
        text += &plausible::how_sure(answer.as_ref(), &self.inputs.strategies, &more);
        text += &format!("time of all CPUs, in ms\n\n{}\n", form(&causes(runs)));
        if let Some(answer) = answer {
            text += &format!(
                "the same on {} plausible machines: the median, and where at least 80 % of them are\n\n{}\n",
                answer.machines,
                form(&intervals(runs, answer))
            );
        }
        if runs.iter().any(|run| run.share() > 1.0) {
            text += &format!("{}\n", wrapped(OVERFULL, 0));
        }
        if let Some(unequal) = unequal(runs) {
            text += &format!("{}\n", wrapped(&unequal, 0));
        }
        text += &format!("operations\n\n{}\n", form(&operations(runs)));
        text += &format!("how long operations take, in ns\n\n{}\n", form(&latencies(runs)));
        let who = form(&initiators(runs, Some(INITIATORS)));
        text += &format!(
            "time by initiator under {}, in ms of all CPUs, with refills as assumed\n\n{who}\n",
            first.strategy
        );
        text + "what this rests on\n\n" + &costs.gaps() + &self.assumptions()
    }
}

fn ms(time: u64) -> String {
    number(time as f64 / 1e9)
}

fn header<'r>(first: &'r str, runs: &'r [Replayed]) -> impl Iterator<Item = &'r str> {
    [first].into_iter().chain(runs.iter().map(|run| run.strategy.as_str()))
}

fn causes(runs: &[Replayed]) -> Grid {
    let mut grid = Grid::new(header("cause", runs), &[0]);
    for (i, name) in Upkeep::NAMES.into_iter().enumerate().filter(|(_, name)| *name != "refills") {
        let time = |run: &Replayed| run.upkeep.iter().nth(i).map_or(0, |(_, time)| time);
        let cells = runs.iter().map(|run| ms(time(run)));
        grid.row([name.to_owned()].into_iter().chain(cells));
    }
    let mut row = |name: &str, cell: &dyn Fn(&Replayed) -> String| {
        grid.row([name.to_owned()].into_iter().chain(runs.iter().map(cell)));
    };
    row("known: all of these", &|run| ms(run.known()));
    row("share of all CPUs' time", &|run| share(run.share_of(run.known())));
    row("ratio", &|run| ratio(run, &runs[0], Replayed::known).map(times).unwrap_or_default());
    row("refills, as assumed", &|run| ms(run.upkeep.refills));
    if runs.iter().all(|run| run.refills_band.is_some()) {
        let end = |run: &Replayed, end: usize| {
            run.refills_band.map_or(String::new(), |band| ms(band[end]))
        };
        row("refills, from", &|run| end(run, 0));
        row("refills, to", &|run| end(run, 1));
    }
    row("ratio with refills as assumed", &|run| {
        ratio(run, &runs[0], |run| run.total).map(times).unwrap_or_default()
    });
    if runs.iter().any(|run| run.rest.total() > 0) {
        row("the rest of the system", &|run| ms(run.rest.total()));
    }
    grid
}

/// Where each time lies on plausible machines.
fn intervals(runs: &[Replayed], answer: &Answer) -> Grid {
    let mut grid = Grid::new(header("cause", runs), &[0]);
    let of: Vec<Vec<_>> = (0..runs.len()).map(|run| plausible_of(answer, run).collect()).collect();
    // What is known is the first metric, and below its causes here.
    let places = (1..of[0].len()).chain([0]);
    for place in places {
        let name = if place == 0 { "known: all of these" } else { of[0][place].0.key };
        let cell = |all: &Vec<(&Metric, Interval)>| {
            let [median, low, high] =
                [all[place].1.median, all[place].1.low, all[place].1.high].map(number);
            if low == high { median } else { format!("{median} ({low} to {high})") }
        };
        grid.row([name.to_owned()].into_iter().chain(of.iter().map(cell)));
    }
    grid
}

/// What is to be said of times with the file's numbers that are outside what plausible machines give.
fn implausible(runs: &[Replayed], answer: &Answer) -> Vec<String> {
    let one = |(place, run): (usize, &Replayed)| {
        let of = format!("The time under {}", run.strategy);
        plausible::implausible(&of, run.known() as f64 / 1e9, "ms", &answer.intervals[place][0])
    };
    runs.iter().enumerate().filter_map(one).collect()
}

/// The medians of plausible machines in milliseconds, where a time with the file's numbers is outside of its range there.
fn medians(Shown { runs, answer }: &Shown) -> Option<Vec<f64>> {
    let answer = answer.as_ref()?;
    let of = |(place, run): (usize, &Replayed)| {
        let Interval { low, median, high } = answer.intervals[place][0];
        (run.known() as f64 / 1e9, [low, median, high])
    };
    report::medians(runs.iter().enumerate().map(of))
}

/// What the brackets of the headline are, and what the file's numbers alone give where its shares are medians.
fn ranges(Shown { runs, answer }: &Shown, are_medians: bool) -> String {
    let Some(Answer { machines, .. }) = answer else { return String::new() };
    if !are_medians {
        return format!(" In brackets: where at least 80 % of {machines} plausible machines are.");
    }
    let file =
        |run: &Replayed| format!("{} under {}", share(run.share_of(run.known())), run.strategy);
    let file: Vec<String> = runs.iter().map(file).collect();
    format!(
        " That is the median of {machines} plausible machines, and in brackets is where at least 80 % of them are. The numbers of \
         the machine file alone are not all among them: they give {}.",
        file.join(", ")
    )
}

/// What is known of the first strategy and of the others, with its range, and how much refills may add.
pub(super) fn headline(shown: &Shown) -> String {
    let Shown { runs, answer } = shown;
    let medians = medians(shown);
    let spent = |(place, run): (usize, &Replayed)| {
        let of_ms = |ms: f64| share(run.share_of((ms * 1e9) as u64));
        let range = answer.as_ref().map_or(String::new(), |answer| {
            let Interval { low, high, .. } = answer.intervals[place][0];
            format!(" ({} to {})", of_ms(low), of_ms(high))
        });
        let known = match &medians {
            Some(medians) => of_ms(medians[place]),
            None => share(run.share_of(run.known())),
        };
        format!("{known}{range} under {}", run.strategy)
    };
    let known: Vec<String> = runs.iter().enumerate().map(spent).collect();
    let ranges = ranges(shown, medians.is_some());
    let turned = turned(shown).map_or(String::new(), |turned| format!(" {turned}"));
    let refills = if runs[0].has_unpriced_refills() {
        format!("{} has no price for a walk, so that they cost nothing here.", runs[0].machine)
    } else if let Some(band) = runs[0].refills_band {
        let [low, high] = band.map(|refills| share(runs[0].share_of(refills)));
        format!(
            "under {} they take {low} to {high} more with a quarter and with {BAND} times the assumed working set.",
            runs[0].strategy,
        )
    } else {
        let assumed = share(runs[0].share_of(runs[0].upkeep.refills));
        format!(
            "under {} they take {assumed} more with the assumed working set, and no other was replayed.",
            runs[0].strategy,
        )
    };
    let is_unpriced = runs.iter().all(|run| run.known() == 0 && !run.is_idle());
    let known = match is_unpriced && medians.is_none() {
        true => format!("no time that {} has a price for.", runs[0].machine),
        false => format!("{} of the time of all CPUs.{ranges}{turned}", known.join(", ")),
    };
    format!(
        "Switches, flushes, waits and interrupted CPUs take {known} Refills are not known from a trace: {refills}",
    )
}

fn operations(runs: &[Replayed]) -> Grid {
    let mut grid = Grid::new(header("operation", runs), &[0]);
    for (i, (name, _)) in operations_of(&runs[0]).into_iter().enumerate() {
        let counts: Vec<u64> = runs.iter().map(|run| operations_of(run)[i].1).collect();
        if counts.iter().any(|&count| count > 0) {
            grid.row([name.to_owned()].into_iter().chain(counts.iter().map(u64::to_string)));
        }
    }
    let each = |run: &Replayed| run.operations.walks as f64 / run.operations.accesses.max(1) as f64;
    let each = runs.iter().map(|run| format!("{:.3}", each(run)));
    grid.row(["walks for each access".to_owned()].into_iter().chain(each));
    grid
}

/// That refills are of different amounts of work, where they are by more than a twentieth.
fn unequal(runs: &[Replayed]) -> Option<String> {
    let accesses = || runs.iter().map(|run| run.operations.accesses);
    let [least, most] = [accesses().min()?, accesses().max()?];
    (20 * (most - least) > most).then(|| {
        "Refills are of different amounts of work: what upkeep takes longer is taken from computing, so that programs access \
         fewer pages there. Walks for each access compare them."
            .to_owned()
    })
}

fn latencies(runs: &[Replayed]) -> Grid {
    let header = ["operation", "strategy", "count", "p50", "p90", "p99", "longest"];
    let mut grid = Grid::new(header, &[0, 1]);
    for i in 0..runs[0].latencies.len() {
        for run in runs {
            let latency = &run.latencies[i];
            let times = [latency.p50, latency.p90, latency.p99, latency.max];
            let times = times.map(|time| number(time as f64 / 1e3));
            let start = [latency.of.to_owned(), run.strategy.clone(), latency.count.to_string()];
            grid.row(start.into_iter().chain(times));
        }
    }
    grid
}

/// Time by initiator under the first strategy, and the same under the others.
fn initiators(runs: &[Replayed], most: Option<usize>) -> Grid {
    let first = &runs[0];
    let strategies = runs.iter().map(|run| run.strategy.as_str());
    let header =
        ["process", "operation", "count", "interrupts", "part"].into_iter().chain(strategies);
    let mut grid = Grid::new(header, &[0, 1]);
    let same = |blame: &Blame, other: &&Blame| {
        blame.process == other.process && blame.operation == other.operation
    };
    let part = |time: u64| format!("{:.1} %", time as f64 / first.total.max(1) as f64 * 100.0);
    let (shown, others) = first.blame.split_at(first.blame.len().min(most.unwrap_or(usize::MAX)));
    for blame in shown {
        let time = |run: &Replayed| {
            run.blame
                .iter()
                .find(|other| same(blame, other))
                .map_or(0, |blame| blame.upkeep.total())
        };
        let start = [
            blame.process.clone(),
            blame.operation.clone(),
            blame.count.to_string(),
            blame.interrupts.to_string(),
            part(blame.upkeep.total()),
        ];
        grid.row(start.into_iter().chain(runs.iter().map(|run| ms(time(run)))));
    }
    if !others.is_empty() {
        let is_shown = |of: &&Blame| shown.iter().any(|blame| same(blame, of));
        let time = |run: &Replayed| -> u64 {
            let rest = run.blame.iter().filter(|blame| !is_shown(blame));
            rest.map(|blame| blame.upkeep.total()).sum()
        };
        let sum = |of: fn(&Blame) -> u64| others.iter().map(of).sum::<u64>().to_string();
        let start = [
            counted(others.len(), "other", "others"),
            String::new(),
            sum(|blame| blame.count),
            sum(|blame| blame.interrupts),
            part(time(first)),
        ];
        grid.row(start.into_iter().chain(runs.iter().map(|run| ms(time(run)))));
    }
    grid
}
