//! `lab zoo`: the protocols of other systems on the adversarial machine.

use core::time::Duration;
use std::{io, process::ExitCode};

use clap::ValueEnum;
use lookaside_lab::{
    explore,
    reproduce::grid::Grid,
    zoo::{self, Form, Judgement, Specimen},
};
use lookaside_machine::explore::{Budget, Schedule};

/// Which specimens are judged.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The specimens; without any, all of them. One alone is told in full.
    #[arg(conflicts_with = "schedule")]
    names: Vec<String>,
    /// How the verdicts are written.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Give up on a specimen, or on its twin, after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    budget: Option<f64>,
    /// Run this one schedule again, as a specimen prints it.
    #[arg(long, value_name = "v1:...", conflicts_with = "budget")]
    schedule: Option<String>,
}

/// How verdicts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs; its keys stay.
    Json,
}

/// Judges them. The exit status is 1 if a verdict is not the one expected.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    if let Some(text) = &arguments.schedule {
        return replay(&text.parse()?);
    }
    let budget = arguments.budget.map(Duration::try_from_secs_f64).transpose()?;
    let budget = budget.map_or(Budget::UNLIMITED, Budget::time);
    let specimens = named(&arguments.names)?;
    let judgements: Vec<_> =
        specimens.iter().map(|specimen| zoo::judge(specimen, budget)).collect();
    match (arguments.format, &specimens[..], &judgements[..]) {
        (Format::Json, ..) => println!("{:#}", serde_json::to_value(&judgements)?),
        (Format::Table, [specimen], [judgement]) if arguments.names.len() == 1 => {
            tell(specimen, judgement)?;
        }
        (Format::Table, ..) => print!("{}", table(&judgements).to_text()),
    }
    let agree = judgements.iter().all(Judgement::agrees);
    Ok(if agree { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn named(names: &[String]) -> Result<Vec<&'static Specimen>, String> {
    if names.is_empty() {
        return Ok(zoo::all().collect());
    }
    let find = |name: &String| {
        zoo::find(name)
            .ok_or_else(|| format!("there is no specimen `{name}`; `lab zoo` lists them"))
    };
    names.iter().map(find).collect()
}

fn table(judgements: &[Judgement]) -> Grid {
    let header = ["specimen", "expected", "found", "schedules", "steps", "s", "twin clean"];
    let mut grid = Grid::new(header, &[0, 1, 2, 6]).with_widths(&[32, 17, 10, 9, 8, 5, 5]);
    for judgement in judgements {
        let same = judgement.agrees();
        grid.row([
            judgement.name.to_owned(),
            judgement.expected.to_string(),
            if same { "the same".to_owned() } else { found(judgement) },
            judgement.schedules.to_string(),
            judgement.steps.to_string(),
            format!("{:.2}", judgement.seconds),
            judgement.twin_clean.map_or("", |clean| if clean { "yes" } else { "NO" }).to_owned(),
        ]);
    }
    grid
}

/// What was found, where it is not what was expected.
fn found(judgement: &Judgement) -> String {
    match judgement.found {
        Some(rule) => rule.to_string(),
        None if judgement.complete => "nothing".to_owned(),
        None => "nothing yet".to_owned(),
    }
}

/// One specimen: what it does, what happens, and what came of it.
fn tell(specimen: &Specimen, judgement: &Judgement) -> super::Result<()> {
    println!("{} ({:?}): {}\n", specimen.name, specimen.arch, specimen.expected);
    println!("{}\n", wrapped(specimen.why));
    println!("{}\n", wrapped(&format!("Record: {}", specimen.record)));
    if let Some(repair) = specimen.repair {
        println!("{}\n", wrapped(&format!("Repair: {repair}.")));
    }
    if let Some(schedule) = &judgement.schedule {
        shown(specimen, &schedule.parse()?)?;
    } else {
        let extent =
            if judgement.complete { "everything explored" } else { "gave up before the end" };
        println!("clean: {extent}; {} schedules, {} steps", judgement.schedules, judgement.steps);
    }
    match judgement.twin_clean {
        Some(true) => println!("repaired: clean, everything explored"),
        Some(false) => println!("repaired: NOT clean, or not everything explored"),
        None => {}
    }
    Ok(())
}

fn replay(schedule: &Schedule) -> super::Result {
    let specimen =
        zoo::of(schedule).ok_or_else(|| format!("`{}` is no specimen", schedule.scenario()))?;
    let broken = shown(specimen, schedule)?;
    Ok(if broken { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Runs a schedule and writes its steps; whether it broke a rule.
fn shown(specimen: &Specimen, schedule: &Schedule) -> super::Result<bool> {
    let mut explored = specimen.open(Form::Described);
    match explored.replay(schedule)? {
        None => println!("clean: this schedule breaks no rule"),
        Some(failure) => {
            explore::broken(&mut *explored, &failure, &mut io::stdout())?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Text in lines of a hundred characters at most.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split_whitespace() {
        if width > 0 && width + 1 + word.chars().count() > 100 {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += word.chars().count();
    }
    lines
}
