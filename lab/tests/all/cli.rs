//! The command line: what it refuses, what it writes, and that it writes the same each time.

use std::fs;

use crate::program::{self, lab, written};

/// The line that it says about arguments that it refuses.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let text = program::refused(arguments);
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

/// A machine with four CPUs, as a file.
const MACHINE: &str = r#"
name = "made up"
isa = "x86_64"
[topology]
cores_per_cluster = { value = 4, unit = "cores", source = "s", confidence = "R" }
[features]
tag_bits = { value = 12, unit = "bits", source = "s", confidence = "R" }
[tlb]
first = { value = 64, unit = "entries", source = "s", confidence = "R" }
[prices]
line_cluster = { value = 20, unit = "ns", source = "s", confidence = "R" }
root = { value = 100, unit = "ns", source = "s", confidence = "R" }
[sources]
s = "nobody"
"#;

/// The path of such a file, which is there as long as the directory.
fn machine() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("four.toml");
    fs::write(&path, MACHINE).expect("the file can be written");
    let path = path.to_str().expect("a path").to_owned();
    (directory, path)
}

#[test]
fn names_that_do_not_exist_are_refused_with_the_nearest() {
    let (_directory, machine) = machine();
    let run = |more: &[&str]| refused(&[&["run"], more, &["--machine", &machine]].concat());
    assert_eq!(
        run(&["fresh_space"]),
        "error: there is no workload `fresh_space`; did you mean `fresh_spaces`?"
    );
    assert_eq!(
        run(&["fresh_spaces", "--strategy", "lokaside"]),
        "error: there is no strategy `lokaside`; did you mean `lookaside`?"
    );
    assert_eq!(
        run(&["fresh_spaces", "--option", "space=3"]),
        "error: workload `fresh_spaces`: there is no option `space`; did you mean `spaces`?"
    );
    assert_eq!(run(&["pingpong", "--x", "3"]), "error: workload `pingpong` has no x");
    assert!(refused(&["run", "pingpong", "--machine", "zzz"]).contains("no machine `zzz`"));
    assert!(refused(&["reproduce", "zzzzzzzz"]).contains("there is no result `zzzzzzzz`"));
    assert!(refused(&["reproduce", "--machine", "zzz"]).contains("no machine `zzz`"));
    assert!(refused(&["explain", "zzzzzzzz"]).contains("there is no result `zzzzzzzz`"));
    assert!(refused(&["explain", "a/b"]).contains("WORKLOAD/MACHINE/STRATEGY"));
    assert!(refused(&["explain", "pingpong/zzz/lookaside"]).contains("no machine `zzz`"));
    assert!(refused(&["fit", "zzz"]).contains("no machine `zzz`"));
}

#[test]
fn more_cpus_than_the_machine_has_are_refused_with_the_limit() {
    let (_directory, machine) = machine();
    for cpus in ["5", "0"] {
        let expected = format!("error: {cpus} CPUs; machine `four` has 4");
        let run = ["run", "fresh_spaces", "--machine", &machine, "--cpus", cpus];
        assert_eq!(refused(&run), expected);
        let explained = format!("fresh_spaces/{machine}/lookaside");
        assert_eq!(refused(&["explain", &explained, "--cpus", cpus]), expected);
    }
}

#[test]
fn a_machine_may_have_another_number_of_sockets() {
    let (_directory, machine) = machine();
    let storm = ["run", "storm", "--machine", &machine, "--cpus", "8", "--plausible", "0"];
    let options = ["--option", "operations=200"];
    assert!(refused(&[&storm[..], &options].concat()).contains("`four` has 4"));
    let text = written(&[&storm[..], &options, &["--sockets", "2"]].concat());
    assert!(text.contains("four, sockets: 2"), "{text}");
    let line = ["--sockets", "0 1 2; 1 0 1; 2 1 0"];
    let text = written(&[&storm[..], &options, &line].concat());
    assert!(text.contains("four, sockets: 3 (0 1 2; 1 0 1; 2 1 0)"), "{text}");
    assert!(text.contains("a further link between sockets"), "{text}");
    let sweep = ["sweep", "storm", "--machine", &machine, "--over", "cpus=8", "--seeds", "1"];
    let text = written(&[&sweep[..], &options, &["--sockets", "2"]].concat());
    assert!(text.contains("four, sockets: 2"), "{text}");
}

