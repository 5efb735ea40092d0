//! What `lookaside sweep` and `run` write of metrics that are 0, of columns that would have one name, and of large seeds.

use std::{fs, path::Path, process::Command};

fn written(arguments: &[&str]) -> String {
    let lab = env!("CARGO_BIN_EXE_lookaside");
    let output = Command::new(lab).args(arguments).output().expect("the program can be started");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("results are text")
}

/// A thread that keeps the CPU, another that never gets it, and parameters with names of columns.
const WORKLOAD: &str = r#"
about = "a collector that never runs"
cpus = 2
time = "2 ms"
[parameters]
median = 1
least = 1
[[space]]
name = "app"
pages = "median * least * 64"
[[threads]]
name = "busy"
space = "app"
count = 1
cpu = 0
program = """
forever
  work 5 us
  count rounds
done
"""
[[threads]]
name = "collector"
space = "app"
count = 1
cpu = 0
program = """
forever
  work 5 us
  count gc
done
"""
"#;

/// A folder with the workload in it, and its path.
fn workload() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("heap.toml");
    fs::write(&path, WORKLOAD).expect("the file can be written");
    let path = path.to_str().expect("a path").to_owned();
    (folder, path)
}

/// What the files of a sweep have in them, in the order of their endings, and what is printed.
fn swept(folder: &Path, arguments: &[&str], endings: &[&str]) -> (Vec<Vec<u8>>, String) {
    let files: Vec<String> = endings
        .iter()
        .map(|ending| folder.join(format!("out.{ending}")).display().to_string())
        .collect();
    let outputs = files.iter().flat_map(|file| ["-o", file.as_str()]);
    let words: Vec<&str> =
        ["sweep"].into_iter().chain(arguments.iter().copied()).chain(outputs).collect();
    let text = written(&words);
    // Cells are wrapped.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (files.iter().map(|file| fs::read(file).expect("the file")).collect(), text)
}

const REMARK: &str = "`gc` is 0 as no thread came to it";

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn a_metric_that_no_thread_came_to_has_a_remark_in_every_form_of_a_sweep() {
    let (folder, file) = workload();
    let words =
        [&*file, "--machine", "zen4", "--over", "median=1,2", "--metric", "gc", "--seeds", "2"];
    let (files, text) = swept(folder.path(), &words, &["csv", "json", "parquet", "html"]);
    assert!(text.contains(REMARK), "{text}");
    for (content, form) in files.iter().zip(["CSV", "JSON", "Parquet", "HTML"]) {
        assert!(has(content, REMARK), "{form}");
    }
    let json: serde_json::Value = serde_json::from_slice(&files[1]).expect("JSON");
    let point = &json["points"][0];
    assert_eq!(point["samples"], serde_json::json!([0.0, 0.0]));
    assert!(point["problem"].as_str().is_some_and(|text| text.contains(REMARK)), "{point}");
    // What a thread came to needs none.
    let words = words.map(|word| if word == "gc" { "rounds" } else { word });
    let (files, text) = swept(folder.path(), &words, &["csv"]);
    assert!(!text.contains("no thread") && !has(&files[0], "no thread"), "{text}");
}

#[test]
fn a_metric_that_no_thread_came_to_has_a_remark_in_the_csv_of_a_run() {
    let (_folder, file) = workload();
    let csv = written(&["run", &file, "--machine", "zen4", "--plausible", "0", "--format", "csv"]);
    let of = |metric: &str| csv.lines().find(|line| line.starts_with(metric)).expect("its row");
    assert!(csv.lines().next().is_some_and(|header| header.ends_with(",remark")), "{csv}");
    assert!(of("gc,").contains(REMARK), "{csv}");
    assert!(of("rounds,").ends_with(','), "{csv}");
}

#[test]
fn no_two_columns_of_a_sweep_have_one_name() {
    let (folder, file) = workload();
    for over in ["median", "least"] {
        let values = format!("{over}=1,2");
        let words = [&*file, "--machine", "zen4", "--over", &values, "--seeds", "1"];
        let (files, _) = swept(folder.path(), &words, &["csv", "parquet"]);
        let csv = String::from_utf8(files[0].clone()).expect("text");
        let header = csv.lines().next().expect("a header");
        assert!(header.starts_with("machine,strategy,x,CPUs,"), "{header}");
        assert!(has(&files[1], "x") && !has(&files[1], over), "{over}: one rule for both");
    }
}

#[test]
fn on_one_cpu_nobody_leads_by_interrupts_and_no_curve_crosses() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/munmap-all.toml");
    let words = "--machine zen4 --over cpus=1,2 --strategy lookaside,linux-ipi-2025 --metric interrupts --seeds 1";
    let words = ["sweep", file].into_iter().chain(words.split_whitespace());
    let text = written(&words.collect::<Vec<_>>());
    assert!(!text.contains("NaN") && text.contains("No two curves of a machine cross."), "{text}");
}

#[cfg(feature = "traces")]
#[test]
fn the_knobs_are_listed_in_the_form_that_is_asked_for() {
    let of = |form: &str| written(&["what-if", "--list", "--format", form]);
    assert!(of("csv").starts_with("knob,in Linux\nceiling=N,"), "{}", of("csv"));
    assert!(of("markdown").starts_with("| knob"), "{}", of("markdown"));
    let json: serde_json::Value = serde_json::from_str(&of("json")).expect("JSON");
    assert_eq!((&json["version"], &json["knobs"][0]["knob"]), (&1.into(), &"ceiling=N".into()));
}

#[cfg(feature = "traces")]
#[test]
fn a_recording_that_is_named_twice_on_a_side_is_refused() {
    let lab = env!("CARGO_BIN_EXE_lookaside");
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces");
    let [sort, again, threads] =
        ["sort.trace", "./sort.trace", "threads.trace"].map(|name| format!("{traces}/{name}"));
    for (first, second) in
        [(format!("{sort},{sort}"), &threads), (format!("{sort},{again}"), &threads)]
    {
        let output = Command::new(lab).args(["diff", &first, second]).output().expect("it starts");
        let why = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{why}");
        assert!(why.contains("sort.trace` is named twice"), "{why}");
    }
}

#[cfg(all(feature = "traces", target_os = "linux"))]
#[test]
fn shells_complete_what_is_for_users() {
    for shell in ["bash", "zsh", "fish"] {
        let text = written(&["completions", shell]);
        assert!(text.contains("what-if") && !text.contains("record-part"), "{shell}");
        assert!(!text.contains("record__part") && text.contains("version"), "{shell}");
    }
}

#[cfg(feature = "traces")]
#[test]
fn a_replay_refuses_what_it_cannot_compare_and_what_is_given_twice() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/sort.trace");
    for (more, words) in [
        (
            ["--validate", "--machine=neoverse_n1"],
            "`--validate` needs a machine of x86, and `neoverse_n1` is none",
        ),
        (
            ["--machine=zen4", "--working-set=hot=1,hot=2"],
            "part `hot` of the working set is given twice",
        ),
    ] {
        let lab = env!("CARGO_BIN_EXE_lookaside");
        let output =
            Command::new(lab).args(["replay", trace]).args(more).output().expect("it starts");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && why.contains(words), "{why}");
        assert!(!why.contains("linux-ipi"), "{why}");
    }
}
