//! `lookaside advise`: the answer follows the prices, and its certainty is counted.

use std::{fs, process::Command};

use serde_json::Value;

/// A program with several threads in one space, which Linux gives a tag for `INVLPGB`.
const THREADS: &str = "traces/corpus/judged/workers.trace";
const GENOA: &str = include_str!("../../../../machines/genoa.toml");
const BROADCASTS: [&str; 5] =
    ["broadcast_issue", "fabric_operation", "fabric_sync", "fabric_latency", "fabric_victim"];

fn lab(words: &[&str]) -> (Option<i32>, String, String) {
    super::lab(&[&["advise"], words].concat())
}

#[track_caller]
fn written(words: &[&str]) -> String {
    let (status, text, errors) = lab(words);
    assert_eq!(status, Some(0), "{words:?}: {errors}");
    text
}

#[track_caller]
fn json(words: &[&str]) -> Value {
    let words = [words, &["--format", "json"]].concat();
    serde_json::from_str(&written(&words)).expect("JSON")
}

/// A Genoa with these prices, each in nanoseconds: its own are replaced.
fn machine(prices: &[(&str, f64)]) -> (tempfile::TempDir, String) {
    let replaced =
        |line: &&str| !prices.iter().any(|(key, _)| line.starts_with(&format!("{key} =")));
    let mut text: String = GENOA.lines().filter(replaced).map(|line| format!("{line}\n")).collect();
    let more: String = prices
        .iter()
        .map(|(key, ns)| {
            format!(
                "{key} = {{ value = {ns}, unit = \"ns\", source = \"vm\", confidence = \"R\" }}\n"
            )
        })
        .collect();
    text = text.replace("[prices]\n", &format!("[prices]\n{more}"));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("priced.toml");
    fs::write(&path, text).expect("the file can be written");
    let path = path.to_str().expect("a path").to_owned();
    (directory, path)
}

/// The advice between INVLPGB and interrupts for eight CPUs of a Genoa with these prices.
fn advised(prices: &[(&str, f64)], more: &[&str]) -> Value {
    let (_directory, machine) = machine(prices);
    let words = [
        THREADS,
        "--machine",
        &machine,
        "--cpus",
        "8",
        "--strategy",
        "linux-ipi-2025,linux-invlpgb-2025",
        "--plausible",
        "4",
    ];
    json(&[&words[..], more].concat())
}

/// That of all prices of broadcasts.
fn broadcasts(ns: f64) -> Vec<(&'static str, f64)> {
    BROADCASTS.iter().map(|&key| (key, ns)).collect()
}

#[test]
fn the_answer_follows_the_prices() {
    let dear = advised(&broadcasts(50_000.0), &[]);
    assert_eq!((&dear["verdict"], &dear["first"]), (&"take".into(), &"linux-ipi-2025".into()));
    assert!(dear["answer"].as_str().expect("a sentence").starts_with("Take interrupts"), "{dear}");
    let mut cheap = broadcasts(1.0);
    cheap.extend([("interrupt_deliver", 100_000.0), ("interrupt_entry", 100_000.0)]);
    let cheap = advised(&cheap, &[]);
    let expected = (&"take".into(), &"linux-invlpgb-2025".into());
    assert_eq!((&cheap["verdict"], &cheap["first"]), expected);
    assert_eq!(cheap["certainty"], 1.0);
    assert!(cheap["answer"].as_str().expect("a sentence").starts_with("Take INVLPGB"), "{cheap}");
}

#[test]
fn broadcasts_are_counted_and_are_those_of_invlpgb() {
    let of = advised(&[], &[]);
    let of = of["mechanisms"].as_array().expect("mechanisms");
    let broadcasts = |of: &Value| of["broadcasts_per_second"]["median"].as_f64();
    assert_eq!((&of[0]["strategy"], broadcasts(&of[0])), (&"linux-ipi-2025".into(), Some(0.0)));
    assert!(broadcasts(&of[1]) > Some(0.0), "{}", of[1]);
    let (_directory, machine) = machine(&[]);
    let text = written(&[THREADS, "--machine", &machine, "--cpus", "8", "--plausible", "4"]);
    assert!(text.contains("IPIs/s  broadcasts/s"), "{text}");
}

