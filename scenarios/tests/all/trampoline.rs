//! Scenarios of kernels that run user mode under another root or tag than themselves.

use lookaside_machine::explore::Budget;
use lookaside_scenarios::scenario::{self, Depth};

/// The steps of one scenario: a fraction of a second.
const STEPS: u64 = 1_000_000;

/// Explores the scenarios whose names contain one of these, with up to two pre-emptions within the budget
/// of steps; no rule may be broken.
#[track_caller]
fn sound(parts: &[&str]) {
    let names =
        |name: &str| name.starts_with("pair-") && parts.iter().any(|part| name.contains(part));
    let entries: Vec<_> = scenario::all().filter(|entry| names(entry.name)).collect();
    assert!(entries.len() >= parts.len());
    for entry in entries {
        for preemptions in [1, 2] {
            let report = entry.open().explore(Depth::Bounded(preemptions), Budget::steps(STEPS));
            assert!(report.failure.is_none(), "{}: {:?}", entry.name, report.failure);
        }
    }
}

#[test]
fn a_root_of_the_kernels_own() {
    sound(&["-riscv"]);
}

#[test]
fn two_asids_for_each_tag() {
    sound(&["-arm"]);
}
