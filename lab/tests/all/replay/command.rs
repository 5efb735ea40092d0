//! `lookaside replay`, from the text of a trace to tables.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

/// Two threads of one process, of which one calls mprotect three times while the other runs, in the text
/// of tracefs.
fn trace() -> String {
    let mut text = String::from("# tracer: nop\n#\n");
    let mut line = |cpu: u32, micros: u32, flags: &str, body: &str| {
        let task = 4101 + cpu;
        text += &format!(
            "          worker-{task}    (   4101) [{cpu:03}] {flags}  4223.{micros:06}: {body}\n"
        );
    };
    for cpu in [0, 1] {
        line(
            cpu,
            100 + cpu,
            ".....",
            "page_fault_user: address=0x7fe9457d8000 ip=0x55d0c634863e error_code=0x6",
        );
    }
    for i in 1..=3 {
        let at = 1000 * i;
        line(0, at, ".....", "sys_mprotect(start: 0x7fe9457d8000, len: 0x1000, prot: 1)");
        line(0, at + 2, "...1.", "tlb_flush: pages:1 reason:remote IPI send (4)");
        line(
            0,
            at + 3,
            "...2.",
            "csd_queue_cpu: cpu=1 callsite=on_each_cpu_cond_mask+0x20/0x60 func=flush_tlb_func csd=ffff888627c2f720",
        );
        line(0, at + 4, "d..2.", "tlb_flush: pages:1 reason:local MM shootdown (3)");
        line(1, at + 5, "d.h..", "csd_function_entry: func=flush_tlb_func, csd=ffff888627c2f720");
        line(1, at + 6, "d.h..", "tlb_flush: pages:1 reason:remote shootdown (1)");
        line(1, at + 7, "d.h..", "csd_function_exit: func=flush_tlb_func, csd=ffff888627c2f720");
        line(0, at + 8, ".....", "sys_mprotect -> 0x0");
        line(
            0,
            at + 20,
            ".....",
            "page_fault_user: address=0x7fe9457d8000 ip=0x55d0c634863e error_code=0x7",
        );
        line(0, at + 21, "d..2.", "tlb_flush: pages:1 reason:local MM shootdown (3)");
    }
    text
}

fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    fs::write(&path, text).expect("it can be written");
    (directory, path)
}

fn lab(arguments: &[&str]) -> Output {
    let (_directory, path) = file("worker.txt", &trace());
    let mut command = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    command.arg("replay").arg(path).args(arguments).output().expect("the program can be started")
}

#[track_caller]
fn written(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("results are text")
}

#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).expect("messages are text")
}

#[test]
fn the_table_shows_costs_and_initiators() {
    let text = written(&[]);
    assert_eq!(text, written(&[]), "two runs write the same");
    let expected = [
        "on skylake_sp, 2 CPUs",
        "linux-ipi-2025  lookaside",
        "share of all CPUs' time",
        "worker   mprotect",
    ];
    for part in expected.into_iter().chain(["stands for", "hot pages", "the kernel recorded"]) {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let markdown = written(&["--format", "markdown", "--strategy", "linux-ipi-2022"]);
    assert!(markdown.contains("| cause"), "{markdown}");
}

#[test]
fn names_of_processes_do_not_steer_the_terminal() {
    let hostile = trace().replace("worker", "w\u{1b}[2Jo\u{9b}1m\u{202e}r");
    let (_directory, path) = file("w\u{1b}]0;owned\u{7}.txt", &hostile);
    let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    for command in ["replay", "import"] {
        for format in ["table", "json", "csv", "markdown"] {
            let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
            let output =
                lab.args([command, "--format", format]).arg(&path).output().expect("it runs");
            assert!(output.status.success(), "{command} {format}: {output:?}");
            for bytes in [output.stdout, output.stderr] {
                let text = String::from_utf8(bytes).expect("results are text");
                assert!(!text.contains(obeyed), "{command} {format}: {text:?}");
            }
        }
    }
    let (_directory, path) = file("w\u{1b}[2J.txt", "no trace\u{1b}[2J");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    let output = lab.arg("replay").arg(path).output().expect("it runs");
    let why = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(output.status.code(), Some(2), "{why:?}");
    assert!(why.contains("\\u{1b}[2J") && !why.contains(obeyed), "{why:?}");
}

#[test]
fn json_and_csv_have_the_same_numbers() {
    let json: Value = serde_json::from_str(&written(&["--format", "json", "--cpus", "6"])).unwrap();
    let csv = written(&["--format", "csv", "--cpus", "6"]);
    assert_eq!(json["recorded_cpus"], 2);
    assert_eq!(json["cpus"], 6);
    for strategy in json["strategies"].as_array().unwrap() {
        let name = strategy["strategy"].as_str().unwrap();
        let total = strategy["total"].as_u64().unwrap();
        assert!(total > 0);
        assert!(csv.contains(&format!("{name},time,total,time,{total},ps")), "{csv}");
        let sum = |upkeep: &Value| -> u64 {
            upkeep.as_object().unwrap().values().map(|time| time.as_u64().unwrap()).sum()
        };
        assert_eq!(sum(&strategy["upkeep"]), total);
        let blame = strategy["blame"].as_array().unwrap();
        assert_eq!(blame.iter().map(|one| sum(&one["upkeep"])).sum::<u64>(), total);
    }
}

#[test]
fn arm_takes_flushes_from_calls() {
    let text = written(&["--machine", "neoverse_n1"]);
    assert!(text.contains("Flushes follow from system calls"), "{text}");
    assert!(text.contains("linux-broadcast") && text.contains("broadcasts"), "{text}");
    let why = refused(&["--machine", "neoverse_n1", "--flushes", "recorded"]);
    assert!(why.contains("needs --flushes calls"), "{why}");
}

#[test]
fn validation_puts_both_counts_side_by_side() {
    let output = lab(&["--validate", "--format", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.success(), json["holds"].as_bool().unwrap());
    let rows = json["strategies"][0]["rows"].as_array().unwrap();
    let row = |what: &str| rows.iter().find(|row| row["what"].as_str().unwrap().contains(what));
    assert_eq!(row("requests to other CPUs").unwrap()["recorded"], 3);
    assert_eq!(row("reason 3").unwrap()["recorded"], 6);
    let why = refused(&["--validate", "--strategy", "lookaside"]);
    assert!(why.contains("does not count in Linux's terms"), "{why}");
}

#[test]
fn unknown_and_invalid_options_are_refused() {
    assert!(refused(&["--machine", "zzz"]).contains("no machine `zzz`"));
    assert!(refused(&["--strategy", "lokaside"]).contains("did you mean `lookaside`?"));
    assert!(refused(&["--cpus", "0"]).contains("0 CPUs"));
    assert!(refused(&["--cpus", "5000"]).contains("no shipped machine of this"));
    assert!(refused(&["--working-set", "cold=1"]).contains("no part of a working set `cold`"));
    assert!(refused(&["--working-set", "hot=1.5"]).contains("a number of pages"));
    assert!(refused(&["--working-set", "window=0"]).contains("a time in us"));
    assert!(refused(&["--lackey", "/nonexistent"]).contains("cannot be read"));
}

#[test]
fn what_it_cannot_compare_and_what_is_given_twice_is_refused() {
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
        let (status, _, why) = super::lab(&[&["replay", "traces/sort.trace"][..], &more].concat());
        assert!(status == Some(2) && why.contains(words), "{why}");
        assert!(!why.contains("linux-ipi"), "{why}");
    }
}
