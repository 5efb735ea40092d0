//! Bugs put into the library one at a time: the explorer must find each.
//!
//! There are two sorts. *Written* mutants are bugs of the field as edits of the source, in
//! `mutants/*.toml` (see [`record`]). *Generated* ones weaken every ordering, barrier, flush and check
//! that the library has (see [`sites`]); those that nothing can find are excused, in writing (see
//! [`ledger`]). All of them stand in one build, and a run chooses one by its number (see [`instrument`]).
//! The few written ones that cannot be chosen at run time have builds of their own.
//!
//! The explorer is the program `explorer`, which needs to do no more than this: `explorer explore` lists the names
//! of scenarios, one at the begin of each line; `explorer explore SCENARIO --budget SECONDS` exits 0 if it
//! found no violation, and exits 1 after it printed a line `schedule: v1:...` if it found one.

mod build;
mod effects;
mod explore;
mod figures;
mod generation;
mod hunt;
mod instrument;
mod ledger;
mod options;
mod outcome;
mod record;
mod search;
mod sites;
mod teeth;
mod viable;
mod work_tree;

use std::{collections::BTreeSet, time::Instant};

pub(crate) use self::options::Options;
use self::{
    build::Build,
    hunt::Generated,
    instrument::Instrumented,
    ledger::Excuses,
    options::{Format, select},
    outcome::Summary,
    record::Mutant,
    search::{check_clean, find_generated, find_written},
    sites::Kind,
    teeth::Known,
    work_tree::WorkTree,
};
use crate::{
    failure::{Failure, Result},
    workspace::Workspace,
};

/// The names of all written mutants.
pub(crate) fn names(workspace: &Workspace) -> Result<BTreeSet<String>> {
    Ok(record::read(workspace)?.into_iter().map(|mutant| mutant.name).collect())
}

/// Whether every record still describes the source: edits match once, excuses are of code that is there.
/// That mutants are found is a run of its own.
pub(crate) fn fit(workspace: &Workspace) -> Result<()> {
    run(workspace, &Options { count: true, ..Options::default() })
}

/// Whether every scenario finds the mutant that it names.
pub(crate) fn teeth(workspace: &Workspace) -> Result<()> {
    run(workspace, &Options { teeth: true, ..Options::default() })
}

/// Does what the options say.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let started = Instant::now();
    let written = record::read(workspace)?;
    // Rotten records show at once, before anything is built.
    for mutant in &written {
        mutant.apply(&workspace.read(&mutant.file)?)?;
    }
    let instrumented = viable::instrument(workspace, &written)?;
    let excuses = Excuses::read(workspace)?;
    let generated = Generated::all(&instrumented.sites);
    let codes = generated.iter().map(|mutant| (mutant.name.clone(), &*mutant.site.code)).collect();
    excuses.check(&codes)?;
    let hints = ledger::read_hints(workspace)?;
    let figures = figures::table(&written, &generated, &excuses, &hints);
    if options.figures {
        return figures::write(workspace, &figures);
    }
    let is_whole = options.is_whole();
    if is_whole && !options.list && !options.count && !options.learn && !options.teeth {
        figures::check(workspace, &figures)?;
    }
    let (all_written, all_generated) = (written.clone(), generated.clone());
    let (written, generated) = select(written, generated, options)?;
    if options.list || options.count {
        if options.list {
            list(&written, &generated, &excuses);
        }
        count(&written, &generated);
        return Ok(());
    }
    if let Some(schedule) = &options.replay {
        return replay(workspace, &instrumented, (&written, &generated), schedule);
    }
    if options.by_generation {
        let build = Build::open(workspace, &instrumented)?;
        let effort = generation::Effort { steps: options.effort, seed: options.seed };
        let json = options.format == Format::Json;
        return generation::run(&build, &instrumented, &written, effort, json);
    }
    if written.is_empty() && generated.is_empty() {
        println!("mutants: there are none, so there is nothing to find");
        return Ok(());
    }
    let mut summary = Summary::new(options.format == Format::Json);
    let known = |build| Known {
        build,
        instrumented: &instrumented,
        written: &all_written,
        generated: &all_generated,
        hints: &hints,
    };
    if options.teeth {
        let build = Build::open(workspace, &instrumented)?;
        teeth::check(workspace, &known(&build), &BTreeSet::new(), options.learn, &mut summary)?;
        return summary.close(started.elapsed());
    }
    summary.say(&format!(
        "mutants: {} written and {} generated to find",
        written.len(),
        generated.len()
    ));
    let build = Build::open(workspace, &instrumented)?;
    summary.say(&format!("mutants: built ({:.1} s)", started.elapsed().as_secs_f64()));
    find_written(workspace, &build, &instrumented, &written, &mut summary)?;
    if !generated.is_empty() {
        find_generated(workspace, &build, (&excuses, &hints), &generated, options, &mut summary)?;
    }
    if is_whole {
        let proved = summary.proved();
        teeth::check(workspace, &known(&build), &proved, options.learn, &mut summary)?;
    }
    if options.learn {
        let hints = ledger::read_hints(workspace)?;
        let figures = figures::table(&all_written, &all_generated, &excuses, &hints);
        figures::write(workspace, &figures)?;
    }
    check_clean(&build, &mut summary)?;
    summary.close(started.elapsed())
}

/// Prints what there is.
fn list(written: &[Mutant], generated: &[Generated<'_>], excuses: &Excuses) {
    for mutant in written {
        println!("{}", mutant.name);
        println!("    where      {}", mutant.file);
        println!("    on         {}", mutant.architectures());
        println!("    found by   {}", [&*mutant.scenario, &mutant.test].concat().join(", "));
        println!("    repeats    {}", mutant.record.trim());
        println!("    why        {}", mutant.why.trim());
    }
    for mutant in generated {
        println!("{} (line {}) {}", mutant.name, mutant.site.line, mutant.site.code);
        if let Some(why) = excuses.covers(&mutant.name) {
            println!("    excused    {}", why.trim());
        }
    }
}

/// Prints how many there are.
fn count(written: &[Mutant], generated: &[Generated<'_>]) {
    println!("mutants: {} written, {} generated", written.len(), generated.len());
    for kind in Kind::ALL {
        let count = generated.iter().filter(|mutant| mutant.kind() == kind).count();
        if count > 0 {
            println!("    {kind}: {count}");
        }
    }
}

/// Shows a schedule again with the one mutant that is named.
fn replay(
    workspace: &Workspace,
    instrumented: &Instrumented,
    (written, generated): (&[Mutant], &[Generated<'_>]),
    schedule: &str,
) -> Result<()> {
    let number = match (written, generated) {
        ([mutant], []) => instrumented.written.get(&mutant.name).copied(),
        ([], [mutant]) => Some(mutant.number),
        _ => return Err(Failure::new("`--replay` takes the name of one mutant")),
    };
    match number {
        Some(number) => Build::open(workspace, instrumented)?.replay(number, schedule),
        None => {
            let work_tree = WorkTree::open(workspace, 0)?;
            work_tree.with(&written[0], || {
                work_tree.build()?;
                work_tree.replay(schedule)
            })?
        }
    }
}

#[cfg(test)]
mod tests;
