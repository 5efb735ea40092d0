//! The comparison as tables that a person can read.

use lookaside_terminal::grid::{Grid, number, percent, times, wrapped};

use super::{
    ratio::{self, Pair},
    reference::Member,
    row::{Comparison, Place, Reproduction, Row},
    summary::{SAME, Summary},
};
use crate::data::{Better, Published};

/// Widths of the columns that every result has, after that of the names.
const NUMBERS: [u16; 6] = [9, 9, 9, 9, 8, 11];
/// Width of the names.
const NAME: u16 = 23;
/// Width of `x`, where there is one.
const X: u16 = 6;

/// The comparison for a terminal.
#[must_use]
pub fn to_text(reproduction: &Reproduction<'_>) -> String {
    let mut text = String::new();
    for comparison in &reproduction.comparisons {
        text.push_str(&heading(comparison));
        text.push_str(&legend(comparison).map(|line| wrapped(&line, 4)).collect::<String>());
        text.push_str(&grid(comparison).to_text());
        text.push('\n');
    }
    text + &closing(reproduction)
}

/// The comparison as Markdown.
#[must_use]
pub fn to_markdown(reproduction: &Reproduction<'_>) -> String {
    let mut text = String::new();
    for comparison in &reproduction.comparisons {
        let Published { id, citation, .. } = comparison.result;
        let about = about(comparison.result);
        let machines = machines(comparison).join(", ");
        let x = comparison.result.x_name.as_ref().map(|x| format!("; x: {x}")).unwrap_or_default();
        text.push_str(&format!("### {id}\n\n{about}{x}. On {machines}; source: {citation}.\n\n"));
        let legend: String = legend(comparison).map(|line| format!("* {line}\n")).collect();
        text.push_str(&legend);
        text.push_str(if legend.is_empty() { "" } else { "\n" });
        text.push_str(&grid(comparison).to_markdown());
        text.push('\n');
    }
    format!("{text}```text\n{}```\n", closing(reproduction))
}

fn machines<'a>(comparison: &Comparison<'a>) -> Vec<&'a str> {
    let mut machines: Vec<_> = comparison.places.iter().map(|place| place.machine).collect();
    machines.dedup();
    machines
}

fn about(result: &Published) -> String {
    let better = match result.better {
        Better::Lower => "lower",
        Better::Higher => "higher",
    };
    let Published { metric, unit, .. } = result;
    format!("{metric}, {unit}; {better} is better")
}

fn heading(comparison: &Comparison<'_>) -> String {
    let result = comparison.result;
    let Published { id, source, workload, .. } = result;
    let seed = result.seed.map(|seed| format!(" (seed {seed})")).unwrap_or_default();
    let machines = machines(comparison).join(", ");
    let x = result.x_name.as_ref().map(|name| format!("; x: {name}")).unwrap_or_default();
    let about = about(result);
    wrapped(&format!("{id}{seed}: {about}"), 0)
        + &wrapped(&format!("{workload} on {machines}{x}; source: {source}"), 0)
}

/// Whether names would be repeated for each point of a curve, so that they stand above the table.
fn has_legend(comparison: &Comparison<'_>) -> bool {
    comparison.places.len() > 1
}

/// What a row is called in the table: as in the publication, or as there is a legend for it.
fn name(comparison: &Comparison<'_>, row: &Row) -> String {
    if !has_legend(comparison) {
        return row.variant.clone();
    }
    let result = comparison.result;
    let alike = result.series().filter(|series| series.strategy == row.strategy).count();
    match row.member {
        Some(Member::Variant(number)) if alike > 1 => format!("{} ({number})", row.strategy),
        _ => row.strategy.clone(),
    }
}

/// What the publication calls the strategies of a curve.
fn legend<'a>(comparison: &'a Comparison<'_>) -> impl Iterator<Item = String> + 'a {
    let mut rows: Vec<&Row> = Vec::new();
    if has_legend(comparison) {
        for row in comparison.places.iter().flat_map(|place| &place.rows) {
            if row.member.is_some() && !rows.iter().any(|known| known.member == row.member) {
                rows.push(row);
            }
        }
    }
    rows.into_iter().map(|row| format!("{}: {}", name(comparison, row), row.variant))
}

fn grid(comparison: &Comparison<'_>) -> Grid {
    let result = comparison.result;
    let mut header = vec!["strategy"];
    let mut widths = vec![NAME + 2 + X];
    if result.x_name.is_some() {
        header.push("x");
        widths = vec![NAME, X];
    }
    header.extend(["published", "modelled", "gain,\npublished", "gain,\nmodelled"]);
    header.extend(["error", "role"]);
    widths.extend(NUMBERS);
    let mut grid = Grid::new(header, &[0]).with_widths(&widths);
    for place in &comparison.places {
        for row in &place.rows {
            let cells = cells(result, name(comparison, row), row);
            grid.row(with_x(result, place, cells));
            if result.conditions {
                let cells = recommended(result, row.recommended, row.over(result.better));
                grid.row(with_x(result, place, cells));
            }
        }
        if result.conditions {
            continue;
        }
        // If only a cost was published, it is charged to the recommended strategy as well.
        let ratio = place.recommended.and_then(|pair| pair.ratio);
        let same = ratio.is_some_and(|ratio| (ratio - 1.0).abs() < 1.0 - SAME);
        if !(result.variants.is_empty() && same) {
            let cells = recommended(result, place.recommended, place.over_best);
            grid.row(with_x(result, place, cells));
        }
    }
    grid
}

