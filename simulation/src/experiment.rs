//! Experiments that others published, as workload files with the published numbers in them, and what the model
//! predicts of each without being fitted to any.
//!
//! A number is predicted by one run, or by two that are compared. Each run has several seeds; the prediction is the
//! median.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use lookaside_terminal::{
    Refused,
    grid::{Grid, number},
};
use rayon::prelude::*;

use lookaside_machine::timed::Ps;

use crate::{
    data::{Beside, Experiment, Figure, Files, Machine, Trial, UNITS},
    reproduce::LIMIT,
    seeds::Spread,
    workload::{self, Outcome, Setup},
};

/// How many seeds a prediction has unless a caller says otherwise.
pub const SEEDS: u64 = 3;
/// A ratio or a difference is taken for none below this.
const NONE: f64 = 0.03;
/// The part of all predictions that [`Score::most_within`] is of.
const MOST: f64 = 0.8;

/// A published number beside its prediction.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The file.
    pub file: String,
    /// What was published.
    pub published: Figure,
    /// What the model gives, with one sample for each seed.
    pub samples: Vec<f64>,
}

/// What the predictions of all files in `workloads/` came to, as `workloads/predictions.md` has it: how far the model has been
/// off where it was fitted to nothing, its prices included. Answers about a machine say it.
pub const RECORD: Score = Score {
    all: 173,
    within_10: 24,
    within_25: 48,
    directed: 93,
    right: 82,
    half_within: 1.7,
    most_within: 2.7,
};

/// How many predictions came out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// How many predictions could have failed.
    pub all: usize,
    /// How many of them are within a tenth of what was published.
    pub within_10: usize,
    /// How many are within a quarter.
    pub within_25: usize,
    /// How many say which of two is more, and by more than 3 % as published.
    pub directed: usize,
    /// How many of these say it right.
    pub right: usize,
    /// By which factor at most half of all predictions are off, up or down, to a tenth.
    pub half_within: f64,
    /// The same of four fifths.
    pub most_within: f64,
}

impl Prediction {
    /// The median.
    #[must_use]
    pub fn value(&self) -> f64 {
        Spread::of(&self.samples).median()
    }

    /// The prediction divided by what was published.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.value() / self.published.value
    }

    /// By which factor it is off, up or down: no factor makes what was published of the other sign.
    fn factor(&self) -> f64 {
        let ratio = self.ratio();
        if ratio > 0.0 { ratio.max(ratio.recip()) } else { f64::INFINITY }
    }

    /// Whether it could have failed: not a control, and not a gain of less than a tenth, which a model in which nothing
    /// ever changes would give too.
    #[must_use]
    pub fn could_fail(&self) -> bool {
        let changes = match self.published.beside {
            Some((Beside::Over, _)) => (self.published.value - 1.0).abs() > LIMIT,
            _ => true,
        };
        !self.published.control && changes
    }

    /// Whether it says right which of two is more; nothing if there are not two, or both are the same.
    #[must_use]
    pub fn direction(&self) -> Option<bool> {
        let ((beside, _), Figure { value: published, .. }) =
            (self.published.beside.as_ref()?, &self.published);
        let predicted = self.value();
        match beside {
            Beside::Less => Some((predicted > 0.0) == (*published > 0.0)),
            Beside::Over if (published - 1.0).abs() < NONE => None,
            Beside::Over => {
                Some((predicted > 1.0) == (*published > 1.0) && (predicted - 1.0).abs() >= NONE)
            }
        }
    }

    /// Whether it is within such a part of what was published.
    #[must_use]
    pub fn is_within(&self, part: f64) -> bool {
        (self.ratio() - 1.0).abs() <= part
    }
}

