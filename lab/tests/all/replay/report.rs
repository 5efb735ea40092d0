//! `lookaside replay --report` and `--perfetto`, from a trace of a live system to files.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// A small recording, of `sh`, `grep` and a program with threads.
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/tests/formats/tracefs.txt");

fn lab(trace: &Path, to: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    command.arg("replay").arg(trace).arg("--report").arg(to).args(arguments);
    command.output().expect("the program can be started")
}

#[track_caller]
fn report(to: &Path, arguments: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let output = lab(Path::new(TRACE), to, arguments);
    assert!(output.status.success(), "{output:?}");
    files(to)
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    entries.map(|path| (name(&path), fs::read(&path).expect("a file"))).collect()
}

#[track_caller]
fn refused(trace: &Path, to: &Path, arguments: &[&str]) -> String {
    let output = lab(trace, to, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).expect("messages are text")
}

fn json(files: &BTreeMap<String, Vec<u8>>) -> Value {
    serde_json::from_slice(&files["report.json"]).expect("JSON")
}

/// Who reads notes may have gone, as `head` does: the report is written all the same.
#[test]
fn a_report_is_written_where_nobody_reads_standard_error() {
    let folder = tempfile::tempdir().expect("a directory");
    let to = folder.path().join("out");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    command.arg("replay").arg(TRACE).arg("--report").arg(&to);
    command.args(["--curve", "none", "--no-sensitivity", "--plausible", "0"]);
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stderr.take());
    let status = child.wait().expect("an end");
    assert!(status.success(), "{status}");
    assert!(to.join("index.html").exists());
}

#[test]
fn two_replays_write_the_same_report() {
    let folder = tempfile::tempdir().expect("a directory");
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name).join("out"));
    let arguments = ["--curve", "1,4", "--strategy", "linux-ipi-2025,lookaside,cr3-flush"];
    let first = report(&a, &arguments);
    assert_eq!(first, report(&b, &arguments));
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    let expected = [
        "cr3-flush.stacks",
        "index.html",
        "initiators.csv",
        "linux-ipi-2025.stacks",
        "lookaside.stacks",
        "report.json",
        "scaling.csv",
        "sensitivity.csv",
        "strategies.csv",
    ];
    assert_eq!(names, expected);

    let document = json(&first);
    assert_eq!(document["question"]["subject"], "tracefs");
    assert_eq!(document["question"]["input"], "tracefs.txt");
    let command = "lookaside replay tracefs.txt --report out --curve 1,4 \
                   --strategy linux-ipi-2025,lookaside,cr3-flush";
    assert_eq!(document["question"]["command"], command);
    for (result, curve) in document["scaling"].as_array().unwrap().iter().enumerate() {
        let points = curve["points"].as_array().unwrap();
        let cpus: Vec<u64> = points.iter().map(|point| point["cpus"].as_u64().unwrap()).collect();
        assert_eq!(cpus, [1, 2, 4]);
        // The recorded number of CPUs is what was replayed anyway.
        assert_eq!(points[1]["total"], document["results"][result]["total"]);
    }
    // No place on this machine is in any of the files.
    let place = folder.path().to_str().unwrap().as_bytes();
    let told = |bytes: &Vec<u8>| bytes.windows(place.len()).any(|window| window == place);
    assert!(!first.values().any(told));
}

#[test]
fn a_report_takes_the_place_of_an_earlier_one_and_of_nothing_else() {
    let folder = tempfile::tempdir().expect("a directory");
    let to = folder.path().join("out");
    let short = ["--curve", "none", "--no-sensitivity", "--strategy", "lookaside"];
    let old = report(&to, &["--curve", "1"]);
    assert!(old.contains_key("linux-ipi-2025.stacks") && old.contains_key("scaling.csv"));
    let new: Vec<String> = report(&to, &short).into_keys().collect();
    let expected =
        ["index.html", "initiators.csv", "lookaside.stacks", "report.json", "strategies.csv"];
    assert_eq!(new, expected);

    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("scaling.csv"), "mine").unwrap();
    let why = refused(Path::new(TRACE), &other, &short);
    assert!(why.contains("holds files, and no earlier report"), "{why}");
    assert_eq!(files(&other).len(), 1);
    let forced = report(&other, &[&short[..], &["--force"]].concat());
    assert_eq!(forced["scaling.csv"], b"mine");
    assert_eq!(forced.len(), 6);
}

#[test]
fn invalid_report_options_are_refused_before_any_work() {
    let folder = tempfile::tempdir().expect("a directory");
    let (trace, to) = (Path::new(TRACE), folder.path().join("out"));
    assert!(refused(trace, &to, &["--curve", "5000"]).contains("5000 CPUs; machine `skylake_sp`"));
    assert!(refused(trace, &to, &["--curve", "0"]).contains("0 CPUs"));
    assert!(refused(trace, &to, &["--curve", "many"]).contains("`many` is no number"));
    assert!(refused(trace, &to, &["--validate"]).contains("cannot be used with"));
    assert!(refused(trace, trace, &[]).contains("tracefs.txt`"));
    assert!(!to.exists());
}

