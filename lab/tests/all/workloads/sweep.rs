//! `lookaside sweep`: what it writes of metrics that are 0, and of columns that would have one name.

use std::{fs, path::Path};

use super::{COLLECTOR, REMARK, WORKLOAD, file, refused, written};

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
    (files.iter().map(|file| fs::read(file).expect("the file")).collect(), text)
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
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

#[test]
fn a_metric_that_no_thread_came_to_has_a_remark_in_every_form_of_a_sweep() {
    let (folder, file) = file(COLLECTOR);
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
fn no_two_columns_of_a_sweep_have_one_name() {
    let (folder, file) = file(COLLECTOR);
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
