//! The answer in one sentence, and where strategies change places.

use lookaside_terminal::counted;
use serde::Serialize;

use super::{
    super::{BAND, Replayed},
    document::{Curve, CurvePoint, Document, Plausible, part},
    units::{factor, percent, time},
};

/// Strategies that differ by less than this are said to do the same.
const SAME: f64 = 1.005;

/// Two curves cross only where they differ by at least this much on both sides: the model may be off by as much in what it
/// counts (`validate::LIMIT`), so that 4.4 % and 4.3 % are the same.
const CLEAR: f64 = 1.05;

/// The answer: a few sentences, the first of which has the share and the factor of what is known, and the last how much
/// refills add to it.
///
/// # Panics
///
/// If the document has no results.
#[must_use]
pub fn answer(document: &Document) -> String {
    let mut text = known(document) + &ranges(document);
    if let Some(turned) = &document.turned {
        text = format!("{text} {turned}");
    }
    let baseline = document.baseline();
    let Some([low, high]) = baseline.refills_band.filter(|band| *band != [0, 0]) else {
        return text;
    };
    let [low, high] = [low, high].map(|time| percent(part(baseline, time)));
    format!(
        "{text} Refills of the TLB are not known from a trace: under `{}` they add {low} to {high}, with a quarter \
         and with {BAND} times the assumed working set.",
        baseline.strategy
    )
}

/// What the brackets are, and what the machine file alone gives where the shares are not that.
fn ranges(document: &Document) -> String {
    let Some(Plausible { machines, .. }) = &document.plausible else { return String::new() };
    if document.medians().is_none() {
        return format!(" In brackets: where at least 80 % of {machines} plausible machines are.");
    }
    let file = |result: &Replayed| {
        format!("{} under `{}`", percent(part(result, result.known())), result.strategy)
    };
    let file: Vec<String> = document.results.iter().map(file).collect();
    format!(
        " That is the median of {machines} plausible machines, and in brackets is where at least 80 % of them are. The numbers of \
         the machine file alone are not all among them: they give {}.",
        file.join(", ")
    )
}

/// The share of what is known under a strategy, with its range on plausible machines.
fn share(document: &Document, place: usize) -> String {
    let result = &document.results[place];
    let share = |time: u64| percent(part(result, time));
    let of = share(document.known()[place]);
    match document.plausible.as_ref().and_then(|of| of.known.get(place)) {
        Some(&[low, _, high]) => format!("{of} ({} to {})", share(low), share(high)),
        None => of,
    }
}

/// The sentence about what is known.
fn known(document: &Document) -> String {
    let baseline = document.baseline();
    // Backticks are around names here, and so not in them.
    let plain = |name: &str| name.replace('`', "'");
    let (subject, machine) = (plain(&document.question.subject), plain(&document.machine.name));
    let name = &baseline.strategy;
    let cpus = match baseline.cpus {
        1 => "one CPU".to_owned(),
        cpus => format!("{cpus} CPUs"),
    };
    let place = format!("`{subject}` on {machine} with {cpus}");
    let upkeep = "on TLB flushes and switches";
    let known = document.known();
    let other = document.best_other_place().map(|i| (&document.results[i].strategy, known[i], i));
    if known[0] == 0 {
        return match other {
            Some((other, time_of_other, _)) if time_of_other > 0 => format!(
                "{place} spends no time {upkeep} under `{name}`; under `{other}` it would spend {}.",
                time(time_of_other as f64)
            ),
            _ if !baseline.is_idle() => format!(
                "What `{subject}` on {machine} with {cpus} spends {upkeep} is not known: none of its {} and {} does \
                 anything there that the machine has a price for.",
                counted(baseline.operations.flushes as usize, "flush", "flushes"),
                counted(baseline.operations.switches as usize, "switch", "switches"),
            ),
            _ => format!("{place} spends no time {upkeep}."),
        };
    }
    let spends = format!("{place} spends {} of the time of all CPUs {upkeep}", share(document, 0));
    let Some((other, time_of_other, place)) = other else {
        return format!("{spends} under `{name}`: {}.", time(known[0] as f64));
    };
    let would = format!("with `{other}` it would be {}", share(document, place));
    let ratio = known[0] as f64 / time_of_other as f64;
    let others = document.results.len() - 1;
    if time_of_other == 0 {
        format!("{spends} under `{name}`; {would}.")
    } else if ratio >= SAME {
        format!("{spends} under `{name}`; {would}, {} times less.", factor(ratio))
    } else if ratio > 1.0 / SAME {
        format!("{spends} under `{name}`; {would}, the same.")
    } else if others == 1 {
        format!("{spends} under `{name}`; {would}, {} times more.", factor(1.0 / ratio))
    } else {
        format!(
            "{spends} under `{name}`, and none of the {others} others does better: {would}, {} times more.",
            factor(1.0 / ratio)
        )
    }
}

