//! Programs that put TLBs under load, on a model kernel.

mod build;
mod exit_group;
pub mod file;
mod fileserver;
mod flush_range;
mod fresh_spaces;
mod intervals;
mod lat_ctx;
mod madvise;
mod metrics;
mod migrate;
mod mprotect;
mod mprotect_pair;
mod munmap;
mod pingpong;
mod pthread_mmap;
mod sort;
mod stage;
mod storm;
mod tcmalloc;
mod tlb_flush2;
mod tlbi;

use core::cell::RefCell;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use lookaside_machine::timed::Report;
use lookaside_terminal::Refused;

pub use self::metrics::check_metric;
use crate::data::{Machine, Program, Text};

/// What a workload is to run on.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'m> {
    /// The machine.
    pub machine: &'m Machine,
    /// The name of the strategy.
    pub strategy: &'m str,
    /// How many CPUs, where the workload leaves that open; none for as many as it has by itself.
    pub cpus: Option<usize>,
    /// The place on the curve, for workloads that have one.
    pub x: Option<f64>,
    /// Further options, by name.
    pub options: &'m BTreeMap<String, f64>,
    /// Seed of the pseudo-random numbers.
    pub seed: u64,
    /// How many moments the report keeps for a timeline; 0 for none.
    pub timeline: usize,
}

impl Setup<'_> {
    /// An option, which is one of the workload's parameters or was given for this run.
    ///
    /// # Errors
    ///
    /// If neither `published/workloads.toml` nor the run has it.
    pub fn option(&self, name: &str) -> Result<f64, Refused> {
        self.asked(name).ok_or_else(|| Refused(format!("the workload needs an option `{name}`")))
    }

    /// An option, or what it is where nobody gave one.
    #[must_use]
    pub fn option_or(&self, name: &str, otherwise: f64) -> f64 {
        self.asked(name).unwrap_or(otherwise)
    }

    /// Looks an option up, and notes that the workload knows it.
    fn asked(&self, name: &str) -> Option<f64> {
        ASKED.with_borrow_mut(|asked| {
            if !asked.contains(name) {
                asked.insert(name.to_owned());
            }
        });
        self.options.get(name).copied()
    }
}

thread_local! {
    static ASKED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// The options that workloads on this thread have looked for since this was called last: those that a
/// workload knows, once it has run.
fn take_asked() -> BTreeSet<String> {
    ASKED.take()
}

/// Refuses an option among those `given` that the workload does not read, before it is run.
///
/// # Errors
///
/// With the nearest option, or with what else the workload refuses.
pub fn check_options<'g>(
    name: &str,
    setup: &Setup<'_>,
    mut given: impl Iterator<Item = &'g str>,
) -> Result<(), Refused> {
    let _ = take_asked();
    stage::rehearse(|| run(name, setup))?;
    let known = take_asked();
    match given.find(|name| !known.contains(*name)) {
        None => Ok(()),
        Some(option) => {
            let known = known.iter().map(String::as_str);
            let Refused(why) = lookaside_terminal::names::unknown("option", option, known);
            Err(Refused(format!("workload `{}`: {why}", shown(name))))
        }
    }
}

/// What a workload has measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results.
    pub metrics: Vec<Metric>,
    /// Where the time went.
    pub report: Report,
    /// What is to be known of the results, each in a sentence: threads that never ran, what was never reached, and sockets without a CPU of the run.
    pub notes: Vec<String>,
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name, as published results refer to it.
    pub key: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// The number.
    pub value: f64,
}

impl Outcome {
    /// A metric by name.
    ///
    /// # Errors
    ///
    /// If the workload has none of that name.
    pub fn metric(&self, key: &str) -> Result<f64, Refused> {
        let metric = self.metrics.iter().find(|metric| metric.key == key);
        metric.map(|metric| metric.value).ok_or_else(|| {
            lookaside_terminal::names::unknown(
                "metric",
                key,
                self.metrics.iter().map(|metric| metric.key),
            )
        })
    }
}

/// A workload by name.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What `x` is, if it has one.
    pub x_name: Option<&'static str>,
    /// Runs it.
    pub run: fn(&Setup<'_>) -> Result<Outcome, Refused>,
}

impl Entry {
    /// Whether `x` is the number of CPUs, or of threads that each have one.
    #[must_use]
    pub fn x_counts_cpus(&self) -> bool {
        matches!(self.x_name, Some("CPUs" | "CPUs online" | "threads"))
    }
}

