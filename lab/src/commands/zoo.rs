//! `lookaside zoo`: the protocols of other systems on the adversarial machine.

use core::time::Duration;
use std::process::ExitCode;

use clap::ValueEnum;
use lookaside_machine::explore::{Budget, Schedule};
use lookaside_scenarios::{
    explore,
    zoo::{self, Form, Judgement, Protocol},
};
use lookaside_terminal::{Stdout, counted, grid::Grid, say};
use serde_json::json;

/// Arguments of `lookaside zoo`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The protocols to judge; all if none is given. A single protocol is shown in detail.
    #[arg(conflicts_with = "schedule")]
    names: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Stop exploring a protocol, or its repaired variant, after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = lookaside_terminal::seconds)]
    budget: Option<Duration>,
    /// Replay this schedule, as the verdict of a protocol prints it.
    #[arg(long, value_name = "v1:...", conflicts_with = "budget")]
    schedule: Option<String>,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs; keys are stable.
    Json,
}

/// Runs `lookaside zoo`. The exit status is 1 if a verdict differs from the expected one.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    if let Some(text) = &arguments.schedule {
        return replay(&text.parse()?);
    }
    let budget = arguments.budget.map_or(Budget::UNLIMITED, Budget::time);
    let protocols = named(&arguments.names)?;
    let judgements: Vec<_> =
        protocols.iter().map(|protocol| zoo::judge(protocol, budget)).collect();
    match (arguments.format, &protocols[..], &judgements[..]) {
        (Format::Json, ..) => say!("{:#}\n", json!({ "version": 1, "protocols": judgements }))?,
        (Format::Table, [protocol], [judgement]) if arguments.names.len() == 1 => {
            tell(protocol, judgement)?;
        }
        (Format::Table, ..) => say!("{}", table(&judgements).to_text())?,
    }
    let agree = judgements.iter().all(Judgement::agrees);
    Ok(if agree { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn named(names: &[String]) -> Result<Vec<&'static Protocol>, String> {
    if names.is_empty() {
        return Ok(zoo::all().collect());
    }
    let find = |name: &String| {
        zoo::find(name)
            .ok_or_else(|| format!("there is no protocol `{name}`; `lookaside zoo` lists them"))
    };
    names.iter().map(find).collect()
}

fn table(judgements: &[Judgement]) -> Grid {
    let header = ["protocol", "expected", "found", "schedules", "steps", "s", "repaired clean"];
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
            judgement.fixed_clean.map_or("", |clean| if clean { "yes" } else { "NO" }).to_owned(),
        ]);
    }
    grid
}

/// The broken rule that was found, for a verdict that differs from the expected one.
fn found(judgement: &Judgement) -> String {
    match judgement.found {
        Some(rule) => rule.to_string(),
        None if judgement.complete => "nothing".to_owned(),
        None => "nothing yet".to_owned(),
    }
}

/// Prints one protocol in detail: its description, the failing schedule, and the verdict.
fn tell(protocol: &Protocol, judgement: &Judgement) -> super::Result<()> {
    say!("{} ({:?}): {}\n\n", protocol.name, protocol.arch, protocol.expected)?;
    say!("{}\n\n", wrapped(protocol.why))?;
    say!("{}\n\n", wrapped(&format!("Record: {}", protocol.record)))?;
    if let Some(repair) = protocol.repair {
        say!("{}\n\n", wrapped(&format!("Repair: {repair}.")))?;
    }
    if let Some(schedule) = &judgement.schedule {
        shown(protocol, &schedule.parse()?)?;
    } else {
        let extent = if judgement.complete {
            "everything explored"
        } else {
            "not finished: no rule was broken so far"
        };
        let clean = if judgement.complete { "clean: " } else { "" };
        let schedules = counted(judgement.schedules as usize, "schedule", "schedules");
        say!("{clean}{extent}; {schedules}, {} steps\n", judgement.steps)?;
    }
    match judgement.fixed_clean {
        Some(true) => say!("repaired: clean, everything explored\n")?,
        Some(false) => say!("repaired: NOT clean, or not explored to the end\n")?,
        None => {}
    }
    Ok(())
}

fn replay(schedule: &Schedule) -> super::Result {
    let protocol = zoo::of(schedule)
        .ok_or_else(|| format!("`{}` is not a protocol of the zoo", schedule.scenario()))?;
    let broken = shown(protocol, schedule)?;
    Ok(if broken { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Replays a schedule and prints its steps. Returns whether it broke a rule.
fn shown(protocol: &Protocol, schedule: &Schedule) -> super::Result<bool> {
    let mut explored = protocol.open(Form::Described);
    match explored.replay(schedule)? {
        None => say!("clean: this schedule breaks no rule\n")?,
        Some(failure) => {
            explore::broken(&mut explored, &failure, &mut Stdout)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Wraps text to lines of at most 100 characters.
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
