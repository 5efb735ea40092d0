//! The zoo: the protocols by which other systems keep TLBs coherent, each as small as it can be told.
//!
//! A specimen is built from a public description, and holds the protocol and nothing else: the kernel
//! around it (`kernel.rs`), the machine and the oracle are the same for all. One that is broken is
//! found out by the rule that it breaks, and becomes clean by its one repair, so that it is not the
//! kernel around it that breaks. One that is sound is explored to the end.

mod acknowledge;
mod arm;
mod generation;
mod invlpgb;
mod kernel;
mod life;
mod queue;
mod riscv;
mod targets;
mod waiting;

use core::fmt;

use lookaside_machine::{
    adversary::{Arch, Rule},
    explore::{Budget, Failure, Schedule, ScheduleError},
};

use crate::scenario::{Depth, Explored};

/// What exploring a specimen should come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It breaks this rule.
    Breaks(Rule),
    /// It breaks none.
    Sound,
}

impl Expected {
    /// The rule, if one is to be broken.
    #[must_use]
    pub const fn rule(self) -> Option<Rule> {
        match self {
            Self::Breaks(rule) => Some(rule),
            Self::Sound => None,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Breaks(rule) => rule.fmt(f),
            Self::Sound => f.write_str("sound"),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Expected {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Which form of a protocol is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is described.
    Described,
    /// With its repair: the twin.
    Repaired,
    /// Nobody flushes. It breaks, or the specimen shows nothing.
    Mute,
}

/// A protocol of somebody's.
pub struct Specimen {
    /// Its name: what it does, and not who does it.
    pub name: &'static str,
    /// The architecture that it is shown on.
    pub arch: Arch,
    /// Where it is or was used, and how that is known.
    pub record: &'static str,
    /// What it does, and what happens then.
    pub why: &'static str,
    /// What it should come to.
    pub expected: Expected,
    /// What makes it sound, if it is not.
    pub repair: Option<&'static str>,
    open: fn(&'static str, Form) -> Box<dyn Explored>,
}

impl Specimen {
    /// Builds its world.
    #[must_use]
    pub fn open(&self, form: Form) -> Box<dyn Explored> {
        (self.open)(self.name, form)
    }

    /// Runs a schedule, as [`judge`] gives one, and returns the failure that it leads to.
    ///
    /// # Errors
    ///
    /// If the schedule is not one of this specimen.
    pub fn replay(&self, schedule: &Schedule) -> Result<Option<Failure>, ScheduleError> {
        self.open(Form::Described).replay(schedule)
    }
}

/// All specimens: the broken ones first, beginning with those who are asked and how they answer.
pub fn all() -> impl Iterator<Item = &'static Specimen> {
    let houses = [
        acknowledge::SPECIMENS,
        waiting::SPECIMENS,
        queue::SPECIMENS,
        targets::SPECIMENS,
        generation::SPECIMENS,
        arm::SPECIMENS,
        invlpgb::SPECIMENS,
        riscv::SPECIMENS,
        life::SPECIMENS,
    ];
    let sound = |specimen: &&Specimen| specimen.expected == Expected::Sound;
    let broken = houses.into_iter().flatten().filter(move |specimen| !sound(specimen));
    broken.chain(houses.into_iter().flatten().filter(sound))
}

/// The specimen of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Specimen> {
    all().find(|specimen| specimen.name == name)
}

/// The specimen that a schedule is of.
#[must_use]
pub fn of(schedule: &Schedule) -> Option<&'static Specimen> {
    find(schedule.scenario().strip_prefix(kernel::PREFIX)?)
}

/// What exploring a specimen came to.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Judgement {
    /// The name of the specimen.
    pub name: &'static str,
    /// What it should have come to.
    pub expected: Expected,
    /// The rule that was broken.
    #[cfg_attr(feature = "serde", serde(serialize_with = "rule"))]
    pub found: Option<Rule>,
    /// A shortened schedule that breaks it.
    pub schedule: Option<String>,
    /// Steps of all executions, without those of the twin.
    pub steps: u64,
    /// Executions, without those of the twin.
    pub schedules: u64,
    /// Whether everything was explored; not asked of what is broken.
    pub complete: bool,
    /// How long it took, twin and shortening included.
    pub seconds: f64,
    /// Whether all that the repaired twin can do was explored and broke no rule.
    pub twin_clean: Option<bool>,
}

#[cfg(feature = "serde")]
fn rule<S: serde::Serializer>(found: &Option<Rule>, serializer: S) -> Result<S::Ok, S::Error> {
    match found {
        Some(rule) => serializer.collect_str(rule),
        None => serializer.serialize_none(),
    }
}

impl Judgement {
    /// Whether it is as expected: broken by the rule that was named, with a clean twin; or sound, with
    /// everything explored.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let explored = self.found.is_some() || self.complete;
        explored && self.found == self.expected.rule() && self.twin_clean != Some(false)
    }
}

/// Explores a specimen and its twin, each within `budget`.
#[must_use]
pub fn judge(specimen: &Specimen, budget: Budget) -> Judgement {
    let begin = std::time::Instant::now();
    let mut explored = specimen.open(Form::Described);
    let report = explored.explore(Depth::Exhaust, budget);
    let failure = report.failure.as_ref().map(|failure| explored.shrink(failure));
    let twin_clean = specimen.repair.map(|_| {
        let twin = specimen.open(Form::Repaired).explore(Depth::Exhaust, budget);
        twin.failure.is_none() && twin.complete
    });
    Judgement {
        name: specimen.name,
        expected: specimen.expected,
        found: failure.as_ref().map(|failure| failure.violation.rule),
        schedule: failure.map(|failure| failure.schedule.to_string()),
        steps: report.steps,
        schedules: report.schedules,
        complete: report.complete,
        seconds: begin.elapsed().as_secs_f64(),
        twin_clean,
    }
}
