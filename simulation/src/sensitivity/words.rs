//! An answer in sentences.

use lookaside_terminal::grid::{number, times};

use super::{
    answer::{Answer, Influence, Interval},
    sample::Gaps,
};
use crate::{
    data::Quality,
    experiment::{RECORD, Score},
};

/// So many machines show a price that decides half of an answer.
const ENOUGH: usize = 24;

/// Sentences, each a line: how sure an answer is, and what the machine has no price for.
#[must_use]
pub fn sentences(answer: &Answer, strategies: &[String], machine: &str) -> Vec<String> {
    certainty(answer, strategies).into_iter().chain(gaps(&answer.gaps, machine)).collect()
}

/// How sure an answer is, what it turns on and what would settle it; each sentence a line.
#[must_use]
pub fn certainty(answer: &Answer, strategies: &[String]) -> Vec<String> {
    let Answer { machines, best, tied, pair: [leader, second], gain, .. } = answer;
    let first = if leader == second {
        let range = format!("{} to {}", number(gain.low), number(gain.high));
        let metrics = answer.outcomes.first().and_then(|machines| machines.first()?.first());
        let unit = metrics.map_or("", |metric| metric.unit);
        let space = if unit.is_empty() { "" } else { " " };
        format!(
            "{} on at least 80 % of {machines} plausible machines of this kind: {range}{space}{unit}.",
            answer.metric
        )
    } else if tied == machines {
        let names = [leader, second].map(|&strategy| &strategies[strategy]);
        let [one, other] = names;
        format!("{one} and {other} come to the same on all {machines} plausible machines.")
    } else {
        let share = |count: usize| (100.0 * count as f64 / *machines as f64).round();
        let same = match tied {
            0 => String::new(),
            _ => format!(" (on {} % the best two come to the same)", share(*tied)),
        };
        format!(
            "{} is best on {} % of {machines} plausible machines of this kind{same}, {} to {} as good \
             as {} on at least 80 % of them.",
            strategies[*leader],
            share(best[*leader]),
            times(gain.low),
            times(gain.high),
            strategies[*second]
        )
    };
    [first].into_iter().chain(reasons(answer)).chain([record()]).collect()
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
mod tests {
    use lookaside_machine::timed::Price;

    use super::*;
    use crate::sensitivity::Uncertain;

    /// An answer on nine machines of ten that turns on these prices, each with the answer at both ends of its range.
    fn answer(influences: &[(&str, [f64; 2])]) -> Answer {
        let influence = |&(key, ends): &(&str, [f64; 2])| {
            let (name, quality) = (format!("prices.{key}"), Quality::Proxy);
            let number =
                Uncertain { name, quality, known: None, low: 1e3, high: 2e3, is_assumed: false };
            Influence { number, correlation: 0.5, ends, narrows: 0.12 }
        };
        Answer {
            machines: 10,
            outcomes: Vec::new(),
            intervals: Vec::new(),
            metric: "time",
            best: vec![9, 1],
            tied: 0,
            tie: 0.0,
            lost: vec![[0.0; 2]; 2],
            pair: [0, 1],
            gain: Interval { low: 0.9, median: 1.5, high: 2.0 },
            influences: influences.iter().map(influence).collect(),
            gaps: Gaps::default(),
            readings: Vec::new(),
        }
    }

    #[test]
    fn which_ranges_are_assumed_is_said() {
        let names = |keys: &[&str]| keys.iter().map(|key| format!("prices.{key}")).collect();
        let of = |unpriced: &[&str], assumed: &[&str]| {
            let (unpriced, assumed): (Vec<String>, _) = (names(unpriced), names(assumed));
            let tag_as = unpriced.contains(&"prices.flush_tag".to_owned()).then_some("root_flush");
            gaps(&Gaps { unpriced, assumed, tag_as }, "turin")
        };
        assert_eq!(of(&[], &[]), None);
        let all = of(&["hit", "fence", "fabric_sync"], &["interrupt_exit", "fabric_sync"]).unwrap();
        assert!(all.contains("no price for a cache hit, a memory fence: "), "{all}");
        assert!(
            all.contains("Nor for a wait's part of the interconnect: ")
                && all.contains("an assumed range"),
            "{all}"
        );
        assert!(all.contains("Its file assumes the return from an interrupt"), "{all}");
        let read = of(&["hit"], &[]).unwrap();
        assert!(!read.contains("assumed") && read.contains("range from the literature"), "{read}");
        let tag = of(&["hit", "flush_tag"], &[]).unwrap();
        assert!(tag.contains("no price for a cache hit: free with"), "{tag}");
        assert!(
            tag.contains("none for a flush of one tag (PCID, ASID) either, which takes as long as a switch of page tables that flushes"),
            "{tag}"
        );
        let tag = of(&["flush_tag"], &[]).unwrap();
        assert!(
            tag.starts_with("turin has no price for a flush of one tag (PCID, ASID), which takes as long as a switch"),
            "{tag}"
        );
        let alone = of(&["fabric_sync"], &["fabric_sync"]).unwrap();
        assert!(!alone.contains("literature"), "{alone}");
    }

    #[test]
    fn every_price_has_words_of_its_own() {
        let mut all: Vec<&str> = Price::ALL.iter().map(|price| about(price.key())).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), Price::ALL.len());
        assert!(Price::ALL.iter().all(|price| about(price.key()).contains(' ')), "no raw keys");
    }

    #[test]
    fn the_price_that_turns_the_answer_is_measured_or_said_not_to_be() {
        let of = answer(&[("walk", [1.1, 1.2]), ("flush_page", [0.9, 2.0])]);
        assert_eq!(measurement(&of), Some("flush_page"), "the other price never turns it");
        let all = reasons(&of).concat();
        assert!(all.contains(
            "What settles it most: on such a machine, `lookaside calibrate --only flush_page`: it may turn the answer, and \
             the range of the ratio would be 12 % smaller."
        ));
        let of = answer(&[("walk", [1.1, 1.2]), ("fabric_sync", [0.9, 2.0])]);
        assert_eq!(unmeasured(&of).unwrap().number.name, "prices.fabric_sync");
        let all = reasons(&of).concat();
        assert!(
            !all.contains("settles")
                && all.contains("`lookaside calibrate` cannot measure fabric_sync")
        );
        let helps = "this helps most: `lookaside calibrate --only walk`: the range of the ratio would be 12 % smaller.";
        assert!(all.contains(helps), "{all}");
        let mut of = answer(&[("flush_page", [0.9, 2.0])]);
        of.influences[0].number.name = "paths.protect".to_owned();
        let all = reasons(&of).concat();
        let file = "`lookaside calibrate --output FILE`, whose file has paths.protect: it may turn the answer";
        assert!(
            all.contains(file) && measurement(&of).is_none() && unmeasured(&of).is_none(),
            "{all}"
        );
        let settled = Answer { best: vec![10, 0], ..answer(&[("flush_page", [1.1, 2.0])]) };
        assert_eq!((measurement(&settled), unmeasured(&settled)), (None, None));
    }
}
