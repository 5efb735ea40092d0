//! `lookaside diff` and `lookaside what-if` on the traces of the repository.

use serde_json::Value;

use super::lab;

fn json(words: &[&str]) -> Value {
    let (status, text, errors) = lab(&[words, &["--format", "json"]].concat());
    assert_eq!(status, Some(0), "{words:?}: {errors}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_knob_changes_what_it_is_about() {
    let value = json(&["what-if", "traces/threads.trace", "ceiling=0", "--seeds", "1"]);
    let reasons = value["difference"]["reasons"].as_array().expect("reasons");
    let row = |name: &str| reasons.iter().find(|row| row["what"][0] == name).expect("a row");
    let pages = row("pages flushed one by one");
    assert!(
        pages["before"]["median"].as_f64() > Some(0.0) && pages["after"]["median"] == 0.0,
        "{pages}"
    );
    assert!(value["answer"].as_str().expect("a sentence").contains("with ceiling=0"));
}

#[test]
fn plausible_machines_are_asked_of_settings() {
    let words =
        ["what-if", "traces/threads.trace", "ceiling=0", "--seeds", "1", "--plausible", "4"];
    let of = &json(&words)["certainty"];
    assert_eq!((&of["machines"], of["strategies"].as_array().map(Vec::len)), (&4.into(), Some(2)));
    let best: u64 = of["strategies"]
        .as_array()
        .expect("two")
        .iter()
        .map(|one| one["best_on"].as_u64().expect("a count"))
        .sum();
    assert_eq!(best + of["tied_on"].as_u64().expect("a count"), 4);
    // Each page is flushed by a flush of everything: that is another time on each of the machines.
    let side = |i: usize| of["strategies"][i]["intervals"][0].as_array().expect("an interval");
    assert_ne!(side(0), side(1));
    assert!(side(0)[0].as_f64() < side(0)[2].as_f64());
    let (_, text, _) = lab(&words);
    assert!(
        text.contains("how sure this is") && text.contains("of 4 plausible machines"),
        "{text}"
    );
    let none = json(&[&words[..5], &["--plausible", "0"]].concat());
    assert_eq!(none["certainty"], Value::Null);
    let (status, _, why) = lab(&[&words[..5], &["--plausible", "3"]].concat());
    assert!(status == Some(2) && why.contains("0, or 4 to 10000 machines"), "{why}");
}

/// The trace is of a guest, the machines are not, and one has INVLPGB.
#[test]
fn all_commands_take_the_same_strategy_of_linux() {
    for machine in ["genoa", "skylake_sp", "kvm_guest_amit2022"] {
        let asked = |words: &[&str]| json(&[words, &["--machine", machine]].concat());
        let what_if = asked(&["what-if", "traces/sort.trace", "ceiling=8", "--seeds", "1"]);
        let replay = asked(&["replay", "traces/sort.trace"]);
        assert_eq!(what_if["strategies"][0], replay["strategies"][0]["strategy"], "{machine}");
    }
}

#[test]
fn two_recordings_are_compared_as_the_kernel_counted() {
    let value = json(&["diff", "traces/sort.trace", "traces/sort.trace", "--seeds", "1"]);
    let all = ["causes", "reasons", "initiators"]
        .map(|table| value["difference"][table].as_array().cloned());
    for change in all.into_iter().flatten().flatten() {
        assert_eq!(change["before"], change["after"], "the same recording");
    }
    assert_eq!(value["difference"]["per"], "run");
    let (status, text, errors) =
        lab(&["diff", "traces/sort.trace", "traces/compile.trace", "--seeds", "1"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(
        text.contains("as the kernel counted") && text.contains("The largest change that way is"),
        "{text}"
    );
}

#[test]
fn bad_input_is_refused_in_a_sentence() {
    for (words, why) in [
        (
            &["what-if", "traces/sort.trace", "thq=on"][..],
            "there is no knob `thq`: there are ceiling=N",
        ),
        (&["what-if", "traces/sort.trace", "thp"], "one is NAME=VALUE"),
        (&["what-if", "traces/none.trace", "thp=on"], "cannot be read"),
        (&["what-if", "traces/sort.trace", "cpus=100000"], "CPUs; machine"),
        (&["diff", "traces/sort.trace", "--with", "strategy=nothing"], "no strategy `nothing`"),
    ] {
        let (status, _, errors) = lab(words);
        assert_eq!(status, Some(2), "{words:?}: {errors}");
        assert!(errors.contains(why) && errors.trim().lines().count() == 1, "{words:?}: {errors}");
    }
    let (status, text, _) = lab(&["what-if", "--list"]);
    assert!(status == Some(0) && text.contains("tlb_single_page_flush_ceiling"), "{text}");
}

#[test]
fn completions_and_pages_name_every_command_that_is_shown() {
    let (status, text, _) = lab(&["completions", "bash"]);
    assert_eq!(status, Some(0));
    let folder = tempfile::tempdir().expect("a folder");
    let (status, _, errors) = lab(&["man", folder.path().to_str().expect("text")]);
    assert_eq!(status, Some(0), "{errors}");
    for command in ["replay", "import", "diff", "what-if", "reproduce"] {
        assert!(text.contains(command), "{command}");
        assert!(folder.path().join(format!("lookaside-{command}.1")).exists(), "{command}");
    }
    assert!(!folder.path().join("lookaside-record-part.1").exists(), "it is no command for people");
}
