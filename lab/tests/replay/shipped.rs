//! The traces of the repository: what the model does beside what the kernel counted.

use std::process::Command;

use serde_json::Value;

/// The rows of `--validate`, by name, and whether the model is within its limit.
fn validate(trace: &str) -> Vec<(String, bool)> {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    lab.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../traces"));
    let output = lab.args(["replay", trace, "--validate", "--format", "json"]).output();
    let output = output.expect("the program can be started");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = document["strategies"][0]["rows"].as_array().expect("rows").iter();
    let row = |row: &Value| Some((row["what"].as_str()?.to_owned(), row["within"].as_bool()?));
    rows.filter_map(row).collect()
}

#[track_caller]
fn holds(trace: &str, what: &[&str]) {
    let rows = validate(trace);
    for what in what {
        let found: Vec<_> = rows.iter().filter(|(name, _)| name.contains(what)).collect();
        assert!(!found.is_empty(), "{trace}: no {what} in {rows:?}");
        assert!(found.iter().all(|(_, within)| *within), "{trace}: {found:?}");
    }
}

#[test]
fn programs_with_one_thread_at_a_time_do_what_the_kernel_counted() {
    for trace in ["sort.trace", "compile.trace", "sqlite.trace"] {
        holds(trace, &["flushes, reason", "of as many pages", "switches", "requests to other"]);
    }
}

#[test]
fn threads_that_ask_each_other_all_the_time_do_what_the_kernel_counted() {
    holds(
        "threads.trace",
        &["of as many pages", "reason 1", "reason 3", "reason 4", "switches", "requests to other"],
    );
}