#[test]
fn a_machine_file_that_is_wrong_is_refused_with_its_line() {
    let (directory, machine) = machine();
    let file = directory.path().join("wrong.toml");
    fs::write(&file, MACHINE.replace("value = 20", "value = -20")).expect("a file");
    let text = refused(&["run", "fresh_spaces", "--machine", file.to_str().expect("a path")]);
    assert!(text.contains("wrong.toml:11: "), "{text}");
    assert!(text.contains("line_cluster"), "{text}");
    drop(machine);
}

#[test]
fn two_runs_are_the_same_byte_by_byte() {
    let (_directory, machine) = machine();
    let name = format!("fresh_spaces/{machine}/lookaside");
    let run = ["run", "fresh_spaces", "--machine", &machine, "--seeds", "3", "--x", "4"];
    let explain = ["explain", &name, "--x", "4"];
    for arguments in [&run[..], &explain[..]] {
        for format in ["table", "json", "csv", "markdown"] {
            let arguments = [arguments, &["--format", format]].concat();
            assert_eq!(written(&arguments), written(&arguments), "{arguments:?}");
        }
    }
}

#[test]
fn all_of_reproduce_is_the_same_byte_by_byte() {
    // Whether it succeeds is for the tests of the results.
    let [a, b] = [(); 2].map(|()| lab(&["reproduce", "--format", "json"]));
    assert_eq!(a.status.code(), b.status.code());
    assert!(!a.stdout.is_empty() && a.stdout == b.stdout);
}

#[test]
fn tables_fit_on_a_screen() {
    let (_directory, machine) = machine();
    let explained = written(&["explain", &format!("fresh_spaces/{machine}/lookaside")]);
    let run = written(&["run", "fresh_spaces", "--machine", &machine, "--option", "spaces=3"]);
    let reproduced =
        String::from_utf8(program::reproduced().stdout.clone()).expect("results are text");
    for text in [written(&["list"]), explained, run, reproduced] {
        let long = text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None);
    }
}

#[test]
fn a_file_is_written_as_a_whole_or_not_at_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("list.json");
    let path = file.to_str().expect("a path");
    let on_screen = written(&["list", "--format", "json"]);
    assert_eq!(written(&["list", "--format", "json", "--output", path]), "");
    assert_eq!(fs::read_to_string(&file).expect("the file"), on_screen);
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 1);
    let nowhere = directory.path().join("no/list.json");
    refused(&["list", "--output", nowhere.to_str().expect("a path")]);
    refused(&["list", "--output", directory.path().to_str().expect("a path")]);
}

#[test]
fn a_trace_is_imported_and_what_it_holds_is_said() {
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/tests/formats/tracefs.txt");
    let directory = tempfile::tempdir().expect("a directory");
    let own = directory.path().join("a.trace");
    let own = own.to_str().expect("a path");
    let said = written(&["import", text, "-o", own]);
    let says =
        |words: &[&str]| said.lines().any(|l| l.split_whitespace().eq(words.iter().copied()));
    assert!(says(&["flush", "46"]) && says(&["events", "of", "other", "kinds", "5"]), "{said}");
    // What was written holds the same.
    for format in ["table", "json", "csv", "markdown"] {
        let of = |file| written(&["import", file, "--format", format]);
        assert_eq!(of(own), of(text), "{format}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&written(&["import", own, "--format", "json"])).expect("JSON");
    assert_eq!(json["holds"]["kinds"]["fault"], 48);
    assert_eq!(json["holds"]["truncated"], false);

    let bytes = fs::read(own).expect("the file");
    fs::write(own, [&bytes[..200], &[0xff], &bytes[201..]].concat()).expect("a file");
    let error = refused(&["import", own]);
    assert!(
        error.contains("a.trace: byte ") && error.contains("a block is damaged: copy"),
        "{error}"
    );
    let new = format!("{own}.new");
    assert!(
        refused(&["import", "-o", &new, env!("CARGO_MANIFEST_PATH")]).contains("Cargo.toml:1: ")
    );
    let nowhere = directory.path().join("no/a.trace");
    let error = refused(&["import", text, "-o", nowhere.to_str().expect("a path")]);
    assert!(error.contains("there is no directory"), "{error}");
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 1);
}

/// A folder that is gone afterwards.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for a moment")
}

