//! Bugs of the field, put back into the library one at a time: the explorer must find each.
//!
//! A mutant is data, in `mutants/*.toml`:
//!
//! ```toml
//! [[mutant]]
//! name = "epoch-read-before-tag-is-published"
//! record = "FreeBSD arm64, pmap_alloc_asid, the fence between ..."
//! why = "The CPU keeps a tag of the old epoch that turnover has handed out again."
//! architectures = ["aarch64", "riscv64"]    # optional; all of them if absent
//! file = "lookaside/src/tags/epochs.rs"
//! find = '''            W::fence(Ordering::SeqCst);'''
//! replace = ''''''
//! scenario = ["turn-and-enter"]             # each of them must find it
//! budget = 60                               # optional: seconds for each scenario
//! ```
//!
//! `find` must occur exactly once in `file`, so that a mutant can neither rot silently nor change
//! more than it says. The explorer is the program `lab`, and this is all we ask of it:
//! `lab explore SCENARIO --budget SECONDS` exits 0 if it found no violation, and exits 1 after it
//! printed a line `schedule: v1:...` if it found one.

mod explore;
mod record;
mod workshop;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Mutex,
    thread,
    time::Instant,
};

use self::{explore::Verdict, record::Mutant, workshop::Workshop};
use crate::{
    failure::{Failure, Result},
    workspace::Workspace,
};

/// How many mutants are built and explored at the same time.
const WORKERS: usize = 2;
/// A scenario on the source as it is must be clean for so many times as long as it took to find the
/// mutant that hid best from it, and for so many seconds at least.
const CLEAN_TIMES: f64 = 2.0;
const CLEAN_LEAST: f64 = 2.0;

/// The names of all mutants.
pub(crate) fn names(workspace: &Workspace) -> Result<BTreeSet<String>> {
    Ok(record::read(workspace)?.into_iter().map(|mutant| mutant.name).collect())
}

/// Prints what there is.
pub(crate) fn list(workspace: &Workspace) -> Result<()> {
    let mutants = record::read(workspace)?;
    for mutant in &mutants {
        println!("{}", mutant.name);
        println!("    where      {}", mutant.file);
        println!("    on         {}", mutant.architectures());
        println!("    found by   {}", mutant.scenario.join(", "));
        println!("    repeats    {}", mutant.record.trim());
        println!("    why        {}", mutant.why.trim());
    }
    println!("mutants: {}", mutants.len());
    Ok(())
}

/// Tries the named mutants, or all.
pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<()> {
    let mutants = record::select(record::read(workspace)?, names)?;
    if mutants.is_empty() {
        println!("mutants: there are none in {}/, so there is nothing to find", record::DIRECTORY);
        return Ok(());
    }
    // Rotten records show at once, before anything is built.
    for mutant in &mutants {
        mutant.apply(&workspace.read(&mutant.file)?)?;
    }
    let started = Instant::now();
    let workshops =
        (0..WORKERS).map(|number| Workshop::open(workspace, number)).collect::<Result<Vec<_>>>()?;

    println!("mutants: {} to find", mutants.len());
    let searches = each(&workshops, mutants.iter().collect(), mutated)?;
    let survivors: Vec<String> = searches.iter().filter_map(Search::survivor).collect();
    let survived = survivors.len();

    let mut budgets = BTreeMap::new();
    for (scenario, seconds) in searches.iter().flat_map(|search| &search.seconds) {
        let most = budgets.entry(*scenario).or_insert(CLEAN_LEAST);
        *most = most.max(CLEAN_TIMES * seconds);
    }
    println!("mutants: the source as it is must be clean in {} scenarios", budgets.len());
    let clean = each(&workshops, budgets.into_iter().collect(), |workshop, (scenario, budget)| {
        unmutated(workshop, scenario, budget)
    })?;
    if clean.contains(&false) {
        return Err(Failure::new(
            "the source as it is does not pass the scenarios, so finding a mutant proves nothing",
        ));
    }
    println!(
        "mutants: {} found, {survived} survived ({:.1} s)",
        searches.len() - survived,
        started.elapsed().as_secs_f64()
    );
    if survived > 0 {
        let survivors = survivors.join(", ");
        return Err(Failure::new(format!("{survived} mutants were not found: {survivors}")));
    }
    Ok(())
}

/// Does `work` for each job, with one thread for each workshop. Every job is tried, even if one
/// ends in an error; the first error is then returned.
fn each<J: Send, T: Send>(
    workshops: &[Workshop],
    jobs: VecDeque<J>,
    work: impl Fn(&Workshop, J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let jobs = Mutex::new(jobs);
    let results = Mutex::new(Vec::new());
    let next = || jobs.lock().expect("no worker panics while it takes a job").pop_front();
    thread::scope(|scope| {
        for workshop in workshops {
            let (next, results, work) = (&next, &results, &work);
            scope.spawn(move || {
                while let Some(job) = next() {
                    let result = work(workshop, job);
                    results.lock().expect("no worker panics while it adds a result").push(result);
                }
            });
        }
    });
    results.into_inner().expect("every worker has ended").into_iter().collect()
}

/// Whether a scenario is clean on the source as it is.
fn unmutated(workshop: &Workshop, scenario: &str, budget: f64) -> Result<bool> {
    workshop.build()?;
    let exploration = workshop.explore(scenario, budget)?;
    match exploration.verdict() {
        Verdict::Clean => {
            println!("clean: {scenario} ({:.1} s)", exploration.seconds);
            Ok(true)
        }
        Verdict::Found { .. } => {
            println!("NOT CLEAN: {scenario} finds a violation in the source as it is");
            print!("{}", exploration.output);
            Ok(false)
        }
        Verdict::Broken(why) => Err(Failure::new(format!("{scenario}: {why}"))),
    }
}

/// The search for a mutant.
struct Search<'m> {
    mutant: &'m str,
    /// The scenarios that have not found it.
    missed: Vec<&'m str>,
    /// How long each took that has found it.
    seconds: Vec<(&'m str, f64)>,
}

impl Search<'_> {
    /// Its name, and where it was not found.
    fn survivor(&self) -> Option<String> {
        let missed = self.missed.join(" ");
        (!missed.is_empty()).then(|| format!("{} ({missed})", self.mutant))
    }
}

/// Lets every scenario of a mutant search for it.
fn mutated<'m>(workshop: &Workshop, mutant: &'m Mutant) -> Result<Search<'m>> {
    let restored = workshop.with(mutant, || {
        workshop
            .build()
            .map_err(|failure| Failure::new(format!("the mutant {}: {failure}", mutant.name)))?;
        let mut search = Search { mutant: &mutant.name, missed: Vec::new(), seconds: Vec::new() };
        for scenario in &mutant.scenario {
            let exploration = workshop.explore(scenario, mutant.budget as f64)?;
            let time = exploration.seconds;
            match exploration.verdict() {
                Verdict::Found { schedule, schedules } => {
                    search.seconds.push((scenario, time));
                    let schedules = schedules
                        .map_or_else(String::new, |schedules| format!("{schedules} schedules, "));
                    println!(
                        "FOUND {} ({scenario}, {schedules}{time:.1} s, {schedule})",
                        mutant.name
                    );
                }
                Verdict::Clean => {
                    println!("SURVIVED {} ({scenario}, {time:.1} s)", mutant.name);
                    search.missed.push(scenario);
                }
                Verdict::Broken(why) => {
                    println!("SURVIVED {} ({scenario}, {time:.1} s): {why}", mutant.name);
                    search.missed.push(scenario);
                }
            }
        }
        Ok(search)
    });
    restored?
}

#[cfg(test)]
mod tests;
