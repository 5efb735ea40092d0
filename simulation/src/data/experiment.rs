//! What was published of a workload of a file: the tables `experiment` and `published` of `workloads/*.toml`.

use std::collections::BTreeMap;

use lookaside_terminal::Refused;

use super::{Parameter, Sockets, read::Section};

/// An experiment that was published, beside the workload that is meant to be the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// What it ran on, as its author says.
    pub hardware: String,
    /// What of it is not known, and what the model has in its place.
    pub assumed: Option<String>,
    /// The numbers.
    pub published: Vec<Figure>,
}

/// A number that was published.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub what: String,
    /// The number.
    pub value: f64,
    /// Its unit; none for a ratio or a share.
    pub unit: Option<String>,
    /// One unit of the workload's metric, in `unit`; none for 1, and for what makes a time one in `unit`.
    pub scale: Option<f64>,
    /// What is run for it.
    pub run: Trial,
    /// What that is compared with.
    pub beside: Option<(Beside, Trial)>,
    /// Whether the prediction could hardly have failed, for instance as both sides do the same.
    pub control: bool,
    /// Why the prediction misses, where it does.
    pub cause: Option<String>,
    /// The line of the table.
    pub line: usize,
}

/// How two runs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// The first divided by the second.
    Over,
    /// The first less the second.
    Less,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// The machine, by its key.
    pub machine: String,
    /// The sockets that the machine has instead of its own.
    pub sockets: Option<Sockets>,
    /// How many CPUs.
    pub cpus: Option<usize>,
    /// The strategy.
    pub strategy: String,
    /// The metric.
    pub metric: String,
    /// Parameters of the workload.
    pub options: BTreeMap<String, f64>,
}

/// Keys of a run that are no parameters.
const KEYS: [&str; 5] = ["machine", "sockets", "cpus", "strategy", "metric"];

/// The experiment of a file, if it is one.
pub(super) fn experiment(
    root: &Section<'_>,
    parameters: &[Parameter],
) -> Result<Option<Experiment>, Refused> {
    let rows = root.sections("published")?;
    let Some(section) = root.section("experiment")? else {
        return match rows.first() {
            None => Ok(None),
            Some(row) => Err(row.refuse("what", "is published of no `[experiment]`")),
        };
    };
    section.only(&["hardware", "assumed", "run"])?;
    if root.text("source")?.is_none() {
        return Err(root.refuse("source", "is missing: an experiment says where it was published"));
    }
    if rows.is_empty() {
        return Err(section.refuse("hardware", "has nothing `[[published]]`"));
    }
    let run = trial(&section, "run", Trial::default(), parameters)?;
    let read = |row: &Section<'_>| published(row, &run, parameters);
    Ok(Some(Experiment {
        hardware: section.needed("hardware", section.text("hardware"))?.to_owned(),
        assumed: section.text("assumed")?.map(str::to_owned),
        published: rows.iter().map(read).collect::<Result<_, _>>()?,
    }))
}

fn published(
    row: &Section<'_>,
    usual: &Trial,
    parameters: &[Parameter],
) -> Result<Figure, Refused> {
    row.only(&["what", "value", "unit", "scale", "run", "over", "less", "control", "cause"])?;
    let run = trial(row, "run", usual.clone(), parameters)?;
    for (key, word) in
        [("machine", &run.machine), ("strategy", &run.strategy), ("metric", &run.metric)]
    {
        if word.is_empty() {
            return Err(
                row.refuse("run", format!("has no `{key}`, nor has that of `[experiment]`"))
            );
        }
    }
    let beside = match (row.section("over")?, row.section("less")?) {
        (None, None) => None,
        (Some(_), None) => Some((Beside::Over, trial(row, "over", run.clone(), parameters)?)),
        (None, Some(_)) => Some((Beside::Less, trial(row, "less", run.clone(), parameters)?)),
        (Some(_), Some(_)) => return Err(row.refuse("less", "stands beside `over`; one is enough")),
    };
    if let Some((beside, other)) = &beside
        && all_of(other, parameters) == all_of(&run, parameters)
    {
        let key = if *beside == Beside::Over { "over" } else { "less" };
        return Err(
            row.refuse(key, "is the same run as `run`: say in which of them something differs")
        );
    }
    let value = row.needed("value", row.number("value"))?;
    if value <= 0.0 {
        return Err(row.refuse("value", "is not more than 0"));
    }
    Ok(Figure {
        what: row.needed("what", row.text("what"))?.to_owned(),
        value,
        unit: row.text("unit")?.map(str::to_owned),
        scale: row.number("scale")?,
        run,
        beside,
        control: row.flag("control")?,
        cause: row.text("cause")?.map(str::to_owned),
        line: row.line("what"),
    })
}

/// A run with what every parameter is in it.
fn all_of(trial: &Trial, parameters: &[Parameter]) -> Trial {
    let mut trial = trial.clone();
    for one in parameters {
        trial.options.entry(one.name.clone()).or_insert(one.value);
    }
    trial
}

/// A run that differs from `usual` in what the table says.
fn trial(
    of: &Section<'_>,
    key: &str,
    usual: Trial,
    parameters: &[Parameter],
) -> Result<Trial, Refused> {
    let Some(section) = of.section(key)? else { return Ok(usual) };
    let names: Vec<&str> = parameters.iter().map(|one| one.name.as_str()).collect();
    section.only(&[&KEYS, &names[..]].concat())?;
    let mut trial = usual;
    for (key, word) in [
        ("machine", &mut trial.machine),
        ("strategy", &mut trial.strategy),
        ("metric", &mut trial.metric),
    ] {
        if let Some(text) = section.text(key)? {
            text.clone_into(word);
        }
    }
    let whole = |key: &str| match section.number(key)? {
        Some(n) if n.fract() != 0.0 || !(1.0..=4096.0).contains(&n) => {
            Err(section.refuse(key, "is not a whole number from 1 to 4096"))
        }
        other => Ok(other),
    };
    if let Some(cpus) = whole("cpus")? {
        trial.cpus = Some(cpus as usize);
    }
    let sockets = match section.text("sockets") {
        Ok(text) => text.map(str::to_owned),
        Err(_) => whole("sockets")?.map(|number| number.to_string()),
    };
    if let Some(sockets) = sockets {
        let sockets = sockets.parse().map_err(|why: String| section.refuse("sockets", why))?;
        trial.sockets = Some(sockets);
    }
    for name in section.keys().filter(|key| names.contains(key)) {
        if let Some(number) = section.number(name)? {
            trial.options.insert(name.to_owned(), number);
        }
    }
    Ok(trial)
}
