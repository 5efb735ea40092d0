//! Shared parts of the commands that run workloads.

use lookaside_simulation::{
    data::Machine,
    reproduce::Run,
    workload::{self, Outcome},
};
use lookaside_terminal::Refused;

/// Parses an option of a workload from the command line.
pub(super) fn option(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("an option is NAME=NUMBER")?;
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
    Ok((name.to_owned(), number.ok_or_else(|| format!("`{value}` is not a number"))?))
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

/// Refuses `x` for a workload without a curve, and more CPUs than the machine has. Returns the paths of the machine
/// that the workload assumes.
pub(super) fn check_place(
    name: &str,
    machine: &Machine,
    x: Option<f64>,
    cpus: Option<usize>,
) -> Result<Vec<&'static str>, Refused> {
    let (x_name, assumed) = match workload::file::is_path(name) {
        true => (Some("CPUs"), workload::opened(name)?.assumed(machine)),
        false => (workload::find(name)?.x_name, Vec::new()),
    };
    if x.is_some() && x_name.is_none() {
        return Err(Refused(format!("workload `{name}` has no x")));
    }
    let (key, limit) = (&machine.key, machine.model.topology.cpus());
    match cpus.filter(|&cpus| cpus == 0 || cpus > limit) {
        Some(cpus) => Err(Refused(format!("{cpus} CPUs; machine `{key}` has {limit}"))),
        None => Ok(assumed),
    }
}