/// Refuses a place on a curve that the workload has not, or that is a number of CPUs and not whole.
///
/// # Errors
///
/// If so, or if there is no such workload.
pub fn check_x(name: &str, x: f64) -> Result<(), Refused> {
    if file::is_path(name) {
        return Err(Refused(format!(
            "workload `{}` has no x; `cpus` is the number of its CPUs",
            shown(name)
        )));
    }
    let entry = find(name)?;
    match entry.x_name {
        None => Err(Refused(format!("workload `{name}` has no x"))),
        // Numbers that are too large are refused with what there is.
        Some(what) if entry.x_counts_cpus() && x.is_finite() && x.fract() != 0.0 => Err(Refused(
            format!("x is {x}, and is the number of {what} of `{name}`: a whole number"),
        )),
        Some(_) => Ok(()),
    }
}

/// All workloads.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    [
        build::ENTRIES,
        exit_group::ENTRIES,
        fileserver::ENTRIES,
        flush_range::ENTRIES,
        fresh_spaces::ENTRIES,
        lat_ctx::ENTRIES,
        madvise::ENTRIES,
        migrate::ENTRIES,
        mprotect::ENTRIES,
        mprotect_pair::ENTRIES,
        munmap::ENTRIES,
        pingpong::ENTRIES,
        pthread_mmap::ENTRIES,
        sort::ENTRIES,
        storm::ENTRIES,
        tcmalloc::ENTRIES,
        tlb_flush2::ENTRIES,
        tlbi::ENTRIES,
    ]
    .into_iter()
    .flatten()
}

/// Runs the workload of that name, or that of a file: what ends in `.toml`.
///
/// # Errors
///
/// If there is none, if the machine or the strategy refuses it, or if it fails.
pub fn run(name: &str, setup: &Setup<'_>) -> Result<Outcome, Refused> {
    let mut outcome = if file::is_path(name) {
        opened(name)?.run(setup)?
    } else {
        let entry = find(name)?;
        check(entry, setup)?;
        (entry.run)(setup)?
    };
    outcome.notes.extend(setup.machine.unreached_sockets(outcome.report.cpus.len()));
    Ok(outcome)
}

/// The largest option and place on a curve of the workloads that are built in. They make room for what is counted
/// before they run, and an option that is mistyped must not ask for all memory.
const LARGEST: f64 = 1e7;

/// Refuses numbers that no workload can count to.
fn check(entry: &Entry, setup: &Setup<'_>) -> Result<(), Refused> {
    let options = setup.options.iter().map(|(name, &value)| (name.as_str(), value));
    let all = options.chain(setup.x.map(|x| ("x", x)));
    for (name, value) in all {
        if !(0.0..=LARGEST).contains(&value) {
            let workload = entry.name;
            let why = format!("`{name}` is {value}, and has to be from 0 to {LARGEST}");
            return Err(Refused(format!("workload `{workload}`: {why}")));
        }
    }
    let (key, limit) = (&setup.machine.key, setup.machine.model.topology.cpus());
    match setup.x.filter(|&x| entry.x_counts_cpus() && setup.cpus.is_none() && x as usize > limit) {
        Some(x) => Err(Refused(format!("{x} CPUs; machine `{key}` has {limit}"))),
        None => Ok(()),
    }
}

/// The workloads of files and of texts, by the name under which they are run.
static KNOWN: Mutex<BTreeMap<String, Arc<file::Workload>>> = Mutex::new(BTreeMap::new());

/// The workload of a file, which is read once, or of a text that [was admitted](admit).
///
/// # Errors
///
/// If it cannot be read, or with the first thing that is wrong in it.
pub fn opened(path: &str) -> Result<Arc<file::Workload>, Refused> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(workload) = known.get(path) {
        return Ok(Arc::clone(workload));
    }
    let workload = Arc::new(file::Workload::open(path)?);
    known.insert(path.to_owned(), Arc::clone(&workload));
    Ok(workload)
}

/// Admits the workload of a text, for programs that have no file of it or whose file may change while they run: the
/// name by which it is run from here on, which is another one for another text. Messages have the name of the text.
///
/// # Errors
///
/// With the first thing that is wrong in it.
pub fn admit(text: &Text) -> Result<String, Refused> {
    // No path has a line break before its last name.
    let name = format!("{}\n{}\n.toml", text.name, text.text);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if !known.contains_key(&name) {
        let workload = file::Workload::new(Program::read(text)?)?;
        known.insert(name.clone(), Arc::new(workload));
    }
    Ok(name)
}

/// What people call the workload of this name: that of a text which [was admitted](admit) has all of it in the name.
fn shown(name: &str) -> &str {
    name.split_once('\n').map_or(name, |(shown, _)| shown)
}

/// The workload of that name.
///
/// # Errors
///
/// If there is none, with the nearest name.
pub fn find(name: &str) -> Result<&'static Entry, Refused> {
    all().find(|entry| entry.name == name).ok_or_else(|| {
        if Path::new(name).exists() {
            return Refused(format!(
                "there is no workload `{name}`; if the file is meant, its name must end in `.toml`"
            ));
        }
        lookaside_terminal::names::unknown("workload", name, all().map(|entry| entry.name))
    })
}
