//! `lookaside list`: lists machines, workloads, strategies and results.

use std::process::ExitCode;

use clap::ValueEnum;
use lookaside_simulation::{
    data::{Isa, Machine, Origin},
    reproduce::Book,
    strategy, workload,
};
use lookaside_terminal::grid::Grid;
use serde_json::{Value, json};

use super::output::{Format, Output};

/// Arguments of `lookaside list`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The kind of thing to list; all kinds if none is given.
    what: Option<Kind>,
    #[command(flatten)]
    output: Output,
}

/// A kind of thing that is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Machines,
    Workloads,
    Strategies,
    Results,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Machines, Self::Workloads, Self::Strategies, Self::Results];

    const fn word(self) -> &'static str {
        match self {
            Self::Machines => "machines",
            Self::Workloads => "workloads",
            Self::Strategies => "strategies",
            Self::Results => "results",
        }
    }

    fn grid(self, book: &Book) -> Grid {
        match self {
            Self::Machines => machines(book),
            Self::Workloads => workloads(),
            Self::Strategies => strategies(),
            Self::Results => results(book),
        }
    }
}

/// Runs `lookaside list`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let output = &arguments.output;
    output.check()?;
    let book = Book::shipped()?;
    let kinds = arguments.what.map_or_else(|| Kind::ALL.to_vec(), |kind| vec![kind]);
    let grids = kinds.iter().map(|kind| (kind.word(), kind.grid(&book)));
    let text = match output.format {
        Format::Json => {
            let lists = grids.map(|(word, grid)| (word.to_owned(), objects(&grid)));
            let version = core::iter::once(("version".to_owned(), json!(1)));
            let all: serde_json::Map<String, Value> = version.chain(lists).collect();
            format!("{:#}\n", json!(all))
        }
        Format::Csv => grids.map(|(_, grid)| grid.to_csv()).collect::<Vec<_>>().join("\n"),
        Format::Markdown => {
            join(grids.map(|(w, grid)| format!("### {w}\n\n{}", grid.to_markdown())))
        }
        Format::Table => join(grids.map(|(word, grid)| format!("{word}\n{}", grid.to_text()))),
    };
    output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn join(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

/// The rows as JSON objects.
fn objects(grid: &Grid) -> Value {
    let rows = grid.rows().map(|row| {
        let pairs = grid.header().iter().zip(row);
        pairs.map(|(name, cell)| (name.clone(), json!(cell))).collect::<serde_json::Map<_, _>>()
    });
    rows.map(Value::from).collect()
}

const fn isa(isa: Isa) -> &'static str {
    match isa {
        Isa::Aarch64 => "aarch64",
        Isa::Riscv64 => "riscv64",
        Isa::X86_64 => "x86_64",
    }
}

fn machines(book: &Book) -> Grid {
    let mut grid = Grid::new(["machine", "isa", "CPUs", "sourced", "fitted", "name"], &[0, 1, 5]);
    for machine in &book.machines {
        let Machine { key, name, values, model, .. } = machine;
        let count = |of: fn(&Origin) -> bool| values.iter().filter(|v| of(&v.origin)).count();
        let fitted = count(|origin| matches!(origin, Origin::Fitted { .. }));
        let sourced = count(|origin| matches!(origin, Origin::Source { .. }));
        grid.row([
            key.clone(),
            isa(machine.isa).to_owned(),
            model.topology.cpus().to_string(),
            sourced.to_string(),
            fitted.to_string(),
            name.clone(),
        ]);
    }
    grid
}

fn workloads() -> Grid {
    let mut grid = Grid::new(["workload", "x", "about"], &[0, 1, 2]);
    for entry in workload::all() {
        grid.row([entry.name, entry.x_name.unwrap_or(""), entry.about]);
    }
    grid
}

fn strategies() -> Grid {
    let mut grid = Grid::new(["strategy", "isa", "about"], &[0, 1, 2]);
    for entry in strategy::all() {
        let isas: Vec<_> = entry.isas.iter().map(|&one| isa(one)).collect();
        grid.row([entry.name, &isas.join(" "), entry.about]);
    }
    grid
}

fn results(book: &Book) -> Grid {
    let header = ["result", "seed", "workload", "machine", "values", "metric"];
    let mut grid = Grid::new(header, &[0, 2, 3, 5]);
    for result in &book.published {
        let series = core::iter::once(&result.baseline).chain(&result.variants);
        let mut machines = result.machines.clone();
        machines.dedup();
        grid.row([
            result.id.clone(),
            result.seed.map(|seed| seed.to_string()).unwrap_or_default(),
            result.workload.clone(),
            machines.join(" "),
            series.map(|series| series.points.len()).sum::<usize>().to_string(),
            format!("{}, {}", result.metric, result.unit),
        ]);
    }
    grid
}
