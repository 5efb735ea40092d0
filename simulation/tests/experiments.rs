//! The workload files of the repository: each runs, and what is written of their predictions is what they give.

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
    let why =
        refused("[experiment]\nhardware = \"a server\"\n[[published]]\nwhat = \"it\"\nvalue = 2\n");
    assert!(why.contains("has no `machine`"), "{why}");
    assert!(
        refused("[experiment]\nhardware = \"a server\"\n").contains("has nothing `[[published]]`")
    );
    assert!(refused("[[published]]\nwhat = \"it\"\nvalue = 2\n").contains("of no `[experiment]`"));
}
