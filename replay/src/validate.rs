//! What a kernel recorded beside what the model counts when it replays the same trace: whether the model
//! does what Linux does.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use lookaside_traces::{
    KernelCounts, Pages, Reason,
    reconstruct::{Act, Operation, Script, SpaceId},
};
use serde::Serialize;

/// How far the model may be off in every count, either way, as a part of what was recorded.
///
/// Strategies of one architecture differ by a few percent on most traces ("The library beside Linux" in
/// `docs/replay.md`): a model that is off by more than that in what it counts cannot say which is better. It is
/// one number for all counts, and not fitted to any trace. There is no allowance for chance, although what becomes
/// of a request depends on when one interrupt comes, and would not be the same if the program ran again.
pub const LIMIT: f64 = 0.05;

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
    /// How far the model may be off beyond that, and at least by one; none where the count is only
    /// shown.
    pub limit: Option<f64>,
    /// Whether it is within the limit.
    pub within: Option<bool>,
    /// How it holds, where it is not by the limit.
    pub how: Option<&'static str>,
}

impl Row {
    fn new(what: String, [recorded, modelled]: [u64; 2], unknown: u64, limit: Option<f64>) -> Self {
        let ratio = (recorded > 0).then(|| modelled as f64 / recorded as f64);
        let off = recorded.abs_diff(modelled);
        let fits = |off: u64| limit.map(|limit| off as f64 <= limit * recorded as f64);
        // One more or less is no part of a few.
        let (within, how) = match fits(off) {
            Some(false) if off <= 1 => (Some(true), Some("within one")),
            Some(false) if fits(off.saturating_sub(unknown)) == Some(true) => {
                (Some(true), Some("within what is unknown"))
            }
            Some(false) if off.saturating_sub(unknown) <= 1 => {
                (Some(true), Some("within one of what is unknown"))
            }
            within => (within, None),
        };
        Self { what, recorded, modelled, ratio, unknown, limit, within, how }
    }
}

/// What each reason is called.
fn name(reason: Reason) -> String {
    format!("{}, {}", reason as u8, reason.words())
}

/// Flushes by how many pages they are of, each counted once, by who flushes: [`Script::expected`].
pub type ByPages = BTreeMap<Pages, u64>;

/// Both beside each other: flushes by reason, flushes by pages in two sums, switches, interrupts and what became of
/// them, each with a limit; and after that flushes by pages one by one, which the two sums judge. The first sum
/// lacks the flushes that were recorded and that the model has not, of each number of pages by itself; the second
/// has those on top that the model has and that were not recorded. So a size that is too frequent does not
/// make up for one that is missing. What switches say is in two counts of its own, as it depends on what was there before for `cold` of them (see
/// [`cold`]); so do flushes by the CPU that changed the space, and the pages of flushes, for `mappings` calls and
/// faults.
///
/// `pages` are those of the script with recorded flushes and of the one that was replayed.
#[must_use]
pub fn compare(
    recorded: &KernelCounts,
    modelled: &KernelCounts,
    [cold, mappings]: [u64; 2],
    pages: [&ByPages; 2],
) -> Vec<Row> {
    let of = |counts: &KernelCounts, reason: Reason| -> u64 {
        let flushes = counts.flushes.iter().filter(|((one, _), _)| *one == reason);
        flushes.map(|(_, count)| count).sum()
    };
    let [recorded_pages, expected_pages] = pages;
    let of_pages = |pages: &Pages, all: &ByPages| all.get(pages).copied().unwrap_or(0);
    let mut rows = Vec::new();
    for reason in Reason::ALL.into_iter().filter(|&reason| reason != Reason::Switch) {
        let counts = [of(recorded, reason), of(modelled, reason)];
        if counts != [0, 0] {
            let what = format!("flushes, reason {}", name(reason));
            // Those of a single CPU are those that calls and faults cause.
            let unknown = if reason == Reason::LocalSpace { mappings } else { 0 };
            rows.push(Row::new(what, counts, unknown, Some(LIMIT)));
        }
    }
    let as_many = |(pages, count): (&Pages, &u64)| (*count).min(of_pages(pages, recorded_pages));
    let (all, same): (u64, u64) =
        (recorded_pages.values().sum(), expected_pages.iter().map(as_many).sum());
    let surplus = expected_pages.values().sum::<u64>() - same;
    for (what, count) in [("less those missing", same), ("and those too many", all + surplus)] {
        let what = format!("flushes of as many pages, {what}");
        rows.push(Row::new(what, [all, count], mappings, Some(LIMIT)));
    }
    let found = [
        ("switches that find their tag", [recorded.hits, modelled.hits]),
        ("switches that flush", [recorded.misses, modelled.misses]),
    ];
    for (what, counts) in found {
        rows.push(Row::new(what.to_owned(), counts, cold, Some(LIMIT)));
    }
    let mut other = |what: &str, count: fn(&KernelCounts) -> u64| {
        let counts = [recorded, modelled].map(count);
        rows.push(Row::new(what.to_owned(), counts, 0, Some(LIMIT)));
    };
    other("requests to other CPUs", |counts| counts.sends);
    other("requests: flushed", |counts| counts.fates[0]);
    other("requests: a lazy CPU dropped the space", |counts| counts.fates[1]);
    other("requests: another space was loaded", |counts| counts.fates[2]);
    other("requests: nothing to do", |counts| counts.fates[3]);
    let keys: BTreeSet<_> = recorded_pages.keys().chain(expected_pages.keys()).copied().collect();
    for key in keys {
        let of = match key {
            Pages::Some(pages) => pages.to_string(),
            Pages::Everything => "all".to_owned(),
        };
        let counts = pages.map(|all| of_pages(&key, all));
        rows.push(Row::new(format!("flushes, pages {of}"), counts, 0, None));
    }
    rows
}

