//! The command line: what it refuses, what it writes, and that it writes the same each time.

use std::{
    fs,
    process::{Command, Output},
};

fn lab(arguments: &[&str]) -> Output {
    let lab = env!("CARGO_BIN_EXE_lab");
    Command::new(lab).args(arguments).output().expect("the program can be started")
}

/// What it says about arguments that it refuses.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

/// What it writes.
#[track_caller]
fn written(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("results are text")
}

/// The first machine of the repository on which ping-pong can run.
fn machine() -> String {
    let list: serde_json::Value =
        serde_json::from_str(&written(&["list", "machines", "--format", "json"])).expect("JSON");
    let machines = list["machines"].as_array().expect("an array").iter();
    let mut names = machines.map(|machine| machine["machine"].as_str().expect("a name"));
    names
        .find(|name| lab(&["explain", &format!("pingpong/{name}/lookaside")]).status.success())
        .expect("a machine for ping-pong")
        .to_owned()
}

#[test]
fn names_that_do_not_exist_are_refused_with_the_nearest() {
    let machine = machine();
    assert_eq!(
        refused(&["run", "pingpnog", "--machine", &machine]),
        "error: there is no workload `pingpnog`; did you mean `pingpong`?"
    );
    assert_eq!(
        refused(&["run", "pingpong", "--machine", &machine, "--strategy", "lokaside"]),
        "error: there is no strategy `lokaside`; did you mean `lookaside`?"
    );
    let mistyped = format!("{machine}x");
    assert_eq!(
        refused(&["run", "pingpong", "--machine", &mistyped]),
        format!("error: there is no machine `{mistyped}`; did you mean `{machine}`?")
    );
    assert_eq!(
        refused(&["run", "pingpong", "--machine", &machine, "--option", "own_page=3"]),
        "error: workload `pingpong`: there is no option `own_page`; did you mean `own_pages`?"
    );
    assert!(refused(&["reproduce", "zzzzzzzz"]).contains("there is no result `zzzzzzzz`"));
    assert!(refused(&["reproduce", "--machine", &mistyped]).contains("did you mean"));
    assert!(refused(&["explain", "zzzzzzzz"]).contains("there is no result `zzzzzzzz`"));
    assert!(refused(&["explain", "a/b"]).contains("WORKLOAD/MACHINE/STRATEGY"));
    assert!(refused(&["fit", &mistyped]).contains("did you mean"));
}

#[test]
fn more_cpus_than_the_machine_has_are_refused_with_the_limit() {
    let machine = machine();
    let text = refused(&["run", "pingpong", "--machine", &machine, "--cpus", "5000"]);
    assert!(text.starts_with(&format!("error: 5000 CPUs; machine `{machine}` has ")), "{text}");
    refused(&["run", "pingpong", "--machine", &machine, "--cpus", "0"]);
}

#[test]
fn two_runs_are_the_same_byte_by_byte() {
    let machine = machine();
    let run = ["run", "pingpong", "--machine", &machine, "--seeds", "3"];
    let explain = ["explain", &format!("pingpong/{machine}/lookaside")];
    for arguments in [&run[..], &explain[..]] {
        for format in ["table", "json", "csv", "markdown"] {
            let arguments = [arguments, &["--format", format]].concat();
            assert_eq!(written(&arguments), written(&arguments), "{arguments:?}");
        }
    }
}

#[test]
fn tables_fit_on_a_screen() {
    let machine = machine();
    let explained = written(&["explain", &format!("pingpong/{machine}/lookaside")]);
    for text in
        [written(&["list"]), explained, written(&["run", "pingpong", "--machine", &machine])]
    {
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