#[test]
fn runs_become_traces_that_can_be_read_back() {
    let folder = folder();
    let path = folder.path().to_str().expect("the name of the folder is text");
    // Every flush of this one is a broadcast of pages, or nobody's.
    let export = ["explore", "flush-migrated-arm", "--random", "20", "--casemate", path];
    let text = written(&export);
    assert!(text.contains("40 traces of 20 runs") && text.contains("40 accepted"), "{text}");
    assert_eq!(text, written(&export), "the same again");
    let back = written(&["litmus", path]);
    assert_eq!(back.matches(": accepted").count(), 40, "{back}");
    // Sound, and nothing but the roots of other spaces is without a form.
    let sound = written(&["explore", "zoo/break-before-make", "--casemate", path]);
    let (_, unwritten) = sound.split_once("not written").expect("roots of other spaces");
    assert!(
        sound.contains("2 accepted") && unwritten.contains("of other spaces' roots"),
        "{sound}"
    );
    assert_eq!(unwritten.matches('(').count(), 1, "{sound}");
}

#[test]
fn traces_of_broken_runs_are_refused() {
    let folder = folder();
    let path = folder.path().to_str().expect("the name of the folder is text");
    for (protocol, why) in [
        (
            "zoo/table-freed-without-invalidation",
            "cannot release table where children are still unclean",
        ),
        ("zoo/remap-without-break", "BBM valid->valid"),
    ] {
        let output = lab(&["explore", protocol, "--casemate", path]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("results are text");
        assert!(text.contains(&format!("1 refused: {why}")), "{text}");
    }
    // What has no form is said, and a refusal for want of it is none of the run.
    let sound = written(&["explore", "zoo/broadcast-with-barriers", "--casemate", path]);
    assert!(sound.contains("1 refused, but not all of it could be written"), "{sound}");
    assert!(sound.contains("2 invalidations of a table by address"), "{sound}");
    let none = refused(&["explore", "recent-unmap", "--casemate", path]);
    assert!(none.contains("no CPU of `recent-unmap` runs a space on Arm"), "{none}");
}

#[test]
fn experiments_stand_beside_what_was_published() {
    let file = "../workloads/getppid.toml";
    let text = String::from_utf8(lab(&["experiments", file]).stdout).expect("results are text");
    assert!(text.contains("what isolation adds") && text.contains("139.0 ns"), "{text}");
    assert!(text.contains("Of 2 predictions that could have failed"), "{text}");
    let why = refused(&["experiments", "../workloads/reclaim.toml"]);
    assert!(why.contains("nothing was published of them"), "{why}");
    assert!(refused(&["experiments", "zzz.toml"]).starts_with("error: zzz.toml: "));
}

#[test]
fn a_run_names_a_workload_by_its_path_and_has_the_plausible_value_first() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/munmap-all.toml");
    let text = written(&["explain", &format!("{path}/zen5/lookaside"), "--cpus", "2"]);
    assert!(text.contains("zen5"), "{text}");
    let run = ["run", "storm", "--machine", "skylake_sp", "--cpus", "4", "--plausible", "12"];
    let text = written(&[&run[..], &["--strategy", "linux-ipi-2025,lookaside"]].concat());
    let header = text.lines().find(|line| line.contains("metric")).unwrap();
    let columns: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(columns[3..6], ["plausible", "from", "to"], "{header}");
    let row = text.lines().find(|line| line.contains("operation_time")).unwrap();
    let numbers: Vec<f64> =
        row.split_whitespace().skip(3).take(3).map(|cell| cell.parse().unwrap()).collect();
    assert!(numbers[1] <= numbers[0] && numbers[0] <= numbers[2], "{row}");
}

/// Where standard error is no terminal: a line now and then, first after five seconds.
#[cfg(feature = "checks")]
#[test]
fn work_that_takes_some_seconds_says_how_far_it_has_come() {
    let said = |arguments: &[&str]| {
        let output = lab(arguments);
        String::from_utf8(output.stderr).expect("messages are text")
    };
    std::thread::scope(|scope| {
        let check = scope.spawn(|| said(&["check", "--budget", "7"]));
        let calibrate = scope.spawn(|| said(&["calibrate", "--only", "walk", "--seconds", "8"]));
        let check = check.join().expect("an end");
        assert!(check.contains(" million steps after 5 s; round "), "{check}");
        let calibrate = calibrate.join().expect("an end");
        let is_linux = cfg!(all(feature = "traces", target_os = "linux"));
        assert!(!is_linux || calibrate.contains(" of 100 % done after 5 s"), "{calibrate}");
    });
}
