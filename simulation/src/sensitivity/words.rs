//! An answer in sentences.

use lookaside_terminal::grid::{number, times};

use super::{
    answer::{Answer, Influence, Interval, Otherwise, best_of},
    sample::Gaps,
};
use crate::{
    data::{Better, Quality},
    experiment::{RECORD, Score},
    workload::Metric,
};

/// So many machines show a price that decides half of an answer.
const ENOUGH: usize = 24;

/// Sentences, each a line: how sure an answer is and by which metric, what other metrics say, and what the machine has no
/// price for.
#[must_use]
pub fn sentences(answer: &Answer, strategies: &[String], machine: &str) -> Vec<String> {
    let [leader, second] = answer.pair;
    let by = if leader == second { String::new() } else { format!("By `{}`, ", answer.metric) };
    let first = by + &verdict(answer, strategies);
    let rest = reasons(answer).into_iter().chain([record()]);
    let lines = [first].into_iter().chain(otherwise(answer, strategies)).chain(rest);
    lines.chain(gaps(&answer.gaps, machine)).collect()
}

/// How sure an answer is, what it turns on and what would settle it; each sentence a line.
#[must_use]
pub fn certainty(answer: &Answer, strategies: &[String]) -> Vec<String> {
    [verdict(answer, strategies)].into_iter().chain(reasons(answer)).chain([record()]).collect()
}

/// Which strategy is best on how many machines, and by how much.
fn verdict(answer: &Answer, strategies: &[String]) -> String {
    let Answer { machines, best, tied, pair: [leader, second], gain, .. } = answer;
    let [one, other] = [leader, second].map(|&strategy| strategies[strategy].as_str());
    let share = |count: usize| (100.0 * count as f64 / *machines as f64).round();
    if leader == second {
        let range = format!("{} to {}", number(gain.low), number(gain.high));
        let space = if unit(answer).is_empty() { "" } else { " " };
        return format!(
            "{} on at least 80 % of {machines} plausible machines of this kind: {range}{space}{}.",
            answer.metric,
            unit(answer)
        );
    }
    if tied == machines {
        return format!("{one} and {other} come to the same on all {machines} plausible machines.");
    }
    if answer.is_tie() {
        return format!(
            "{one} and {other} come to the same, to {} %, on at least 80 % of {machines} plausible machines of this kind; {one} {} \
             best on {} %.",
            100.0 * answer.tie,
            is(one),
            share(best[*leader])
        );
    }
    let same = match tied {
        0 => String::new(),
        _ => format!(" (on {} % the best two come to the same)", share(*tied)),
    };
    let first = format!(
        "{one} {} best on {} % of {machines} plausible machines of this kind{same}",
        is(one),
        share(best[*leader])
    );
    let of = |strategy: &str| format!("`{}` of {strategy} is 0", answer.metric);
    let [zero, some] = if is_more_better(answer) { [other, one] } else { [one, other] };
    match (gain.low.is_finite(), gain.high.is_finite()) {
        (true, true) => format!(
            "{first}, {} to {} as good as {other} on at least 80 % of them.",
            times(gain.low),
            times(gain.high),
        ),
        (true, false) => format!(
            "{first}, at least {} as good as {other} on at least 80 % of them; on some there is no ratio, as {}.",
            times(gain.low),
            of(zero)
        ),
        (false, _) => format!(
            "{first}; on at least 80 % of them there is no ratio, as {} and that of {some} is not.",
            of(zero)
        ),
    }
}

/// Whether more of the metric that decides is better.
fn is_more_better(answer: &Answer) -> bool {
    deciding(answer).is_some_and(|metric| best_of(metric) == Better::Higher)
}

/// The unit of the metric that decides.
fn unit(answer: &Answer) -> &'static str {
    deciding(answer).map_or("", |metric| metric.unit)
}

/// The metric that decides, of one run.
fn deciding(answer: &Answer) -> Option<&Metric> {
    let metrics = answer.outcomes.first().and_then(|machines| machines.first());
    metrics.into_iter().flatten().find(|one| one.key == answer.metric)
}

/// The verb for a side: strategies, traces and knobs are one, settings are several.
fn is(side: &str) -> &'static str {
    if side.ends_with("settings") { "are" } else { "is" }
}

/// By which other metrics another strategy is best; nothing where none is.
fn otherwise(answer: &Answer, strategies: &[String]) -> Option<String> {
    let share = |count: usize| (100.0 * count as f64 / answer.machines as f64).round();
    let say = |one: Otherwise| {
        let best = &strategies[one.strategy];
        format!("{best} by `{}`, on {} %", one.metric, share(one.best_on))
    };
    let all: Vec<String> = answer.otherwise().into_iter().map(say).collect();
    let which = if answer.is_tie() { "One" } else { "Another" };
    let all_of = all.join("; ");
    let text = format!("{which} is best by other metrics: {all_of}. `--metric NAME` decides.");
    (!all.is_empty()).then_some(text)
}

