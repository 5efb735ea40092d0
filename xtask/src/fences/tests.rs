//! One tree that is right, and for each rule one that breaks it and nothing else.

use super::*;

const LEFT: &str = "\
fn turn() {
    // FENCE F-TURN (pairs with F-ENTER, walks): the epoch is visible before the active tags are
    // read.
    W::fence(Ordering::SeqCst);
}
";
const RIGHT: &str = "\
fn enter() {
    // FENCE F-ENTER (pairs with F-TURN): mirror of F-TURN.
    W::fence(Ordering::SeqCst);
}
";
const TEST: &str = "#[test]\nfn nobody_sneaks_in() { explore(\"turn-and-enter\") }\n";
const HEADER: &str = "\
# Fences

| id | place | pairs with | what it orders | test | mutant |
| --- | --- | --- | --- | --- | --- |
";
const ROW_LEFT: &str = "| F-TURN | `lookaside/src/tags/turn.rs::turn` | F-ENTER, walks | epoch, then tags | `nobody_sneaks_in` | `no-turn` |\n";
const ROW_RIGHT: &str = "| `F-ENTER` | `switch.rs` | F-TURN | tag, then epoch | turn-and-enter | - (the other side) |\n";

fn inputs() -> Inputs {
    Inputs {
        rust: vec![
            ("lookaside/src/tags/turn.rs".to_owned(), LEFT.to_owned()),
            ("lookaside/src/switch.rs".to_owned(), RIGHT.to_owned()),
            ("machine/tests/epochs.rs".to_owned(), TEST.to_owned()),
        ],
        table: format!("{HEADER}{ROW_LEFT}{ROW_RIGHT}\nMore words.\n"),
        mutants: BTreeSet::from(["no-turn".to_owned()]),
    }
}

/// Replaces `from` by `to` in the good tree and returns what is then wrong.
fn with(from: &str, to: &str) -> Vec<String> {
    let mut inputs = inputs();
    let mut changed = false;
    let texts = inputs.rust.iter_mut().map(|(_, text)| text).chain([&mut inputs.table]);
    for text in texts {
        changed |= text.contains(from);
        *text = text.replace(from, to);
    }
    assert!(changed, "`{from}` is not in the fixture");
    check(&inputs).1.into_iter().map(|finding| finding.what).collect()
}

#[track_caller]
fn only(findings: &[String], expected: &str) {
    assert!(
        findings.len() == 1 && findings[0].contains(expected),
        "expected only `{expected}`, found {findings:#?}"
    );
}

#[test]
fn the_good_tree_is_good() {
    assert_eq!(check(&inputs()), (2, Vec::new()));
}

#[test]
fn an_empty_tree_is_good() {
    let empty = Inputs { rust: Vec::new(), table: HEADER.to_owned(), mutants: BTreeSet::new() };
    assert_eq!(check(&empty), (0, Vec::new()));
}

#[test]
fn a_finding_names_file_and_line() {
    let mut inputs = inputs();
    inputs.rust[1].1.push_str("fn g() { x.load(Ordering::Acquire); }\n");
    let findings = check(&inputs).1;
    assert_eq!((findings[0].file.as_str(), findings[0].line), ("lookaside/src/switch.rs", 5));
}

#[test]
fn a_name_is_defined_once() {
    let mut inputs = inputs();
    let again = ("lookaside/src/again.rs".to_owned(), RIGHT.to_owned());
    inputs.rust.insert(0, again);
    let findings: Vec<String> = check(&inputs).1.into_iter().map(|finding| finding.what).collect();
    assert!(
        findings.iter().any(|what| what.contains("F-ENTER is defined already")),
        "{findings:?}"
    );
}

#[test]
fn a_definition_has_the_shape() {
    let shapes = [
        ("F-ENTER (pairs with F-TURN): mirror of F-TURN.", "F-ENTER: mirror", "names no partner"),
        (
            "F-ENTER (pairs with F-TURN): mirror of F-TURN.",
            "F-ENTER (pairs with F-TURN):",
            "no reason",
        ),
        ("F-ENTER (pairs with F-TURN): mirror of F-TURN.", "F-ENTER (pairs with F-TURN)", "no `:`"),
        ("F-ENTER (pairs with F-TURN)", "F-ENTER (pairs with turn)", "pairs with `turn`"),
        ("FENCE F-ENTER", "FENCE O-ENTER", "no name for a FENCE"),
        ("FENCE F-ENTER", "FENCE F3", "no name for a FENCE"),
        (
            "(pairs with F-TURN): mirror",
            "(pairs with F-Turn there): mirror",
            "pairs with `F-Turn there`",
        ),
        ("FENCE F-ENTER", "ORDER F-ENTER", "no name for a ORDER"),
    ];
    for (from, to, expected) in shapes {
        let findings = with(from, to);
        assert!(findings.iter().any(|what| what.contains(expected)), "{to}: {findings:?}");
    }
}

