//! The contents of a report, as plain data.

use std::path::Path;

use lookaside_machine::timed::Price;
use lookaside_simulation::data::{Isa, Machine, Origin};
use lookaside_traces::reconstruct::Unknown;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{Replayed, WorkingSet};

/// A report.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// The version of this form: it changes when a key goes or means something else.
    pub version: u32,
    /// The question.
    pub question: Question,
    /// The machine.
    pub machine: About,
    /// The results of the strategies, at least one; the others are compared with the first.
    pub results: Vec<Replayed>,
    /// Upkeep with other numbers of CPUs, for each strategy that was replayed so.
    pub scaling: Vec<Curve>,
    /// How sure the answer is, by plausible machines: a sentence each; empty where none were asked.
    pub certainty: Vec<String>,
    /// That the order of the strategies is another on plausible machines, where it is.
    pub turned: Option<String>,
    /// Where what is known lies on plausible machines; none where none were asked.
    pub plausible: Option<Plausible>,
    /// The assumptions.
    pub assumptions: Assumptions,
    /// How much the answer depends on each number, if that was tried.
    pub sensitivity: Option<Sensitivity>,
}

/// The question of a report.
#[derive(Clone, Debug, Serialize)]
pub struct Question {
    /// Whose time it is, as one would say it: `postgres`.
    pub subject: String,
    /// The name of the file that was replayed, without its folder.
    pub input: String,
    /// The hash of the file: `sha256:` and digits.
    pub hash: String,
    /// The command line, as it was typed.
    pub command: String,
    /// The version of the program.
    pub version: String,
    /// The seed of pseudo-random numbers.
    pub seed: u64,
}

/// What is [known](Replayed::known) on plausible machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plausible {
    /// How many machines.
    pub machines: usize,
    /// For each result, in its order: at least 80 % of the machines are between the first and the last, and the median is in
    /// the middle; in picoseconds.
    pub known: Vec<[u64; 3]>,
}

/// A machine, as far as a reader of a report wants to know it.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// Its key.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Its instruction set.
    pub isa: &'static str,
    /// How many CPUs it has, of which not all need to be used.
    pub cpus: usize,
    /// How many sockets they are in.
    pub sockets: u32,
    /// The note of its file.
    pub note: Option<String>,
    /// Unknown prices, which are charged as nothing.
    pub unknown: Vec<&'static str>,
    /// Numbers that were fitted to a published result.
    pub fitted: Vec<String>,
    /// Numbers of a similar machine.
    pub proxies: Vec<String>,
}

/// Upkeep under a strategy on different numbers of CPUs.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The strategy.
    pub strategy: String,
    /// By number of CPUs.
    pub points: Vec<CurvePoint>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// How many CPUs.
    pub cpus: usize,
    /// The time of upkeep on all of them, in picoseconds.
    pub total: u64,
    /// The same as a share of the time of all of them.
    pub share: f64,
}

/// Assumptions and unknowns.
#[derive(Clone, Debug, Serialize)]
pub struct Assumptions {
    /// The working set of programs between their faults.
    pub working_set: WorkingSet,
    /// Where that is from, in words.
    pub working_set_from: String,
    /// Where flushes are from, in words.
    pub flushes_from: String,
    /// Events that the recording has lost.
    pub lost: u64,
    /// Unknowns of the reconstruction.
    pub unknown: Vec<Loss>,
    /// Further notes for the reader, one sentence each.
    pub notes: Vec<String>,
}

/// Something that could not be known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The unknown.
    pub what: &'static str,
    /// How often.
    pub count: u64,
    /// The substitute.
    pub instead: &'static str,
}

/// How much the factor between two strategies depends on single numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// The strategy that is compared.
    pub strategy: String,
    /// The strategy that it is compared with.
    pub baseline: String,
    /// How many times the upkeep of `strategy` that of `baseline` is.
    pub factor: f64,
    /// One number at a time, those first on which most depends.
    pub swings: Vec<Swing>,
}

/// The factor when one number is lower or higher.
#[derive(Clone, Debug, Serialize)]
pub struct Swing {
    /// The number, as the machine file or the command line has it.
    pub parameter: String,
    /// Its unit.
    pub unit: String,
    /// What it is.
    pub value: f64,
    /// The lower value that was tried.
    pub low: f64,
    /// The higher one.
    pub high: f64,
    /// The factor at the lower value.
    pub at_low: f64,
    /// The factor at the higher value.
    pub at_high: f64,
}

impl Document {
    /// The version of the form that this program writes.
    pub const VERSION: u32 = 2;

    /// What the others are compared with.
    ///
    /// # Panics
    ///
    /// If there are no results.
    #[must_use]
    pub fn baseline(&self) -> &Replayed {
        self.results.first().expect("a report is about at least one strategy")
    }

    /// The cheapest, by what is known ([`Self::known`]), of those that are compared with the baseline, if there are any.
    #[must_use]
    pub fn best_other(&self) -> Option<&Replayed> {
        self.best_other_place().map(|place| &self.results[place])
    }

