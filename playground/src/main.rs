//! What the documentation site shows of runs: `playground FOLDER` writes
//!
//! * `playground.html`: a page on which the protocols of the zoo are stepped through by hand. It contains, for each
//!   protocol, the graph of *all* states, as the explorer has visited them, with fewer CPUs if they are too many;
//! * `drawings/NAME.svg`: for each broken protocol, the shortened schedule that breaks it, as a time line of its CPUs; and a shootdown of the
//!   library.

mod drawing;
mod graph;

use core::error::Error;
use std::{fs, path::Path, process::ExitCode};

use lookaside_machine::explore::{Budget, Replay, Schedule};
use lookaside_scenarios::{
    scenario,
    zoo::{self, Form, Protocol},
};
use serde_json::{Value, json};

/// The page, in which the data takes the place of [`DATA`].
const PAGE: &str = include_str!("page.html");
const DATA: &str = "/*DATA*/null";

/// A protocol with more states than this is on the page with fewer CPUs: it would be too large to load.
const STATES: usize = 6000;

/// The scenario of the library itself that is drawn, and among how many executions at random the shortest one with an
/// interrupt is looked for.
const SHOOTDOWN: &str = "user-recent";
const EXECUTIONS: u64 = 500;

/// How many steps the explorer may take to find the schedule of a drawing.
const STEPS: u64 = 200_000_000;

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("error: name the folder to write to: playground FOLDER");
        return ExitCode::from(2);
    };
    match run(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let drawings = folder.join("drawings");
    fs::create_dir_all(&drawings).map_err(|error| format!("{}: {error}", drawings.display()))?;
    let (schedule, replay) = shootdown()?;
    fs::write(drawings.join(format!("{SHOOTDOWN}.svg")), drawing::draw(&replay, &schedule))?;
    let mut protocols = Vec::new();
    for protocol in zoo::all() {
        if let Some(schedule) = failing(protocol)? {
            let replay = protocol.open(Form::Described).watch(&schedule)?;
            let drawn = drawing::draw(&replay, &schedule);
            fs::write(drawings.join(format!("{}.svg", protocol.name)), drawn)?;
        }
        let told = tell(protocol);
        println!("{}: {}", protocol.name, sizes(&told));
        protocols.push(told);
    }
    let data = serde_json::to_string(&protocols)?.replace("</", "<\\/");
    let page = PAGE.replace(DATA, &data);
    println!("playground: {} protocols, {} KiB", protocols.len(), page.len() / 1024);
    fs::write(folder.join("playground.html"), page)?;
    Ok(())
}

/// The shortest of some executions of the library in which a CPU takes an interrupt.
fn shootdown() -> Result<(Schedule, Replay), Box<dyn Error>> {
    let mut explored = scenario::find(SHOOTDOWN).ok_or("the scenario of a drawing is gone")?.open();
    let mut shortest: Option<(Schedule, Replay)> = None;
    for schedule in explored.at_random(1, EXECUTIONS) {
        let replay = explored.watch(&schedule)?;
        if let Some(violation) = replay.violation {
            return Err(format!("{SHOOTDOWN}: {violation}").into());
        }
        let is_shorter =
            shortest.as_ref().is_none_or(|(_, least)| replay.lines.len() < least.lines.len());
        if is_shorter && replay.lines.iter().any(|line| line.text == "takes an interrupt") {
            shortest = Some((schedule, replay));
        }
    }
    shortest.ok_or_else(|| "no execution of the drawing's scenario has an interrupt".into())
}

/// A shortened schedule that breaks a protocol, if it is a broken one.
fn failing(protocol: &Protocol) -> Result<Option<Schedule>, Box<dyn Error>> {
    if protocol.expected.rule().is_none() {
        return Ok(None);
    }
    let judgement = zoo::judge(protocol, Budget::steps(STEPS));
    if judgement.found != protocol.expected.rule() {
        return Err(format!("{}: the expected rule was not broken", protocol.name).into());
    }
    let schedule = judgement.schedule.ok_or("a failure has a schedule")?;
    Ok(Some(schedule.parse()?))
}

/// A protocol and the graphs of its variants.
fn tell(protocol: &Protocol) -> Value {
    let graph = |form| protocol.open(form).graph(STATES).map(|graph| graph::compact(&graph));
    let fixed = protocol.repair.map(|_| graph(Form::Fixed));
    let described = graph(Form::Described);
    let is_small = described.is_none();
    let described = described.or_else(|| graph(Form::Small));
    json!({
        "name": protocol.name,
        "arch": format!("{:?}", protocol.arch),
        "why": protocol.why,
        "record": protocol.record,
        "repair": protocol.repair,
        "expected": protocol.expected.to_string(),
        "described": described,
        "small": is_small,
        "fixed": fixed,
    })
}

fn sizes(told: &Value) -> String {
    let size = |form: &str| match told[form]["states"].as_array() {
        Some(states) => format!("{} states", states.len()),
        None if told[form].is_null() && form == "fixed" && told["repair"].is_null() => {
            "none".into()
        }
        None => format!("more than {STATES} states, left out"),
    };
    let small = if told["small"] == true { " with fewer CPUs" } else { "" };
    format!("described {}{small}; repaired {}", size("described"), size("fixed"))
}

#[cfg(test)]
mod tests {
    use lookaside_scenarios::zoo::Expected;

    use super::*;

    /// The rules that are broken in a graph.
    fn broken(protocol: &Protocol, form: Form) -> Option<Vec<String>> {
        let graph = protocol.open(form).graph(STATES)?;
        let violations = graph.states.iter().filter_map(|state| state.violation.as_ref());
        Some(violations.map(|violation| violation.rule.to_string()).collect())
    }

    #[test]
    fn a_translation_is_stale_before_the_kernel_relies_on_its_absence() {
        let protocol = zoo::find("fire-and-forget").expect("it is in the zoo");
        let graph = protocol.open(Form::Fixed).graph(STATES).expect("it is small");
        let mut entries = graph
            .states
            .iter()
            .flat_map(|state| state.view.cpus.iter().flat_map(|cpu| &cpu.entries));
        assert!(entries.clone().any(|entry| entry.is_stale && !entry.is_revoked));
        assert!(entries.any(|entry| !entry.is_stale), "what the table says is not stale");
    }

    #[test]
    fn the_graph_of_a_protocol_agrees_with_its_verdict() {
        let mut is_small = Vec::new();
        for protocol in zoo::all() {
            let whole = broken(protocol, Form::Described);
            if whole.is_none() {
                is_small.push(protocol.name);
            }
            match (whole.or_else(|| broken(protocol, Form::Small)), protocol.expected) {
                (None, _) => panic!("{} is not on the page", protocol.name),
                (Some(found), Expected::Sound) => assert!(found.is_empty(), "{}", protocol.name),
                (Some(found), Expected::Breaks(rule)) => {
                    assert!(found.contains(&rule.to_string()), "{}: {found:?}", protocol.name);
                    let repaired = broken(protocol, Form::Fixed);
                    assert_eq!(repaired, Some(Vec::new()), "{}", protocol.name);
                }
            }
        }
        assert_eq!(is_small, ["counter-under-a-lock"]);
    }
}
