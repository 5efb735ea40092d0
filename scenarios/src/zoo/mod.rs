//! The zoo: the protocols by which other systems keep TLBs coherent, each reduced to its essentials.
//!
//! A protocol is built from a public description and contains nothing else: the kernel around it
//! (`kernel.rs`), the machine and the oracle are the same for all. A broken protocol violates the rule
//! that is named for it, and its fixed variant, which differs by one repair, violates none; this shows
//! that the fault is not in the kernel around it. A sound protocol is explored exhaustively.

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

/// The expected result of exploring a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The protocol breaks this rule.
    Breaks(Rule),
    /// The protocol breaks no rule.
    Sound,
}

impl Expected {
    /// The rule that the protocol breaks, if any.
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

/// The variant of a protocol that is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As described.
    Described,
    /// As described, with fewer CPUs where all states of [`Form::Described`] are too many to be stepped through by
    /// hand; the same otherwise.
    Small,
    /// With its repair.
    Fixed,
    /// Without flushes. It must break a rule, or the script does not exercise the protocol.
    NoFlush,
}

/// A TLB coherence protocol of another system.
pub struct Protocol {
    /// Its name, after what it does and not after the system that does it.
    pub name: &'static str,
    /// The architecture on which it is explored.
    pub arch: Arch,
    /// The systems that use or used it, and the source of that knowledge.
    pub record: &'static str,
    /// What it does, and which interleaving breaks it.
    pub why: &'static str,
    /// The expected verdict.
    pub expected: Expected,
    /// The change that makes it sound, if it is broken.
    pub repair: Option<&'static str>,
    open: fn(&'static str, Form) -> Explored,
}

impl Protocol {
    /// Builds its world.
    #[must_use]
    pub fn open(&self, form: Form) -> Explored {
        (self.open)(self.name, form)
    }

    /// Runs a schedule, as [`judge`] gives one, and returns the failure that it leads to.
    ///
    /// # Errors
    ///
    /// If the schedule does not belong to this protocol.
    pub fn replay(&self, schedule: &Schedule) -> Result<Option<Failure>, ScheduleError> {
        self.open(Form::Described).replay(schedule)
    }
}

/// All protocols: the broken ones first, beginning with acknowledgements and target sets.
pub fn all() -> impl Iterator<Item = &'static Protocol> {
    let groups = [
        acknowledge::PROTOCOLS,
        waiting::PROTOCOLS,
        queue::PROTOCOLS,
        targets::PROTOCOLS,
        generation::PROTOCOLS,
        arm::PROTOCOLS,
        invlpgb::PROTOCOLS,
        riscv::PROTOCOLS,
        life::PROTOCOLS,
    ];
    let sound = |protocol: &&Protocol| protocol.expected == Expected::Sound;
    let broken = groups.into_iter().flatten().filter(move |protocol| !sound(protocol));
    broken.chain(groups.into_iter().flatten().filter(sound))
}

/// The protocol of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Protocol> {
    all().find(|protocol| protocol.name == name)
}

/// The protocol that a schedule belongs to.
#[must_use]
pub fn of(schedule: &Schedule) -> Option<&'static Protocol> {
    find(schedule.scenario().strip_prefix(kernel::PREFIX)?)
}

/// The result of exploring a protocol.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Judgement {
    /// The name of the protocol.
    pub name: &'static str,
    /// The expected verdict.
    pub expected: Expected,
    /// The rule that was broken.
    #[cfg_attr(feature = "serde", serde(serialize_with = "rule"))]
    pub found: Option<Rule>,
    /// A shortened schedule that breaks it.
    pub schedule: Option<String>,
    /// Steps of all executions, without those of the fixed variant.
    pub steps: u64,
    /// Executions, without those of the fixed variant.
    pub schedules: u64,
    /// Whether everything was explored; a broken protocol need not be.
    pub complete: bool,
    /// Seconds that it took, including the fixed variant and the shortening of the schedule.
    pub seconds: f64,
    /// Whether the fixed variant was explored exhaustively and broke no rule.
    pub fixed_clean: Option<bool>,
}

#[cfg(feature = "serde")]
fn rule<S: serde::Serializer>(found: &Option<Rule>, serializer: S) -> Result<S::Ok, S::Error> {
    match found {
        Some(rule) => serializer.collect_str(rule),
        None => serializer.serialize_none(),
    }
}

impl Judgement {
    /// Whether the verdict is as expected: the named rule is broken and the fixed variant is clean, or
    /// the protocol is sound and was explored exhaustively.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let explored = self.found.is_some() || self.complete;
        explored && self.found == self.expected.rule() && self.fixed_clean != Some(false)
    }
}

/// Explores a protocol and its fixed variant, each within `budget`.
#[must_use]
pub fn judge(protocol: &Protocol, budget: Budget) -> Judgement {
    let begin = std::time::Instant::now();
    let mut explored = protocol.open(Form::Described);
    let report = explored.explore(Depth::Exhaust, budget);
    let failure = report.failure.as_ref().map(|failure| explored.shrink(failure));
    let fixed_clean = protocol.repair.map(|_| {
        let fixed = protocol.open(Form::Fixed).explore(Depth::Exhaust, budget);
        fixed.failure.is_none() && fixed.complete
    });
    Judgement {
        name: protocol.name,
        expected: protocol.expected,
        found: failure.as_ref().map(|failure| failure.violation.rule),
        schedule: failure.map(|failure| failure.schedule.to_string()),
        steps: report.steps,
        schedules: report.schedules,
        complete: report.complete,
        seconds: begin.elapsed().as_secs_f64(),
        fixed_clean,
    }
}