/// The high end of what INVLPGB takes, in multiples of the low end.
fn width(of: &Value) -> f64 {
    let mechanism = &of["mechanisms"][1];
    assert_eq!(mechanism["strategy"], "linux-invlpgb-2025");
    let end = |name: &str| mechanism["ms_per_second"][name].as_f64().expect("a number");
    end("high") / end("low")
}

#[test]
fn prices_that_nobody_has_published_widen_the_range() {
    let (known, unknown) = (advised(&broadcasts(100.0), &[]), advised(&[], &[]));
    assert!(width(&unknown) > 1.5 * width(&known), "{} {}", width(&unknown), width(&known));
    let unpriced = |of: &Value| of["unpriced"].to_string().contains("fabric_operation");
    assert!(unpriced(&unknown) && !unpriced(&known));
    // With the file's numbers they are for nothing, and no plausible machine has them so.
    let of = &unknown["mechanisms"][1];
    assert!(of["file_ms_per_second"].as_f64() < of["ms_per_second"]["low"].as_f64(), "{of}");
}

#[test]
fn a_seed_gives_the_same_bytes_and_the_certainty_is_counted() {
    let words = [THREADS, "--machine", "turin", "--cpus", "8", "--plausible", "9"];
    assert_eq!(written(&words), written(&words));
    let (one, other) = (json(&words), json(&[&words[..], &["--seed", "2"]].concat()));
    assert_ne!(one["mechanisms"], other["mechanisms"]);
    for of in [one, other] {
        let mechanisms = of["mechanisms"].as_array().expect("mechanisms");
        assert_eq!(mechanisms.len(), 3, "INVLPGB, interrupts and the library");
        let best = |of: &Value| of["best_on"].as_u64().expect("a count");
        let sum: u64 = mechanisms.iter().map(best).sum();
        assert_eq!(
            (sum + of["tied_on"].as_u64().expect("a count"), of["machines"].as_u64()),
            (9, Some(9))
        );
        let first =
            mechanisms.iter().find(|one| one["strategy"] == of["first"]).expect("it is there");
        assert_eq!(of["certainty"].as_f64(), Some(best(first) as f64 / 9.0));
        assert_eq!(mechanisms.iter().map(best).max(), Some(best(first)));
    }
}

#[test]
fn who_never_asks_another_cpu_is_told_so() {
    let (_, text, _) = lab(&[THREADS, "--machine", "turin", "--cpus", "1"]);
    assert!(text.starts_with("On one CPU no flush reaches another CPU"), "{text}");
    let one = json(&["traces/sort.trace", "--machine", "turin", "--cpus", "1"]);
    assert_eq!(one["verdict"], "one-cpu");
    // On as many CPUs as were recorded, two, no space is run by four: INVLPGB is never used.
    let two = json(&[
        "traces/sort.trace",
        "--machine",
        "genoa",
        "--strategy",
        "linux-invlpgb-2025,linux-ipi-2025",
    ]);
    assert_eq!(two["verdict"], "leave");
}

#[test]
fn why_take_is_not_said_is_on_the_page() {
    for (trace, machine, cpus, is_best) in [
        ("traces/corpus/judged/xz.trace", "milan_72cpu", "8", true),
        ("traces/threads.trace", "genoa", "4", false),
    ] {
        let of = json(&[trace, "--machine", machine, "--cpus", cpus, "--plausible", "9"]);
        assert_eq!(of["verdict"], "cannot-tell", "{of}");
        assert_eq!(of["certainty"].as_f64() >= Some(0.6), is_best, "{of}");
        let why = of["reasons"][0].as_str().expect("a reason");
        let expected = match is_best {
            true => "and is not taken: in the mean of all machines it loses",
            false => "None is taken that is not best on 60 % of the machines",
        };
        assert!(why.contains(expected), "{why}");
    }
}

