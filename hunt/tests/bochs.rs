//! The two sides of the interface between Bochs and its plugin, which are in two languages.

const SOURCE: &str = include_str!("../bochs/instrument.cc");
const PLUGIN: &str = include_str!("../../watch-bochs/src/interface.rs");

/// The number behind some words.
fn number(text: &str, words: &str) -> u32 {
    let rest = text.split(words).nth(1).expect("the words are there");
    rest.split(';').next().and_then(|number| number.trim().parse().ok()).expect("a number")
}

#[test]
fn both_sides_name_the_same_version() {
    assert_eq!(number(SOURCE, "uint32_t VERSION ="), number(PLUGIN, "const VERSION: u32 ="));
}

#[test]
fn each_function_that_is_looked_for_is_there() {
    let looked_for = SOURCE.split("\"lookaside_bochs_").skip(1);
    let names: Vec<&str> = looked_for.filter_map(|rest| rest.split('"').next()).collect();
    let there = PLUGIN.matches("fn lookaside_bochs_").count();
    assert_eq!(names.len(), there);
    for name in names {
        assert!(PLUGIN.contains(&format!("fn lookaside_bochs_{name}(")), "{name}");
    }
}