/// The predictions of a workload file, in its order; none if nothing was published of it.
///
/// # Errors
///
/// If the file cannot be read or run.
pub fn predict(path: &str, seeds: u64) -> Result<Vec<Prediction>, Refused> {
    let file = workload::opened(path)?;
    let program = file.program();
    let Some(experiment) = program.experiment.clone() else { return Ok(Vec::new()) };
    let outcomes = outcomes(path, &experiment, seeds);
    let one = |published: &Figure| {
        let at = |Refused(why): Refused| match why.starts_with(&program.file) {
            true => Refused(why),
            false => Refused(format!("{}:{}: {why}", program.file, published.line)),
        };
        let sample = |seed: u64| -> Result<f64, Refused> {
            let of = |trial: &Trial| -> Result<f64, Refused> {
                let outcome = outcomes[&(key(trial), seed)].as_ref();
                let value =
                    outcome.map_err(Clone::clone).and_then(|of| value(of, published, trial));
                value.map_err(|Refused(why)| {
                    let line = published.line;
                    Refused(format!("{why} (in the run on {}, for line {line})", said(trial)))
                })
            };
            let value = of(&published.run)?;
            Ok(match &published.beside {
                None => value,
                Some((Beside::Over, other)) => value / of(other)?,
                Some((Beside::Less, other)) => value - of(other)?,
            })
        };
        let samples =
            (1..=seeds).into_par_iter().map(sample).collect::<Result<_, _>>().map_err(at)?;
        Ok(Prediction { file: program.file.clone(), published: published.clone(), samples })
    };
    experiment.published.iter().map(one).collect()
}

/// What a run gave, in the unit of what was published.
fn value(outcome: &Outcome, published: &Figure, trial: &Trial) -> Result<f64, Refused> {
    let metric = trial.metric.as_str();
    let value = outcome.metric(metric)?;
    // What some of the threads do is not what was published of all.
    if let Some(note) = outcome.notes.iter().find(|note| note.contains(" never ran: ")) {
        return Err(Refused(note.clone()));
    }
    if value > 0.0 {
        let unit = outcome.metrics.iter().find(|one| one.key == metric).map_or("", |one| one.unit);
        return Ok(scale(published, metric, unit)? * value);
    }
    let why = match &outcome.notes[..] {
        _ if metric == "interrupts" || metric == "interrupted" => {
            "no CPU was interrupted in the whole run".to_owned()
        }
        _ if metric == "flushing" => "no flush took time in the whole run".to_owned(),
        [] => "nothing of it fell into the time that is counted; give the workload more `time`"
            .to_owned(),
        notes => notes.join(" "),
    };
    Err(Refused(format!("`{metric}` is 0: {why}")))
}

/// By what the metric of a run is multiplied to be in the unit of what was published.
fn scale(published: &Figure, metric: &str, measured: &str) -> Result<f64, Refused> {
    let time = |unit: &str| UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ns)| 1.0 / ns);
    let is_ratio = matches!(published.beside, Some((Beside::Over, _)));
    let wrong = |why: String| Err(Refused(format!("`{metric}` {why}")));
    match (published.unit.as_deref(), published.scale) {
        (Some(unit), _) if is_ratio => {
            wrong(format!("over another has no unit, and `unit` is {unit}"))
        }
        (None, scale) if is_ratio || measured.is_empty() => Ok(scale.unwrap_or(1.0)),
        (None, _) => wrong(format!("is in {measured}: say in which `unit` the published value is")),
        (Some(unit), _)
            if measured != "ns" && time(unit).is_some() || measured != "1/s" && unit == "1/s" =>
        {
            let measured = if measured.is_empty() { "a share" } else { measured };
            wrong(format!("is {measured}, which cannot be in {unit}"))
        }
        (Some(_), Some(scale)) => Ok(scale),
        (Some(unit), None) => match time(unit).filter(|_| measured == "ns") {
            Some(scale) => Ok(scale),
            None if unit == measured => Ok(1.0),
            None => wrong(format!(
                "is in {measured} and not in {unit}: say by `scale` how many {unit} are one {measured}"
            )),
        },
    }
}

