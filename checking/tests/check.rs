//! `lookaside check` as a library: rounds, shards and merges.

use core::time::Duration;

use lookaside_checking::check::{self, MergeError, Outcome, Request, Shard, Until};

/// Three rounds of the scenarios of batches.
fn checked(shard: Shard, seed: u64) -> Outcome {
    let request = Request {
        subjects: check::select(&["gather".to_owned()]).expect("a protocol"),
        seed,
        shard,
        until: Until { time: Duration::MAX, steps: u64::MAX, rounds: 3, least: None },
        threads: 2,
    };
    check::run(&request, &|_| {})
}

/// What is the same on every machine.
fn without_time(outcome: Outcome) -> Outcome {
    Outcome { seconds: 0.0, ..outcome }
}

#[test]
fn rounds_are_the_same_twice_and_shards_are_parts_of_them() {
    let whole = checked(Shard::WHOLE, 1);
    assert!(whole.is_clean());
    assert!(whole.scenarios.iter().all(|checked| checked.preemptions >= Some(2)));
    assert!(whole.scenarios.iter().any(|checked| checked.random > 0));
    assert_eq!(without_time(checked(Shard::WHOLE, 1)), without_time(whole.clone()));

    let parts: Vec<_> = (0..3).map(|index| checked(Shard { index, of: 3 }, 1)).collect();
    let through_text = |part: &Outcome| serde_json::from_str(&part.to_json()).expect("our own");
    let merged = Outcome::merge(parts.iter().map(through_text).collect()).expect("all parts");
    // A scenario that is exhausted in one part is not known to be so in another.
    assert!(merged.steps >= whole.steps);
    for (merged, whole) in merged.scenarios.iter().zip(&whole.scenarios) {
        assert!(merged.rounds.is_superset(&whole.rounds), "{}", merged.name);
        assert_eq!((merged.exhausted, merged.preemptions), (whole.exhausted, whole.preemptions));
    }
}

#[test]
fn incomplete_or_mismatched_shards_are_not_merged() {
    let part = |index, of, seed| Outcome { shards: vec![(index, of)], seed, ..empty() };
    let merge = |parts: Vec<Outcome>| Outcome::merge(parts).expect_err("no whole");
    assert_eq!(merge(Vec::new()), MergeError::Nothing);
    let missing = merge(vec![part(0, 3, 1), part(2, 3, 1)]);
    assert_eq!(missing, MergeError::Missing(Shard { index: 1, of: 3 }));
    let twice = merge(vec![part(0, 2, 1), part(1, 2, 1), part(0, 2, 1)]);
    assert_eq!(twice, MergeError::Twice(Shard { index: 0, of: 2 }));
    assert_eq!(merge(vec![part(0, 2, 1), part(1, 3, 1)]), MergeError::Parts);
    assert_eq!(merge(vec![part(0, 2, 1), part(1, 2, 2)]), MergeError::Different("seeds"));
    let other = Outcome { source: "other".to_owned(), ..part(1, 2, 1) };
    assert_eq!(merge(vec![part(0, 2, 1), other]), MergeError::Different("sources"));
    let newer = Outcome { version: 3, ..part(1, 2, 1) };
    assert_eq!(merge(vec![part(0, 2, 1), newer]), MergeError::Version(3));
    let mut fewer = part(1, 2, 1);
    fewer.scenarios.pop();
    assert_eq!(merge(vec![part(0, 2, 1), fewer]), MergeError::Different("scenarios"));
}

/// An outcome of no rounds at all.
fn empty() -> Outcome {
    let request = Request {
        subjects: check::select(&["gather".to_owned()]).expect("a protocol"),
        seed: 1,
        shard: Shard::WHOLE,
        until: Until { time: Duration::ZERO, steps: 0, rounds: 0, least: None },
        threads: 1,
    };
    check::run(&request, &|_| {})
}

#[test]
fn a_failure_of_any_part_is_one_of_the_whole() {
    let clean = Outcome { shards: vec![(0, 2)], ..empty() };
    let mut broken = Outcome { shards: vec![(1, 2)], ..empty() };
    broken.scenarios[0].failure = Some(check::Found {
        rule: "no stale use".to_owned(),
        message: "CPU 1 has what was revoked".to_owned(),
        schedule: "v1:relies-arm:".to_owned(),
    });
    let merged = Outcome::merge(vec![clean, broken]).expect("all parts");
    assert_eq!(merged.stale, 1);
    assert!(!merged.is_clean());
    let text = check::to_text(&merged);
    assert!(text.contains("A RULE WAS BROKEN") && text.contains("'v1:relies-arm:'"), "{text}");
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let Err(refused) = check::select(&["epoch".to_owned()]) else { panic!("there is no `epoch`") };
    assert!(refused.0.contains("did you mean `epochs`?"), "{}", refused.0);
    assert_eq!(check::select(&["flush-back-arm".to_owned()]).map(|s| s.len()), Ok(1));
}