/// A number of CPUs from which on one strategy costs less than another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Crossover {
    /// The one that costs less from there on.
    pub better: String,
    /// The one that costs more.
    pub worse: String,
    /// The last number of CPUs that was tried and at which it was the other way round.
    pub after: usize,
    /// The first at which it is so.
    pub by: usize,
    /// Where the lines cross that join the two on logarithmic axes: the number of CPUs.
    pub cpus: f64,
    /// And the share there.
    pub share: f64,
}

/// Where another strategy becomes the cheapest, and where one passes the baseline, which is the first
/// curve; by number of CPUs.
#[must_use]
pub fn crossovers(curves: &[Curve]) -> Vec<Crossover> {
    let mut found: Vec<Crossover> = Vec::new();
    for (i, a) in curves.iter().enumerate() {
        for (j, b) in curves.iter().enumerate().skip(i + 1) {
            for (from, to) in steps(a, b) {
                let Some(crossover) = crossing(a, b, from, to) else { continue };
                let leads = |point: &Crossover| {
                    let lower = curves.iter().enumerate().any(|(k, curve)| {
                        k != i && k != j && at(curve, point.cpus).is_some_and(|s| s < point.share)
                    });
                    !lower
                };
                if i == 0 || leads(&crossover) {
                    found.push(crossover);
                }
            }
        }
    }
    found.sort_by(|a, b| a.cpus.total_cmp(&b.cpus));
    found
}

/// Two curves between two neighbouring numbers of CPUs that both have and at which they clearly differ.
fn steps<'c>(
    a: &'c Curve,
    b: &'c Curve,
) -> impl Iterator<Item = ([CurvePoint; 2], [CurvePoint; 2])> + 'c {
    let common = |point: &CurvePoint| {
        let other = b.points.iter().find(|other| other.cpus == point.cpus)?;
        let differ = (log(point.share) - log(other.share)).abs() >= CLEAR.ln();
        differ.then_some([*point, *other])
    };
    let common: Vec<[CurvePoint; 2]> = a.points.iter().filter_map(common).collect();
    (1..common.len()).map(move |i| (common[i - 1], common[i]))
}

/// Where two curves cross between two numbers of CPUs. Equal at an end is no crossing.
fn crossing(a: &Curve, b: &Curve, from: [CurvePoint; 2], to: [CurvePoint; 2]) -> Option<Crossover> {
    let before = log(from[0].share) - log(from[1].share);
    let after = log(to[0].share) - log(to[1].share);
    if before * after >= 0.0 {
        return None;
    }
    let (better, worse) = if after < 0.0 { (a, b) } else { (b, a) };
    let part = before / (before - after);
    let (first, last) = ((from[0].cpus as f64).ln(), (to[0].cpus as f64).ln());
    let cpus = (first + (last - first) * part).exp();
    Some(Crossover {
        better: better.strategy.clone(),
        worse: worse.strategy.clone(),
        after: from[0].cpus,
        by: to[0].cpus,
        cpus,
        share: at(a, cpus)?,
    })
}

fn log(share: f64) -> f64 {
    share.max(f64::MIN_POSITIVE).ln()
}

/// The share at a number of CPUs, on the line between those that were tried.
fn at(curve: &Curve, cpus: f64) -> Option<f64> {
    let pair = curve
        .points
        .windows(2)
        .find(|pair| (pair[0].cpus as f64..=pair[1].cpus as f64).contains(&cpus))?;
    let [x0, x1] = [pair[0].cpus, pair[1].cpus].map(|cpus| (cpus as f64).ln());
    let [y0, y1] = [pair[0].share, pair[1].share].map(log);
    let part = if x1 > x0 { (cpus.ln() - x0) / (x1 - x0) } else { 0.0 };
    Some((y0 + (y1 - y0) * part).exp())
}

#[cfg(test)]
mod tests;