/// A run in words.
fn said(trial: &Trial) -> String {
    let mut said = trial.machine.clone();
    if let Some(sockets) = trial.sockets {
        let _ = write!(said, ", sockets = {sockets}");
    }
    let cpus = trial.cpus.map(|n| ("cpus", n as f64));
    let options = trial.options.iter().map(|(name, number)| (name.as_str(), *number));
    for (name, number) in cpus.into_iter().chain(options) {
        let _ = write!(said, ", {name} = {number}");
    }
    said
}

/// What tells runs apart: all but what is asked of them.
fn key(trial: &Trial) -> String {
    format!("{:?}", Trial { metric: String::new(), ..trial.clone() })
}

/// What runs give, by run and seed. Several figures may be of one run.
type Outcomes = BTreeMap<(String, u64), Result<Outcome, Refused>>;

/// All runs of an experiment.
fn outcomes(path: &str, experiment: &Experiment, seeds: u64) -> Outcomes {
    let other = |figure: &Figure| figure.beside.as_ref().map(|(_, trial)| trial.clone());
    let of = |figure: &Figure| [Some(figure.run.clone()), other(figure)];
    let trials = experiment.published.iter().flat_map(of).flatten();
    let trials: BTreeMap<String, Trial> = trials.map(|trial| (key(&trial), trial)).collect();
    let all: Vec<_> =
        (1..=seeds).flat_map(|seed| trials.iter().map(move |one| (one, seed))).collect();
    let run = |((key, trial), seed): ((&String, &Trial), u64)| {
        ((key.clone(), seed), run(path, trial, seed))
    };
    all.into_par_iter().with_max_len(1).map(run).collect()
}

/// One run.
fn run(path: &str, trial: &Trial, seed: u64) -> Result<Outcome, Refused> {
    let mut machine = Machine::named(&trial.machine)?;
    if let Some(sockets) = trial.sockets {
        machine.set_sockets(sockets);
    }
    // What it has no price for is not for nothing: it takes what is in the middle of its range.
    let ranges = Files::own().ranges()?;
    let unpriced: Vec<_> = machine.unpriced().collect();
    for price in unpriced {
        if let Some(range) = ranges.price(machine.isa, price) {
            machine.model.prices.set(price, (range.middle() * 1e3) as Ps);
        }
    }
    let setup = Setup {
        machine: &machine,
        strategy: &trial.strategy,
        cpus: trial.cpus,
        x: None,
        options: &trial.options,
        seed,
        timeline: 0,
    };
    workload::run(path, &setup)
}

/// How many came out.
#[must_use]
pub fn score(all: &[Prediction]) -> Score {
    let mut score = Score::default();
    for one in all.iter().filter(|one| one.could_fail()) {
        score.all += 1;
        score.within_10 += usize::from(one.is_within(0.1));
        score.within_25 += usize::from(one.is_within(0.25));
        score.directed += usize::from(one.direction().is_some());
        score.right += usize::from(one.direction() == Some(true));
    }
    score.half_within = within(all, 0.5);
    score.most_within = within(all, MOST);
    score
}

/// By which factor at most this part of those that could have failed is off, up to a tenth.
fn within<'p>(all: impl IntoIterator<Item = &'p Prediction>, part: f64) -> f64 {
    let factors = all.into_iter().filter(|one| one.could_fail()).map(Prediction::factor);
    let mut factors: Vec<f64> = factors.collect();
    factors.sort_by(f64::total_cmp);
    let last = (part * factors.len() as f64).ceil() as usize;
    last.checked_sub(1).map_or(0.0, |last| (factors[last] * 10.0).ceil() / 10.0)
}

/// Of how many that could have failed the factor of [`Score::most_within`] is right, if it is told by the other files alone.
fn held_out(all: &[Prediction]) -> usize {
    let holds = |one: &&Prediction| {
        let others = all.iter().filter(|other| other.file != one.file);
        one.could_fail() && one.factor() <= within(others, MOST)
    };
    all.iter().filter(holds).count()
}

