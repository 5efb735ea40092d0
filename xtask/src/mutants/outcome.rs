//! What became of each mutant, and of all of them together.

use core::{fmt::Write as _, time::Duration};
use std::collections::BTreeSet;

use serde_json::json;

use super::{
    explore::{Exploration, Verdict},
    hunt::Found,
    ledger::Finder,
    sites::Kind,
};
use crate::failure::{Failure, Result};

/// How the search for a mutant ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Found(Found),
    /// It was found although it is excused: the excuse is false.
    NoExcuse(Found),
    Excused,
    /// With what was wrong, where the explorer did not do its work.
    Survived(Option<String>),
}

impl End {
    pub(super) fn found(&self) -> Option<&Found> {
        match self {
            Self::Found(found) | Self::NoExcuse(found) => Some(found),
            Self::Excused | Self::Survived(_) => None,
        }
    }
}

/// One mutant, and one scenario if it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) name: String,
    /// Of a generated one.
    pub(super) kind: Option<Kind>,
    pub(super) end: End,
    /// The command that shows the schedule again.
    pub(super) replay: Option<String>,
    /// Whether no scenario comes to its site.
    pub(super) unreached: bool,
}

impl Outcome {
    /// What one scenario of a written mutant came to.
    pub(super) fn of_scenario(
        name: String,
        scenario: &str,
        exploration: &Exploration,
        spelled: impl FnOnce(&str) -> Option<String>,
    ) -> Self {
        let seconds = exploration.seconds;
        let (end, replay) = match exploration.verdict() {
            Verdict::Found { schedule, schedules } => {
                let replay = spelled(&schedule);
                let finder = Finder::Scenario(scenario.to_owned(), None);
                let schedule = Some(schedule);
                (End::Found(Found { finder, seconds, schedule, schedules }), replay)
            }
            Verdict::Clean => (End::Survived(None), None),
            Verdict::Broken(why) => (End::Survived(Some(why)), None),
        };
        Self { name, kind: None, end, replay, unreached: false }
    }

    /// What the tests of a written mutant came to.
    pub(super) fn of_test(mutant: &str, test: &str, end: End) -> Self {
        let name = format!("{mutant} ({test})");
        Self { name, kind: None, end, replay: None, unreached: false }
    }

    /// The mutant's own name.
    fn mutant(&self) -> &str {
        self.name.split(" (").next().expect("a split has a first part")
    }

    /// The line that reports show.
    pub(super) fn line(&self) -> String {
        let Self { name, end, .. } = self;
        let place = if self.unreached { ", which no scenario reaches" } else { "" };
        let mut line = match end {
            End::Found(_) => format!("FOUND {name}"),
            End::NoExcuse(_) => format!("NO EXCUSE {name}: it is excused, and found"),
            End::Excused => format!("excused {name}{place}"),
            End::Survived(None) => format!("SURVIVED {name}{place}"),
            End::Survived(Some(why)) => format!("SURVIVED {name}: {why}"),
        };
        if let Some(found) = end.found() {
            let Found { finder, seconds, schedule, schedules } = found;
            let by = if schedule.is_some() { "" } else { "the test " };
            let _ = write!(line, " ({by}{finder}, ");
            if let Some(schedules) = schedules {
                let _ = write!(line, "{schedules} schedules, ");
            }
            let _ = write!(line, "{seconds:.1} s");
            if let Some(schedule) = schedule {
                let _ = write!(line, ", {schedule}");
            }
            line.push(')');
        }
        if let Some(replay) = &self.replay {
            let _ = write!(line, "\n    {replay}");
        }
        line
    }
}

/// What became of all of them.
#[derive(Debug)]
pub(super) struct Summary {
    json: bool,
    /// Each with its scenarios.
    written: Vec<Vec<Outcome>>,
    generated: Vec<Outcome>,
    /// How many scenarios find the mutant that they name.
    pub(super) sharp: usize,
    /// Those that do not, or name none.
    pub(super) blunt: Vec<String>,
}

impl Summary {
    pub(super) fn new(json: bool) -> Self {
        Self { json, written: Vec::new(), generated: Vec::new(), sharp: 0, blunt: Vec::new() }
    }

    /// What was found by scenarios, and by which.
    pub(super) fn proved(&self) -> BTreeSet<(String, Finder)> {
        let of = |outcome: &Outcome| {
            let found = outcome.end.found()?;
            Some((outcome.mutant().to_owned(), found.finder.clone()))
        };
        self.all().filter_map(of).collect()
    }

    /// Prints a line, where lines go.
    pub(super) fn say(&self, line: &str) {
        self.sayer()(line);
    }

    pub(super) fn sayer(&self) -> fn(&str) {
        if self.json { |line| eprintln!("{line}") } else { |line| println!("{line}") }
    }

    pub(super) fn add_written(&mut self, outcomes: Vec<Outcome>) {
        self.written.push(outcomes);
    }

    pub(super) fn add_generated(&mut self, outcome: Outcome) {
        self.generated.push(outcome);
    }

