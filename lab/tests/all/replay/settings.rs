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

/// Twice as many CPUs do twice the work: that is no loss.
#[test]
fn other_numbers_of_cpus_are_compared_by_shares() {
    let words = [
        "what-if",
        "traces/threads.trace",
        "cpus=8",
        "--machine",
        "zen4",
        "--seeds",
        "1",
        "--plausible",
        "4",
    ];
    let of = json(&words);
    assert_eq!(of["certainty"]["metric"], "share");
    let change = |key: &str, side: &str| of["difference"][key][side]["median"].as_f64().unwrap();
    let [time, share] =
        ["known", "known_share"].map(|key| change(key, "after") / change(key, "before"));
    let cpus = time / share;
    assert!(cpus > 1.5, "{cpus}");
    let gain = &of["certainty"]["gain"];
    assert!(gain[2].as_f64() < Some(cpus.max(time)), "{gain} is not of the times, {time}");
    let (_, rows) = csv(&words);
    let share = row(&rows, &["plausible", "share", ""]);
    assert!(number(&share[4]) < 1.0 && number(&share[7]) < 1.0, "{share:?}");
    let (_, text, _) = lab(&words);
    assert!(!text.contains("the recorded settings is"), "{text}");
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
        (
            &["what-if", "thp=on"],
            "`thp=on` is a knob, and a trace is named first: lookaside what-if TRACE",
        ),
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
fn the_knobs_are_listed_in_the_form_that_is_asked_for() {
    let of = |form: &str| {
        let (status, text, errors) = lab(&["what-if", "--list", "--format", form]);
        assert_eq!(status, Some(0), "{errors}");
        text
    };
    assert!(of("csv").starts_with("knob,in Linux\nceiling=N,"), "{}", of("csv"));
    assert!(of("markdown").starts_with("| knob"), "{}", of("markdown"));
    let json: Value = serde_json::from_str(&of("json")).expect("JSON");
    assert_eq!((&json["version"], &json["knobs"][0]["knob"]), (&1.into(), &"ceiling=N".into()));
}

#[test]
fn a_recording_that_is_named_twice_on_a_side_is_refused() {
    for first in ["traces/sort.trace,traces/sort.trace", "traces/sort.trace,./traces/sort.trace"] {
        let (status, _, why) = lab(&["diff", first, "traces/threads.trace"]);
        assert_eq!(status, Some(2), "{why}");
        assert!(why.contains("sort.trace` is named twice"), "{why}");
    }
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

#[cfg(target_os = "linux")]
#[test]
fn shells_complete_what_is_for_users() {
    for shell in ["bash", "zsh", "fish"] {
        let (status, text, errors) = lab(&["completions", shell]);
        assert_eq!(status, Some(0), "{errors}");
        assert!(text.contains("what-if") && !text.contains("record-part"), "{shell}");
        assert!(!text.contains("record__part") && text.contains("version"), "{shell}");
    }
}

/// A table for programs: the names of its columns, and its rows.
fn csv(words: &[&str]) -> (String, Vec<Vec<String>>) {
    let (status, text, errors) = lab(&[words, &["--format", "csv"]].concat());
    assert_eq!(status, Some(0), "{words:?}: {errors}");
    let mut lines = text.lines();
    let header = lines.next().expect("a header").to_owned();
    let rows = lines.map(|line| line.split(',').map(str::to_owned).collect()).collect();
    (header, rows)
}

/// The row of a table that begins so.
#[track_caller]
fn row<'r>(rows: &'r [Vec<String>], begin: &[&str]) -> &'r [String] {
    let found = rows.iter().find(|row| row.iter().zip(begin).all(|(cell, name)| cell == name));
    found.unwrap_or_else(|| panic!("{begin:?} is in none of {rows:?}"))
}

fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|_| panic!("{cell:?} is no number"))
}

