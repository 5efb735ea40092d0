//! A report as one page that needs nothing else: no network, light and dark, printable.
//!
//! What it says is put together here as text and places; `templates/` has how it looks. Text is escaped by
//! the template engine, because names come from traces: a process may be called `<script>`. The template is
//! compiled with the crate, so that it asks for nothing that is not there.

use askama::Template;

use super::{
    answer::answer,
    document::{Document, share},
    figure::{Bar, CAUSES, Curves, Segment, Tornado, bars, curves, segments, tornado},
    units::{factor, grouped, percent, time},
};
use crate::{Blame, Latency, OVERFULL, Replayed};

const STYLE: &str = include_str!("../../templates/style.css");
const SCRIPT: &str = include_str!("../../templates/script.js");

/// So many initiators are shown until the reader asks for all.
const SHOWN: usize = 25;

/// A cell of a table: what it shows, and what it is sorted by.
struct Cell {
    text: String,
    by: f64,
}

fn cell(text: String, by: f64) -> Cell {
    Cell { text, by }
}

fn count(value: u64) -> Cell {
    cell(grouped(value), value as f64)
}

fn length(ps: u64) -> Cell {
    cell(time(ps as f64), ps as f64)
}

/// One strategy in the first table.
struct Strategy {
    name: String,
    best: bool,
    cells: Vec<Cell>,
}

/// One initiator.
struct Initiator {
    process: String,
    operation: String,
    cells: Vec<Cell>,
    segments: Vec<Segment>,
}

/// A sentence in pieces: what is between backticks is a name.
struct Piece {
    text: String,
    name: bool,
}

/// What the template asks for.
#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    style: &'static str,
    script: &'static str,
    document: &'a Document,
    data: String,
    title: String,
    answer: Vec<Piece>,
    broadcasts: bool,
    /// What a share above the whole means, if there is one.
    overfull: Option<&'static str>,
    strategies: Vec<Strategy>,
    causes: [(&'static str, &'static str); 6],
    bars: Vec<Bar>,
    curves: Option<Curves>,
    initiators: Vec<Initiator>,
    shown: usize,
    /// The head of the column of the best other strategy.
    other: Option<String>,
    traced: String,
    window: String,
    lost: String,
    unknown: Vec<(String, &'static str, &'static str)>,
    tornado: Option<Tornado>,
    steps: String,
    events: String,
    /// Prices by their quality, as lists of names.
    unpriced: String,
    fitted: String,
    proxies: String,
}

/// Whether a share is above the whole, in the table or in the curves.
fn is_overfull(document: &Document) -> bool {
    let curves = document.scaling.iter().flat_map(|curve| &curve.points);
    let shares = document.results.iter().map(share).chain(curves.map(|point| point.share));
    shares.into_iter().any(|share| share > 1.0)
}

/// The report as a page.
///
/// # Panics
///
/// If the document has no results.
#[must_use]
pub fn to_html(document: &Document) -> String {
    let answer = answer(document);
    let page = Page {
        style: STYLE,
        script: SCRIPT,
        document,
        data: data(document),
        title: answer.replace('`', ""),
        answer: pieces(&answer),
        overfull: is_overfull(document).then_some(OVERFULL),
        broadcasts: has_broadcasts(document),
        strategies: strategies(document),
        causes: CAUSES,
        bars: bars(document),
        curves: curves(&document.scaling),
        initiators: initiators(document),
        shown: SHOWN,
        other: document.best_other().map(|other| format!("upkeep with {}", other.strategy)),
        traced: time(document.baseline().traced as f64),
        window: time(document.assumptions.working_set.window as f64 * 1e3),
        lost: grouped(document.assumptions.lost),
        unknown: unknown(document),
        tornado: document.sensitivity.as_ref().map(tornado),
        steps: grouped(document.baseline().steps),
        events: grouped(document.results.iter().map(|result| result.events).sum()),
        unpriced: document.machine.unknown.join(", "),
        fitted: document.machine.fitted.join(", "),
        proxies: document.machine.proxies.join(", "),
    };
    page.render().expect("a string can be written to")
}