/// The number of counted switches that are the first of their CPU to a space from before the trace. It is
/// unknown whether the CPU had a tag for the space; the model assumes that it had none.
#[must_use]
pub fn cold(script: &Script) -> u64 {
    let mut born: HashSet<SpaceId> = HashSet::new();
    for step in script.cpus.iter().flatten() {
        match step.act {
            Act::Fork { child, .. } => drop(born.insert(child)),
            Act::Run(space)
                if script.initiators[step.initiator as usize].operation == Operation::Execute =>
            {
                born.insert(space);
            }
            _ => {}
        }
    }
    let mut cold = 0;
    for steps in &script.cpus {
        let mut seen: HashSet<SpaceId> = HashSet::new();
        for (place, step) in steps.iter().enumerate() {
            // The first thread of a CPU was not switched to.
            if let Act::Run(space) = step.act
                && seen.insert(space)
                && place > 0
                && step.counted
                && !born.contains(&space)
            {
                cold += 1;
            }
        }
    }
    cold
}

/// How often the kernel took pages away by itself. When, and how often, is taken from the record, so that is no count that is
/// judged: only what becomes of these flushes is.
#[must_use]
pub fn page_outs(script: &Script) -> Option<Row> {
    let steps = script.cpus.iter().flatten();
    let count = steps.filter(|step| matches!(step.act, Act::PageOut { .. })).count() as u64;
    let what = "pages that the kernel takes away, as recorded".to_owned();
    (count > 0).then(|| Row::new(what, [count; 2], 0, None))
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
        let counts = |sends, remote| KernelCounts {
            sends,
            flushes: [((Reason::Remote, Pages::Some(1)), remote)].into(),
            ..KernelCounts::default()
        };
        let none = ByPages::new();
        let compare = |a: &_, b: &_, cold| compare(a, b, [cold, 0], [&none; 2]);
        let holds = |sends, remote| holds(&compare(&counts(100, 100), &counts(sends, remote), 0));
        assert!(holds(105, 105) && holds(95, 95));
        assert!(!holds(106, 100) && !holds(94, 100) && !holds(100, 106) && !holds(100, 94));
        let nothing = compare(&counts(0, 0), &counts(2, 0), 0);
        assert!(nothing.iter().any(|row| row.within == Some(false) && row.ratio.is_none()));
        // Of ten switches two may have found something or not.
        let found = |hits, misses| KernelCounts { hits, misses, ..KernelCounts::default() };
        let may = |hits| super::holds(&compare(&found(8, 2), &found(hits, 10 - hits), 2));
        assert!(may(8) && may(5) && may(10) && !may(4));
    }

    #[test]
    fn how_a_count_holds_is_said() {
        let row = |counts, unknown| {
            let row = Row::new(String::new(), counts, unknown, Some(LIMIT));
            (row.within.expect("there is a limit"), row.how)
        };
        assert_eq!(row([100, 105], 0), (true, None));
        assert_eq!(row([2, 1], 0), (true, Some("within one")));
        assert_eq!(row([0, 1], 0), (true, Some("within one")));
        assert_eq!(row([100, 106], 1), (true, Some("within what is unknown")));
        assert_eq!(row([4, 9], 4), (true, Some("within one of what is unknown")));
        assert_eq!(row([4, 10], 4), (false, None));
    }

    #[test]
    fn pages_have_to_agree_and_not_only_their_number() {
        let pages =
            |few, all| -> ByPages { [(Pages::Some(1), few), (Pages::Everything, all)].into() };
        let holds = |few, all| {
            let counts = KernelCounts::default();
            holds(&compare(&counts, &counts, [0, 0], [&pages(90, 10), &pages(few, all)]))
        };
        assert!(holds(90, 10) && holds(95, 5) && holds(86, 10) && holds(94, 11));
        assert!(!holds(96, 4), "as many flushes, of other pages");
        assert!(!holds(84, 10), "flushes are missing");
        assert!(!holds(90, 16) && !holds(7900, 10), "there are too many");
    }

    #[test]
    fn what_becomes_of_requests_is_judged() {
        let counts = |fates| KernelCounts { sends: 100, fates, ..KernelCounts::default() };
        let none = ByPages::new();
        let recorded = [40, 30, 20, 10];
        let holds = |fates| holds(&compare(&counts(recorded), &counts(fates), [0, 0], [&none; 2]));
        assert!(holds(recorded) && holds([41, 29, 21, 9]));
        for fate in 0..4 {
            for off in [-3, 3] {
                let mut fates = recorded;
                fates[fate] = fates[fate].saturating_add_signed(off);
                assert!(!holds(fates), "{fates:?}");
            }
        }
    }
}
