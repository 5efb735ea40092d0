//! What other readings of the sources of machines make of a comparison.

use lookaside_terminal::Refused;

use super::{
    book::Book,
    execute::Execute,
    plan::{Plan, Request},
    row::Reproduction,
    summary::Summary,
};

/// A machine, read another way, and how well its results come out.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadAs {
    /// The key of the machine.
    pub machine: String,
    /// The name of the reading.
    pub reading: String,
    /// Predictions of the results of this machine, and those of them that are off by 10 % at most: as the file has
    /// it.
    pub before: (usize, usize),
    /// The same in this reading.
    pub after: (usize, usize),
}

impl ReadAs {
    /// A sentence for a summary of all results.
    #[must_use]
    pub fn words(&self, all: &Summary) -> String {
        let Self { machine, reading, before, after } = self;
        let within = all.within + after.1 - before.1;
        let predicted = all.predicted + after.0 - before.0;
        format!(
            "With {machine} read otherwise ({reading}): {} of {} instead of {} of {}, so {within} of \
             {predicted} in all.",
            after.1, after.0, before.1, before.0
        )
    }
}

/// Compares the results of every machine that has other readings once more, in each of them.
///
/// # Errors
///
/// If a reading cannot be followed.
pub fn readings(
    book: &Book,
    reproduction: &Reproduction<'_>,
    seed: u64,
    execute: &Execute<'_>,
) -> Result<Vec<ReadAs>, Refused> {
    let mut all = Vec::new();
    for machine in &book.machines {
        let here = reproduction
            .comparisons
            .iter()
            .filter(|comparison| comparison.result.machines.contains(&machine.key));
        let ids: Vec<String> = here.map(|comparison| comparison.result.id.clone()).collect();
        if ids.is_empty() {
            continue;
        }
        let score = |reproduction: &Reproduction<'_>| {
            let comparisons = reproduction.comparisons.iter();
            let mine = comparisons.filter(|one| ids.contains(&one.result.id)).cloned().collect();
            let summary = Summary::of(&Reproduction { comparisons: mine, ..reproduction.clone() });
            (summary.predicted, summary.within)
        };
        for reading in &machine.readings {
            let mut other = book.clone();
            let read = machine.read_as(&reading.name)?;
            other.machines.iter_mut().filter(|one| one.key == read.key).for_each(|one| {
                *one = read.clone();
            });
            let request = Request { ids: ids.clone(), seed, ..Request::default() };
            let plan = Plan::new(&other, &request)?;
            let again = plan.execute(&other, execute, &|| (), false);
            all.push(ReadAs {
                machine: machine.key.clone(),
                reading: reading.name.clone(),
                before: score(reproduction),
                after: score(&again),
            });
        }
    }
    Ok(all)
}
