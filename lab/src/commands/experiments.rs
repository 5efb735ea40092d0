//! `lookaside experiments`: what others published of workload files, beside what the model predicts.

use std::{collections::BTreeSet, fs, process::ExitCode};

use lookaside_simulation::experiment::{self, Prediction};
use lookaside_terminal::Refused;
use serde_json::json;

use super::output::{Format, Output};

/// Arguments of `lookaside experiments`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Workload files. Those of which nothing was published are left out.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// How many seeds each prediction has.
    #[arg(long, value_name = "N", default_value_t = experiment::SEEDS, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    #[command(flatten)]
    output: Output,
}

/// Runs `lookaside experiments`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { files, seeds, output } = arguments;
    output.check()?;
    let files = &once(files);
    let text = if output.format == Format::Markdown {
        experiment::report(files, *seeds)?
    } else {
        let mut all: Vec<Prediction> = Vec::new();
        for file in files {
            all.extend(experiment::predict(file, *seeds)?);
        }
        if all.is_empty() {
            let why = "none of the files has `[experiment]` and `[[published]]`: nothing was published of them";
            return Err(Refused(why.to_owned()).into());
        }
        match output.format {
            Format::Json => to_json(&all),
            Format::Csv => experiment::csv(&all),
            _ => format!("{}\n{}\n", experiment::grid(&all).to_text(), experiment::score(&all)),
        }
    };
    output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The files, each once: by whatever path one is named again, its values are no more.
fn once(files: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    // What cannot be read is refused by its name.
    let place = |file: &String| fs::canonicalize(file).unwrap_or_else(|_| file.into());
    files.iter().filter(|file| seen.insert(place(file))).cloned().collect()
}

fn to_json(all: &[Prediction]) -> String {
    let rows = all.iter().map(|one| {
        json!({
            "file": one.file,
            "what": one.published.what,
            "unit": one.published.unit,
            "published": one.published.value,
            "predicted": one.value(),
            "samples": one.samples,
            "control": !one.could_fail(),
            "direction": one.direction(),
        })
    });
    format!("{:#}\n", json!({ "version": 1, "predictions": rows.collect::<Vec<_>>() }))
}
