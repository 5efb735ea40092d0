//! Shared parts of the commands that run workloads.

use lookaside_simulation::{
    data::{Machine, Sockets, UNITS},
    reproduce::{Run, Settings},
    sensitivity::{LEAST, MOST},
    workload::{self, Outcome},
};
use lookaside_terminal::{Refused, names};

/// Parses an option of a workload from the command line.
pub(super) fn option(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("an option is NAME=NUMBER")?;
    match number(value) {
        Some(number) => Ok((name.to_owned(), number)),
        None => Err(format!("`{value}` is not a number{}", in_ns(value).unwrap_or_default())),
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// How a time with its unit is written where numbers have none: in nanoseconds.
fn in_ns(text: &str) -> Option<String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (_, ns) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
    let value = number(text.strip_suffix(unit)?)?;
    Some(format!("; a time of a workload file or a price is in ns: {}", value * ns))
}

/// Options from the command line, each given once.
pub(super) fn settings(given: &[(String, f64)]) -> Result<Settings, Refused> {
    let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
    match names::repeated(&names) {
        Some(name) => Err(Refused(format!("option `{name}` is given twice: leave one out"))),
        None => Ok(given.iter().cloned().collect()),
    }
}

/// Executes a run with options from the command line and a timeline of `moments` moments. Refuses an option
/// that the workload does not read.
pub(super) fn execute(
    run: &Run,
    machine: &Machine,
    given: &[(String, f64)],
    timeline: usize,
) -> Result<Outcome, Refused> {
    run.outcome_with(machine, given.iter().map(|(name, _)| name.as_str()), timeline)
}

/// A machine with other sockets, if they are asked for.
pub(super) fn with_sockets(machine: &Machine, sockets: Option<Sockets>) -> Machine {
    let mut machine = machine.clone();
    if let Some(sockets) = sockets {
        machine.set_sockets(sockets);
    }
    machine
}

/// Refuses `x` for a workload without a curve, and more CPUs than the machine has. Returns the paths of the machine
/// that the workload assumes.
pub(super) fn check_place(
    name: &str,
    machine: &Machine,
    x: Option<f64>,
    cpus: Option<usize>,
) -> Result<Vec<&'static str>, Refused> {
    let (counts_cpus, assumed) = match workload::file::is_path(name) {
        true => (false, workload::opened(name)?.assumed(machine)),
        false => (workload::find(name)?.x_counts_cpus(), Vec::new()),
    };
    if let Some(x) = x {
        workload::check_x(name, x)?;
        if counts_cpus && cpus.is_some_and(|cpus| cpus as f64 != x) {
            let why = "x is the number of CPUs of this workload: leave `--x` or `--cpus` out";
            return Err(Refused(format!("workload `{name}`: {why}")));
        }
    }
    let (key, limit) = (&machine.key, machine.model.topology.cpus());
    match cpus.filter(|&cpus| cpus == 0 || cpus > limit) {
        Some(cpus) => Err(Refused(format!("{cpus} CPUs; machine `{key}` has {limit}"))),
        None => Ok(assumed),
    }
}

/// Refuses so few plausible machines that they say nothing, and so many that nobody waits for them; 0 is none.
pub(super) fn check_plausible(count: Option<usize>) -> Result<(), Refused> {
    match count {
        Some(count) if count != 0 && !(LEAST..=MOST).contains(&count) => {
            Err(Refused(format!("--plausible takes 0, or {LEAST} to {MOST} machines")))
        }
        _ => Ok(()),
    }
}