/// How far the model has been off where others measured, which no range of prices has in it.
#[must_use]
pub fn record() -> String {
    let Score { all, directed, right, half_within, most_within, .. } = RECORD;
    format!(
        "That is about prices. The model itself: of {directed} published comparisons that it was not fitted to it had {right} the \
         right way round; of {all} published values half were within a factor of {half_within}, and four fifths within {most_within} \
         (workloads/predictions.md)."
    )
}

/// What an answer turns on and what would settle it, each sentence a line.
#[must_use]
pub fn reasons(answer: &Answer) -> Vec<String> {
    let Answer { machines, influences, .. } = answer;
    let mut lines = Vec::new();
    let list: Vec<String> = influences.iter().map(|one| influence(one, answer)).collect();
    // On every machine that was drawn; at an end of one price it may be another.
    if is_settled(answer) {
        let how = if list.is_empty() {
            String::new()
        } else {
            format!(". By how much turns on {}", list.join("; "))
        };
        lines.push(format!("The answer is the same on all {machines} plausible machines{how}."));
    } else if influences.is_empty() {
        let few = if *machines < ENOUGH { ", or so few machines do not show it" } else { "" };
        lines.push(format!("No single price decides{few}."));
    } else {
        lines.push(format!("It turns on {}.", list.join("; ")));
    }
    if let Some(one) = influences.iter().find(|one| flips(one, answer)) {
        let unpriced = match one.number.quality {
            Quality::Unpriced => ", which nobody has published for such a machine",
            Quality::Proxy => ", which is another machine's",
            Quality::Assumed => ", which is assumed",
            Quality::Fitted | Quality::Measured => "",
        };
        let name = key(&one.number.name);
        lines.push(format!("Another is best at an end of the range of {name}{unpriced}."));
    }
    let command = measured(answer).map(|one| {
        let what = use_of(one, answer);
        format!("{}: {what}", command(&one.number.name))
    });
    match (unmeasured(answer).map(|one| key(&one.number.name)), command) {
        (None, Some(command)) => {
            lines.push(format!("What settles it most: on such a machine, {command}."));
        }
        (Some(price), Some(command)) => lines.push(format!(
            "`lookaside calibrate` cannot measure {price}; of what it can measure, this helps most: {command}."
        )),
        (Some(price), None) => lines.push(format!("`lookaside calibrate` cannot measure {price}.")),
        (None, None) => {}
    }
    for (name, wins, count) in &answer.readings {
        lines.push(format!("With the sources read {name}: on {wins} of {count}."));
    }
    lines
}

/// What is to be said of a value with the file's numbers that is outside what plausible machines give.
#[must_use]
pub fn implausible(of: &str, value: f64, unit: &str, interval: &Interval) -> Option<String> {
    let side = if value < interval.low { "below" } else { "above" };
    (!interval.has(value)).then(|| {
        format!(
            "{of} with the file's numbers, {}{}{unit}, is {side} what is plausible: take the plausible one.",
            number(value),
            if unit.is_empty() { "" } else { " " },
        )
    })
}

