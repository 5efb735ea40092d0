//! `lookaside calibrate`, from what was recorded on a guest: files that other commands take, and refusals.

use std::{fs, process::Command};

use lookaside_simulation::{calibrate::Recording, data::Machine};

/// The recording that the tests of calibration are about.
const GUEST: &str = include_str!("../../../../simulation/tests/all/calibrate/guest.json");

fn guest() -> Recording {
    serde_json::from_str(GUEST).expect("the recording can be read")
}

fn lab(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_lookaside")).args(arguments).output();
    let output = output.expect("the program can be started");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_writes_a_file_that_other_commands_take_and_overwrites_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (raw, mine) = (path("raw.json"), path("mine.toml"));
    fs::write(&raw, GUEST).unwrap();
    let (code, out, err) = lab(&["calibrate", "--from", &raw, "-o", &mine, "--predict"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("A guest: walks are of two stages"), "{out}");
    assert!(out.contains("ping-pong, 512 pages each"), "{out}");
    assert_eq!(Machine::open(mine.as_ref()).unwrap().key, "mine");
    // Nothing of the host or the place is in it.
    let written = fs::read_to_string(&mine).unwrap();
    assert!(!written.contains(folder.path().to_str().unwrap()), "{written}");
    let run = ["run", "pingpong", "--machine", &mine, "--strategy", "linux-ipi-2022,lookaside"];
    let (code, out, err) = lab(&run);
    assert_eq!(code, Some(0), "{out}{err}");
    // It is there now.
    let (code, out, err) = lab(&["calibrate", "--from", &raw, "-o", &mine]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("is there already; `--force` replaces it"), "{err}");
    assert_eq!(fs::read_to_string(&mine).unwrap(), written);
    let (code, ..) = lab(&["calibrate", "--from", &raw, "-o", &mine, "--force"]);
    assert_eq!(code, Some(0));
    // And can be compared with what was measured some other time.
    let (code, out, err) = lab(&["calibrate", "--from", &raw, "--check", &mine]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("`linux-ipi-2022-promote`"), "{out}");
}

#[test]
fn a_recording_of_a_machine_whose_host_took_the_time_is_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (raw, mine) = (path("raw.json"), path("mine.toml"));
    let mut recording = guest();
    recording.facts.stolen = 250;
    fs::write(&raw, serde_json::to_string(&recording).unwrap()).unwrap();
    let (code, out, err) = lab(&["calibrate", "--from", &raw, "-o", &mine]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("the host took 25.0 % of the time away"), "{err}");
    assert!(!fs::exists(&mine).unwrap());
    fs::write(&raw, "{}").unwrap();
    assert!(lab(&["calibrate", "--from", &raw]).2.contains("missing field"));
    assert_eq!(lab(&["calibrate", "--check", &mine, "-o", &mine]).0, Some(2));
}
