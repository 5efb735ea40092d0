//! `lookaside run`, `sweep` and `experiments` of a workload file: by which metric a strategy is best, and what is refused.

use std::{
    fs,
    process::{Command, Output},
};

fn lab(arguments: &[&str]) -> Output {
    let lab = env!("CARGO_BIN_EXE_lookaside");
    Command::new(lab).args(arguments).output().expect("the program can be started")
}

/// What it says about arguments that it refuses.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).expect("messages are text")
}

/// What it writes, in one line: sentences are wrapped.
#[track_caller]
fn written(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("results are text");
    if arguments.contains(&"csv") {
        return text;
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A thread gives pages back and another writes to them, for a short time.
const WORKLOAD: &str = r#"
about = "pages are given back while another thread writes"
cpus = 4
time = "300 us"
[parameters]
pages = 16
gap = "20 us"
[[space]]
name = "go"
pages = "cpus * 64"
[[threads]]
name = "scavenger"
space = "go"
cpu = 0
program = """
forever
  begin madvise
  discard (1 + random(cpus - 1)) * 64 pages
  end madvise
  sleep gap
done
"""
[[threads]]
name = "p"
space = "go"
count = "cpus - 1"
cpu = "me + 1"
program = """
forever
  write (me + 1) * 64 + random(64) 1
  work 1 us
  count allocs
done
"""
"#;

/// A file that is there as long as its folder.
fn file(content: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("go.toml");
    fs::write(&path, content).expect("the file can be written");
    let path = path.to_str().expect("a path").to_owned();
    (folder, path)
}

/// `run` of that file with two strategies.
fn run<'a>(path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", path, "--machine", "zen4", "--strategy", "linux-ipi-2025,lookaside"];
    [&run[..], more].concat()
}

#[test]
fn the_metric_that_decides_is_named_and_can_be_chosen() {
    let (_folder, path) = file(WORKLOAD);
    let text = written(&run(&path, &["--plausible", "4"]));
    assert!(text.contains("By `allocs`, "), "{text}");
    let text = written(&run(&path, &["--plausible", "4", "--metric", "madvise"]));
    assert!(text.contains("By `madvise`, lookaside is best on 100 % of 4"), "{text}");
    assert!(!text.contains("1.00x to 1.00x"), "{text}");
    let json =
        written(&run(&path, &["--plausible", "4", "--metric", "madvise", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["certainty"]["metric"], "madvise");
    assert!(json["certainty"]["otherwise"].is_array(), "{json}");
}

#[test]
fn a_metric_that_the_workload_lacks_is_refused_before_it_runs() {
    let (_folder, path) = file(&WORKLOAD.replace("300 us", "900 ms"));
    let why = refused(&run(&path, &["--metric", "alocs"]));
    assert_eq!(why, "error: there is no metric `alocs`; did you mean `allocs`?\n");
    let sweep = ["sweep", &path, "--machine", "zen4", "--over", "pages=1,2", "--metric", "alocs"];
    assert_eq!(refused(&sweep), why);
    let storm = ["run", "storm", "--machine", "zen4", "--metric", "operation"];
    assert!(refused(&storm).contains("did you mean `operations`?"));
}

#[test]
fn so_few_plausible_machines_are_refused_as_elsewhere() {
    let (_folder, path) = file(WORKLOAD);
    for count in ["1", "3", "10001"] {
        let why = refused(&run(&path, &["--plausible", count]));
        assert_eq!(why, "error: --plausible takes 0, or 4 to 10000 machines\n");
    }
    assert!(!written(&run(&path, &["--plausible", "0"])).contains("of 4 plausible"));
}

#[test]
fn a_sweep_runs_on_the_cpus_that_are_asked_for() {
    let (_folder, path) = file(&WORKLOAD.replace("cpus = 4\n", ""));
    let sweep = ["sweep", &path, "--machine", "zen4", "--over", "pages=1,2", "--seeds", "1"];
    let text = written(&[&sweep[..], &["--cpus", "3"]].concat());
    assert!(text.contains("lookaside 1 3 ") && text.contains("lookaside 2 3 "), "{text}");
    assert!(
        refused(&[&sweep[..], &["--cpus", "999"]].concat()).contains("999 CPUs; machine `zen4`")
    );
}

/// The rows of a table for spreadsheets, without its header.
fn rows(text: &str) -> Vec<Vec<String>> {
    let line = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().skip(1).map(line).collect()
}

#[test]
fn a_table_for_spreadsheets_has_plain_numbers() {
    let (_folder, path) = file(WORKLOAD);
    for plausible in ["0", "4"] {
        let text = written(&run(&path, &["--plausible", plausible, "--format", "csv"]));
        for row in rows(&text) {
            let numbers: Result<Vec<f64>, _> =
                row[3..].iter().filter(|cell| !cell.is_empty()).map(|cell| cell.parse()).collect();
            assert!(numbers.is_ok(), "{row:?}");
        }
    }
}

#[test]
fn a_file_that_is_named_twice_counts_once() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads");
    let [one, other] =
        ["getppid.toml", "../workloads/getppid.toml"].map(|name| format!("{folder}/{name}"));
    let of = |files: &[&str]| {
        let more = ["--seeds", "1", "--format", "csv"];
        String::from_utf8(lab(&[&["experiments"], files, &more].concat()).stdout).expect("text")
    };
    let once = of(&[&one]);
    assert_eq!(of(&[&one, &other, &one]), once);
    assert!(once.starts_with("file,what,unit,published,"), "{once}");
    assert!(once.contains(",ns,"), "the unit has a column of its own: {once}");
}

#[test]
fn what_is_refused_says_what_to_do() {
    let storm = ["run", "storm", "--machine", "zen5"];
    let why = refused(&[&storm[..], &["--option", "think=5us"]].concat());
    assert!(
        why.contains("`5us` is not a number; a time of a workload file or a price is in ns: 5000"),
        "{why}"
    );
    let why = refused(&[&storm[..], &["--option", "think=five"]].concat());
    assert!(why.contains("`five` is not a number") && !why.contains(" in ns"), "{why}");
    let why = refused(&["run", "tlb_flush2", "--machine", "zen5"]);
    assert!(why.contains("has no path `iteration`, which this needs; "), "{why}");
    let has = lookaside_simulation::data::machines().find(|key| {
        let machine = lookaside_simulation::data::Machine::named(key).expect("a machine");
        machine.paths.contains_key("iteration")
    });
    assert!(why.contains(has.expect("a machine has it")), "{why}");
    let help = written(&["run", "--help"]);
    assert!(help.contains("The workload: the path of a file, or a name"), "{help}");
    assert!(help.contains("show the median; with `--plausible 0` the extremes too"), "{help}");
}

#[cfg(feature = "traces")]
#[test]
fn a_budget_of_nothing_is_refused_in_words() {
    let why = refused(&["advise", "none.trace", "--budget", "0"]);
    assert!(why.contains("a budget is a whole number of seconds, 1 at least"), "{why}");
    assert!(!why.contains("18446744073709551615"), "{why}");
}
