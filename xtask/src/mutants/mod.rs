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
mod outcome;
mod record;
mod sites;
mod teeth;
mod viable;
mod work_tree;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Mutex,
    thread,
    time::Instant,
};

use self::{
    build::Build,
    explore::Verdict,
    hunt::{Found, Generated, Hunt, Map, View},
    instrument::Instrumented,
    ledger::{Excuses, Finder},
    outcome::{End, Outcome, Summary},
    record::Mutant,
    sites::Kind,
    teeth::Known,
    work_tree::WorkTree,
};
use crate::{
    failure::{Failure, Result},
    workspace::Workspace,
};

/// How many searches run at the same time.
const WORKERS: usize = 2;
/// A scenario on the source as it is must be clean for so many times as long as it took to find the
/// mutant that hid best from it, and for so many seconds at least.
const CLEAN_TIMES: f64 = 2.0;
const CLEAN_LEAST: f64 = 1.0;

/// What is to be tried, and how it is shown.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// The mutants to try, or how their names begin; all if none is named.
    names: Vec<String>,
    /// Only those that are generated.
    #[arg(long, conflicts_with = "written")]
    generated: bool,
    /// Only those that were written.
    #[arg(long)]
    written: bool,
    /// Of those that are generated, only these kinds.
    #[arg(long, value_enum, value_delimiter = ',')]
    kind: Vec<Kind>,
    /// Print the mutants instead of trying them.
    #[arg(long)]
    list: bool,
    /// Search everywhere for what is not found where it was before, and write down where it is.
    #[arg(long)]
    learn: bool,
    /// Look only whether every scenario finds the mutant that it names in `mutants/teeth.toml`; with
    /// `--learn`, look for one where it does not.
    #[arg(long, conflicts_with_all = ["names", "generated", "written", "kind", "list"])]
    teeth: bool,
    /// Write into `docs/mutants.md` how many mutants are found by what, as was learned last, and try none.
    #[arg(long, conflicts_with_all = ["names", "generated", "written", "kind", "list", "learn", "teeth"])]
    figures: bool,
    /// Look for written mutants by generated programs alone, and say which are found: `lookaside check --generate`, with
    /// `--effort` steps for each. Nothing fails if some are not.
    #[arg(long, conflicts_with_all = ["generated", "kind", "list", "learn", "replay"])]
    by_generation: bool,
    /// Steps for each mutant that is looked for by generation.
    #[arg(long, value_name = "N", requires = "by_generation", default_value_t = 100_000_000)]
    effort: u64,
    /// What the programs are drawn from.
    #[arg(long, value_name = "N", requires = "by_generation", default_value_t = 1)]
    seed: u32,
    /// Show a schedule again, as a line FOUND prints it, with the one mutant that is named.
    #[arg(long, value_name = "v1:...", conflicts_with_all = ["list", "learn"])]
    replay: Option<String>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Only count them, for the gate.
    #[arg(skip)]
    count: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A line for each mutant, as it is found.
    #[default]
    Text,
    /// One document at the end; lines go to standard error.
    Json,
}

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

impl Options {
    /// Whether nothing is left out.
    fn is_whole(&self) -> bool {
        self.names.is_empty() && !self.generated && !self.written && self.kind.is_empty()
    }
}