#[test]
fn partners_exist_and_name_each_other() {
    let findings = with("(pairs with F-TURN): mirror", "(pairs with caller): mirror");
    assert!(findings.iter().any(|what| what.contains("does not name it back")), "{findings:?}");
    let findings = with("(pairs with F-ENTER, walks)", "(pairs with F-ENTER, F-GONE, walks)");
    assert!(findings.iter().any(|what| what.contains("F-GONE, which is nowhere")), "{findings:?}");
}

#[test]
fn partners_may_be_described() {
    assert_eq!(with("(pairs with F-TURN):", "(pairs with F-TURN of the other CPU):"), [""; 0]);
    let mut inputs = inputs();
    inputs.rust[0].1 = LEFT.replace("walks", "the store before it");
    assert_eq!(check(&inputs).1.len(), 1, "the row says something else");
    inputs.table = inputs.table.replace("walks", "the store before it");
    assert_eq!(check(&inputs).1, []);
}

#[test]
fn a_mention_has_a_definition() {
    only(
        &with("mirror of F-TURN", "mirror of F-TURNS"),
        "F-TURNS is mentioned but nowhere defined",
    );
}

#[test]
fn every_name_has_a_row() {
    let skeleton = "| F-ENTER | `switch.rs` | F-TURN | | | |";
    only(&with(ROW_RIGHT, ""), "F-ENTER has no row");
    only(&with(ROW_RIGHT, ""), skeleton);
}

#[test]
fn every_row_has_a_name_in_the_source() {
    let extra = format!("{ROW_RIGHT}{}", ROW_RIGHT.replace("F-ENTER", "F-LEFT"));
    only(&with(ROW_RIGHT, &extra), "F-LEFT is nowhere defined");
    only(&with(ROW_RIGHT, &ROW_RIGHT.repeat(2)), "F-ENTER has a row already");
}

#[test]
fn a_row_says_the_right_file() {
    only(
        &with("`switch.rs`", "`cpu.rs`"),
        "F-ENTER is in lookaside/src/switch.rs, not in `cpu.rs`",
    );
}

#[test]
fn a_row_says_the_right_function() {
    only(&with("turn.rs::turn`", "turn.rs::process`"), "F-TURN is in `turn`, not in `process`");
}

#[test]
fn a_row_says_the_right_partners() {
    only(
        &with("| F-ENTER, walks |", "| F-ENTER |"),
        "F-TURN pairs with F-ENTER, walks in the source",
    );
}

#[test]
fn a_row_is_complete() {
    only(&with("tag, then epoch", ""), "F-ENTER does not say what it orders");
    only(&with("| turn-and-enter |", "| |"), "F-ENTER names no test");
    only(&with("| - (the other side) |", "| - |"), "F-ENTER names no mutant");
    only(&with("| - (the other side) |", "| |"), "F-ENTER names no mutant");
    let findings = with("| tag, then epoch | turn-and-enter |", "| turn-and-enter |");
    assert!(findings.iter().any(|what| what.contains("a row has 6 cells, not 5")), "{findings:?}");
}

#[test]
fn the_test_and_the_mutant_exist() {
    only(
        &with("| `nobody_sneaks_in` |", "| `somebody_sneaks_in` |"),
        "no test or scenario `somebody",
    );
    only(&with("| turn-and-enter |", "| turn-or-enter |"), "no test or scenario `turn-or-enter`");
    only(&with("`no-turn`", "`yes-turn`"), "no mutant `yes-turn`");
}

#[test]
fn the_table_must_be_there() {
    let findings = with("| what it orders |", "| orders |");
    assert!(findings.iter().any(|what| what.contains("no table with the columns")), "{findings:?}");
}

#[test]
fn an_ordering_without_a_name_is_found() {
    let findings = with("    // FENCE F-ENTER (pairs with F-TURN): mirror of F-TURN.\n", "");
    assert!(findings.iter().any(|what| what.contains("`SeqCst` without a FENCE")), "{findings:?}");
}