#[test]
fn sensitivity_is_by_the_numbers_of_the_machine() {
    let folder = tempfile::tempdir().expect("a directory");
    let document = json(&report(&folder.path().join("out"), &["--curve", "none"]));
    let sensitivity = &document["sensitivity"];
    assert_eq!(sensitivity["baseline"], document["results"][0]["strategy"]);
    let total = |i: usize| document["results"][i]["total"].as_f64().unwrap();
    let factor = sensitivity["factor"].as_f64().unwrap();
    assert!((factor - total(1) / total(0)).abs() < 1e-12, "{factor}");
    let swings = sensitivity["swings"].as_array().unwrap();
    assert_eq!(swings.len(), 10);
    for swing in swings {
        let number = |key: &str| swing[key].as_f64().unwrap();
        assert_eq!(number("high"), 2.0 * number("value"), "{swing}");
        assert!(number("low") <= number("value"), "{swing}");
    }
    // The first matters.
    assert_ne!(swings[0]["at_low"], swings[0]["at_high"]);
}

/// All that a report takes shares the budget: what is left out is said, in the report and, where it is missing there, beside
/// standard output.
#[test]
fn a_budget_is_of_all_replays() {
    let folder = tempfile::tempdir().expect("a directory");
    let run = |name: &str, budget: &str, more: &[&str]| {
        let to = folder.path().join(name);
        let machine = ["--machine", "zen5", "--cpus", "2", "--budget", budget];
        let output = lab(Path::new(TRACE), &to, &[&machine, more].concat());
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).expect("messages are text");
        (json(&files(&to)), String::from_utf8(output.stdout).expect("text"), said)
    };
    let notes = |document: &Value| document["assumptions"]["notes"].to_string();
    let (all, text, said) = run("all", "200", &["--curve", "1", "--plausible", "4"]);
    assert!(all["results"][0]["refills_band"].is_array() && all["sensitivity"].is_object());
    assert!(text.contains("refills, from") && text.contains("how sure this is"), "{text}");
    assert!(!notes(&all).contains("budget") && !said.contains("budget"), "{said}");

    let (none, text, said) = run("none", "0", &[]);
    assert_eq!(none["results"][0]["events"], all["results"][0]["events"]);
    assert!(none["results"][0]["refills_band"].is_null() && none["sensitivity"].is_null());
    assert_eq!(none["certainty"].as_array().unwrap().len(), 0);
    assert_eq!(none["scaling"][0]["points"].as_array().unwrap().len(), 1);
    for left_out in [
        "The replays themselves take",
        "Refills were not replayed",
        "Plausible machines were not asked",
    ] {
        assert!(notes(&none).contains(left_out) && said.contains(left_out), "{left_out}: {said}");
    }
    assert!(notes(&none).contains("The curve leaves out 1, "), "{}", notes(&none));
    assert!(notes(&none).contains("of the machine were not varied"));
    assert!(
        !text.contains("refills, from") && text.contains("and no other was replayed"),
        "{text}"
    );
    assert!(!text.contains("how sure this is"));
    // What is named is done all the same.
    let to = folder.path().join("named");
    let named = ["--machine", "zen5", "--budget", "0", "--curve", "1,4", "--plausible", "4"];
    let named = json(&report(&to, &named));
    assert_eq!(named["scaling"][0]["points"].as_array().unwrap().len(), 3);
    assert_ne!(named["certainty"].as_array().unwrap().len(), 0);
}

#[test]
fn names_of_processes_do_no_harm() {
    let folder = tempfile::tempdir().expect("a directory");
    let text = fs::read_to_string(TRACE).unwrap();
    let trace = folder.path().join("<b>`x`.txt");
    fs::write(&trace, text.replace("worker-", "<img onerror=x>-")).unwrap();
    let to = folder.path().join("out");
    let output = lab(&trace, &to, &["--curve", "none", "--no-sensitivity"]);
    assert!(output.status.success(), "{output:?}");
    let page = String::from_utf8(files(&to).remove("index.html").unwrap()).unwrap();
    assert!(page.contains("&#60;img onerror=x&#62;"), "the name is shown");
    assert!(!page.contains("<img") && !page.contains("<b>`"), "and not believed");
    assert!(page.contains("<b>&#60;b&#62;&#39;x&#39;</b>"));
}

#[test]
fn the_timeline_is_of_the_first_strategy_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("run.pftrace");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lookaside"));
        let output =
            command.args(["replay", TRACE]).args(more).output().expect("it can be started");
        assert!(output.status.success(), "{output:?}");
        output
    };
    let plain = run(&[]);
    let path = file.to_str().unwrap();
    assert_eq!(run(&["--perfetto", path]).stdout, plain.stdout);
    let whole = fs::metadata(&file).unwrap().len();
    let output = run(&["--perfetto", path, "--moments", "20"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("the latest 20 moments"));
    assert!(fs::metadata(&file).unwrap().len() < whole);
    run(&["--strategy", "lookaside,linux-ipi-2025", "--perfetto", path]);
    let both = fs::read(&file).unwrap();
    run(&["--strategy", "lookaside", "--perfetto", path]);
    assert!(both == fs::read(&file).unwrap());
}
