//! Looking for one generated mutant: where it was found before, and then wherever its site is reached.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Instant,
};

use super::{
    build::Build,
    explore::Verdict,
    ledger::Finder,
    sites::{Kind, Site},
};
use crate::failure::{Failure, Result};

/// Seconds in which every scenario is looked at to see which sites it reaches.
const LOOK: f64 = 3.0;
/// Seconds for a scenario that is known to find a mutant.
const KNOWN: f64 = 60.0;
/// How a mutant is searched that was never found: first with few pre-emptions everywhere, then as
/// deep as scenarios say. Seconds for each scenario, and for all of them.
const SHALLOW: (Option<u32>, f64, f64) = (Some(2), 0.5, 4.0);
const DEEP: (Option<u32>, f64, f64) = (None, 4.0, 16.0);
/// How long an excused one is looked for, to see whether the excuse holds.
const DOUBT: (Option<u32>, f64, f64) = (Some(2), 0.5, 1.0);

/// One change at one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generated<'s> {
    pub(super) site: &'s Site,
    /// The site's name, and the change.
    pub(super) name: String,
    /// How a run chooses it.
    pub(super) number: u32,
}

impl<'s> Generated<'s> {
    /// The mutants of all sites, in the order of the source.
    pub(super) fn all(sites: &'s [Site]) -> Vec<Self> {
        let of = |site: &'s Site| {
            site.changes.iter().zip(site.first..).map(move |(change, number)| Self {
                site,
                name: format!("{}/{change}", site.id),
                number,
            })
        };
        sites.iter().flat_map(of).collect()
    }

    /// The file of its site.
    fn file(&self) -> &str {
        self.name.split("::").next().expect("a split has a first part")
    }

    pub(super) fn kind(&self) -> Kind {
        self.site.kind
    }
}

/// The scenarios that reach each site, the quickest first, by the number of the site's first change.
#[derive(Debug, Default)]
pub(super) struct Map {
    scenarios: BTreeMap<u32, Vec<String>>,
}

/// What a scenario reaches, and how long it takes to see that.
pub(super) struct View {
    pub(super) scenario: String,
    seconds: f64,
    sites: BTreeSet<u32>,
}

impl View {
    /// Looks at a scenario, which must be clean.
    pub(super) fn of(build: &Build, scenario: String) -> Result<Self> {
        let (exploration, sites) = build.reached(&scenario, LOOK)?;
        match exploration.verdict() {
            Verdict::Clean => Ok(Self { scenario, seconds: exploration.seconds, sites }),
            _ => Err(Failure::new(format!(
                "{scenario} is not clean with no mutant chosen:\n{}",
                exploration.output
            ))),
        }
    }
}

impl Map {
    pub(super) fn new(mut views: Vec<View>) -> Self {
        views.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
        let mut map = Self::default();
        for view in views {
            for site in view.sites {
                map.scenarios.entry(site).or_default().push(view.scenario.clone());
            }
        }
        map
    }

    /// The scenarios that reach it.
    pub(super) fn of(&self, site: &Site) -> &[String] {
        self.scenarios.get(&site.first).map_or(&[], Vec::as_slice)
    }
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) finder: Finder,
    pub(super) seconds: f64,
    /// Of a scenario only.
    pub(super) schedule: Option<String>,
    pub(super) schedules: Option<u64>,
}

/// Searches.
pub(super) struct Hunt<'h> {
    pub(super) build: &'h Build,
    pub(super) map: &'h Map,
    /// Where mutants were found before.
    pub(super) hints: &'h BTreeMap<String, Finder>,
    /// Whether to explore for what a test finds, too.
    pub(super) learn: bool,
    /// How many mutants of a file, or of all files (""), each scenario or program of tests has found.
    pub(super) finds: Mutex<BTreeMap<(String, String), usize>>,
}

