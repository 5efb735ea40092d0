//! `lookaside calibrate`: measures this machine and writes a machine file.

use core::time::Duration;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use lookaside_simulation::{
    calibrate::{
        self, Recording,
        facts::Facts,
        file,
        findings::{self, Finding},
        fit,
        only::Only,
        predict::{self, Prediction},
        probe::{Samples, Scope},
    },
    data::Machine,
};
use lookaside_terminal::{
    Refused,
    grid::{Grid, percent, wrapped},
    say,
};

use super::{
    output::{self, replace},
    progress,
};

/// Arguments of `lookaside calibrate`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write a machine file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long, requires = "output")]
    force: bool,
    /// Also compare predictions of the model for this machine with measurements.
    #[arg(long)]
    predict: bool,
    /// Measure only the predicted values, and compare them with the model's for this machine file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "predict"])]
    check: Option<PathBuf>,
    /// Measure only these prices, and what they need: `interrupt`, or `walk,line_socket`. Prints how `lookaside sweep
    /// --set` takes each.
    #[arg(long, value_name = "PRICES", value_delimiter = ',', conflicts_with_all = ["output", "predict", "check"])]
    only: Vec<String>,
    /// Write the raw measurements, block by block, as JSON.
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    /// Measure nothing; evaluate measurements written with `--raw`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["raw", "seconds"])]
    from: Option<PathBuf>,
    /// How long to measure, in seconds.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// Runs `lookaside calibrate`. The exit status is 1 if a prediction is wrong.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    for path in [&arguments.output, &arguments.raw].into_iter().flatten() {
        output::check(path)?;
        if path.exists() && !arguments.force {
            let why = "is there already; `--force` replaces it";
            return Err(Refused(format!("`{}` {why}", path.display())).into());
        }
    }
    let given = arguments.check.as_deref().map(Machine::open).transpose()?;
    let only = match &arguments.only[..] {
        [] => None,
        names => Some(Only::named(names)?),
    };
    let scope = match &only {
        Some(only) => only.scope(),
        None if given.is_some() => Scope::COMPARED,
        None => Scope::ALL,
    };
    let recording = match &arguments.from {
        Some(path) => recorded(path)?,
        None => measured(arguments, scope)?,
    };
    if let Some(path) = &arguments.raw {
        replace(path, &serde_json::to_string(&recording)?)?;
    }
    let Recording { facts, samples } = &recording;
    facts.check().map_err(Refused)?;
    if let Some(machine) = given {
        return Ok(compare(&machine, samples, facts)?);
    }
    let mut findings = findings::findings(samples, facts);
    if let Some(only) = only {
        return show_only(&only, findings, samples, facts);
    }
    let completed = fit::complete(&mut findings, samples, facts);
    say!("{}", table(&findings).to_text())?;
    summary(samples, facts)?;
    completed?;
    let text = file::text(&findings, facts);
    let path = arguments.output.as_deref();
    let name = path.map_or("calibrated.toml".into(), |path| path.display().to_string());
    let machine = file::check(&name, &text)?;
    if let Some(path) = path {
        replace(path, &text)?;
        say!("Written to {}.\n", path.display())?;
    }
    Ok(if arguments.predict { compare(&machine, samples, facts)? } else { ExitCode::SUCCESS })
}

/// Shows some prices, and how other commands take them.
fn show_only(
    only: &Only,
    mut findings: Vec<Finding>,
    samples: &Samples,
    facts: &Facts,
) -> super::Result {
    if only.scope().barriers {
        fit::complete(&mut findings, samples, facts)?;
    }
    findings.retain(|finding| finding.key.is_some_and(|key| only.price(key).is_some()));
    say!("{}", table(&findings).to_text())?;
    summary(samples, facts)?;
    let settings: Vec<String> = findings
        .iter()
        .filter_map(|finding| {
            let (name, known) = (only.price(finding.key?)?, finding.outcome.as_ref().ok()?);
            Some(file::settings(name, known.value))
        })
        .flatten()
        .map(|(name, value)| format!("--set {name}={}", show(value)))
        .collect();
    if settings.is_empty() {
        return Err(Refused("none of these prices could be measured here".to_owned()).into());
    }
    say!("`lookaside sweep` takes them, in ns: {}\n", settings.join(" "))?;
    Ok(ExitCode::SUCCESS)
}

