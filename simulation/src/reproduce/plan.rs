//! Which runs it takes to compare with published results.

use super::{
    book::{Book, Settings},
    execute::{Run, Runs},
    reference::Member,
};
use lookaside_terminal::{Refused, names};

use crate::{
    data::{Machine, Published, Series},
    strategy,
};

/// What is to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The names of results; all if there are none.
    pub ids: Vec<String>,
    /// The machine to run everything on instead of the published one.
    pub machine: Option<String>,
    /// Only these strategies and the baseline. One that a result does not have is added to it.
    pub strategies: Vec<String>,
    /// What pseudo-random numbers begin with.
    pub seed: u64,
    /// How many seeds each run has: its value is that of the first, its spread that of all.
    pub seeds: u64,
    /// Runs of more events than this have one seed only.
    pub most: u64,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            machine: None,
            strategies: Vec::new(),
            seed: 1,
            seeds: 1,
            most: u64::MAX,
        }
    }
}

/// All runs, and what becomes of them.
#[derive(Debug)]
pub struct Plan<'b> {
    /// The runs, each once.
    pub runs: Runs,
    /// One for each result.
    pub groups: Vec<Group<'b>>,
    /// How many seeds each run has that has no more events than this.
    pub(super) seeds: (u64, u64),
}

/// One published result.
#[derive(Debug)]
pub struct Group<'b> {
    /// The result.
    pub result: &'b Published,
    /// The points of its curves; one if it has none.
    pub points: Vec<Point<'b>>,
}

/// One point of the curves of a result.
#[derive(Debug)]
pub struct Point<'b> {
    /// Where it is.
    pub x: Option<f64>,
    /// The machine.
    pub machine: &'b Machine,
    /// The run of the baseline.
    pub baseline: usize,
    /// The run of the recommended strategy.
    pub recommended: usize,
    /// The baseline and what is compared with it.
    pub lines: Vec<Line>,
}

/// One series at one point.
#[derive(Debug)]
pub struct Line {
    /// Which series; none for a strategy that was asked for besides.
    pub member: Option<Member>,
    /// What the publication calls it.
    pub name: String,
    /// What the lab calls it.
    pub strategy: String,
    /// The published value, if this is the machine that it was published for.
    pub published: Option<f64>,
    /// Its run.
    pub run: usize,
    /// The run of the recommended strategy under the same conditions.
    pub recommended: usize,
}

/// The value of a series at a point.
fn value(series: &Series, x: Option<f64>) -> Option<f64> {
    series.points.iter().find(|point| point.x == x).map(|point| point.value)
}

/// The key of the machine at a point of a result.
///
/// # Errors
///
/// If the result has no such point.
pub fn machine_at(result: &Published, x: Option<f64>) -> Result<&str, Refused> {
    let points = &result.baseline.points;
    let place = match result.machines.len() {
        1 => Some(0),
        _ => points.iter().position(|point| point.x == x),
    };
    place.and_then(|place| result.machines.get(place)).map(String::as_str).ok_or_else(|| {
        let x = x.map_or_else(|| "no point".to_owned(), |x| format!("the point {x}"));
        Refused(format!("result `{}` has no machine for {x}", result.id))
    })
}

/// The points of a result: those of the baseline, and then those that only variants have.
#[must_use]
pub fn points(result: &Published) -> Vec<Option<f64>> {
    let mut points: Vec<Option<f64>> = Vec::new();
    let series = core::iter::once(&result.baseline).chain(&result.variants);
    for point in series.flat_map(|series| &series.points) {
        if !points.contains(&point.x) {
            points.push(point.x);
        }
    }
    points
}

/// The run of a series at a point.
#[must_use]
pub fn run(
    book: &Book,
    result: &Published,
    machine: &Machine,
    series: (&str, &Settings),
    x: Option<f64>,
    seed: u64,
) -> Run {
    let (strategy, options) = series;
    Run {
        machine: machine.key.clone(),
        workload: result.workload.clone(),
        strategy: strategy.to_owned(),
        options: book.options(&result.workload, options),
        x,
        cpus: None,
        seed,
    }
}

impl<'b> Plan<'b> {
    /// The runs that a request takes.
    ///
    /// # Errors
    ///
    /// If it names something that does not exist.
    pub fn new(book: &'b Book, request: &Request) -> Result<Self, Refused> {
        let seeds = (request.seeds, request.most);
        let mut plan = Self { runs: Runs::default(), groups: Vec::new(), seeds };
        for name in &request.strategies {
            if !strategy::all().any(|entry| entry.name == name) {
                let known = strategy::all().map(|entry| entry.name);
                return Err(names::unknown("strategy", name, known));
            }
        }
        let other = request.machine.as_deref().map(|key| book.machine(key)).transpose()?;
        let mut results: Vec<&'b Published> = Vec::new();
        for id in &request.ids {
            let result = book.result(id)?;
            if !results.iter().any(|known| known.id == *id) {
                results.push(result);
            }
        }
        if request.ids.is_empty() {
            results.extend(&book.published);
        }
        for result in results {
            plan.add(book, result, other, request)?;
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        book: &'b Book,
        result: &'b Published,
        other: Option<&'b Machine>,
        request: &Request,
    ) -> Result<(), Refused> {
        let mut group = Group { result, points: Vec::new() };
        for x in points(result) {
            let machine = match other {
                Some(machine) => machine,
                None => book.machine(machine_at(result, x)?)?,
            };
            let mut add = |strategy: &str, options: &Settings| {
                self.runs.add(run(book, result, machine, (strategy, options), x, request.seed))
            };
            let recommended = &result.recommended;
            let recommended_run = add(&recommended.strategy, &recommended.options);
            let baseline = add(&result.baseline.strategy, &result.baseline.options);
            let variants = result.variants.iter().enumerate();
            let mut lines = Vec::new();
            for (member, series) in core::iter::once((Member::Baseline, &result.baseline))
                .chain(variants.map(|(i, series)| (Member::Variant(i + 1), series)))
            {
                let wanted = member == Member::Baseline
                    || request.strategies.is_empty()
                    || request.strategies.contains(&series.strategy);
                let published = value(series, x);
                if wanted && published.is_some() {
                    let recommended = match result.conditions {
                        true => add(&recommended.strategy, &series.options),
                        false => recommended_run,
                    };
                    lines.push(Line {
                        member: Some(member),
                        name: series.name.clone(),
                        strategy: series.strategy.clone(),
                        published: published.filter(|_| other.is_none()),
                        run: add(&series.strategy, &series.options),
                        recommended,
                    });
                }
            }
            for strategy in &request.strategies {
                if !lines.iter().any(|line| line.strategy == *strategy) {
                    lines.push(Line {
                        member: None,
                        name: strategy.clone(),
                        strategy: strategy.clone(),
                        published: None,
                        run: add(strategy, &recommended.options),
                        recommended: recommended_run,
                    });
                }
            }
            let recommended = recommended_run;
            group.points.push(Point { x, machine, baseline, recommended, lines });
        }
        self.groups.push(group);
        Ok(())
    }
}