#[test]
fn the_tables_of_settings_have_one_unit_of_time_and_say_what_plausible_machines_do() {
    let trace = "traces/threads.trace";
    let more = ["--seeds", "1", "--plausible", "4"];
    let value = json(&[&["what-if", trace], &more[..]].concat());
    let (header, rows) = csv(&[&["what-if", trace], &more[..]].concat());
    assert_eq!(header, "knob,known_ps_per_s,known_share,refills_ps_per_s,best_on,machines,turned");
    let best = value["best"].as_str().expect("a knob");
    let first = &value["knobs"][0]["difference"];
    let now = row(&rows, &["as recorded"]);
    let then = row(&rows, &[best]);
    // Both are printed with as many digits as tell a number from its neighbours; the readers of JSON and CSV round for themselves.
    let is_same = |cell: &str, value: &Value| {
        let (cell, value) = (number(cell), value.as_f64().expect("a number"));
        assert!((cell - value).abs() <= value.abs() * 1e-12, "{cell} in CSV, {value} in JSON");
    };
    is_same(&now[1], &first["known"]["before"]["median"]);
    is_same(&then[1], &first["known"]["after"]["median"]);
    is_same(&then[2], &first["known_share"]["after"]["median"]);
    assert_eq!(then[4], value["certainty"]["strategies"][1]["best_on"].to_string());
    assert_eq!((then[5].as_str(), now[5].as_str()), ("4", ""), "the best alone was asked of");
    // The same knob by itself, in the same unit.
    let (header, alone) = csv(&[&["what-if", trace, best], &more[..]].concat());
    let ends = "before,before_low,before_high,after,after_low,after_high";
    assert_eq!(header, format!("table,row,operation,unit,{ends}"));
    let known = row(&alone, &["time", "known", "", "ps/s"]);
    assert_eq!([&known[4], &known[7]], [&now[1], &then[1]]);
    let plausible = row(&alone, &["plausible", "time", "", "ps/s"]);
    let of = &value["certainty"]["strategies"][0]["intervals"][0];
    assert_eq!(number(&plausible[4]), of[1].as_f64().expect("ms") * 1e9, "ms a second in JSON");
    assert!(number(&plausible[5]) < number(&plausible[4]));
    assert_eq!(row(&alone, &["plausible", "machines"])[4], "4");
    assert_eq!(row(&alone, &["plausible", "best_on"])[7], then[4]);
}

