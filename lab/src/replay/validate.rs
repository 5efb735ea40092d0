//! What a kernel recorded beside what the model counts when it replays the same trace: whether the model
//! does what Linux does.

use std::collections::HashSet;

use serde::Serialize;

use crate::{
    reconstruct::{Act, Deed, Recorded, Script, SpaceId},
    trace::{Pages, Reason},
};

/// How far the model may be off in flushes, as a part of what was recorded.
pub const FLUSHES: f64 = 0.05;
/// How far it may be off in interrupts, and in what switches find.
pub const OTHERS: f64 = 0.10;

/// One count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What is counted.
    pub what: String,
    /// How often the kernel said so.
    pub recorded: u64,
    /// How often the model did it.
    pub modelled: u64,
    /// The model's count over the kernel's; none where the kernel's is 0.
    pub ratio: Option<f64>,
    /// How many of these depend on what was there before the trace, which nobody knows.
    pub unknown: u64,
    /// How far the model may be off beyond that; none where the count is only shown.
    pub limit: Option<f64>,
    /// Whether it is within the limit.
    pub within: Option<bool>,
}

impl Row {
    fn new(what: String, [recorded, modelled]: [u64; 2], unknown: u64, limit: Option<f64>) -> Self {
        let ratio = (recorded > 0).then(|| modelled as f64 / recorded as f64);
        let off = recorded.abs_diff(modelled).saturating_sub(unknown) as f64;
        let within = limit.map(|limit| off <= limit * recorded as f64);
        Self { what, recorded, modelled, ratio, unknown, limit, within }
    }
}

/// What each reason is called.
const fn name(reason: Reason) -> &'static str {
    match reason {
        Reason::Switch => "0, switch",
        Reason::Remote => "1, asked by another CPU",
        Reason::Local => "2, local",
        Reason::LocalSpace => "3, local, by who changed",
        Reason::Send => "4, others may hold it",
        Reason::WrongSpace => "5, another space is loaded",
    }
}

/// Both beside each other: flushes by reason, then switches and interrupts, each with a limit; and after
/// that what became of interrupts, and flushes by reason and pages. What `cold` switches find depends on what
/// was there before: see [`cold`].
#[must_use]
pub fn compare(recorded: &Recorded, modelled: &Recorded, cold: u64) -> Vec<Row> {
    let of = |counts: &Recorded, reason: Reason| -> u64 {
        let flushes = counts.flushes.iter().filter(|((one, _), _)| *one == reason);
        flushes.map(|(_, count)| count).sum()
    };
    let mut rows = Vec::new();
    for reason in Reason::ALL {
        let counts = [of(recorded, reason), of(modelled, reason)];
        if counts != [0, 0] {
            let what = format!("flushes, reason {}", name(reason));
            rows.push(Row::new(what, counts, 0, Some(FLUSHES)));
        }
    }
    let found = [
        ("switches that find their tag", [recorded.hits, modelled.hits]),
        ("switches that flush", [recorded.misses, modelled.misses]),
    ];
    for (what, counts) in found {
        rows.push(Row::new(what.to_owned(), counts, cold, Some(OTHERS)));
    }
    let mut other = |what: &str, count: fn(&Recorded) -> u64, limit: Option<f64>| {
        rows.push(Row::new(what.to_owned(), [recorded, modelled].map(count), 0, limit));
    };
    other("requests to other CPUs", |counts| counts.sends, Some(OTHERS));
    other("requests: flushed", |counts| counts.fates[0], None);
    other("requests: a lazy CPU dropped the space", |counts| counts.fates[1], None);
    other("requests: another space was loaded", |counts| counts.fates[2], None);
    other("requests: nothing to do", |counts| counts.fates[3], None);
    let both = recorded.flushes.keys().chain(modelled.flushes.keys());
    let keys: std::collections::BTreeSet<_> = both.copied().collect();
    for (reason, pages) in keys {
        let count = |counts: &Recorded| counts.flushes.get(&(reason, pages)).copied().unwrap_or(0);
        let pages = match pages {
            Pages::Some(pages) => pages.to_string(),
            Pages::Everything => "all".to_owned(),
        };
        let what = format!("reason {}, pages {pages}", reason as u8);
        rows.push(Row::new(what, [recorded, modelled].map(count), 0, None));
    }
    rows
}

/// How many switches are the first of their CPU to a space that was there before the trace. Whether the
/// CPU had a tag for it nobody knows; the model takes it that it had none.
#[must_use]
pub fn cold(script: &Script) -> u64 {
    let mut born: HashSet<SpaceId> = HashSet::new();
    for step in script.cpus.iter().flatten() {
        match step.act {
            Act::Fork { child, .. } => drop(born.insert(child)),
            Act::Run(space) if script.culprits[step.culprit as usize].deed == Deed::Execute => {
                born.insert(space);
            }
            _ => {}
        }
    }
    let mut cold = 0;
    for steps in &script.cpus {
        let mut seen: HashSet<SpaceId> = HashSet::new();
        for (place, step) in steps.iter().enumerate() {
            // What a CPU does first was not switched to.
            if let Act::Run(space) = step.act
                && seen.insert(space)
                && place > 0
                && !born.contains(&space)
            {
                cold += 1;
            }
        }
    }
    cold
}

/// Whether everything that has a limit is within it.
#[must_use]
pub fn holds(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.within != Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parts_of_what_was_recorded() {
        let counts = |sends, remote| Recorded {
            sends,
            flushes: [((Reason::Remote, Pages::Some(1)), remote)].into(),
            ..Recorded::default()
        };
        let holds = |sends, remote| holds(&compare(&counts(100, 100), &counts(sends, remote), 0));
        assert!(holds(110, 105) && holds(90, 95));
        assert!(!holds(111, 100) && !holds(100, 106) && !holds(100, 94));
        let nothing = compare(&counts(0, 0), &counts(1, 0), 0);
        assert!(nothing.iter().any(|row| row.within == Some(false) && row.ratio.is_none()));
        // Of ten switches two may have found something or not.
        let found = |hits, misses| Recorded { hits, misses, ..Recorded::default() };
        let may = |hits| super::holds(&compare(&found(8, 2), &found(hits, 10 - hits), 2));
        assert!(may(8) && may(6) && may(10) && !may(5));
    }
}