/// The document as JSON within a page: `<` is written so that no text of it can end the element.
fn data(document: &Document) -> String {
    let text = serde_json::to_string(document).expect("numbers and strings are JSON");
    text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn pieces(text: &str) -> Vec<Piece> {
    let piece = |(i, text): (usize, &str)| Piece { text: text.to_owned(), name: i % 2 == 1 };
    text.split('`').enumerate().map(piece).collect()
}

fn has_broadcasts(document: &Document) -> bool {
    document.results.iter().any(|result| result.operations.broadcasts > 0)
}

fn strategies(document: &Document) -> Vec<Strategy> {
    let best = document.results.iter().map(|result| result.total).min();
    let broadcasts = has_broadcasts(document);
    let row = |result: &Replayed| Strategy {
        name: result.strategy.clone(),
        best: Some(result.total) == best && document.results.len() > 1,
        cells: cells(result, document.baseline(), broadcasts),
    };
    document.results.iter().map(row).collect()
}

fn cells(result: &Replayed, baseline: &Replayed, broadcasts: bool) -> Vec<Cell> {
    let Replayed { total, upkeep, operations, latencies, .. } = result;
    let ratio = *total as f64 / baseline.total as f64;
    let flush = latencies.iter().find(|latency| latency.of == "flush" && latency.count > 0);
    let quantile = |of: fn(&Latency) -> u64| match flush {
        Some(latency) => length(of(latency)),
        None => cell("–".to_owned(), -1.0),
    };
    let mut cells = vec![
        length(*total),
        cell(percent(share(result)), share(result)),
        cell(factor(ratio), if ratio.is_finite() { ratio } else { -1.0 }),
        count(operations.flushes),
        count(operations.interrupts),
    ];
    if broadcasts {
        cells.push(count(operations.broadcasts));
    }
    cells.extend([
        count(operations.walks),
        length(upkeep.interrupted),
        quantile(|latency| latency.p50),
        quantile(|latency| latency.p99),
    ]);
    cells
}

/// Upkeep by initiator under the baseline, and under the best of the others.
fn initiators(document: &Document) -> Vec<Initiator> {
    let baseline = document.baseline();
    let other = document.best_other();
    let most = baseline.blame.iter().map(|blame| blame.upkeep.total()).max().unwrap_or(0);
    let same = |a: &Blame, b: &Blame| a.process == b.process && a.operation == b.operation;
    let other: std::collections::BTreeMap<(&str, &str), u64> = other
        .iter()
        .flat_map(|other| &other.blame)
        .map(|blame| ((blame.process.as_str(), blame.operation.as_str()), blame.upkeep.total()))
        .collect();
    debug_assert!(baseline.blame.windows(2).all(|pair| !same(&pair[0], &pair[1])));
    let row = |blame: &Blame| {
        let total = blame.upkeep.total();
        let part = if baseline.total > 0 { total as f64 / baseline.total as f64 } else { 0.0 };
        let mut cells = vec![
            count(blame.count),
            count(blame.interrupts),
            length(total),
            cell(percent(part), part),
        ];
        if document.results.len() > 1 {
            let key = (blame.process.as_str(), blame.operation.as_str());
            cells.push(match other.get(&key) {
                Some(&ps) => length(ps),
                None => cell("–".to_owned(), -1.0),
            });
        }
        Initiator {
            process: blame.process.clone(),
            operation: blame.operation.clone(),
            cells,
            segments: segments(&blame.upkeep, most),
        }
    };
    baseline.blame.iter().map(row).collect()
}

/// The unknowns whose count is not zero.
fn unknown(document: &Document) -> Vec<(String, &'static str, &'static str)> {
    let unknown = document.assumptions.unknown.iter().filter(|loss| loss.count > 0);
    unknown.map(|loss| (grouped(loss.count), loss.what, loss.instead)).collect()
}

#[cfg(test)]
mod tests;
