//! What a kernel recorded beside what the model counts when it replays the same trace: whether the model
//! does what Linux does.

use serde::Serialize;

use crate::{
    reconstruct::Recorded,
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
    /// How far the model may be off; none where the count is only shown.
    pub limit: Option<f64>,
    /// Whether it is within the limit.
    pub within: Option<bool>,
}

impl Row {
    fn new(what: String, recorded: u64, modelled: u64, limit: Option<f64>) -> Self {
        let ratio = (recorded > 0).then(|| modelled as f64 / recorded as f64);
        let off = recorded.abs_diff(modelled) as f64;
        let within = limit.map(|limit| off <= limit * recorded as f64);
        Self { what, recorded, modelled, ratio, limit, within }
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
/// that what became of interrupts, and flushes by reason and pages.
#[must_use]
pub fn compare(recorded: &Recorded, modelled: &Recorded) -> Vec<Row> {
    let of = |counts: &Recorded, reason| -> u64 {
        let flushes = counts.flushes.iter().filter(|((one, _), _)| *one == reason);
        flushes.map(|(_, count)| count).sum()
    };
    let mut rows = Vec::new();
    for reason in Reason::ALL {
        let counts = (of(recorded, reason), of(modelled, reason));
        if counts != (0, 0) {
            let what = format!("flushes, reason {}", name(reason));
            rows.push(Row::new(what, counts.0, counts.1, Some(FLUSHES)));
        }
    }
    let mut other = |what: &str, count: fn(&Recorded) -> u64, limit: Option<f64>| {
        rows.push(Row::new(what.to_owned(), count(recorded), count(modelled), limit));
    };
    other("switches that find their tag", |counts| counts.hits, Some(OTHERS));
    other("switches that flush", |counts| counts.misses, Some(OTHERS));
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
        rows.push(Row::new(what, count(recorded), count(modelled), None));
    }
    rows
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
        let holds = |sends, remote| holds(&compare(&counts(100, 100), &counts(sends, remote)));
        assert!(holds(110, 105) && holds(90, 95));
        assert!(!holds(111, 100) && !holds(100, 106) && !holds(100, 94));
        let nothing = compare(&counts(0, 0), &counts(1, 0));
        assert!(nothing.iter().any(|row| row.within == Some(false) && row.ratio.is_none()));
    }
}
