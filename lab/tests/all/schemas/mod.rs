//! The JSON of each command fits its schema in `docs/schemas`.

#![cfg(all(feature = "checks", feature = "traces"))]

mod schema;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A schema, and the commands whose output is held against it.
const COMMANDS: &[(&str, &[&str])] = &[
    (
        "advise",
        &[
            "advise traces/sort.trace --machine turin --cpus 4 --plausible 9",
            "advise traces/sort.trace --machine neoverse_v2 --cpus 1",
        ],
    ),
    ("against-linux", &["against-linux traces/sort.trace --machine zen4,neoverse_n1"]),
    ("check", &["check pairs --rounds 1"]),
    ("check-generate", &["check --generate --steps 20000"]),
    ("diff", &["diff traces/sort.trace --with ceiling=1 --seeds 1"]),
    ("differential", &["differential --ops 1"]),
    (
        "experiments",
        &[
            "experiments workloads/mprotect-none.toml --seeds 1",
            // One value over another, which has no unit.
            "experiments workloads/context-switch1-genoa.toml --seeds 1",
        ],
    ),
    ("explain", &["explain storm/zen4/lookaside --cpus 2 --option operations=200"]),
    ("import", &["import traces/sort.trace"]),
    ("list", &["list", "list machines"]),
    ("litmus", &["litmus litmus"]),
    ("replay", &["replay traces/sort.trace", "replay traces/sort.trace --validate"]),
    ("reproduce", &["reproduce fbsd-asid-a72-latctx"]),
    (
        "run",
        &[
            "run storm --machine zen4 --strategy lookaside,linux-ipi-2025 --cpus 4 --option operations=200 --seeds 2 \
             --plausible 12",
            "run storm --machine zen4 --cpus 2 --option operations=200 --plausible 0",
            "run fresh_spaces --machine zen4 --x 4 --plausible 0",
            // There is none of the metric, and no ratio.
            "run workloads/munmap-all.toml --machine zen4 --strategy lookaside,linux-ipi-2025 --cpus 1 --metric interrupts \
             --plausible 12",
        ],
    ),
    ("what-if", &["what-if traces/sort.trace ceiling=1 --seeds 1", "what-if traces/sort.trace"]),
    ("what-if-list", &["what-if --list"]),
    ("zoo", &["zoo acknowledge-before-flush fire-and-forget"]),
];
/// Schemas of what cannot be run like this: `hunt` needs an emulator and a kernel, so a test of its own holds what it writes
/// of a report against its schema (`hunt/src/render.rs`), and `sweep` and `replay --report` write files.
const ELSEWHERE: [&str; 3] = ["hunt", "report", "sweep"];

fn lab(words: &[&str]) -> String {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    let output = lab.current_dir(ROOT).args(words).output().expect("the program can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn fits(schema: &str, text: &str) {
    let file = Path::new(ROOT).join("docs/schemas").join(format!("{schema}.json"));
    let schema = fs::read_to_string(&file).expect("the schema");
    let schema: Value = serde_json::from_str(&schema).expect("a schema is JSON");
    let value: Value = serde_json::from_str(text).expect("JSON");
    assert!(value["version"].is_u64(), "{}: no version", file.display());
    let misfits = schema::misfits(&schema, &value);
    assert!(misfits.is_empty(), "{}: {misfits:#?}", file.display());
}

#[test]
fn the_json_of_each_command_fits_its_schema() {
    for (schema, commands) in COMMANDS {
        for command in *commands {
            let words: Vec<&str> = command.split_whitespace().collect();
            fits(schema, &lab(&[&words[..], &["--format", "json"]].concat()));
        }
    }
}

#[test]
fn the_json_of_a_sweep_fits_its_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sweep.json");
    let path = file.to_str().expect("a path");
    // With 20 operations the strategies are close, so that curves may cross; one point has too many CPUs. On one CPU no strategy
    // sends an interrupt, and neither leads.
    for sweep in [
        "sweep storm --option operations=20 --over cpus=2,4,64",
        "sweep workloads/munmap-all.toml --over cpus=1,2,4 --metric interrupts",
    ] {
        let more = "--machine zen4 --strategy lookaside,linux-ipi-2025 --seeds 2 -o";
        let words = sweep.split_whitespace().chain(more.split_whitespace()).chain([path]);
        lab(&words.collect::<Vec<_>>());
        fits("sweep", &fs::read_to_string(&file).expect("the file"));
    }
}

#[test]
fn the_json_of_a_report_fits_its_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, more) in
        [("all", "--curve 1,2"), ("little", "--curve none --no-sensitivity --plausible 0")]
    {
        let to = folder.path().join(name);
        let path = to.to_str().expect("a path");
        let words = ["replay", "traces/tests/formats/tracefs.txt", "--report", path];
        lab(&words.into_iter().chain(more.split_whitespace()).collect::<Vec<_>>());
        fits("report", &fs::read_to_string(to.join("report.json")).expect("the file"));
    }
}

#[test]
fn every_schema_is_held_against_a_command() {
    let files = fs::read_dir(Path::new(ROOT).join("docs/schemas")).expect("the schemas");
    let files: BTreeSet<String> = files
        .map(|file| file.expect("a file").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let known = COMMANDS.iter().map(|(schema, _)| *schema).chain(ELSEWHERE);
    assert_eq!(files, known.map(str::to_owned).collect());
}
