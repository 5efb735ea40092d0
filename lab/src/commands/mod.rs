//! The commands, one in each file, and what they share.

pub(crate) mod explain;
pub(crate) mod explore;
pub(crate) mod fit;
pub(crate) mod list;
mod output;
mod progress;
pub(crate) mod reproduce;
pub(crate) mod run;

use core::error::Error;
use std::process::ExitCode;

use lookaside_lab::{data::Refused, names, reproduce::Book, reproduce::Settings};

/// What a command gives: how the program ends, or why it could not.
pub(crate) type Result = core::result::Result<ExitCode, Box<dyn Error>>;

/// An option of a workload as it is given on the command line.
fn option(text: &str) -> core::result::Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("an option is NAME=NUMBER")?;
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
    Ok((name.to_owned(), number.ok_or_else(|| format!("`{value}` is not a number"))?))
}

/// The options of a workload, and over them what was given on the command line. A name that neither
/// the workload's parameters nor any published result has is refused.
fn options(
    book: &Book,
    workload: &str,
    given: &[(String, f64)],
) -> core::result::Result<Settings, Refused> {
    let parameters = book.parameters.of(workload);
    let results = book.published.iter().filter(|result| result.workload == workload);
    let series = results.flat_map(|result| {
        [&result.baseline, &result.recommended].into_iter().chain(&result.variants)
    });
    let mut known: Vec<&String> =
        parameters.keys().chain(series.flat_map(|series| series.options.keys())).collect();
    known.sort();
    known.dedup();
    if let Some((name, _)) = given.iter().find(|(name, _)| !known.contains(&name)) {
        let known = known.iter().map(|name| name.as_str());
        let Refused(why) = names::unknown("option", name, known);
        return Err(Refused(format!("workload `{workload}`: {why}")));
    }
    Ok(book.options(workload, &given.iter().cloned().collect()))
}
