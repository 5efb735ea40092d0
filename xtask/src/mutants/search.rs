//! The searches: for every mutant that is to be tried, and at the end for something in the source as it is.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Mutex,
    thread,
    time::Instant,
};

use super::{
    build::Build,
    explore::{self, Verdict},
    hunt::{Found, Generated, Hunt, Map, View},
    instrument::Instrumented,
    ledger::{self, Excuses, Finder},
    options::Options,
    outcome::{End, Outcome, Summary},
    record::Mutant,
    work_tree::WorkTree,
};
use crate::{
    failure::{Failure, Result},
    workspace::Workspace,
};

/// How many searches run at the same time.
pub(super) const WORKERS: usize = 2;
/// A scenario on the source as it is must be clean for so many times as long as it took to find the
/// mutant that hid best from it, and for so many seconds at least.
const CLEAN_TIMES: f64 = 2.0;
const CLEAN_LEAST: f64 = 1.0;

/// Does `work` for each job, with one thread for each place of work. Every job is tried, even if one
/// ends in an error; the first error is then returned.
pub(super) fn each<W: Sync, J: Send, T: Send>(
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
pub(super) fn find_written(
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
pub(super) fn find_generated(
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
pub(super) fn check_clean(build: &Build, summary: &mut Summary) -> Result<()> {
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
