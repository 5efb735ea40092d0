//! `lookaside replay --validate`: the kernel's counts beside those of the model.

use std::process::ExitCode;

use lookaside_replay::{
    Replayed,
    validate::{Row, cold, compare, holds, page_outs},
};
use lookaside_terminal::{
    Refused,
    grid::{Grid, percent},
};
use lookaside_traces::reconstruct::{Flushes, reconstruct};
use serde_json::json;

use super::{super::output::Format, Plan};

/// Compares the kernel's counts with the model's.
pub(super) fn validated(plan: &Plan<'_>, runs: &[Replayed]) -> super::super::Result {
    let Some(recorded) = &plan.inputs.script.recorded else {
        let why = "the kernel recorded no flushes, so there is nothing to compare with";
        return Err(Refused(why.into()).into());
    };
    let kernel = reconstruct(plan.trace, Flushes::Recorded)?;
    let unknown = [cold(&plan.inputs.script), plan.inputs.script.unknown.mappings];
    let mut compared: Vec<(&str, Vec<Row>)> = Vec::new();
    for run in runs {
        let Some(observed) = &run.observed else {
            let why = "does not count in Linux's terms; one that does is `linux-ipi-2025`";
            return Err(Refused(format!("strategy `{}` {why}", run.strategy)).into());
        };
        let pages = [&kernel.expected, &plan.inputs.script.expected];
        let mut rows = compare(recorded, observed, unknown, pages);
        rows.extend(page_outs(&plan.inputs.script));
        compared.push((&run.strategy, rows));
    }
    let all_hold = compared.iter().all(|(_, rows)| holds(rows));
    let form = match plan.arguments.output.format {
        Format::Json => {
            let mut document = plan.about();
            document["holds"] = json!(all_hold);
            document["strategies"] = compared
                .iter()
                .map(|(strategy, rows)| json!({"strategy": strategy, "rows": rows, "holds": holds(rows)}))
                .collect();
            plan.arguments.output.write(&format!("{document:#}\n"))?;
            return Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Format::Csv => {
            plan.arguments.output.write(&csv(&compared))?;
            return Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Format::Markdown => Grid::to_markdown,
        Format::Table => Grid::to_text,
    };
    let mut text = format!("{}\n\n", plan.heading());
    for (strategy, rows) in &compared {
        let mut grid =
            Grid::new(["count", "recorded", strategy, "off", "unknown", "limit", ""], &[0, 6]);
        for row in rows {
            let off = row.ratio.map(|ratio| percent(ratio - 1.0)).unwrap_or_default();
            let limit =
                row.limit.map(|limit| format!("{:.0} %", limit * 100.0)).unwrap_or_default();
            let verdict = match (row.within, row.how) {
                (Some(true), None) => "holds".to_owned(),
                (Some(true), Some(what)) => format!("holds {what}"),
                (Some(false), _) => "does not hold".to_owned(),
                (None, _) => String::new(),
            };
            let [recorded, modelled] = [row.recorded, row.modelled].map(|count| count.to_string());
            let unknown = if row.unknown > 0 { row.unknown.to_string() } else { String::new() };
            grid.row([row.what.clone(), recorded, modelled, off, unknown, limit, verdict]);
        }
        text += &form(&grid);
        text.push('\n');
        let judged = rows.iter().filter(|row| row.within.is_some()).count();
        let hold = rows.iter().filter(|row| row.within == Some(true)).count();
        text += &format!("{hold} of {judged} judged counts hold\n\n");
    }
    let costs = plan.costs();
    text += &format!(
        "what this rests on\n\n* {}\n{}{}",
        costs.text().trim_end(),
        costs.gaps(),
        plan.assumptions()
    );
    plan.arguments.output.write(&text)?;
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All strategies in one table of plain numbers; a count that is only shown has no limit.
fn csv(compared: &[(&str, Vec<Row>)]) -> String {
    let names =
        ["strategy", "count", "recorded", "modelled", "ratio", "unknown", "limit", "within", "how"];
    let mut grid = Grid::new(names, &[0, 1, 8]);
    for (strategy, row) in
        compared.iter().flat_map(|(strategy, rows)| rows.iter().map(move |row| (strategy, row)))
    {
        let number =
            |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
        grid.row([
            (*strategy).to_owned(),
            row.what.clone(),
            row.recorded.to_string(),
            row.modelled.to_string(),
            number(row.ratio),
            row.unknown.to_string(),
            number(row.limit),
            row.within.map(|within| u8::from(within).to_string()).unwrap_or_default(),
            row.how.unwrap_or_default().to_owned(),
        ]);
    }
    grid.to_csv()
}
