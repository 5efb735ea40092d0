//! What changed between two sides: two recordings, or one under two settings.
//!
//! Each side is several replays: of several seeds, or of several recordings. A change is one only where the ranges of
//! both sides do not meet.

use std::collections::BTreeMap;

use lookaside_traces::{KernelCounts, Pages, Reason};
use serde::Serialize;

use crate::{Replayed, Upkeep};

/// One side.
#[derive(Clone, Debug)]
pub struct Side {
    /// Its replays, at least one.
    pub runs: Vec<Replayed>,
    /// What the kernel counted, or a strategy of Linux would have, in each of them; empty where nobody counted.
    pub counts: Vec<KernelCounts>,
}

/// What numbers are per.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// A recording: of programs that do a piece of work and end.
    Run,
    /// A second of a recording: of programs that run on.
    Second,
}

/// The values of one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub low: f64,
    /// The middle one; the mean of two.
    pub median: f64,
    /// The largest.
    pub high: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
        Self {
            low: at(0),
            median: f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2)),
            high: at(values.len().saturating_sub(1)),
        }
    }
}

/// One thing on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What: a cause, a reason, or a process and its operation.
    pub what: Vec<String>,
    /// On the first side.
    pub before: Spread,
    /// On the second.
    pub after: Spread,
}

impl Change {
    /// How much more it is after than before; less than 0 where it is less.
    #[must_use]
    pub fn more(&self) -> f64 {
        self.after.median - self.before.median
    }

    /// How many times what it was before it is after; none where it was nothing.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.after.median / self.before.median;
        ratio.is_finite().then_some(ratio)
    }

    /// Whether the ranges of both sides do not meet.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.after.low > self.before.high || self.after.high < self.before.low
    }
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// What numbers are per.
    pub per: Per,
    /// What is known: the time of switches, flushes, waits and interrupted CPUs together, in picoseconds.
    pub known: Change,
    /// The share of all CPUs' time that this is, without refills as it is.
    pub known_share: Change,
    /// The time of all CPUs, in picoseconds: what shares are parts of.
    #[serde(skip)]
    pub all_cpus: Change,
    /// Time by cause, in picoseconds.
    pub causes: Vec<Change>,
    /// Flushes by reason, and what became of requests, as the kernel counts them.
    pub reasons: Vec<Change>,
    /// Time by process and operation, with its function where stacks were recorded; in picoseconds, refills not
    /// included. What changed most comes first.
    pub initiators: Vec<Change>,
}

impl Difference {
    /// What changed from one side to the other.
    #[must_use]
    pub fn between(before: &Side, after: &Side, per: Per) -> Self {
        let sides = [before, after];
        let scale = |run: &Replayed| match per {
            Per::Run => 1.0,
            Per::Second => 1e12 / run.traced.max(1) as f64,
        };
        let change = |what: Vec<String>, of: &dyn Fn(&Replayed) -> f64| {
            let [before, after] = sides.map(|side| Spread::of(side.runs.iter().map(of).collect()));
            Change { what, before, after }
        };
        let time = |what: &str, of: &dyn Fn(&Replayed) -> u64| {
            change(vec![what.to_owned()], &|run| of(run) as f64 * scale(run))
        };
        let cause = |(place, name): (usize, &str)| {
            time(name, &|run| run.upkeep.iter().nth(place).map_or(0, |(_, time)| time))
        };
        let blame = |run: &Replayed| -> BTreeMap<[String; 2], u64> {
            let mut all = BTreeMap::new();
            for blame in &run.blame {
                let key = [blame.process.clone(), blame.operation.clone()];
                *all.entry(key).or_default() += blame.upkeep.known();
            }
            all
        };
        let blamed = sides
            .map(|side| side.runs.iter().map(|run| (blame(run), scale(run))).collect::<Vec<_>>());
        let keys = blamed.iter().flatten().flat_map(|(blame, _)| blame.keys().cloned());
        let keys: std::collections::BTreeSet<_> = keys.collect();
        let mut initiators: Vec<Change> = keys
            .into_iter()
            .map(|key| {
                let [before, after] = blamed.each_ref().map(|side| {
                    let of = |(blame, scale): &(BTreeMap<_, u64>, f64)| {
                        blame.get(&key).copied().unwrap_or(0) as f64 * scale
                    };
                    Spread::of(side.iter().map(of).collect())
                });
                Change { what: key.to_vec(), before, after }
            })
            .collect();
        initiators.sort_by(|a, b| b.more().abs().total_cmp(&a.more().abs()));
        Self {
            per,
            known: time("known", &Replayed::known),
            known_share: change(vec!["known_share".into()], &|run| run.share_of(run.known())),
            all_cpus: change(vec!["all_cpus".into()], &|run| {
                run.traced as f64 * run.cpus as f64 * scale(run)
            }),
            causes: Upkeep::NAMES.into_iter().enumerate().map(cause).collect(),
            reasons: reasons(sides, &scale),
            initiators,
        }
    }
}

