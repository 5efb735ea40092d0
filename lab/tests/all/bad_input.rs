//! Input that nobody means: each is refused with a sentence and status 2, before any work, and nothing is left behind.

use std::{
    fs,
    io::Read,
    process::{Command, Output, Stdio},
};

const LAB: &str = env!("CARGO_BIN_EXE_lookaside");
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/sort.trace");
const WORKLOAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/munmap-all.toml");

/// A workload that deadlocks when it runs.
const DEADLOCK: &str = "about = \"a test\"\n[semaphores]\ns = 0\n[[space]]\nname = \"a\"\npages = 1\n\
    [[threads]]\nname = \"t\"\nspace = \"a\"\nprogram = \"wait s\"\n";

/// A folder with a folder, an empty file, and one of bytes that are no text.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    fs::create_dir(path.join("dir")).expect("a folder in it");
    fs::create_dir(path.join("tests")).expect("a folder in it");
    fs::write(path.join("tests/one.litmus"), "no test\n").expect("a file");
    fs::write(path.join("empty"), "").expect("a file");
    fs::write(path.join("bytes"), [0xff, 0, 0xfe, 3].repeat(1000)).expect("a file");
    let trace = fs::read(TRACE).expect("the trace");
    fs::write(path.join("bytes.toml"), [0xff, 0, 0xfe, 3]).expect("a file");
    fs::write(path.join("deadlock.toml"), DEADLOCK).expect("a file");
    fs::write(path.join("cut.trace"), &trace[..trace.len() - 5]).expect("a file");
    fs::write(path.join("begun.trace"), &trace[..9]).expect("a file");
    fs::write(path.join("headless.trace"), &trace[..40]).expect("a file");
    fs::write(path.join("half.trace"), &trace[..trace.len() / 2]).expect("a file");
    folder
}

