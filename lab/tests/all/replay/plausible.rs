//! `lookaside replay`, `what-if` and `diff` say how sure they are, of which machine their costs are, and which prices are not known.

use serde_json::Value;

use super::lab;

/// A small one.
const COMPILE: &str = "traces/compile.trace";

/// What is printed, in one line: pages are wrapped.
#[track_caller]
fn page(words: &[&str]) -> String {
    let (status, text, errors) = lab(words);
    assert_eq!(status, Some(0), "{words:?}: {errors}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn json(words: &[&str]) -> Value {
    serde_json::from_str(&page(&[words, &["--format", "json"]].concat())).expect("JSON")
}

/// The three commands, of a small trace.
const SHORT: [&[&str]; 3] = [
    &["replay", "traces/sort.trace"],
    &["what-if", "traces/sort.trace", "ceiling=1", "--seeds", "1"],
    &["diff", "traces/sort.trace", "--with", "ceiling=1", "--seeds", "1"],
];

#[test]
fn a_replay_asks_the_machines_that_advise_asks() {
    let same = ["--machine", "turin", "--cpus", "4", "--plausible", "9", "--strategy"];
    let strategies = "linux-ipi-2025,linux-invlpgb-2025";
    let ask = |command| json(&[&[command, COMPILE][..], &same, &[strategies]].concat());
    let (replay, advise) = (ask("replay"), ask("advise"));
    let seconds = replay["traced_ns"].as_f64().expect("nanoseconds") / 1e9;
    for place in 0..2 {
        let [one, other] =
            [&replay["certainty"]["strategies"], &advise["mechanisms"]].map(|of| of[place].clone());
        assert_eq!(one["best_on"], other["best_on"]);
        let median = one["intervals"][0][1].as_f64().expect("ms");
        let rate = other["ms_per_second"]["median"].as_f64().expect("ms a second");
        assert!((median / seconds / rate - 1.0).abs() < 1e-9, "{median} {rate}");
    }
    let text = page(&[&["replay", COMPILE][..], &same, &[strategies]].concat());
    for part in [
        "how sure this is * linux-",
        "of 9 plausible machines of this kind",
        "In brackets: where at least 80 % of 9 plausible machines are.",
        "the same on 9 plausible machines: the median",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// The machine file has no price for much of it, so that its own share is below what is plausible.
#[test]
fn a_headline_has_no_share_outside_of_its_range() {
    let words = ["replay", "traces/compile.trace", "--machine", "neoverse_n1", "--plausible", "8"];
    let of = json(&words);
    let answer = of["answer"].as_str().expect("a sentence");
    let (_, shares) = answer.split_once("CPUs take ").expect("shares");
    let numbers: Vec<f64> =
        shares.split([' ', '(', ')']).filter_map(|word| word.parse().ok()).take(3).collect();
    let [share, low, high] = numbers[..] else { panic!("{answer}") };
    assert!(low <= share && share <= high, "{answer}");
    assert!(answer.contains("That is the median of 8 plausible machines"), "{answer}");
    assert!(
        answer.contains("the machine file alone are not all among them: they give "),
        "{answer}"
    );
}

#[test]
fn every_cause_has_a_range_and_the_causes_are_named() {
    let of = &json(&["replay", "traces/compile.trace", "--plausible", "8"])["certainty"];
    let names: Vec<&str> = of["metrics"]
        .as_array()
        .expect("metrics")
        .iter()
        .map(|one| {
            assert_eq!(one["unit"], "ms");
            one["key"].as_str().expect("a name")
        })
        .collect();
    assert_eq!(names, ["time", "switches", "flushes", "waits", "interrupted", "fabric"]);
    for one in of["strategies"].as_array().expect("strategies") {
        let intervals = one["intervals"].as_array().expect("intervals");
        assert_eq!(intervals.len(), names.len());
        let [low, median, high] = [0, 1, 2].map(|end| intervals[0][end].as_f64().expect("ms"));
        assert!(0.0 < low && low < median && median < high, "{one}");
        let sum: f64 = intervals[1..].iter().map(|of| of[0].as_f64().expect("ms")).sum();
        assert!(sum <= median, "the low ends of causes are parts of it: {one}");
    }
    let csv = lab(&["replay", "traces/compile.trace", "--plausible", "8", "--format", "csv"]).1;
    assert!(csv.contains("lookaside,plausible,waits,high,"), "{csv}");
}

#[test]
fn a_stand_in_and_prices_that_are_not_known_are_said_once() {
    for words in SHORT {
        let text = page(words);
        for part in ["which stands for it", "kvm_guest_amit2022 has no price for"] {
            assert_eq!(text.matches(part).count(), 1, "{words:?}: {part}\n{text}");
        }
        let of = json(words);
        assert_eq!(of["machine_is"], "stand-in");
        assert!(of["costs"].as_str().expect("text").contains("which stands for it"), "{of}");
        let named = [words, &["--machine", "turin"]].concat();
        let (text, of) = (page(&named), json(&named));
        assert!(!text.contains("stands for it"), "{text}");
        assert_eq!(text.matches("Costs are those of `turin`").count(), 1, "{text}");
        assert_eq!(of["machine_is"], "named");
        let has = |key: &str, name: &str| of[key].as_array().expect(key).contains(&name.into());
        assert!(has("unpriced", "prices.fabric_operation") && !has("unpriced", "prices.walk"));
        assert!(has("assumed_prices", "prices.interrupt_entry"));
    }
}

#[test]
fn settings_and_sides_are_asked_of_plausible_machines() {
    let of = json(&["what-if", "traces/threads.trace", "--seeds", "1", "--plausible", "4"]);
    let (best, certainty) = (&of["best"], &of["certainty"]);
    assert!(best.is_string() && certainty["first"] == *best, "{best} {}", certainty["first"]);
    assert_eq!(certainty["strategies"][1]["best_on"], 4);
    // The same knob by itself says the same.
    let knob = best.as_str().expect("a knob");
    let alone =
        json(&["what-if", "traces/threads.trace", knob, "--seeds", "1", "--plausible", "4"]);
    assert_eq!(alone["certainty"], *certainty);
    let diff = ["diff", "traces/threads.trace", "--seeds", "1", "--plausible", "4", "--with", knob];
    let diff = json(&[&diff[..], &["--per", "second"]].concat());
    assert_eq!(diff["certainty"]["gain"], certainty["gain"]);
    // Two recordings are one each, in the order of the command.
    let both = ["diff", "traces/compile.trace", "traces/sort.trace", "--seeds", "1"];
    let text = page(&[&both[..], &["--plausible", "4"]].concat());
    assert!(text.contains("sort.trace is best on 100 % of 4 plausible machines"), "{text}");
}

/// With INVLPGB for nothing the library is ahead, and on most plausible machines behind.
#[test]
fn an_order_that_turns_is_in_the_answer_and_in_the_report() {
    let turns = "the order turns: the least is under linux-invlpgb-2025 on 3 of 4";
    let words = ["traces/sort.trace", "--machine", "genoa", "--plausible", "4"];
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    let to = ["--report", report.to_str().expect("text"), "--curve", "none", "--no-sensitivity"];
    let text = page(&[&["replay"], &words[..], &to[..]].concat());
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(turns), "{text}");
    let read = std::fs::read_to_string(report.join("report.json")).expect("the report");
    let read: Value = serde_json::from_str(&read).expect("JSON");
    assert!(read["turned"].as_str().expect("text").contains(turns), "{read}");
    assert!(read["certainty"][0].as_str().expect("text").contains("best on 75 %"), "{read}");
    let with = ["--with", "strategy=lookaside", "--seeds", "1"];
    let text = page(&[&["diff"], &words[..], &with[..]].concat());
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("the order turns: the least is under the recorded settings on 3 of 4"),
        "{text}"
    );
}

#[test]
fn none_or_enough_are_asked() {
    for words in SHORT {
        let none = json(&[words, &["--plausible", "0"]].concat());
        assert_eq!(none["certainty"], Value::Null);
        assert!(!page(&[words, &["--plausible", "0"]].concat()).contains("how sure"), "{words:?}");
        let (status, _, why) = lab(&[words, &["--plausible", "3"]].concat());
        assert!(status == Some(2) && why.contains("0, or 4 to 10000 machines"), "{why}");
    }
}

/// A machine of which nearly nothing is known: its file charges nothing, and plausible ones do.
#[test]
fn what_is_for_nothing_in_a_file_has_a_range() {
    let words = ["replay", "traces/sort.trace", "--machine", "sg2042", "--plausible", "4"];
    let of = json(&words);
    assert_eq!(of["strategies"][0]["known"], 0);
    assert!(of["certainty"]["strategies"][0]["intervals"][0][0].as_f64() > Some(0.0), "{of}");
    let text = page(&words);
    for part in [
        "time on at least 80 % of 4 plausible machines of this kind: ",
        "The time under lookaside with the file's numbers, 0 ms, is below what is plausible: take the plausible one.",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let (status, _, why) = lab(&["advise", "traces/sort.trace", "--machine", "sg2042"]);
    assert!(
        status == Some(2) && why.contains("`lookaside replay` says what it costs there"),
        "{why}"
    );
}