    fn all(&self) -> impl Iterator<Item = &Outcome> {
        self.written.iter().flatten().chain(&self.generated)
    }

    /// Everything that was found.
    pub(super) fn found(&self) -> impl Iterator<Item = &Found> {
        self.all().filter_map(|outcome| outcome.end.found())
    }

    /// Prints the end of it. That a mutant survived is a failure, and so is any excuse that is false.
    pub(super) fn close(&self, time: Duration) -> Result<()> {
        let survives = |outcome: &&Outcome| matches!(outcome.end, End::Survived(_));
        let survivors: Vec<&Outcome> = self.all().filter(survives).collect();
        if self.json {
            println!("{:#}", self.document(time, &survivors));
        } else {
            self.table(time);
        }
        let names = |outcomes: Vec<&Outcome>| {
            outcomes.iter().map(|outcome| outcome.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let excused = |outcome: &&Outcome| matches!(outcome.end, End::NoExcuse(_));
        let false_excuses: Vec<&Outcome> = self.all().filter(excused).collect();
        if !false_excuses.is_empty() {
            let names = names(false_excuses);
            return Err(Failure::new(format!("excused, and found all the same: {names}")));
        }
        if !self.blunt.is_empty() {
            let names = self.blunt.join(", ");
            return Err(Failure::new(format!(
                "scenarios that find no mutant (`cargo xtask mutants --teeth --learn` looks for one; one \
                 that can find none goes): {names}"
            )));
        }
        if !survivors.is_empty() {
            let (count, names) = (survivors.len(), names(survivors));
            return Err(Failure::new(format!("{count} mutants were not found: {names}")));
        }
        Ok(())
    }

    /// Killed by exploration, found by a test, excused, survived.
    fn counts<'o>(outcomes: impl Iterator<Item = &'o Outcome>) -> [usize; 4] {
        let mut counts = [0; 4];
        for outcome in outcomes {
            counts[match &outcome.end {
                End::Found(found) | End::NoExcuse(found) => usize::from(found.schedule.is_none()),
                End::Excused => 2,
                End::Survived(_) => 3,
            }] += 1;
        }
        counts
    }

    /// The written mutants that every scenario and test found that they name: those that name scenarios, and
    /// those that name tests alone.
    fn killed_written(&self) -> [usize; 2] {
        let mut killed = [0; 2];
        for outcomes in &self.written {
            let found: Option<Vec<&Found>> = outcomes.iter().map(|o| o.end.found()).collect();
            if let Some(found) = found {
                killed[usize::from(found.iter().all(|found| found.schedule.is_none()))] += 1;
            }
        }
        killed
    }

    fn table(&self, time: Duration) {
        let row = |name: &str, total: usize, [killed, tested, excused, survived]: [usize; 4]| {
            println!("{name:12} {total:6} {killed:9} {tested:9} {excused:8} {survived:9}");
        };
        println!("\nmutants       total  explored  by tests  excused  survived");
        let (total, [killed, tested]) = (self.written.len(), self.killed_written());
        row("written", total, [killed, tested, 0, total - killed - tested]);
        for kind in Kind::ALL {
            let of_kind = || self.generated.iter().filter(move |o| o.kind == Some(kind));
            if of_kind().next().is_some() {
                row(&kind.to_string(), of_kind().count(), Self::counts(of_kind()));
            }
        }
        let unreached = self.generated.iter().filter(|outcome| outcome.unreached).count();
        println!("generated ones at places that no scenario reaches: {unreached}");
        if self.sharp + self.blunt.len() > 0 {
            let scenarios = self.sharp + self.blunt.len();
            println!("scenarios that find the mutant they name: {} of {scenarios}", self.sharp);
        }
        println!("in all {:.1} s", time.as_secs_f64());
    }

    fn document(&self, time: Duration, survivors: &[&Outcome]) -> serde_json::Value {
        let [killed, by_test, excused, _] = Self::counts(self.generated.iter());
        let [killed_written, written_by_test] = self.killed_written();
        let found = self.all().filter_map(|outcome| Some((outcome, outcome.end.found()?)));
        let found = found.map(|(outcome, found)| {
            json!({
                "mutant": outcome.name,
                "by": found.finder.to_string(),
                "schedules": found.schedules,
                "seconds": found.seconds,
                "schedule": found.schedule,
                "replay": outcome.replay,
            })
        });
        let unreached = self.generated.iter().filter(|outcome| outcome.unreached);
        json!({
            "total": self.written.len() + self.generated.len(),
            "killed": killed_written + killed,
            "by_test": written_by_test + by_test,
            "excused": excused,
            "survived": survivors.iter().map(|outcome| &outcome.name).collect::<Vec<_>>(),
            "unreached": unreached.map(|outcome| &outcome.name).collect::<Vec<_>>(),
            "found": found.collect::<Vec<_>>(),
            "teeth": { "sharp": self.sharp, "blunt": self.blunt },
            "seconds": time.as_secs_f64(),
        })
    }
}
