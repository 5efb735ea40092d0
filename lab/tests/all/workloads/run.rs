//! `lookaside run`: by which metric a strategy is best, and what is refused.

use super::{COLLECTOR, REMARK, WORKLOAD, file, refused, written};

/// `run` of a file with two strategies.
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
fn a_metric_that_no_thread_came_to_has_a_remark_in_the_csv_of_a_run() {
    let (_folder, file) = file(COLLECTOR);
    let csv = written(&["run", &file, "--machine", "zen4", "--plausible", "0", "--format", "csv"]);
    let of = |metric: &str| csv.lines().find(|line| line.starts_with(metric)).expect("its row");
    assert!(csv.lines().next().is_some_and(|header| header.ends_with(",remark")), "{csv}");
    assert!(of("gc,").contains(REMARK), "{csv}");
    assert!(of("rounds,").ends_with(','), "{csv}");
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
