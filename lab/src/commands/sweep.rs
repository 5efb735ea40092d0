//! `lookaside sweep`: a workload over many values, with curves, bands, and where curves cross.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use lookaside_simulation::{
    data::{Machine, Sockets},
    reproduce::{Book, Settings},
    seeds::Spread,
    sweep::{self, Swept, crossovers, page},
};
use lookaside_terminal::{
    Refused, counted,
    grid::{Grid, number, wrapped},
    names, say, tell,
};
use serde_json::json;

use super::{
    output,
    parquet::{self, Column, Values},
    progress,
};

/// Arguments of `lookaside sweep`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The workload: the path of a file, or a name that `lookaside list workloads` shows.
    workload: String,
    /// What to sweep over, and the values: `cpus=1,2,4..256`. A name is `cpus`, `x`, a price in ns, or an option of
    /// the workload.
    #[arg(long, value_name = "NAME=VALUES")]
    over: String,
    /// The machines, as `lookaside list machines` shows them, or paths of machine files.
    #[arg(long, value_name = "MACHINE,...", value_delimiter = ',', required = true)]
    machine: Vec<String>,
    /// Other sockets in place of the machines' own, each a node: so many, all linked with each other, or for each a row of
    /// links to the others: `0 1 1 2; 1 0 2 1; 1 2 0 1; 2 1 1 0`.
    #[arg(long, value_name = "SOCKETS")]
    sockets: Option<Sockets>,
    /// The strategies.
    #[arg(long, value_name = "STRATEGY,...", value_delimiter = ',', default_value = "lookaside")]
    strategy: Vec<String>,
    /// Number of CPUs, for workloads that do not fix it.
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// A price of all machines, in ns; may be given several times.
    #[arg(long, value_name = "PRICE=NS", value_parser = super::option)]
    set: Vec<(String, f64)>,
    /// An option of the workload; may be given several times.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = super::option)]
    option: Vec<(String, f64)>,
    /// The metric; the first one that the workload measures if it is not given.
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// The first seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many samples each point has, each with a seed of its own.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Give each sample a plausible machine of its own, so that bands have in them what is not known exactly.
    #[arg(long)]
    plausible: bool,
    /// Write the points (`.csv`, `.json`), the samples (`.parquet`) or a page with curves (`.html`) to this file; may be given several times.
    #[arg(short, long, value_name = "FILE")]
    output: Vec<PathBuf>,
}

/// Runs `lookaside sweep`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { workload, machine, strategy, seed, seeds, .. } = arguments;
    for path in &arguments.output {
        output::check(path)?;
        form(path)?;
    }
    let mut book = Book::shipped()?;
    let keys: Vec<String> =
        machine.iter().map(|name| book.admit(name)).collect::<Result<_, Refused>>()?;
    let with_sockets = |machine| super::with_sockets(machine, arguments.sockets);
    let machines: Vec<Machine> =
        keys.iter().map(|key| book.machine(key).map(with_sockets)).collect::<Result<_, _>>()?;
    for machine in &machines {
        super::check_place(workload, machine, None, arguments.cpus)?;
    }
    let set: Vec<&str> = arguments.set.iter().map(|(name, _)| name.as_str()).collect();
    if let Some(name) = names::repeated(&set) {
        return Err(Refused(format!("price `{name}` is given twice: leave one out")).into());
    }
    let prices = arguments.set.iter().map(|(name, value)| sweep::price(name, *value));
    let sweep = sweep::ParameterSweep {
        workload: workload.clone(),
        machines,
        strategies: strategy.clone(),
        over: sweep::values(&arguments.over)?,
        cpus: arguments.cpus,
        options: super::settings(&arguments.option)?,
        defaults: book.options(workload, &Settings::new()),
        prices: prices.collect::<Result<_, _>>()?,
        seeds: [*seed, *seeds],
        plausible: arguments.plausible.then_some(book.ranges),
        metric: arguments.metric.clone(),
    };
    let sweep = sweep.prepare()?;
    let begin = Instant::now();
    let bar = progress::bar(sweep.runs());
    let swept = sweep.run(&|| bar.inc(1))?;
    bar.finish_and_clear();
    let over = &sweep.sweep().over.0;
    say!("{}", text(&swept, over))?;
    for path in &arguments.output {
        let content = match form(path)? {
            Form::Csv => grid(&swept, over).to_csv().into_bytes(),
            Form::Json => to_json(&swept, over).into_bytes(),
            Form::Html => page(arguments, &swept, over).into_bytes(),
            Form::Parquet => to_parquet(&swept, over, [*seed, *seeds]),
        };
        output::replace(path, content)?;
    }
    let (seconds, millions) = (begin.elapsed().as_secs_f64(), swept.events as f64 / 1e6);
    let runs = counted(sweep.runs(), "run", "runs");
    tell!("{runs} in {seconds:.1} s: {millions:.1} million events");
    let failed = sweep.failed(&swept);
    for (curve, x, why) in &failed {
        let (machine, strategy) = (&curve.machine, &curve.strategy);
        tell!("error: {machine}, {strategy}, {over} = {x}: {why}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

enum Form {
    Csv,
    Json,
    Html,
    Parquet,
}

fn form(path: &Path) -> Result<Form, Refused> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Ok(Form::Csv),
        Some("json") => Ok(Form::Json),
        Some("html") => Ok(Form::Html),
        Some("parquet") => Ok(Form::Parquet),
        _ => {
            let why = "ends in none of `.csv`, `.json`, `.parquet` and `.html`";
            Err(Refused(format!("`{}` {why}", path.display())))
        }
    }
}