/// What the machine has no price for, how that is charged, and which ranges nothing published bounds; none where it has all
/// and assumes none.
#[must_use]
pub fn gaps(gaps: &Gaps, machine: &str) -> Option<String> {
    let Gaps { unpriced, assumed, tag_as } = gaps;
    let list = |names: &[&String]| -> String {
        names.iter().map(|name| about(key(name))).collect::<Vec<_>>().join(", ")
    };
    let own: Vec<_> = assumed.iter().filter(|name| !unpriced.contains(name)).collect();
    let is_tag = |name: &&String| key(name) == "flush_tag";
    let (assumed, read): (Vec<_>, Vec<_>) = unpriced
        .iter()
        .filter(|name| tag_as.is_none() || !is_tag(name))
        .partition(|name| assumed.contains(name));
    let mut parts = Vec::new();
    let charged = "free with the file's numbers";
    if !read.is_empty() {
        parts.push(format!(
            "{machine} has no price for {}: {charged}, and on plausible machines as a range from the literature.",
            list(&read)
        ));
    }
    if !assumed.is_empty() {
        let nor =
            if read.is_empty() { format!("{machine} has no price for") } else { "Nor for".into() };
        parts.push(format!(
            "{nor} {}: {charged}, and on plausible machines as an assumed range, which nothing published bounds.",
            list(&assumed)
        ));
    }
    match tag_as {
        Some(price) => {
            let lacks = match parts[..] {
                [] => format!("{machine} has no price for {}, which", about("flush_tag")),
                _ => format!("It has none for {} either, which", about("flush_tag")),
            };
            parts.push(format!(
                "{lacks} takes as long as {} with the file's numbers, when the library chooses between pages and the tag as \
                 when it is charged, and on plausible machines a range from the literature.",
                about(price)
            ));
        }
        None if unpriced.iter().any(|name| is_tag(&name)) => {
            parts.push("The library chooses between pages and the tag by what is typical.".into());
        }
        None => {}
    }
    if !own.is_empty() {
        parts.push(format!(
            "Its file assumes {}, each in a range that nothing published bounds.",
            list(&own)
        ));
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Whether the other strategy is better at one end of a number's range.
fn flips(one: &Influence, answer: &Answer) -> bool {
    one.turns(answer.pair, answer.tie)
}

/// What to measure a number is good for.
fn use_of(one: &Influence, answer: &Answer) -> String {
    let of = if answer.pair[0] == answer.pair[1] { answer.metric } else { "the ratio" };
    let percent = (100.0 * one.narrows).round();
    let narrows = format!("the range of {of} would be {percent} % smaller");
    match (flips(one, answer), percent >= 1.0) {
        (true, true) => format!("it may turn the answer, and {narrows}"),
        (true, false) => "it may turn the answer".to_owned(),
        (false, _) => narrows,
    }
}

/// Whether the answer is the same on every machine.
fn is_settled(answer: &Answer) -> bool {
    let Answer { machines, best, tied, pair: [leader, second], .. } = answer;
    tied == machines || leader != second && best[*leader] == *machines
}

/// The price that decides most, where `lookaside calibrate` cannot measure it: one that turns the answer before others.
#[must_use]
pub fn unmeasured(answer: &Answer) -> Option<&Influence> {
    let all = &answer.influences;
    let most = all.iter().find(|one| flips(one, answer)).or(all.first());
    most.filter(|one| !is_settled(answer) && !is_measured(&one.number.name))
}

/// The price to measure: of those that `lookaside calibrate --only` can, the one on which the answer turns most.
#[must_use]
pub fn measurement(answer: &Answer) -> Option<&str> {
    let prices = |one: &&Influence| price(&one.number.name).is_some();
    measured(answer).filter(prices).map(|one| key(&one.number.name))
}

/// What measures a number.
fn command(name: &str) -> String {
    match price(name) {
        Some(price) => format!("`lookaside calibrate --only {price}`"),
        None => format!("`lookaside calibrate --output FILE`, whose file has {name}"),
    }
}

fn measured(answer: &Answer) -> Option<&Influence> {
    let mut measured = answer.influences.iter().filter(|one| is_measured(&one.number.name));
    let most = measured.clone().find(|one| flips(one, answer)).or(measured.next());
    most.filter(|_| !is_settled(answer))
}

fn influence(one: &Influence, answer: &Answer) -> String {
    let about = &one.number;
    let show = |end: f64| match answer.pair[0] == answer.pair[1] {
        true => number(end),
        false if end.is_finite() => times(end),
        false => "no ratio".to_owned(),
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

/// What a price is of, in the words of those who look after machines.
fn about(key: &str) -> &str {
    match key {
        "hit" => "a cache hit",
        "atomic" => "an atomic operation",
        "fence" => "a memory fence",
        "line_thread" => "a cache line of the core's other thread",
        "line_cluster" => "a cache line of a near core",
        "line_socket" => "a cache line of a far core",
        "line_remote" => "a cache line of another socket",
        "hop" => "a further link between sockets",
        "sibling" => "a busy thread beside on the core",
        "line_service" => "a queue for a cache line",
        "second_level" => "a hit in the second-level TLB",
        "walk" => "a page walk",
        "walk_upper" => "upper levels of a page walk",
        "root" => "a switch of page tables that keeps the TLB",
        "root_flush" => "a switch of page tables that flushes",
        "flush_page" => "an invalidation of a page",
        "flush_other_page" => "an invalidation of another space's page",
        "flush_tag" => "a flush of one tag (PCID, ASID)",
        "flush_all" => "a flush of all tags",
        "flush_global" => "a flush with global entries",
        "barrier" => "a barrier",
        "broadcast_issue" => "the issue of a broadcast",
        "fabric_operation" => "a broadcast's part of the interconnect",
        "fabric_sync" => "a wait's part of the interconnect",
        "fabric_latency" => "the time until a broadcast is done",
        "fabric_remote" => "each further node in a wait",
        "fabric_victim" => "what a broadcast takes of other CPUs",
        "interrupt_send" => "the sending of an IPI",
        "interrupt_deliver" => "the delivery of an IPI",
        "interrupt_deliver_remote" => "the delivery of an IPI to another socket",
        "interrupt_entry" => "the entry of an interrupt",
        "interrupt_exit" => "the return from an interrupt",
        "firmware" => "a call of the firmware",
        other => other,
    }
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

/// The paths that a file of `lookaside calibrate` has beside them.
const PATHS: [&str; 7] = [
    "paths.call",
    "paths.fault",
    "paths.protect",
    "paths.page",
    "paths.discard",
    "paths.unmap",
    "paths.freed",
];

/// The price of these that a number is.
pub(crate) fn price(name: &str) -> Option<&str> {
    name.strip_prefix("prices.").filter(|key| MEASURED.contains(key))
}

/// Whether `lookaside calibrate` measures a number.
fn is_measured(name: &str) -> bool {
    price(name).is_some() || PATHS.contains(&name)
}

#[cfg(test)]
mod tests;