#[test]
fn knobs_are_in_the_order_of_what_is_known() {
    let value = json(&["what-if", "traces/threads.trace", "--seeds", "1", "--plausible", "0"]);
    let knobs = value["knobs"].as_array().expect("knobs");
    let known = |of: &Value| of["difference"]["known"].clone();
    let rank = |of: &Value| {
        let [before, after] = ["before", "after"].map(|side| known(of)[side].clone());
        let end = |spread: &Value, end: &str| spread[end].as_f64().expect("ps");
        let is_same = end(&before, "high") >= end(&after, "low")
            && end(&after, "high") >= end(&before, "low");
        end(if is_same { &before } else { &after }, "median")
    };
    // The library, which nobody who looks after a machine can turn on, is last and not the best.
    let (library, knobs) = knobs.split_last().expect("knobs");
    assert_eq!(library["knob"], "strategy=lookaside");
    assert!(rank(library) < rank(&knobs[0]), "here it is better than all knobs");
    assert!(knobs.iter().map(rank).is_sorted(), "{:?}", knobs.iter().map(rank).collect::<Vec<_>>());
    assert_eq!(value["best"], knobs[0]["knob"]);
    let answer = value["answer"].as_str().expect("a sentence");
    assert!(answer.contains(&format!("; with {} it would be", knobs[0]["knob"].as_str().unwrap())));
    assert!(answer.contains("Under the library in place of Linux's flushes, which is no knob"));
    assert_eq!(value["turned"], Value::Null, "none were asked");
    // Were refills counted, the order would be another.
    let refills = |of: &Value| {
        let causes = of["difference"]["causes"].as_array().expect("causes");
        let of = causes.iter().find(|cause| cause["what"][0] == "refills").expect("refills");
        of["after"]["median"].as_f64().expect("ps")
    };
    assert!(!knobs.iter().map(|of| rank(of) + refills(of)).is_sorted());
    let (_, text, _) =
        lab(&["what-if", "traces/threads.trace", "--seeds", "1", "--plausible", "0"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("of the knobs of Linux the least first, and of the same (`~`) the one with")
            && text.contains("the library, no knob"),
        "{text}"
    );
}

#[test]
fn an_order_that_turns_is_in_every_format() {
    let with = ["--with", "strategy=lookaside", "--seeds", "1"];
    let on = ["traces/sort.trace", "--machine", "genoa", "--plausible", "4"];
    let diff = [&["diff"], &on[..], &with[..]].concat();
    let turned = json(&diff)["turned"].as_str().expect("a sentence").to_owned();
    assert!(turned.contains("the order turns: the least is under the recorded settings on 3 of 4"));
    let (_, rows) = csv(&diff);
    assert_eq!(row(&rows, &["plausible", "turned"])[4], "1");
    assert_eq!(row(&rows, &["time", "known", "", "ps"])[0], "time", "per recording");
    let what_if = [&["what-if"], &on[..], &["strategy=lookaside", "--seeds", "1"]].concat();
    assert_eq!(json(&what_if)["turned"], turned);
    let (_, rows) = csv(&what_if);
    assert_eq!(row(&rows, &["plausible", "turned"])[7], "1");
    let strategies = ["--strategy", "linux-invlpgb-2025,lookaside"];
    let replay = [&["replay"], &on[..], &strategies[..]].concat();
    let value = json(&replay);
    assert!(value["turned"].as_str().expect("a sentence").contains("the order turns"));
    let (_, rows) = csv(&replay);
    assert_eq!(row(&rows, &["lookaside", "plausible", "order", "turned"])[4], "1");
    // The shares of both figures, by name.
    let of = &value["strategies"][1];
    assert!(of["known_share"].as_f64() < of["total_share"].as_f64(), "{of}");
    let ratio = |key: &str| of[key].as_f64().expect("picoseconds");
    let first = value["strategies"][0]["known"].as_f64().expect("picoseconds");
    assert!((ratio("known_ratio") / (ratio("known") / first) - 1.0).abs() < 1e-12, "{of}");
}

/// What a side is called: its file, with as much of the path as tells it from the other, and its settings.
#[test]
fn sides_have_the_names_that_tell_them_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/sort.trace");
    let [one, other] = ["a", "b"].map(|name| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).expect("a folder in it");
        let path = folder.join("sort.trace");
        std::fs::copy(trace, &path).expect("a copy");
        path.display().to_string()
    });
    let sides = |words: &[&str]| {
        let more = ["--seeds", "1", "--plausible", "0"];
        let value = json(&[&["diff"], words, &more].concat());
        [&value["before"], &value["after"]].map(|side| side.as_str().expect("a name").to_owned())
    };
    let compile = "traces/compile.trace";
    assert_eq!(sides(&[&one, compile]), ["sort.trace", "compile.trace"]);
    assert_eq!(sides(&[&one, &other]), [one.as_str(), &other], "both files have one name");
    let with = ["--against", "ceiling=8", "--with", "ceiling=1,thp=on"];
    assert_eq!(sides(&[&[trace], &with[..]].concat()), ["ceiling=8", "ceiling=1 thp=on"]);
    assert_eq!(sides(&[trace, "--with", "thp=on"]), ["as recorded", "thp=on"]);
    let both = sides(&[&one, compile, "--with", "ceiling=1"]);
    assert_eq!(both, ["sort.trace", "compile.trace, ceiling=1"]);
    let several = format!("{one},{other}");
    assert_eq!(sides(&[&several, &other])[0], "sort.trace,sort.trace");
}