fn grid(swept: &Swept, over: &str) -> Grid {
    let unit = if swept.unit.is_empty() { String::new() } else { format!(", {}", swept.unit) };
    let median = format!("{}{unit}", swept.metric);
    // Where it is over something else, each row says on how many.
    let cpus = (over != "cpus").then_some("CPUs");
    let x = sweep::column(over, &swept.metric);
    let header = ["machine", "strategy", x].into_iter().chain(cpus);
    let header = header.chain([&*median, "least", "greatest", "remark"]);
    let mut grid = Grid::new(header, &[0, 1, if cpus.is_some() { 7 } else { 6 }]);
    for curve in &swept.curves {
        for point in &curve.points {
            let mut row = vec![curve.machine.clone(), curve.strategy.clone(), point.x.to_string()];
            row.extend(cpus.map(|_| point.cpus.map_or(String::new(), |cpus| cpus.to_string())));
            match &point.samples {
                Err(why) => row.extend([String::new(), String::new(), String::new(), why.clone()]),
                Ok(samples) => {
                    let spread = Spread::of(samples);
                    let numbers = [spread.median(), spread.least(), spread.greatest()];
                    row.extend(numbers.map(number));
                    let sides = spread.sides().map(|_| "bistable");
                    let words: Vec<&str> =
                        sides.into_iter().chain(point.remark.as_deref()).collect();
                    row.push(words.join("; "));
                }
            }
            grid.row(row);
        }
    }
    grid
}

fn text(swept: &Swept, over: &str) -> String {
    let mut text = grid(swept, over).to_text();
    text.push('\n');
    let all = crossovers(swept);
    if all.is_empty() && swept.compares() {
        text.push_str("No two curves of a machine cross.\n");
    }
    for one in &all {
        text += &wrapped(&format!("{}.", page::sentence(one, over)), 0);
    }
    text
}

fn to_json(swept: &Swept, over: &str) -> String {
    let rows = swept.curves.iter().flat_map(|curve| {
        curve.points.iter().map(move |point| {
            json!({
                "machine": curve.machine,
                "strategy": curve.strategy,
                "x": point.x,
                "cpus": point.cpus,
                "samples": point.samples.as_ref().ok(),
                "problem": point.samples.as_ref().err().or(point.remark.as_ref()),
            })
        })
    });
    let crossovers = crossovers(swept).into_iter().map(|one| {
        json!({
            "machine": one.machine,
            "before": one.strategies[0],
            "after": one.strategies[1],
            "at": one.at,
            "between": one.between,
            "certainty": one.certainty,
        })
    });
    let document = json!({
        "version": 1,
        "over": over,
        "metric": swept.metric,
        "unit": swept.unit,
        "points": rows.collect::<Vec<_>>(),
        "crossovers": crossovers.collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

/// A row for each sample, in the columns of the Python package's `samples`.
fn to_parquet(swept: &Swept, over: &str, [seed, seeds]: [u64; 2]) -> Vec<u8> {
    let (mut machines, mut strategies, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let (mut numbers, mut values, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (curve, point) in
        swept.curves.iter().flat_map(|one| one.points.iter().map(move |p| (one, p)))
    {
        for i in 0..seeds {
            machines.push(Some(curve.machine.clone()));
            strategies.push(Some(curve.strategy.clone()));
            places.push(Some(point.x));
            numbers.push(Some(seed.wrapping_add(i)));
            values.push(point.samples.as_ref().ok().and_then(|all| all.get(i as usize)).copied());
            problems.push(point.samples.as_ref().err().or(point.remark.as_ref()).cloned());
        }
    }
    let column = |name: &str, values| Column { name: name.to_owned(), values };
    parquet::file(&[
        column("machine", Values::Texts(machines)),
        column("strategy", Values::Texts(strategies)),
        column(sweep::column(over, &swept.metric), Values::Numbers(places)),
        column("seed", Values::Wholes(numbers)),
        column("value", Values::Numbers(values)),
        column("problem", Values::Texts(problems)),
    ])
}

fn page(arguments: &Arguments, swept: &Swept, over: &str) -> String {
    let Arguments { workload, seeds, plausible, .. } = arguments;
    let band = match plausible {
        true => format!("Bands: from the least to the greatest of {seeds} plausible machines."),
        false => format!("Bands: from the least to the greatest of {seeds} seeds."),
    };
    let version = env!("CARGO_PKG_VERSION");
    let about = format!("{band} lookaside {version}, sweep over {}.", arguments.over);
    let cpus = swept.cpus(over).map_or(String::new(), |cpus| format!(", {cpus}"));
    let title = format!("{workload} over {over}{cpus}");
    page::html(swept, &page::Heading { title: &title, over, about: &about })
}
