//! The second table of `docs/errata.md` against the scenarios, the machine's modes and the rows.

use std::collections::BTreeSet;

use lookaside::arch::errata::{self, Effect};
use lookaside_scenarios::scenario;

const DOCUMENT: &str = include_str!("../../../docs/errata.md");
const MODES: &str = include_str!("../../../machine/src/adversary/deviations.rs");
const MUTANTS: &str = include_str!("../../../mutants/errata.toml");

/// The names in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The lines of the table: what, which mode, which scenarios.
fn lines() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let (_, rest) = DOCUMENT.split_once("<!-- modes -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- /modes -->").unwrap();
    let lines = table.lines().skip(2).map(|line| {
        let mut cells = line.trim_matches('|').split(" | ");
        let one = |cell: &'static str| names(cell).next().unwrap();
        let (what, mode) = (one(cells.next().unwrap()), one(cells.next().unwrap()));
        (what, mode, names(cells.next().unwrap()).collect())
    });
    lines.collect()
}

#[test]
fn every_mode_of_the_machine_has_a_line_and_every_scenario_is_in_it() {
    let modes: BTreeSet<_> = MODES
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const ")?.split_once(": Self = Self(1"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(lines().iter().map(|line| line.1).collect::<BTreeSet<_>>(), modes);
    let topic = scenario::TOPICS.iter().find(|topic| topic.name == "errata").unwrap();
    let known: BTreeSet<_> = topic.scenarios.iter().map(|entry| entry.name).collect();
    let listed: Vec<_> = lines().into_iter().flat_map(|line| line.2).collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), known);
    assert_eq!(listed.len(), known.len(), "a scenario is listed twice");
}

#[test]
fn every_row_that_changes_a_sequence_or_withdraws_a_feature_has_a_mode_or_a_reason() {
    let (_, rest) = DOCUMENT.split_once("Without a mode, and why:").unwrap();
    let (reasons, _) = rest.split_once("\n## ").unwrap();
    let covered: BTreeSet<_> = lines().iter().map(|line| line.0).chain(names(reasons)).collect();
    let sequences = errata::SEQUENCES.map(|(_, name)| name);
    let advice = errata::ADVICE.map(|(_, name)| name);
    let features = errata::FEATURES.map(|(_, name)| name);
    for name in sequences.into_iter().chain(advice).chain(features) {
        assert!(covered.contains(name), "{name}: neither a mode of the machine nor a reason");
    }
    for row in errata::rows().filter(|row| row.effect == Effect::Avoided) {
        assert!(covered.contains(row.erratum), "{}: avoided, and nothing shows it", row.erratum);
    }
}

#[test]
fn every_mode_has_a_mutant_that_shows_it() {
    for (what, _, scenarios) in lines() {
        let shown = scenarios.iter().any(|name| MUTANTS.contains(&format!("\"{name}\"")));
        assert!(shown, "{what}: no mutant in mutants/errata.toml names {scenarios:?}");
    }
}