fn lab(folder: &tempfile::TempDir, arguments: &str) -> Output {
    let mut command = Command::new(LAB);
    let output =
        command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    output.output().expect("the program can be started")
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder").flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What is given, and words of the answer.
fn refused(all: &[(&str, &str)]) {
    let folder = folder();
    let before = names(&folder);
    for (arguments, words) in all {
        let arguments = arguments.replace("TRACE", TRACE).replace("WORKLOAD", WORKLOAD);
        let output = lab(&folder, &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {output:?}");
        assert!(output.stdout.is_empty(), "{arguments}: {output:?}");
        assert!(said.starts_with("error: ") && said.contains(words), "{arguments}: {said}");
        assert_eq!(names(&folder), before, "{arguments}");
    }
}

#[test]
fn traces_that_are_none() {
    for command in ["import", "replay", "advise", "what-if", "diff", "against-linux"] {
        let more = if command == "diff" { " TRACE" } else { "" };
        for (file, words) in [
            ("missing", "error: missing: it cannot be read"),
            ("dir", "dir"),
            ("empty", "error: empty: it is empty"),
            (
                "bytes",
                "error: bytes: no event of interest can be read: it is no file of `lookaside record`",
            ),
            (
                "begun.trace",
                "error: begun.trace: byte 9: it is a trace of which only the first 9 bytes",
            ),
            (
                "headless.trace",
                "error: headless.trace: byte 40: it is a trace of which only the first 40",
            ),
            ("-", "error: -: it is empty"),
        ] {
            refused(&[(&format!("{command} {file}{more}"), words)]);
        }
    }
    refused(&[("diff , TRACE", "`,` names no trace")]);
}

/// Events are in blocks: of a small trace whose only one is cut nothing is left to replay.
#[test]
fn a_trace_without_a_whole_block_of_events_is_refused_by_its_name() {
    let words = "error: half.trace: the end of the trace is missing, and the rest has no events";
    refused(&[
        ("replay half.trace", words),
        ("replay half.trace --validate", words),
        ("advise half.trace", words),
        ("what-if half.trace", words),
        ("diff TRACE half.trace", words),
    ]);
}

#[test]
fn what_is_read_or_was_recorded_is_not_replaced() {
    let recorded = "is a recorded trace, which is not replaced";
    refused(&[
        ("import TRACE -o cut.trace", recorded),
        ("replay TRACE --perfetto cut.trace", recorded),
        ("replay cut.trace --output cut.trace", recorded),
        ("diff cut.trace TRACE --output cut.trace", recorded),
        ("run deadlock.toml --machine zen5 --output deadlock.toml", "is named twice"),
        ("import bytes --output=dir/../bytes", "is named twice"),
    ]);
}

#[test]
fn two_outputs_into_one_file_are_refused() {
    let words = "is named by two options that write: each needs a file of its own";
    refused(&[
        ("replay TRACE --output new --perfetto new", words),
        ("replay TRACE --perfetto=./new --output=dir/../new", words),
        ("replay TRACE --report new --output new", words),
        ("run storm --machine zen5 --output new --perfetto new", words),
        ("sweep WORKLOAD --machine zen5 --over cpus=2 -o new.csv -onew.csv", words),
    ]);
    #[cfg(target_os = "linux")]
    refused(&[("calibrate --output new.toml --raw new.toml", words)]);
    #[cfg(feature = "checks")]
    refused(&[("hunt --image bytes --output new --log ./new", "--output and --log both name")]);
}

#[test]
fn a_trace_is_not_called_by_a_compression_that_it_has_not() {
    refused(&[
        (
            "import TRACE -o new.trace.gz",
            "is compressed inside, and no file of gzip or zstd: name it `new.trace`",
        ),
        ("import TRACE -o new.zst", "name it `new`"),
    ]);
}

#[test]
fn machines_of_another_folder_are_used_instead_and_not_besides() {
    let folder = folder();
    for name in ["machines", "published"] {
        fs::create_dir_all(folder.path().join("data").join(name)).expect("a folder");
    }
    let output = lab(&folder, "run storm --machine zen5 --data data");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("no machine `zen5`"), "{said}");
}

#[test]
fn a_trace_whose_end_is_missing_is_replayed_and_that_is_said() {
    let folder = folder();
    for (command, said_on_screen) in [
        ("replay cut.trace", true),
        ("import cut.trace", true),
        ("advise cut.trace", true),
        ("what-if cut.trace thp=on --seeds 1", false),
        ("diff cut.trace cut.trace --seeds 1", false),
        ("against-linux cut.trace --machine zen5", false),
    ] {
        let output = lab(&folder, command);
        assert!(output.status.success(), "{command}: {output:?}");
        let [shown, noted] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        let said = said_on_screen && shown.contains("missing");
        assert!(
            said || noted.contains("note: cut.trace: the end of the trace is missing"),
            "{command}: {noted}"
        );
    }
}

#[test]
fn numbers_that_are_none_or_too_large() {
    refused(&[
        ("run fresh_spaces --machine zen5 --x 1e300", "has to be from 0 to 10000000"),
        ("run fresh_spaces --machine zen5 --x nan", "has to be from 0"),
        ("run fresh_spaces --machine zen5 --option spaces=1e18", "`spaces`"),
        ("run fresh_spaces --machine zen5 --option spaces=-1", "`spaces` is -1"),
        ("run fresh_spaces --machine zen5 --x 96 --option spaces=1e7", "GiB: too much"),
        ("run storm --machine zen5 --x 1e6", "1000000 CPUs; machine `zen5` has 96"),
        ("run build --machine zen5 --option hot_pages=1e12", "`hot_pages`"),
        ("run WORKLOAD --machine zen5 --seed -1", "'-1' for '--seed <N>'"),
        ("replay TRACE --seed -1", "'-1' for '--seed <N>'"),
        ("replay TRACE --cpus 0", "0 CPUs"),
        ("replay TRACE --cpus 100000", "100000 CPUs"),
        ("against-linux TRACE --cpus 100000", "none of these machines has as many CPUs"),
        ("against-linux TRACE --most nan", "a ratio is a number"),
        ("what-if TRACE thp=on thp=off", "`thp=on` and `thp=off` are of one knob"),
        ("what-if TRACE ceiling=1 ceiling=1", "are of one knob"),
        ("diff - -", "`-` is on both sides, and standard input is read once"),
        ("what-if TRACE pin=0 pin=1", "`pin=0` and `pin=1` are of one knob"),
        ("what-if TRACE pin=0 cpus=2", "`pin` and `cpus` both say where threads run"),
        ("what-if TRACE pti=on pcid=off --machine haswell_desktop", "`pti=on` needs `pcid=on`"),
        ("replay TRACE --strategy lookaside,lookaside", "`lookaside` is named twice"),
        ("replay TRACE --working-set others=600,pool=500", "600 others out of a pool of 500"),
        ("replay TRACE --working-set window=0.001", "pages in a window of 0.001 us"),
        (
            "diff TRACE",
            "there is nothing to compare with: name another trace, or settings by `--with`",
        ),
    ]);
}

#[test]
fn advice_that_nobody_can_give() {
    refused(&[
        ("advise TRACE --plausible 0", "0 plausible machines say nothing of how certain"),
        // Before the trace is read.
        ("advise missing --plausible 10001", "10001 plausible machines"),
        ("advise missing --machine zzz", "no machine `zzz`"),
        (
            "advise missing --machine zen4 --strategy lookaside,linux-invlpgb-2025",
            "`zen4` has no INVLPGB",
        ),
        ("advise missing --strategy lookaside", "nothing to choose from one strategy"),
        ("advise missing --strategy lookaside,lookaside", "`lookaside` is named twice"),
        (
            "advise TRACE --machine neoverse_v2 --strategy lookaside,linux-ipi-2025",
            "`neoverse_v2`, which is Arm64",
        ),
        ("advise TRACE --machine zen4 --cpus 96", "96 CPUs; machine `zen4` has 32"),
        ("advise TRACE --cpus 0", "no program runs on 0 CPUs: name one at least"),
        ("replay TRACE --cpus 0", "no program runs on 0 CPUs: name one at least"),
        ("advise TRACE --cpus 96", "chosen for the trace, has 2: name one that has as many"),
        ("advise TRACE --machine zen4 --cpus 0", "0 CPUs"),
        ("advise TRACE --machine sg2042", "`lookaside` is the only strategy that is modelled"),
    ]);
}

#[cfg(feature = "checks")]
#[test]
fn limits_that_ask_for_nothing_or_for_ever() {
    for command in ["check", "explore tour", "zoo", "differential", "litmus dir"] {
        for bad in ["0", "-1", "nan", "1e300", "x"] {
            refused(&[(&format!("{command} --budget {bad}"), "number of seconds above 0")]);
        }
    }
    refused(&[
        ("check --steps 0", "'0' for '--steps <N>'"),
        ("check --rounds 0", "'0' for '--rounds <N>'"),
        ("check --generate --scripts 0", "'0' for '--scripts <N>'"),
        ("check --threads 1000000", "1 to 4096 threads"),
        ("differential --threads 1000000", "1 to 4096 threads"),
        ("differential --random 0", "'0' for '--random <N>'"),
        ("explore tour --random 0", "'0' for '--random <N>'"),
        (
            "check --merge empty",
            "`empty`: nothing that `lookaside check --format json` has written",
        ),
        ("check --generate --scripts 5 --keep empty", "`empty`: "),
        ("explore tour --casemate empty", "`empty`: "),
        ("litmus tests", "has no test that can be read; the first: one.litmus:1: "),
        ("man empty", "empty is no folder"),
    ]);
}

#[test]
fn names_of_files_that_do_not_end_in_toml() {
    refused(&[
        ("run empty --machine zen5", "its name must end in `.toml`"),
        ("replay TRACE --machine empty", "its name must end in `.toml`"),
        ("replay TRACE --strategy ,", "there is no strategy ``; `lookaside list`"),
        ("explain a", "there is no result `a`; `lookaside list`"),
    ]);
}

#[cfg(target_os = "linux")]
#[test]
fn places_where_no_file_can_be_made_are_refused_before_the_work() {
    let words = "no file can be made in `/proc`";
    refused(&[
        ("reproduce --output /proc/x", words),
        ("replay TRACE --output /proc/x", words),
        ("advise missing --output /proc/x", words),
        ("replay TRACE --perfetto /proc/x", words),
        ("replay TRACE --report /proc/x", words),
        ("sweep WORKLOAD --machine zen5 --over cpus=2 -o /proc/x.csv", words),
        ("import TRACE -o /proc/x", words),
        ("import TRACE -o /dev/full", "`/dev/full`: No space left"),
    ]);
}

/// A reader that goes after the first line, as `head -1` does.
#[cfg(unix)]
#[test]
fn a_reader_that_goes_is_no_error() {
    let folder = folder();
    for arguments in ["explore", "list", "completions bash", "zoo fire-and-forget", "replay TRACE"]
    {
        let arguments = arguments.replace("TRACE", TRACE);
        let mut child = Command::new(LAB)
            .args(arguments.split_whitespace())
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        drop(child.stdout.take());
        let mut said = String::new();
        let from = child.stderr.as_mut().expect("standard error");
        from.read_to_string(&mut said).expect("text");
        let status = child.wait().expect("an end");
        assert!(matches!(status.code(), Some(0 | 1)), "{arguments}: {status}, {said}");
        assert!(!said.contains("panicked"), "{arguments}: {said}");
    }
}

/// Before an emulator is looked for, which may be missing.
#[cfg(feature = "checks")]
#[test]
fn kernels_and_files_of_a_hunt_that_are_not_there() {
    refused(&[
        ("hunt --image missing", "there is no file ./missing"),
        ("hunt --image dir", "there is no file ./dir"),
        ("hunt --image bytes --drive missing", "--drive: there is no file missing"),
        ("hunt --image bytes --output no/x", "--output: no file no/x can be made"),
        ("hunt --image bytes --cpus 0", "'0' for '--cpus <CPUS>'"),
        ("hunt --image bytes --seconds 0", "'0' for '--seconds <SECONDS>'"),
        ("hunt empty", "there is no kernel `empty`"),
        ("hunt missing.toml", "missing.toml: No such file"),
    ]);
}

#[test]
fn values_that_contradict_each_other_or_are_no_number_of_things() {
    let storm = "run storm --machine zen5";
    let file = "run WORKLOAD --machine zen5 --cpus 2";
    refused(&[
        (&format!("{storm} --cpus 8 --x 4"), "leave `--x` or `--cpus` out"),
        (&format!("{storm} --x 1.5"), "x is 1.5, and is the number of CPUs of `storm`"),
        (&format!("{storm} --option operations=0"), "`operations` is 0, and has to be 1 or more"),
        (&format!("{storm} --strategy lookaside,lookaside"), "`lookaside` is named twice"),
        (&format!("{file} --option pages=100 --option pages=2"), "`pages` is given twice"),
        (&format!("{file} --option pages=1.5"), "`pages` is 1.5, and is a whole number"),
        (&format!("{file} --x 1"), "has no x; `cpus` is the number of its CPUs"),
        ("sweep WORKLOAD --machine zen5 --over cpus=1.5", "`cpus` has 1.5; a number of CPUs"),
        ("sweep WORKLOAD --machine zen5 --over cpus=-1", "`cpus` has -1; a number of CPUs"),
        ("sweep WORKLOAD --machine zen5 --over cpus=1..1e99", "is whole and from 1 to 4096"),
        (
            "sweep WORKLOAD --machine zen5 --over pages=1,2 --option pages=3",
            "`pages` is swept over and given a value as well",
        ),
        ("sweep WORKLOAD --machine zen5 --over walk=1e99", "a price is from 0 to a second"),
        ("sweep WORKLOAD --machine zen5 --over walk=-5", "`walk` is -5 ns; a price is"),
        ("sweep WORKLOAD --machine zen5,zen5 --over walk=5", "machine `zen5` is named twice"),
        ("run bytes.toml --machine zen5", "bytes.toml:1: it is no text; a workload is a file"),
    ]);
}

#[test]
fn an_option_that_no_workload_reads_is_refused_before_it_runs() {
    refused(&[
        (
            "run storm --machine genoa --option operation=1",
            "there is no option `operation`; did you mean `operations`?",
        ),
        ("run WORKLOAD --machine genoa --option page=1", "did you mean `pages`?"),
        // If it ran, it would deadlock.
        ("run deadlock.toml --machine zen5 --option page=1", "no option `page`"),
    ]);
    refused(&[("run deadlock.toml --machine zen5", "deadlock.toml:10: a deadlock")]);
}

/// A value, a unit or a key that is wrong is said with its line, and nothing runs for minutes.
#[test]
fn what_is_wrong_in_a_workload_is_said_with_its_line_before_it_runs_for_minutes() {
    let base = "about = \"a test\"\ntime = \"1 ms\"\n[parameters]\nthink = \"1 us\"\n[[space]]\nname = \"a\"\npages = 60000\n\
        [[threads]]\nname = \"t\"\nspace = \"a\"\ncount = 2\nprogram = \"\"\"\nforever\n  work think\n  count rounds\ndone\n\"\"\"\n";
    let folder = folder();
    let path = folder.path().join("w.toml");
    for (from, to, words) in [
        ("\"1 ms\"", "\"100 s\"", "w.toml:2: `time` is 100 s, and a second at most"),
        ("\"1 ms\"", "\"0 ms\"", "w.toml:2: `time` is no time above 0"),
        ("\"1 ms\"", "\"1 msec\"", "w.toml:2: `time` has the unknown unit `msec`; there are `ns`"),
        ("\"1 ms\"", "\"1ms\"", "w.toml:2: `time` is no time; write it as"),
        ("time =", "tmie =", "w.toml:2: `tmie` is no key of this table; did you mean `time`?"),
        ("time = \"1 ms\"\n", "", "w.toml:12: `forever` needs `time` at the head of the file"),
        ("\"1 us\"", "\"2 s\"", "w.toml:4: `parameters.think` is 2 s, and a second at most"),
        ("work think", "work think * 2000000", "w.toml:14: a time is 2000000000 ns, and has to be"),
        ("forever", "repeat 6000000", "w.toml:13: 12000000 rounds of all threads"),
        (
            "forever\n  work think\n  count rounds",
            "repeat 1000\n  work think\n  touch 0 60000",
            "w.toml:15: 120000000 pages of all threads",
        ),
        (
            "60000",
            "1e9",
            "w.toml:6: `pages` is 1000000000, and has to be from 1 to 67108864 in all",
        ),
        ("work think", "wrok think", "w.toml:14: `wrok think` begins with `wrok`"),
        ("pages =", "pagse =", "w.toml:7: `space.pagse` is no key of this table"),
    ] {
        assert!(base.contains(from), "{from}");
        fs::write(&path, base.replacen(from, to, 1)).expect("a file");
        let output = lab(&folder, "run w.toml --machine zen5 --cpus 2");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {said}");
        assert!(said.starts_with(&format!("error: {words}")), "{to}: {said}");
    }
    fs::write(&path, base).expect("a file");
    let given = lab(&folder, "run w.toml --machine zen5 --cpus 2 --option think=1e11");
    let said = String::from_utf8_lossy(&given.stderr);
    assert!(said.contains("w.toml:14: a time is 100000000000 ns"), "{said}");
}