    /// Its place among the results.
    pub(super) fn best_other_place(&self) -> Option<usize> {
        let known = self.known();
        (1..self.results.len()).min_by_key(|&place| known[place])
    }

    /// What is [known](Replayed::known) of each result: as it was replayed, or the [medians](Self::medians).
    #[must_use]
    pub fn known(&self) -> Vec<u64> {
        self.medians().unwrap_or_else(|| self.results.iter().map(Replayed::known).collect())
    }

    /// The medians of plausible machines, where what was replayed with the file's numbers is outside of a range of theirs.
    #[must_use]
    pub fn medians(&self) -> Option<Vec<u64>> {
        let plausible = self.plausible.as_ref()?;
        let file = self.results.iter().map(Replayed::known);
        medians(file.zip(plausible.known.iter().copied()))
    }
}

/// The medians of plausible machines, where a value with the numbers of a machine file is outside of its range there: beside a
/// median the others are medians too, so that they can be compared. None where all are inside.
#[must_use]
pub fn medians<T: PartialOrd + Copy>(of: impl Iterator<Item = (T, [T; 3])>) -> Option<Vec<T>> {
    let of: Vec<(T, [T; 3])> = of.collect();
    let is_outside = |&(file, [low, _, high]): &(T, [T; 3])| file < low || file > high;
    of.iter().any(is_outside).then(|| of.iter().map(|(_, [_, median, _])| *median).collect())
}

/// Upkeep as a share of the time of all CPUs, refills included.
#[must_use]
pub(super) fn share(result: &Replayed) -> f64 {
    part(result, result.total)
}

/// So many picoseconds as a share of the time of all CPUs.
#[must_use]
pub(super) fn part(result: &Replayed, time: u64) -> f64 {
    if result.traced > 0 { result.share_of(time) } else { 0.0 }
}

impl Question {
    /// The name of a file without its folder: a report says nothing about where things are.
    #[must_use]
    pub fn input_of(path: &Path) -> String {
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// What stands for the content of a file.
    #[must_use]
    pub fn hash_of(content: &[u8]) -> String {
        let digest = Sha256::digest(content);
        let digits = digest.iter().map(|byte| format!("{byte:02x}"));
        core::iter::once("sha256:".to_owned()).chain(digits).collect()
    }
}

impl About {
    /// What a report says of a machine.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let prices = &machine.charged().prices;
        let topology = machine.model.topology;
        let unknown = Price::ALL.iter().filter(|&&price| prices.get(price).is_none());
        let with = |wanted: fn(&Origin) -> bool| {
            let values = machine.values.iter().filter(move |value| wanted(&value.origin));
            values.map(|value| value.name.clone()).collect()
        };
        Self {
            key: machine.key.clone(),
            name: machine.name.clone(),
            isa: match machine.isa {
                Isa::Aarch64 => "Arm64",
                Isa::Riscv64 => "RISC-V",
                Isa::X86_64 => "x86-64",
            },
            cpus: topology.cpus(),
            sockets: topology.sockets,
            note: machine.note.clone(),
            unknown: unknown.map(|price| price.key()).collect(),
            fitted: with(|origin| matches!(origin, Origin::Fitted { .. })),
            proxies: with(|origin| matches!(origin, Origin::Source { proxy: true, .. })),
        }
    }
}

impl Loss {
    /// What a reconstruction could not know.
    #[must_use]
    pub fn of(unknown: &Unknown) -> Vec<Self> {
        let Unknown { tasks, addresses, mappings, senders, unseen_pages, switches, gaps } =
            *unknown;
        let loss = |(what, count, instead)| Self { what, count, instead };
        [
            ("threads whose origin was not seen", tasks, "each is a process of its own"),
            (
                "flushes without a known address",
                addresses,
                "they are of present pages of the space, as many as were flushed",
            ),
            (
                "calls on what was mapped before the recording",
                mappings,
                "the pages are taken for present",
            ),
            ("flushes whose sender is not known", senders, "they are put down to nobody"),
            (
                "pages that were flushed and whose fault was not seen",
                unseen_pages,
                "they are taken for mapped around another fault",
            ),
            (
                "switches that are not in the recording",
                switches,
                "each is taken to have been just before its thread was seen on the CPU",
            ),
            ("events in a stretch where others were lost", gaps, "they are taken as they are"),
        ]
        .map(loss)
        .to_vec()
    }
}

impl Sensitivity {
    /// Puts those numbers first on which most depends.
    pub fn sort(&mut self) {
        self.swings.sort_by(|a, b| b.reach().total_cmp(&a.reach()));
    }
}

impl Swing {
    /// By how much the factor changes between the lower and the higher value, as a logarithm.
    #[must_use]
    pub fn reach(&self) -> f64 {
        let reach = (self.at_high / self.at_low).ln().abs();
        if reach.is_finite() { reach } else { 0.0 }
    }
}