/// Those that the options name.
fn select<'s>(
    mut written: Vec<Mutant>,
    mut generated: Vec<Generated<'s>>,
    options: &Options,
) -> Result<(Vec<Mutant>, Vec<Generated<'s>>)> {
    if options.generated {
        written.clear();
    }
    if options.written {
        generated.clear();
    }
    if !options.kind.is_empty() {
        written.clear();
        generated.retain(|mutant| options.kind.contains(&mutant.kind()));
    }
    if !options.names.is_empty() {
        for name in &options.names {
            let known = written.iter().any(|mutant| mutant.name == *name)
                || generated.iter().any(|mutant| mutant.name.starts_with(name));
            if !known {
                return Err(Failure::new(format!(
                    "there is no mutant `{name}`: `cargo xtask mutants --list` shows all"
                )));
            }
        }
        written.retain(|mutant| options.names.contains(&mutant.name));
        generated.retain(|mutant| options.names.iter().any(|name| mutant.name.starts_with(name)));
    }
    Ok((written, generated))
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

/// Does `work` for each job, with one thread for each place of work. Every job is tried, even if one
/// ends in an error; the first error is then returned.
fn each<W: Sync, J: Send, T: Send>(
    places: &[W],
    jobs: VecDeque<J>,
    work: impl Fn(&W, J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let jobs = Mutex::new(jobs);
    let results = Mutex::new(Vec::new());
    let next = || jobs.lock().expect("no worker panics while it takes a job").pop_front();
    thread::scope(|scope| {
        for place in places {
            let (next, results, work) = (&next, &results, &work);
            scope.spawn(move || {
                while let Some(job) = next() {
                    let result = work(place, job);
                    results.lock().expect("no worker panics while it adds a result").push(result);
                }
            });
        }
    });
    results.into_inner().expect("every worker has ended").into_iter().collect()
}

/// Lets every scenario of every written mutant search for it.
fn find_written(
    workspace: &Workspace,
    build: &Build,
    instrumented: &Instrumented,
    written: &[Mutant],
    summary: &mut Summary,
) -> Result<()> {
    let (together, alone): (Vec<&Mutant>, Vec<&Mutant>) =
        written.iter().partition(|mutant| instrumented.written.contains_key(&mutant.name));
    let say = summary.sayer();
    let programs = written.iter().flat_map(|mutant| &mutant.test);
    build.build_programs(programs.filter_map(|test| Some(test.split_once(':')?.0)))?;
    type Test<'t> = dyn Fn(&str, &str) -> Result<bool> + 't;
    type Explore<'e> = dyn Fn(&str) -> Result<explore::Exploration> + 'e;
    let search = |mutant: &Mutant, test: &Test<'_>, explore: &Explore<'_>| {
        let mut outcomes = ask_tests(build, mutant, test)?;
        outcomes.iter().for_each(|outcome| say(&outcome.line()));
        for scenario in &mutant.scenario {
            let exploration = explore(scenario)?;
            let number = instrumented.written.get(&mutant.name);
            let name = format!("{} ({scenario})", mutant.name);
            let outcome = Outcome::of_scenario(name, scenario, &exploration, |schedule| {
                number.map(|number| build.spelled(*number, schedule))
            });
            say(&outcome.line());
            outcomes.push(outcome);
        }
        Ok(outcomes)
    };
    let mut found = each(&[build; WORKERS], together.into(), |build, mutant| {
        let number = instrumented.written[&mutant.name];
        let test = |program: &str, test: &str| {
            build.test(number, program, Some(test)).map(|failed| failed.is_some())
        };
        search(mutant, &test, &|name| build.explore(number, (name, None), mutant.budget as f64))
    })?;
    if !alone.is_empty() {
        summary.say(&format!("mutants: {} have builds of their own", alone.len()));
        let work_trees = (0..WORKERS)
            .map(|number| WorkTree::open(workspace, number))
            .collect::<Result<Vec<_>>>()?;
        found.extend(each(&work_trees, alone.into(), |work_tree, mutant| {
            work_tree.with(mutant, || {
                let named =
                    |failure| Failure::new(format!("the mutant {}: {failure}", mutant.name));
                if !mutant.scenario.is_empty() {
                    work_tree.build().map_err(named)?;
                }
                let test = |program: &str, test: &str| work_tree.fails(program, test);
                search(mutant, &test, &|name| work_tree.explore(name, mutant.budget as f64))
            })?
        })?);
    }
    for outcomes in found {
        summary.add_written(outcomes);
    }
    Ok(())
}

/// Runs the tests that a written mutant names. `fails` says of a program and a test whether it fails.
fn ask_tests(
    build: &Build,
    mutant: &Mutant,
    fails: &dyn Fn(&str, &str) -> Result<bool>,
) -> Result<Vec<Outcome>> {
    let ask = |text: &String| {
        let (program, test) = text.split_once(':').expect("the record was checked");
        let started = Instant::now();
        let end = if !build.has_test(program, test) {
            let why = "there is no such test, or it fails without a mutant";
            End::Survived(Some(why.to_owned()))
        } else if fails(program, test)? {
            End::Found(Found {
                finder: Finder::Test(program.to_owned(), test.to_owned()),
                seconds: started.elapsed().as_secs_f64(),
                schedule: None,
                schedules: None,
            })
        } else {
            End::Survived(None)
        };
        Ok(Outcome::of_test(&mutant.name, text, end))
    };
    mutant.test.iter().map(ask).collect()
}

/// Searches for every generated mutant.
fn find_generated(
    workspace: &Workspace,
    build: &Build,
    (excuses, hints): (&Excuses, &BTreeMap<String, Finder>),
    generated: &[Generated<'_>],
    options: &Options,
    summary: &mut Summary,
) -> Result<()> {
    let builds = [build; WORKERS];
    let views = each(&builds, build.scenarios()?.into(), |build, name| View::of(build, name))?;
    let map = Map::new(views);
    let hunt = Hunt { build, map: &map, hints, learn: options.learn, finds: Mutex::default() };
    let say = summary.sayer();
    let outcome = |mutant: &Generated<'_>, end: End| {
        let schedule = end.found().and_then(|found| found.schedule.as_deref());
        let replay = schedule.map(|schedule| build.spelled(mutant.number, schedule));
        let unreached = map.of(mutant.site).is_empty();
        let kind = Some(mutant.kind());
        let outcome = Outcome { name: mutant.name.clone(), kind, end, replay, unreached };
        say(&outcome.line());
        outcome
    };
    // A class speaks of all mutants of a place. Those of them that were ever found are searched where that
    // was; the others only for a moment, unless everything is to be learned anew.
    let never_found = |mutant: &Generated<'_>| {
        !options.learn
            && !hints.contains_key(&mutant.name)
            && excuses.covers(&mutant.name).is_some()
    };
    let mut outcomes = Vec::new();
    let mut left: Vec<&Generated<'_>> = generated.iter().collect();
    let steps: [(&str, Search<'_>); 4] = [
        ("exploring", &|mutant| match excuses.of(&mutant.name) {
            Some(_) => Ok(hunt.doubt(mutant)?.map(End::NoExcuse)),
            None if never_found(mutant) => Ok(hunt.doubt(mutant)?.map(End::Found)),
            None => Ok(hunt.explore(mutant)?.map(End::Found)),
        }),
        ("testing", &|mutant| {
            if excuses.of(&mutant.name).is_some() || never_found(mutant) {
                return Ok(Some(End::Excused));
            }
            Ok(hunt.test(mutant)?.map(End::Found))
        }),
        ("testing slowly", &|mutant| Ok(hunt.test_slowly(mutant)?.map(End::Found))),
        ("exploring as deep as scenarios say", &|mutant| {
            let found = if options.learn { hunt.deep(mutant)? } else { None };
            Ok(Some(match (found, excuses.covers(&mutant.name)) {
                (Some(found), _) => End::Found(found),
                (None, Some(_)) => End::Excused,
                (None, None) => End::Survived(None),
            }))
        }),
    ];
    for (number, (what, search)) in steps.iter().enumerate() {
        if left.is_empty() {
            break;
        }
        summary.say(&format!("mutants: {what}, {} are left", left.len()));
        match number {
            1 => build.build_tests(left.iter().map(|mutant| mutant.kind()))?,
            2 => build.time_slow_tests()?,
            _ => {}
        }
        let ends = each(&builds, left.into(), |_, mutant| {
            Ok((mutant, search(mutant)?.map(|end| outcome(mutant, end))))
        })?;
        left = ends.iter().filter(|(_, end)| end.is_none()).map(|(mutant, _)| *mutant).collect();
        outcomes.extend(ends.into_iter().filter_map(|(_, end)| end));
        if options.learn {
            // Now already: whoever ends the run loses only one step.
            learn(workspace, &outcomes, options, generated)?;
        }
    }
    for outcome in outcomes {
        summary.add_generated(outcome);
    }
    Ok(())
}

type Search<'s> = &'s (dyn Fn(&Generated<'_>) -> Result<Option<End>> + Sync);

/// Writes down where mutants were found.
fn learn(
    workspace: &Workspace,
    outcomes: &[Outcome],
    options: &Options,
    generated: &[Generated<'_>],
) -> Result<()> {
    let mut hints = ledger::read_hints(workspace)?;
    let names: BTreeSet<&str> = generated.iter().map(|mutant| &*mutant.name).collect();
    if options.names.is_empty() && options.kind.is_empty() {
        hints.retain(|name, _| names.contains(&**name));
    }
    for outcome in outcomes {
        if let End::Found(found) = &outcome.end {
            hints.insert(outcome.name.clone(), found.finder.clone());
        }
    }
    ledger::write_hints(workspace, &hints)
}

/// Whether each scenario that found something is clean with no mutant chosen.
fn check_clean(build: &Build, summary: &mut Summary) -> Result<()> {
    let mut budgets = BTreeMap::new();
    for found in summary.found() {
        if let Finder::Scenario(name, preemptions) = &found.finder {
            let most = budgets.entry((name.clone(), *preemptions)).or_insert(CLEAN_LEAST);
            *most = f64::max(*most, CLEAN_TIMES * found.seconds);
        }
    }
    summary
        .say(&format!("mutants: the source as it is must be clean in {} searches", budgets.len()));
    let say = summary.sayer();
    let clean =
        each(&[build; WORKERS], budgets.into_iter().collect(), |build, (search, budget)| {
            let (scenario, preemptions) = search;
            let exploration = build.explore(0, (&scenario, preemptions), budget)?;
            match exploration.verdict() {
                Verdict::Clean => Ok(true),
                Verdict::Found { .. } => {
                    say(&format!("NOT CLEAN: {scenario} finds a violation in the source as it is"));
                    say(&exploration.output);
                    Ok(false)
                }
                Verdict::Broken(why) => Err(Failure::new(format!("{scenario}: {why}"))),
            }
        })?;
    if clean.contains(&false) {
        return Err(Failure::new(
            "the source as it is does not pass the scenarios, so finding a mutant proves nothing",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