/// Two processes that are given pages, and lose none.
const FAULTS: &str = "\
# tracer: nop
#
          worker-4101    (   4101) [000] .....  4223.000100: page_fault_user: address=0x7fe9457d8000 ip=0x55d0c634863e error_code=0x6
          worker-4201    (   4201) [001] .....  4223.000200: page_fault_user: address=0x7fe9457d8000 ip=0x55d0c634863e error_code=0x6
          worker-4101    (   4101) [000] .....  4223.003100: page_fault_user: address=0x7fe9457d9000 ip=0x55d0c634863e error_code=0x6
";

#[test]
fn a_trace_that_flushes_nothing_has_nothing_to_choose() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("faults.txt");
    fs::write(&path, FAULTS).expect("it can be written");
    let path = path.to_str().expect("a path");
    let none = json(&[path, "--machine", "turin"]);
    assert_eq!(none["verdict"], "no-flushes", "{none}");
    assert!(none["answer"].as_str().expect("text").contains("flushes nothing"), "{none}");
}

#[test]
fn the_page_says_what_was_assumed_and_has_forty_lines() {
    let text = written(&[THREADS, "--machine", "neoverse_v2", "--cpus", "16", "--plausible", "4"]);
    for part in [
        "hardware broadcast (linux-broadcast)",
        "2 CPUs were recorded: what they did is done by 16",
        "Refills are in none of this",
        "Flushes follow from system calls",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(text.lines().count() <= 40, "{text}");
    // A machine that is chosen for the trace is said to be.
    assert!(written(&["traces/sort.trace"]).contains("stands for it"));
}

/// On plausible machines pages are hardly accessed, since what is compared hardly depends on that: interrupts wait for
/// accesses under way.
#[test]
fn what_is_known_hardly_depends_on_accesses() {
    for trace in ["traces/compile.trace", "traces/corpus/found/shared-memory.trace"] {
        for machine in ["turin", "zen4", "neoverse_v2"] {
            let known = |more: &[&str]| -> Vec<f64> {
                let words =
                    ["replay", trace, "--machine", machine, "--cpus", "6", "--format", "json"];
                let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
                let output =
                    lab.current_dir(super::ROOT).args(words).args(more).output().expect("it runs");
                let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
                let strategies = value["strategies"].as_array().expect("strategies").iter();
                strategies.map(|one| one["known"].as_f64().expect("a time")).collect()
            };
            let (some, none) = (known(&[]), known(&["--working-set", "window=1000000"]));
            for (some, none) in some.iter().zip(&none) {
                assert!((some / none - 1.0).abs() < 0.04, "{trace} {machine}: {some} {none}");
            }
        }
    }
}

#[test]
fn a_budget_of_nothing_is_refused_in_words() {
    let (status, text, why) = lab(&["none.trace", "--budget", "0"]);
    assert!(status == Some(2) && text.is_empty(), "{why}");
    assert!(why.contains("a budget is a whole number of seconds, 1 at least"), "{why}");
    assert!(!why.contains("18446744073709551615"), "{why}");
}

#[test]
fn of_a_trace_that_takes_longer_than_the_budget_pieces_are_replayed() {
    let advised = |file: &str| {
        let machine = ["--machine", "zen5", "--cpus", "12", "--plausible", "4", "--budget", "1"];
        json(&[&[file][..], &machine].concat())
    };
    let is_said =
        |of: &Value| of["assumptions"].to_string().contains("Of the trace 64 pieces were");
    let (long, short) = (advised("traces/threads.trace"), advised("traces/sort.trace"));
    let part = long["part"].as_f64().expect("a part");
    assert!((0.01..0.9).contains(&part) && is_said(&long), "{long}");
    assert!(short["part"] == 1.0 && !is_said(&short), "{short}");
}