/// Flushes by reason and pages, and requests. Nothing where one side has no counts.
fn reasons(sides: [&Side; 2], scale: &dyn Fn(&Replayed) -> f64) -> Vec<Change> {
    if sides.iter().any(|side| side.counts.is_empty()) {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut row = |what: String, of: &dyn Fn(&KernelCounts) -> u64| {
        let [before, after] = sides.map(|side| {
            let value = |(counts, run): (&KernelCounts, &Replayed)| of(counts) as f64 * scale(run);
            Spread::of(side.counts.iter().zip(&side.runs).map(value).collect())
        });
        if before.high > 0.0 || after.high > 0.0 {
            all.push(Change { what: vec![what], before, after });
        }
    };
    let sum = |counts: &KernelCounts, is: &dyn Fn(Reason, Pages) -> bool| -> u64 {
        counts
            .flushes
            .iter()
            .filter(|((reason, pages), _)| is(*reason, *pages))
            .map(|(_, count)| count)
            .sum()
    };
    for reason in Reason::ALL {
        row(format!("flushes: {}", reason.words()), &|counts| sum(counts, &|of, _| of == reason));
    }
    let done = |reason| matches!(reason, Reason::Remote | Reason::LocalSpace);
    row("flushes of everything".into(), &|counts| {
        sum(counts, &|reason, pages| done(reason) && pages == Pages::Everything)
    });
    row("pages flushed one by one".into(), &|counts| {
        let pages = counts.flushes.iter().filter_map(|((reason, pages), count)| match pages {
            Pages::Some(pages) if done(*reason) => Some(u64::from(*pages) * count),
            _ => None,
        });
        pages.sum()
    });
    row("requests to other CPUs".into(), &|counts| counts.sends);
    row("switches that flush".into(), &|counts| counts.misses);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn side(known: &[u64]) -> Side {
        let run = |&flushes: &u64| {
            let mut run = sample::ordinary().results.swap_remove(0);
            run.upkeep = Upkeep { flushes, refills: 77, ..Upkeep::default() };
            run.total = run.upkeep.total();
            run.traced = 2_000_000_000_000;
            run.blame.truncate(2);
            run.blame[0].upkeep = run.upkeep;
            run.blame[1].upkeep = Upkeep::default();
            run
        };
        let count = |&flushes: &u64| KernelCounts {
            flushes: [((Reason::LocalSpace, Pages::Some(3)), flushes)].into(),
            ..KernelCounts::default()
        };
        Side { runs: known.iter().map(run).collect(), counts: known.iter().map(count).collect() }
    }

    #[test]
    fn a_change_is_one_only_beyond_the_spread() {
        let of = |a: &[u64], b: &[u64]| Difference::between(&side(a), &side(b), Per::Run);
        let less = of(&[90, 100, 110], &[40, 50, 60]);
        assert_eq!(less.known.before, Spread { low: 90.0, median: 100.0, high: 110.0 });
        assert!(less.known.differs());
        assert_eq!(less.known.ratio(), Some(0.5));
        assert_eq!(of(&[90, 110], &[1, 2, 4, 100]).known.before.median, 100.0);
        assert_eq!(of(&[90, 110], &[1, 2, 4, 100]).known.after.median, 3.0);
        assert!(!of(&[90, 100, 110], &[80, 105, 120]).known.differs());
        assert!(!of(&[90], &[90]).known.differs());
        assert_eq!(of(&[0], &[9]).known.ratio(), None);
    }

    #[test]
    fn what_changed_most_comes_first_and_refills_are_no_part_of_it() {
        let changed = Difference::between(&side(&[100]), &side(&[40]), Per::Second);
        assert_eq!(changed.initiators[0].what, ["postgres", "munmap"]);
        // In two seconds.
        assert_eq!(
            (changed.initiators[0].before.median, changed.initiators[0].more()),
            (50.0, -30.0)
        );
        assert!(
            changed
                .reasons
                .iter()
                .any(|row| row.what == ["pages flushed one by one"] && row.more() == -90.0)
        );
        let refills = changed.causes.iter().find(|cause| cause.what == ["refills"]).unwrap();
        assert!(!refills.differs());
    }

    #[test]
    fn without_counts_there_are_no_reasons() {
        let none = Side { counts: Vec::new(), ..side(&[1]) };
        assert!(Difference::between(&side(&[1]), &none, Per::Run).reasons.is_empty());
    }
}
