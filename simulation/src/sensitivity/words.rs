//! An answer in sentences.

use lookaside_terminal::grid::{number, times};

use super::answer::{Answer, Influence};
use crate::data::Quality;

/// So many machines show a price that decides half of an answer.
const ENOUGH: usize = 24;

/// Sentences, each a line.
#[must_use]
pub fn sentences(answer: &Answer, strategies: &[String], machine: &str) -> Vec<String> {
    let Answer { machines, best, pair: [leader, second], gain, influences, .. } = answer;
    let mut lines = Vec::new();
    if leader == second {
        let range = format!("{} to {}", number(gain.low), number(gain.high));
        lines.push(format!(
            "{} on 80 % of {machines} plausible machines of this kind: {range}.",
            answer.metric
        ));
    } else {
        let share = (100.0 * best[*leader] as f64 / *machines as f64).round();
        lines.push(format!(
            "{} is best on {share} % of {machines} plausible machines of this kind, {} to {} as good \
             as {} on 80 % of them.",
            strategies[*leader],
            times(gain.low),
            times(gain.high),
            strategies[*second]
        ));
    }
    // What is so on every machine turns on no price; how large it is may.
    let is_settled = leader != second && best[*leader] == *machines;
    let measure = influences.iter().find(|one| is_measured(&one.number.name));
    if is_settled {
        let how: Vec<String> = influences.iter().map(|one| influence(one, answer)).collect();
        let how = if how.is_empty() {
            String::new()
        } else {
            format!("; by how much, on {}", how.join("; "))
        };
        lines.push(format!("Which is best turns on no price within its range{how}."));
    } else if influences.is_empty() {
        let few = if *machines < ENOUGH { ", or so few machines do not show it" } else { "" };
        lines.push(format!("No single price decides{few}."));
    } else {
        let list: Vec<String> = influences.iter().map(|one| influence(one, answer)).collect();
        lines.push(format!("It turns on {}.", list.join("; ")));
    }
    let flips =
        |one: &&Influence| leader != second && (one.ends[0] - 1.0) * (one.ends[1] - 1.0) < 0.0;
    if let Some(one) = influences.iter().find(flips) {
        let unpriced = match one.number.quality {
            Quality::Unpriced => ", which nobody has published for such a machine",
            Quality::Proxy => ", which is another machine's",
            Quality::Assumed => ", which is assumed",
            Quality::Fitted | Quality::Measured => "",
        };
        lines.push(format!("The answer depends on {}{unpriced}.", key(&one.number.name)));
    }
    if let Some(one) = measure.filter(|_| !is_settled) {
        lines.push(format!(
            "What settles it most: on such a machine, `lookaside calibrate --only {}`.",
            key(&one.number.name)
        ));
    }
    for (name, wins, count) in &answer.readings {
        lines.push(format!("With the sources read {name}: on {wins} of {count}."));
    }
    if !answer.unpriced.is_empty() {
        let names: Vec<&str> = answer.unpriced.iter().map(|name| key(name)).collect();
        lines.push(format!(
            "{machine} has no price for {}: charged as nothing with the file's numbers, and as a \
             range from the literature here.",
            names.join(", ")
        ));
    }
    lines
}

fn influence(one: &Influence, answer: &Answer) -> String {
    let about = &one.number;
    let show = |end: f64| match answer.pair[0] == answer.pair[1] {
        true => number(end),
        false => times(end),
    };
    format!(
        "{} ({}, {} to {}: {} to {}, rank correlation {:.2})",
        key(&about.name),
        about.quality.word(),
        time(about.low),
        time(about.high),
        show(one.ends[0]),
        show(one.ends[1]),
        one.correlation
    )
}

/// A time in picoseconds with its unit.
fn time(ps: f64) -> String {
    if ps < 1e6 { format!("{} ns", number(ps / 1e3)) } else { format!("{} us", number(ps / 1e6)) }
}

/// The name of a number without its table, and paths as such.
pub(crate) fn key(name: &str) -> &str {
    name.strip_prefix("prices.").unwrap_or(name)
}

/// The prices that `lookaside calibrate` can measure.
pub(crate) const MEASURED: [&str; 14] = [
    "hit",
    "atomic",
    "line_thread",
    "line_cluster",
    "line_socket",
    "line_remote",
    "second_level",
    "walk",
    "root",
    "root_flush",
    "flush_page",
    "flush_all",
    "interrupt_send",
    "interrupt_deliver",
];

/// Whether a number is one of these.
pub(crate) fn is_measured(name: &str) -> bool {
    name.strip_prefix("prices.").is_some_and(|key| MEASURED.contains(&key))
}