fn with_x(result: &Published, place: &Place<'_>, mut cells: Vec<String>) -> Vec<String> {
    if result.x_name.is_some() {
        cells.insert(1, place.x.map(|x| x.to_string()).unwrap_or_default());
    }
    cells
}

fn cells(result: &Published, name: String, row: &Row) -> Vec<String> {
    let gain = |ratio: Option<f64>| ratio.and_then(|ratio| ratio::gain(ratio, result.better));
    let times = |ratio: Option<f64>| gain(ratio).map(times).unwrap_or_default();
    let standing = row.standing.map(|standing| standing.word().to_owned());
    vec![
        name,
        row.published.map(|pair| as_published(pair.value)).unwrap_or_default(),
        row.modelled.map_or_else(|| "none".to_owned(), |pair| number(pair.value)),
        times(row.published.and_then(|pair| pair.ratio)),
        times(row.modelled.and_then(|pair| pair.ratio)),
        row.error.map(percent).unwrap_or_default(),
        standing.unwrap_or_default(),
    ]
}

fn recommended(result: &Published, pair: Option<Pair>, over: Option<f64>) -> Vec<String> {
    let gain = pair.and_then(|pair| ratio::gain(pair.ratio?, result.better));
    let over = over.map(|multiple| format!("{} best", times(multiple)));
    vec![
        format!("> {}", result.recommended.strategy),
        String::new(),
        pair.map_or_else(|| "none".to_owned(), |pair| number(pair.value)),
        String::new(),
        gain.map(times).unwrap_or_default(),
        String::new(),
        over.unwrap_or_default(),
    ]
}

/// A published number with the digits that it has.
fn as_published(value: f64) -> String {
    let text = value.to_string();
    if text.len() <= usize::from(NUMBERS[0]) { text } else { number(value) }
}

/// What it comes to, below the tables.
fn closing(reproduction: &Reproduction<'_>) -> String {
    let summary = Summary::of(reproduction);
    let mut text = String::new();
    let mut line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        text.push_str(&wrapped(line, indent));
    };
    let Summary { rows, fitted, predicted, within, ratios: (ratios, near), .. } = summary;
    line(
        "gain: times as good as the first line. error: of the gain, for the first line of the value. \
         >: the recommended strategy, and in the last column how many times as good as the best of \
         the published variants in the model.",
    );
    if reproduction.elsewhere {
        line("Nothing to compare with: these are other machines than those of the publications.");
    } else {
        line(&format!(
            "{rows} published values: {fitted} fitted, {predicted} predicted, of these {within} \
             within 10 %. {ratios} of the predictions are gains, of these {near} within 10 %."
        ));
        let ((failable, right), (gains, good)) = (summary.failable, summary.gains);
        let [controls, interpolations, repeats] =
            summary.easy.map(|(count, near)| format!("{near} of {count}"));
        line(&format!(
            "Of the predictions that could have failed {right} of {failable} are within 10 %, of the gains \
             among them, which differ from 1 by more than 10 %, {good} of {gains}. The others: {controls} \
             controls, {interpolations} interpolations, {repeats} repeats."
        ));
        reproduction.readings.iter().for_each(|read| line(&read.words(&summary)));
    }
    // One cause is given once for all values that it explains.
    for misses in summary.misses.chunk_by(|a, b| a.cause == b.cause && a.id == b.id) {
        let cause = misses[0].cause.as_deref().unwrap_or("the cause is not known");
        let values: Vec<String> =
            misses.iter().map(|miss| format!("{} by {}", miss.what, percent(miss.error))).collect();
        line(&format!("  Off: {}: {cause}", values.join(", ")));
    }
    if !reproduction.elsewhere {
        list(
            &mut line,
            if summary.unlike.is_empty() { "Directions and orders: all as published." } else { "" },
            "Directions, not as published:",
            &summary.reversed,
        );
        list(&mut line, "", "Curves and ties, not as published:", &summary.unlike);
    }
    if summary.compared > 0 {
        list(
            &mut line,
            "The recommended strategy (>) is never worse than the best published variant.",
            "The recommended strategy (>) is worse than the best published variant:",
            &summary.slower,
        );
    }
    list(&mut line, "", "Without a value:", &summary.failed);
    if reproduction.seeds > 1 {
        let seeds = reproduction.seeds;
        list(
            &mut line,
            &format!("No value of those with {seeds} seeds differs by more than 5 %."),
            &format!("With {seeds} seeds these values differ by more than 5 %:"),
            &summary.chaotic,
        );
        if summary.single > 0 {
            let single = summary.single;
            line(&format!(
                "{single} values have one seed, as their runs take long: `--thorough` gives them all."
            ));
        }
    }
    reproduction.certainties().iter().for_each(|text| line(text));
    let (millions, seconds) =
        (reproduction.events as f64 / 1e6, reproduction.simulated as f64 / 1e12);
    line(&format!("{millions:.1} million events; {seconds:.3} simulated seconds."));
    text
}

/// A line if there is nothing to list, or another with the list below it.
fn list(line: &mut impl FnMut(&str), nothing: &str, something: &str, items: &[String]) {
    if items.is_empty() {
        if !nothing.is_empty() {
            line(nothing);
        }
        return;
    }
    line(something);
    items.iter().for_each(|item| line(&format!("  {item}")));
}