fn measured(arguments: &Arguments, scope: Scope) -> Result<Recording, Refused> {
    let bar = progress::styled(Some(100), "{bar:40} {percent} %, {elapsed}", "%");
    let time = Duration::from_secs(arguments.seconds);
    let recording =
        calibrate::measure(time, scope, &|share| bar.set_position((share * 100.0) as u64));
    bar.finish_and_clear();
    recording
}

fn recorded(path: &Path) -> Result<Recording, Refused> {
    let refused = |why: String| Refused(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| refused(error.to_string()))
}

fn show(value: f64) -> String {
    file::number(value).to_string()
}

fn table(findings: &[Finding]) -> Grid {
    let header = ["quantity", "median", "quartiles", "n", "unit", "remarks"];
    let mut grid = Grid::new(header, &[0, 4, 5]).with_widths(&[24, 8, 15, 5, 8, 30]);
    for Finding { about, unit, outcome, without, .. } in findings {
        match outcome {
            Ok(known) => {
                let quartiles = known
                    .summary
                    .map(|all| format!("{} {}", show(all.lower), show(all.upper)))
                    .unwrap_or_default();
                let n = known.summary.map(|all| all.n.to_string()).unwrap_or_default();
                let remark = known.remark.clone();
                let unit = (*unit).to_owned();
                grid.row([about.clone(), show(known.value), quartiles, n, unit, remark]);
            }
            Err(why) => {
                let remark = format!("refused: {why}. Without it: {without}");
                let none = String::new;
                grid.row([about.clone(), none(), none(), none(), (*unit).to_owned(), remark]);
            }
        }
    }
    grid
}

/// Remarks on the measurements as a whole.
fn summary(samples: &Samples, facts: &Facts) -> io::Result<()> {
    let blocks: usize = samples.values().map(|series| series.blocks()).sum();
    let kept: usize = samples.values().map(|series| series.kept.len()).sum();
    let mut text = format!("{} of {blocks} blocks were disturbed and discarded.", blocks - kept);
    for warning in facts.warnings() {
        text += &format!(" {warning}");
    }
    say!("\n{}", wrapped(&text, 0))
}

/// Shows predictions beside measurements.
fn compare(machine: &Machine, samples: &Samples, facts: &Facts) -> io::Result<ExitCode> {
    let all = predict::predictions(machine, samples, facts);
    let header = ["predicted, not fitted", "measured", "quartiles", "n", "predicted", "off by", ""];
    let mut grid = Grid::new(header, &[0, 6]).with_widths(&[26, 8, 13, 5, 9, 7, 18]);
    for prediction in &all {
        let Prediction { about, measured, predicted, beyond } = prediction;
        let mut remarks: Vec<String> = beyond.iter().map(|why| (*why).to_owned()).collect();
        remarks.extend(measured.as_ref().err().cloned());
        remarks.extend(predicted.as_ref().err().cloned());
        if prediction.is_right() == Some(false) {
            remarks.push(format!("more than {:.0} %", predict::BOUND * 100.0));
        }
        let number = |value: Option<f64>| value.map(show).unwrap_or_default();
        let measured = measured.as_ref().ok();
        grid.row([
            (*about).to_owned(),
            number(measured.map(|all| all.median)),
            measured
                .map(|all| format!("{} {}", show(all.lower), show(all.upper)))
                .unwrap_or_default(),
            measured.map(|all| all.n.to_string()).unwrap_or_default(),
            number(predicted.as_ref().ok().copied()),
            prediction.error().map(percent).unwrap_or_default(),
            remarks.join("; "),
        ]);
    }
    let strategy = fit::strategy(facts);
    say!("\nIn ns, with the strategy `{strategy}`:\n\n")?;
    say!("{}", grid.to_text())?;
    let right = all
        .iter()
        .all(|prediction| prediction.beyond.is_some() || prediction.is_right() == Some(true));
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