impl Hunt<'_> {
    /// Explores: where the mutant was found before, and otherwise wherever its site is reached.
    pub(super) fn explore(&self, mutant: &Generated<'_>) -> Result<Option<Found>> {
        match self.hints.get(&mutant.name) {
            // Exploration did not find it then.
            Some(Finder::Test(..)) if !self.learn => Ok(None),
            Some(hint @ Finder::Scenario(..)) => match self.ask(mutant, hint, KNOWN)? {
                Some(found) => Ok(Some(found)),
                None => self.everywhere(mutant, SHALLOW),
            },
            _ => self.everywhere(mutant, SHALLOW),
        }
    }

    /// Runs the library's tests: the one that found the mutant before, and otherwise all.
    pub(super) fn test(&self, mutant: &Generated<'_>) -> Result<Option<Found>> {
        let started = Instant::now();
        let hint = match self.hints.get(&mutant.name) {
            Some(Finder::Test(program, test)) => Some((program.as_str(), Some(test.as_str()))),
            _ => None,
        };
        let mut programs = self.build.programs(mutant.kind());
        self.likely_first(mutant, &mut programs);
        for (program, only) in hint.into_iter().chain(programs.into_iter().map(|name| (name, None)))
        {
            if let Some(test) = self.build.test(mutant.number, program, only)? {
                self.count(mutant, program);
                let finder = Finder::Test(program.to_owned(), test);
                let seconds = started.elapsed().as_secs_f64();
                return Ok(Some(Found { finder, seconds, schedule: None, schedules: None }));
            }
        }
        Ok(None)
    }

    /// Runs the tests that take long.
    pub(super) fn test_slowly(&self, mutant: &Generated<'_>) -> Result<Option<Found>> {
        let started = Instant::now();
        if mutant.kind() == Kind::Ordering {
            return Ok(None);
        }
        Ok(self.build.slow_test(mutant.number)?.map(|(program, test)| Found {
            finder: Finder::Test(program, test),
            seconds: started.elapsed().as_secs_f64(),
            schedule: None,
            schedules: None,
        }))
    }

    /// Explores as deep as scenarios say.
    pub(super) fn deep(&self, mutant: &Generated<'_>) -> Result<Option<Found>> {
        self.everywhere(mutant, DEEP)
    }

    /// Searches for a mutant that is said not to show.
    pub(super) fn doubt(&self, mutant: &Generated<'_>) -> Result<Option<Found>> {
        self.everywhere(mutant, DOUBT)
    }

    fn everywhere(
        &self,
        mutant: &Generated<'_>,
        (preemptions, each, all): (Option<u32>, f64, f64),
    ) -> Result<Option<Found>> {
        let mut left = all;
        let mut scenarios: Vec<&str> =
            self.map.of(mutant.site).iter().map(String::as_str).collect();
        self.likely_first(mutant, &mut scenarios);
        for scenario in scenarios {
            if left <= 0.0 {
                break;
            }
            let started = Instant::now();
            let finder = Finder::Scenario(scenario.to_owned(), preemptions);
            if let Some(found) = self.ask(mutant, &finder, each)? {
                return Ok(Some(found));
            }
            left -= started.elapsed().as_secs_f64();
        }
        Ok(None)
    }

    /// Puts those scenarios or programs first that found the most in the same file, and then those that
    /// found the most at all.
    fn likely_first(&self, mutant: &Generated<'_>, finders: &mut [&str]) {
        let file = mutant.file();
        let finds = self.finds.lock().expect("no worker panics while it counts");
        finders.sort_by_cached_key(|name| {
            let of = |file: &str| finds.get(&(file.to_owned(), (*name).to_owned())).copied();
            core::cmp::Reverse((of(file).unwrap_or(0), of("").unwrap_or(0)))
        });
    }

    /// Counts a find, for its file and for all.
    fn count(&self, mutant: &Generated<'_>, finder: &str) {
        let mut finds = self.finds.lock().expect("no worker panics while it counts");
        for file in [mutant.file(), ""] {
            *finds.entry((file.to_owned(), finder.to_owned())).or_default() += 1;
        }
    }

    fn ask(&self, mutant: &Generated<'_>, finder: &Finder, budget: f64) -> Result<Option<Found>> {
        let Finder::Scenario(scenario, preemptions) = finder else { return Ok(None) };
        let (scenario, preemptions) = (scenario.as_str(), *preemptions);
        let exploration = self.build.explore(mutant.number, (scenario, preemptions), budget)?;
        let finder = finder.clone();
        Ok(match exploration.verdict() {
            Verdict::Found { schedule, schedules } => {
                let seconds = exploration.seconds;
                self.count(mutant, scenario);
                Some(Found { finder, seconds, schedule: Some(schedule), schedules })
            }
            // One that hangs or dies without a schedule was not found.
            Verdict::Clean | Verdict::Broken(_) => None,
        })
    }
}
