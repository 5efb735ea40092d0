//! The outcome as a table for people.

use super::Outcome;
use lookaside_scenarios::scenario::TOPICS;
use lookaside_terminal::{counted, grid::Grid};

/// A row for each scenario and each protocol, a line for each failure, and a summary.
#[must_use]
pub fn to_text(outcome: &Outcome) -> String {
    let mut text = each(outcome) + "\n";
    let header =
        ["protocol", "scenarios", "everything", "bounded", "random", "schedules", "Msteps"];
    let mut grid = Grid::new(header, &[0, 3]);
    for topic in TOPICS.iter() {
        let of = || outcome.scenarios.iter().filter(|checked| checked.protocol == topic.name);
        if of().next().is_none() {
            continue;
        }
        let steps: u64 = of().map(|checked| checked.steps).sum();
        let schedules: u64 = of().map(|checked| checked.schedules).sum();
        let random: u64 = of().map(|checked| checked.random).sum();
        grid.row([
            topic.name.to_owned(),
            of().count().to_string(),
            of().filter(|checked| checked.exhausted).count().to_string(),
            depths(of().filter(|checked| !checked.exhausted).map(|checked| checked.preemptions)),
            random.to_string(),
            schedules.to_string(),
            format!("{:.1}", steps as f64 / 1e6),
        ]);
    }
    text += &grid.to_text();
    for checked in &outcome.scenarios {
        let Some(found) = &checked.failure else { continue };
        text.push_str(&format!(
            "\n  {} breaks a rule: {}: {}\n    see it: lookaside explore --schedule '{}'\n",
            checked.name, found.rule, found.message, found.schedule
        ));
    }
    text + &closing(outcome) + &others(outcome)
}

/// The depth that each scenario reached, and the schedules, states and steps it took.
fn each(outcome: &Outcome) -> String {
    let header = ["scenario", "explored", "random", "schedules", "states", "Msteps"];
    let mut grid = Grid::new(header, &[0, 1]);
    for checked in &outcome.scenarios {
        grid.row([
            checked.name.clone(),
            match (checked.exhausted, checked.preemptions) {
                (true, _) => "everything".to_owned(),
                (false, Some(1)) => "1 pre-emption".to_owned(),
                (false, Some(depth)) => format!("{depth} pre-emptions"),
                (false, None) => "unfinished".to_owned(),
            },
            checked.random.to_string(),
            checked.schedules.to_string(),
            checked.states.to_string(),
            format!("{:.1}", checked.steps as f64 / 1e6),
        ]);
    }
    grid.to_text()
}

/// A line each for zoo, litmus tests and mutants.
fn others(outcome: &Outcome) -> String {
    let mut text = String::new();
    if let Some(zoo) = &outcome.zoo {
        text += &format!("zoo: {} of {} protocols as expected\n", zoo["agree"], zoo["total"]);
    }
    if let Some(litmus) = &outcome.litmus {
        for (mode, score) in litmus["modes"].as_object().into_iter().flatten() {
            let all = &score["all"];
            text += &format!("litmus, {mode}: {} of {} tests exact\n", all["exact"], all["tests"]);
        }
        let traces = litmus["casemate"].as_array().map_or(&[][..], Vec::as_slice);
        let agree = traces.iter().filter(|trace| trace["agrees"] != false).count();
        text += &format!("traces: {agree} of {} as recorded\n", traces.len());
    }
    if let Some(mutants) = &outcome.mutants {
        let survived = mutants["survived"].as_array().map_or(0, Vec::len);
        text += &format!(
            "mutants: {} of {} found, {} excused, {survived} survived\n",
            mutants["killed"], mutants["total"], mutants["excused"]
        );
    }
    text
}

/// The number of scenarios by the number of pre-emptions explored in full.
fn depths(preemptions: impl Iterator<Item = Option<u32>>) -> String {
    let mut counts = std::collections::BTreeMap::<Option<u32>, usize>::new();
    preemptions.for_each(|depth| *counts.entry(depth).or_default() += 1);
    let shown = counts.into_iter().rev().map(|(depth, count)| match depth {
        Some(1) => format!("{count} with 1 pre-emption"),
        Some(depth) => format!("{count} with {depth} pre-emptions"),
        None => format!("{count} unfinished"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn closing(outcome: &Outcome) -> String {
    let Outcome { schedules, steps, seconds, stale, .. } = outcome;
    let scenarios = outcome.scenarios.len();
    let rate = *steps as f64 / seconds.max(1e-9) / 1e6;
    let verdict = match stale {
        0 => {
            let (whole, rest): (Vec<_>, Vec<_>) =
                outcome.scenarios.iter().partition(|checked| checked.exhausted);
            let rest = depths(rest.iter().map(|checked| checked.preemptions));
            let rest = if rest.is_empty() { rest } else { format!(", {rest}") };
            format!("no rule was broken ({} explored in full{rest})", whole.len())
        }
        1 => "A RULE WAS BROKEN in 1 scenario".to_owned(),
        n => format!("RULES WERE BROKEN in {n} scenarios"),
    };
    let behind: Vec<&str> = outcome.behind().map(|checked| &*checked.name).collect();
    let verdict = match &behind[..] {
        [] => verdict,
        names => format!(
            "{verdict}; NOT FINISHED: {} were not explored as deep as demanded ({})",
            names.len(),
            names.join(", ")
        ),
    };
    let empty: Vec<&str> = outcome.empty().map(|checked| &*checked.name).collect();
    let verdict = match &empty[..] {
        [] => verdict,
        names => format!("{verdict}; EMPTY: nothing is claimed in {}", names.join(", ")),
    };
    let source = outcome.source.get(..16).unwrap_or(&outcome.source);
    format!(
        "\n{verdict}: {}, {}, {:.1} million steps in \
         {seconds:.1} s ({rate:.1} million a second)\nsource {source}, seed {}\n",
        counted(scenarios, "scenario", "scenarios"),
        counted(*schedules as usize, "schedule", "schedules"),
        *steps as f64 / 1e6,
        outcome.seed
    )
}
