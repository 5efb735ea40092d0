//! What the first sentences of `lookaside what-if` and `lookaside diff` say beside what follows them.

use super::lab;

const ON_ZEN5: [&str; 6] = ["--machine", "zen5", "--seeds", "1", "--plausible", "8"];

/// What a command prints, as one line.
fn flat(words: &[&str]) -> String {
    let (status, text, errors) = lab(words);
    assert_eq!(status, Some(0), "{words:?}: {errors}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The shares in a text.
fn shares(text: &str) -> Vec<f64> {
    let words: Vec<&str> = text.split(' ').collect();
    let is_percent = |pair: &&[&str]| pair[1].trim_end_matches(['.', ',', ';']) == "%";
    words.windows(2).filter(is_percent).filter_map(|pair| pair[0].parse().ok()).collect()
}

/// The file of zen5 has no price for a switch that keeps the TLB: no plausible machine takes as little as its numbers give.
#[test]
fn a_headline_has_the_medians_where_the_files_numbers_are_not_plausible() {
    let what_if = [&["what-if", "traces/compile.trace", "pcid=off"][..], &ON_ZEN5].concat();
    let diff = [&["diff", "traces/compile.trace", "--with", "pcid=off"][..], &ON_ZEN5].concat();
    for words in [what_if, diff] {
        let text = flat(&words);
        let note = "These are the medians of 8 plausible machines. The numbers of the machine file alone, of which the tables are, are \
                    not all among them: they give ";
        let (headline, rest) = text.split_once(note).unwrap_or_else(|| panic!("{text}"));
        let (medians, file) = (shares(headline), &shares(rest)[..2]);
        // `diff` names the second side first.
        let most = medians.iter().copied().fold(0.0, f64::max);
        assert!(medians.len() == 2 && file.iter().all(|&share| share < most), "{text}");
        let sure = rest.split_once("how sure this is").expect("a heading").1;
        assert!(sure.contains("is below what is plausible: take the plausible one."), "{text}");
        assert!(!headline.contains("as far as they have a price there"), "{text}");
    }
}

/// Without plausible machines there are the file's numbers alone.
#[test]
fn a_headline_has_the_files_numbers_where_nobody_is_asked() {
    let words = ["what-if", "traces/compile.trace", "pcid=off", "--machine", "zen5"];
    let text = flat(&[&words[..], &["--seeds", "1", "--plausible", "0"]].concat());
    assert!(
        text.contains("as far as they have a price there") && !text.contains("medians"),
        "{text}"
    );
}

/// It said `0.003 % ... it would be 0.003 %`.
#[test]
fn small_shares_that_differ_look_so() {
    let words = ["what-if", "traces/sqlite.trace", "ceiling=0", "--machine", "zen5"];
    let text = flat(&[&words[..], &["--seeds", "1", "--plausible", "0"]].concat());
    let shares = shares(text.split_once(" Most changes").expect("a sentence").0);
    assert!(shares.len() == 2 && shares[1] > shares[0], "{text}");
}

/// A share is a part of its recording, and one recording may be longer.
#[test]
fn diff_says_how_long_two_recordings_are() {
    let words = ["diff", "traces/sort.trace", "traces/sqlite.trace", "--machine", "zen5"];
    let text = flat(&[&words[..], &["--seeds", "1", "--plausible", "0"]].concat());
    let headline = text.split_once(". ").expect("a sentence").0;
    for of in ["(sqlite.trace, of 0.", "(sort.trace, of 0."] {
        assert!(headline.contains(of), "{text}");
    }
    assert!(text.contains("what this rests on * `~` is no change"), "{text}");
    let settings = flat(&[
        "diff",
        "traces/sort.trace",
        "--with",
        "pcid=off",
        "--machine",
        "zen5",
        "--plausible",
        "0",
    ]);
    assert!(!settings.contains(", of 0."), "{settings}");
}
