//! The workload files of the repository: each runs, and what is written of their predictions is what they give.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::{collections::BTreeMap, fs, path::Path};

use lookaside_simulation::{
    data::{Machine, Program, Text},
    experiment,
    workload::{self, Setup},
};

/// The workload files, in order.
fn files() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads");
    let entries = fs::read_dir(folder).expect("the repository has workloads");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let mut all: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    all.retain(|path| path.ends_with(".toml"));
    all.sort();
    all
}

/// The first machine with the first strategy of an experiment, or a machine that has few CPUs to spare.
#[test]
fn every_workload_runs() {
    let files = files();
    assert!(files.len() >= 12, "{files:?}");
    for path in &files {
        let file = workload::opened(path).unwrap_or_else(|why| panic!("{why}"));
        let first = file.program().experiment.as_ref().map(|one| &one.published[0].run);
        let machine = first.map_or("zen5", |run| &run.machine);
        let options = first.map_or_else(BTreeMap::new, |run| run.options.clone());
        let machine = Machine::named(machine).unwrap_or_else(|why| panic!("{path}: {why}"));
        let fixed = file.program().cpus.is_some();
        let setup = Setup {
            machine: &machine,
            strategy: "lookaside",
            cpus: (!fixed).then_some(4),
            x: None,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        let outcome = workload::run(path, &setup).unwrap_or_else(|why| panic!("{why}"));
        assert!(outcome.metrics.iter().any(|one| one.value > 0.0), "{path}: {outcome:?}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn predictions_are_as_written() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/predictions.md");
    let written = fs::read_to_string(page).expect("the page is there");
    let report =
        experiment::report(&files(), experiment::SEEDS).unwrap_or_else(|why| panic!("{why}"));
    for (written, report) in written.lines().zip(report.lines()) {
        assert_eq!(
            written, report,
            "write it again: cargo lab experiments workloads/*.toml --format markdown --output workloads/predictions.md"
        );
    }
    assert_eq!(written.lines().count(), report.lines().count());
    let record = experiment::RECORD.to_string();
    assert!(report.contains(&record), "`experiment::RECORD` is not what the page says: {record}");
}

/// A workload with one parameter, and what follows of it.
fn refused(text: &str) -> String {
    let text = format!(
        "about = \"a test\"\nsource = \"a paper\"\n[parameters]\nbatch = 1\n[[space]]\nname = \"a\"\npages = 8\n\
         [[threads]]\nname = \"t\"\nspace = \"a\"\nprogram = \"reclaim 0 8 batch batch\"\n{text}"
    );
    match Program::read(&Text::new("w.toml", text)) {
        Ok(_) => panic!("it was not refused"),
        Err(why) => why.0,
    }
}

#[test]
fn what_is_wrong_in_an_experiment_is_said_with_its_line() {
    let row = |row: &str| {
        let head = "hardware = \"a server\"\nrun = { machine = \"zen5\", strategy = \"lookaside\", metric = \"elapsed\" }";
        refused(&format!("[experiment]\n{head}\n[[published]]\nwhat = \"it\"\n{row}\n"))
    };
    assert!(row("").starts_with("w.toml:15: `published.value` is missing"), "{}", row(""));
    assert!(row("value = 0").contains("is not more than 0"));
    let why = row("value = 2\nrun = { bacth = 3 }");
    assert!(why.starts_with("w.toml:18: `published.run.bacth` is no key"), "{why}");
    assert!(why.contains("`batch`"), "{why}");
    assert!(row("value = 2\nrun = { cpus = 0 }").contains("from 1 to 4096"));
    assert!(row("value = 2\nover = {}\nless = {}").contains("one is enough"));
    let why = row("value = 2\nrun = { batch = 1 }\nover = {}");
    assert!(why.contains("`published.over` is the same run as `run`"), "{why}");
    let why =
        refused("[experiment]\nhardware = \"a server\"\n[[published]]\nwhat = \"it\"\nvalue = 2\n");
    assert!(why.contains("has no `machine`"), "{why}");
    assert!(
        refused("[experiment]\nhardware = \"a server\"\n").contains("has nothing `[[published]]`")
    );
    assert!(refused("[[published]]\nwhat = \"it\"\nvalue = 2\n").contains("of no `[experiment]`"));
}

fn predicted(row: &str) -> Result<f64, String> {
    predicted_of("", row)
}

/// An experiment with one row, as a file.
fn predicted_of(head: &str, row: &str) -> Result<f64, String> {
    let text = format!(
        "about = \"a test\"\nsource = \"a paper\"\n{head}[parameters]\nbatch = 1\n[[space]]\nname = \"a\"\npages = 8\nmapped = 8\n\
         [[threads]]\nname = \"t\"\nspace = \"a\"\nprogram = \"\"\"\nbegin took\nreclaim 0 8 batch batch\nend took\ncount rounds\n\"\"\"\n\
         [experiment]\nhardware = \"a server\"\nrun = {{ machine = \"zen5\", strategy = \"linux-ipi-2025\", metric = \"took\" }}\n\
         [[published]]\nwhat = \"it\"\n{row}\n"
    );
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = format!("{}/row{number}.toml", env!("CARGO_TARGET_TMPDIR"));
    fs::write(&path, text).expect("there is room");
    experiment::predict(&path, 1).map(|all| all[0].value()).map_err(|why| why.0)
}

#[test]
fn a_published_value_is_in_a_unit_that_the_metric_can_be_in() {
    let ns = predicted("value = 2\nunit = \"ns\"").unwrap();
    let us = predicted("value = 2\nunit = \"us\"").unwrap();
    assert!(ns > 100.0 && (us * 1000.0 / ns - 1.0).abs() < 1e-9, "{ns} {us}");
    let cycles = predicted("value = 2\nunit = \"cycles\"\nscale = 3").unwrap();
    assert!((cycles / ns - 3.0).abs() < 1e-9, "{cycles}");
    for (row, words) in [
        ("value = 2", "say in which `unit`"),
        ("value = 2\nunit = \"cycles\"", "say by `scale` how many cycles are one ns"),
        ("value = 2\nunit = \"1/s\"", "is ns, which cannot be in 1/s"),
        (
            "value = 2\nunit = \"us\"\nrun = { metric = \"rounds\" }",
            "is 1/s, which cannot be in us",
        ),
        ("value = 2\nunit = \"us\"\nover = { batch = 8 }", "over another has no unit"),
    ] {
        let why = predicted(row).unwrap_err();
        assert!(why.contains(words), "{row}: {why}");
    }
}

#[test]
fn what_fails_in_a_run_is_said_with_the_run() {
    let why = predicted("value = 2\nunit = \"ns\"\nrun = { batch = 0 }").unwrap_err();
    assert!(why.contains("a batch is of 1 page at least"), "{why}");
    assert!(why.ends_with("(in the run on zen5, batch = 0, for line 22)"), "{why}");
    // All ends with the thread that ends, before the other has the CPU.
    let late = "[[threads]]\nname = \"late\"\nspace = \"a\"\nprogram = \"\"\"\nforever\nwork 1 us\ndone\n\"\"\"";
    let rows = format!("value = 2\nunit = \"ns\"\n{late}");
    let why = predicted_of("time = \"1 ms\"\ncpus = 1\n", &rows).unwrap_err();
    assert!(why.contains("1 of 1 threads of `late` never ran"), "{why}");
    let why =
        predicted("value = 2\nunit = \"1/s\"\nrun = { metric = \"interrupts\" }").unwrap_err();
    assert!(why.contains("no CPU was interrupted in the whole run"), "{why}");
}