impl core::fmt::Display for Score {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { all, within_10, within_25, directed, right, half_within, most_within } = self;
        write!(
            f,
            "Of {all} predictions that could have failed, {within_10} are within 10 % and {within_25} within 25 % of what \
             was published, half are within {} and four fifths within {}; of {directed} that compare two runs, {right} say \
             right which is more.",
            a_factor(*half_within, "a factor of "),
            a_factor(*most_within, "")
        )
    }
}

/// A factor in words, with what stands before it.
fn a_factor(factor: f64, before: &str) -> String {
    if factor.is_finite() { format!("{before}{factor}") } else { "no factor".to_owned() }
}

/// The predictions for a spreadsheet: plain numbers, and their unit in a column of its own.
#[must_use]
pub fn csv(all: &[Prediction]) -> String {
    let header = [
        "file",
        "what",
        "unit",
        "published",
        "predicted",
        "least",
        "greatest",
        "ratio",
        "direction",
    ];
    let mut grid = Grid::new(header, &[0, 1, 2, 8]);
    for one in all {
        let spread = Spread::of(&one.samples);
        let unit = one.published.unit.as_deref().unwrap_or_default();
        let words = [one.file.as_str(), one.published.what.as_str(), unit];
        let numbers =
            [one.published.value, spread.median(), spread.least(), spread.greatest(), one.ratio()];
        let numbers = numbers.map(|number| number.to_string());
        let words = words.into_iter().map(str::to_owned);
        grid.row(words.chain(numbers).chain([direction(one).to_owned()]));
    }
    grid.to_csv()
}

/// Whether a prediction says right which of two is more, in a word.
fn direction(one: &Prediction) -> &'static str {
    match (one.could_fail(), one.direction()) {
        (false, _) => "control",
        (_, None) => "",
        (_, Some(true)) => "right",
        (_, Some(false)) => "wrong",
    }
}

/// The predictions as a table.
#[must_use]
pub fn grid(all: &[Prediction]) -> Grid {
    let header = ["what", "published", "predicted", "seeds", "ratio", "direction"];
    let mut grid = Grid::new(header, &[0, 5]);
    for one in all {
        let spread = Spread::of(&one.samples);
        let unit = one.published.unit.as_deref().map_or(String::new(), |unit| format!(" {unit}"));
        let of = |value: f64| format!("{}{unit}", number(value));
        grid.row([
            one.published.what.clone(),
            of(one.published.value),
            of(spread.median()),
            format!("{} to {}", number(spread.least()), number(spread.greatest())),
            number(one.ratio()),
            direction(one).to_owned(),
        ]);
    }
    grid
}

/// A page about experiments of files: `workloads/predictions.md`.
///
/// # Errors
///
/// If one cannot be predicted.
pub fn report(paths: &[String], seeds: u64) -> Result<String, Refused> {
    let mut text = String::new();
    let mut every = Vec::new();
    for path in paths {
        let all = predict(path, seeds)?;
        let file = workload::opened(path)?;
        let program = file.program();
        let Some(experiment) = &program.experiment else { continue };
        let name = path.rsplit('/').next().unwrap_or(path);
        let _ = write!(
            text,
            "\n## {name}\n\n{}.\n\n* Published: {}\n* On: {}\n",
            capital(&program.about),
            program.source.as_deref().unwrap_or_default(),
            experiment.hardware,
        );
        if let Some(assumed) = &experiment.assumed {
            let _ = writeln!(text, "* Assumed: {assumed}");
        }
        let _ = writeln!(text, "\n{}", grid(&all).to_markdown());
        for one in &all {
            if let Some(cause) = &one.published.cause {
                let _ = writeln!(text, "* {}: {cause}", one.published.what);
            }
        }
        every.extend(all);
    }
    Ok(format!(
        "{HEAD}\n{} Told by the other files alone, the second factor holds for {}.\n{text}",
        score(&every),
        held_out(&every)
    ))
}

/// What stands above the experiments.
const HEAD: &str = "\
# Predictions of published experiments

Written by `cargo lab experiments workloads/*.toml --format markdown --output workloads/predictions.md`; a test compares
it. What the columns mean is in [README.md](README.md#published-experiments).
";

/// A sentence with a capital letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
