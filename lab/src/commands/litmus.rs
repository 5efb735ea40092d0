//! `lab litmus`: tests and traces of others, and whether the machine agrees.

use core::fmt::Write as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use clap::ValueEnum;
use lookaside_lab::{
    litmus::{Case, Compared, Mode, Score, Suite, Traces},
    reproduce::grid::Grid,
};
use serde_json::json;

/// What is to be run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A folder with `.litmus` files and `.log` traces, or with the folders `aarch64-vmsa` and
    /// `casemate`.
    folder: PathBuf,
    /// FEAT_ETS2 off, on, or one after the other.
    #[arg(long, value_enum, default_value = "both")]
    mode: Modes,
    /// Only this test, in full: both sets, the differences, and how a state too many comes about.
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// A test that cannot be read, or has nothing to be compared with, counts as a difference.
    #[arg(long)]
    strict: bool,
    /// How the results are written.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Modes {
    Base,
    Ets2,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs; its keys stay.
    Json,
}

impl Modes {
    const fn list(self) -> &'static [Mode] {
        match self {
            Self::Base => &[Mode::Base],
            Self::Ets2 => &[Mode::Ets2],
            Self::Both => &Mode::ALL,
        }
    }
}

/// Runs it. The program ends with 1 if anything differs from what is recorded.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let folder = &arguments.folder;
    let shown = folder.display();
    let suite = Suite::open(folder).map_err(|error| format!("`{shown}`: {error}"))?;
    let traces = Traces::open(folder).map_err(|error| format!("`{shown}`: {error}"))?;
    if suite.cases.is_empty() && suite.skipped.is_empty() && traces.is_empty() {
        return Err(format!("`{shown}` has neither `.litmus` files nor `.log` traces").into());
    }
    let modes = arguments.mode.list();
    if let Some(name) = &arguments.test {
        let case = suite.cases.iter().find(|case| case.litmus.name == *name);
        let case = case.ok_or_else(|| format!("`{shown}` has no test `{name}` that can be run"))?;
        return in_full(case, modes);
    }

    let started = Instant::now();
    let mut scores: BTreeMap<(Mode, &str), Score> = BTreeMap::new();
    let mut totals: BTreeMap<Mode, Score> = BTreeMap::new();
    let mut deviations = Vec::new();
    let mut given_up = Vec::new();
    let mut states = 0;
    let mut unrecorded = String::new();
    for case in &suite.cases {
        for &mode in modes {
            let name = &case.litmus.name;
            let Some(compared) = case.compare(mode) else {
                given_up.push((mode, name));
                continue;
            };
            states += compared.found.explored;
            if !case.recorded.contains_key(&mode) {
                write_states(&mut unrecorded, case, &compared)?;
                continue;
            }
            scores.entry((mode, &case.class)).or_default().add(&compared);
            totals.entry(mode).or_default().add(&compared);
            if !compared.exact() {
                deviations.push((case, compared));
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let disagree = traces.checked.iter().filter(|trace| trace.agrees() == Some(false)).count();
    let compared = suite.skipped.is_empty() && unrecorded.is_empty();
    let good = deviations.is_empty()
        && given_up.is_empty()
        && disagree == 0
        && (compared || !arguments.strict);

    if arguments.format == Format::Json {
        let score = |score: &Score| {
            json!({
                "tests": score.tests, "exact": score.exact, "missing": score.missing,
                "extra": score.extra, "bbm_warning": score.warnings,
            })
        };
        let modes: serde_json::Map<_, _> = totals
            .iter()
            .map(|(mode, total)| {
                let own = scores.iter().filter(|((of, _), _)| of == mode);
                let classes: serde_json::Map<_, _> =
                    own.map(|((_, class), of)| ((*class).to_owned(), score(of))).collect();
                (mode.word().to_owned(), json!({ "all": score(total), "classes": classes }))
            })
            .collect();
        let list = |states: &BTreeSet<_>, case: &Case| {
            states.iter().map(|state| case.litmus.show(state)).collect::<Vec<_>>()
        };
        let deviations: Vec<_> = deviations
            .iter()
            .map(|(case, compared)| {
                json!({
                    "name": case.litmus.name, "mode": compared.mode.word(), "class": case.class,
                    "missing": list(&compared.missing, case), "extra": list(&compared.extra, case),
                    "bbm_warning": compared.same_warning,
                })
            })
            .collect();
        let skipped: Vec<_> = suite
            .skipped
            .iter()
            .map(|skipped| json!({ "place": skipped.place, "why": skipped.why }))
            .collect();
        let given_up: Vec<_> = given_up
            .iter()
            .map(|(mode, name)| json!({ "mode": mode.word(), "name": name }))
            .collect();
        let casemate: Vec<_> = traces
            .checked
            .iter()
            .map(|trace| {
                json!({
                    "name": trace.name, "found": trace.found, "recorded": trace.recorded,
                    "agrees": trace.agrees(),
                })
            })
            .collect();
        let all = json!({
            "modes": modes, "deviations": deviations, "skipped": skipped, "given_up": given_up,
            "casemate": casemate, "states": states, "seconds": seconds,
        });
        println!("{all:#}");
        return Ok(code(good));
    }

    print!("{unrecorded}");
    if !totals.is_empty() {
        let header = ["mode", "class", "tests", "exact", "missing", "extra", "bbm"];
        let mut grid = Grid::new(header, &[0, 1]);
        let row = |mode: Mode, class: &str, score: &Score| {
            [
                mode.word().to_owned(),
                class.to_owned(),
                score.tests.to_string(),
                score.exact.to_string(),
                score.missing.to_string(),
                score.extra.to_string(),
                score.warnings.to_string(),
            ]
        };
        for (mode, total) in &totals {
            for ((of, class), score) in &scores {
                if of == mode {
                    grid.row(row(*mode, class, score));
                }
            }
            grid.row(row(*mode, "all", total));
        }
        println!("{}", grid.to_text());
        println!(
            "exact: the recorded set of final states. missing: the machine is too strong. extra: it \
             is\ntoo weak. bbm: break-before-make is asked for in exactly the recorded tests."
        );
    }
    for (case, compared) in &deviations {
        println!("\n{} ({}, {}):", case.litmus.name, case.class, compared.mode.word());
        print!("{}", differences(case, compared));
    }
    for (mode, name) in given_up {
        println!("given up, too many states: {name} ({})", mode.word());
    }
    for skipped in &suite.skipped {
        println!("skipped: {}: {}", skipped.place, skipped.why);
    }
    for trace in &traces.checked {
        let recorded = match trace.agrees() {
            Some(true) => "as recorded".to_owned(),
            Some(false) => format!("RECORDED: {}", trace.recorded.as_deref().unwrap_or_default()),
            None => "nothing recorded".to_owned(),
        };
        println!("trace {}: {} ({recorded})", trace.name, trace.found);
    }
    println!(
        "{} tests run, {} skipped, {} traces, {states} states, {seconds:.1} s",
        suite.cases.len(),
        suite.skipped.len(),
        traces.checked.len()
    );
    Ok(code(good))
}

fn code(good: bool) -> ExitCode {
    ExitCode::from(u8::from(!good))
}

fn differences(case: &Case, compared: &Compared) -> String {
    let mut text = String::new();
    for (sign, states) in [("missing", &compared.missing), ("extra", &compared.extra)] {
        for state in states {
            let _ = writeln!(text, "    {sign}: {}", case.litmus.show(state));
        }
    }
    if !compared.same_warning {
        let found = if compared.found.broke { "asked for" } else { "not asked for" };
        let _ = writeln!(text, "    break-before-make is {found}");
    }
    text
}

fn write_states(text: &mut String, case: &Case, compared: &Compared) -> super::Result<()> {
    let (litmus, found) = (&case.litmus, &compared.found);
    let verdict = litmus.verdict(&found.states);
    let broke = if found.broke { ", needs break-before-make" } else { "" };
    let mode = compared.mode.word();
    writeln!(text, "{} ({mode}): {verdict}{broke}; {} states", litmus.name, found.states.len())?;
    for state in &found.states {
        writeln!(text, "    {}", litmus.show(state))?;
    }
    Ok(())
}

/// One test with everything about it.
fn in_full(case: &Case, modes: &[Mode]) -> super::Result {
    let mut good = true;
    for &mode in modes {
        let Some(compared) = case.compare(mode) else {
            println!("{} ({}): too many states", case.litmus.name, mode.word());
            good = false;
            continue;
        };
        let mut text = String::new();
        write_states(&mut text, case, &compared)?;
        print!("{text}");
        if let Some(recorded) = case.recorded.get(&mode) {
            println!("recorded: {} states", recorded.states.len());
            for state in &recorded.states {
                println!("    {}", case.litmus.show(state));
            }
        }
        print!("{}", differences(case, &compared));
        if let Some(state) = compared.extra.first()
            && let Some(steps) = case.litmus.witness(mode.hardware(), state)
        {
            println!("how {} comes about:", case.litmus.show(state));
            for step in steps {
                println!("    {step}");
            }
        }
        good &= compared.exact();
    }
    Ok(code(good))
}
