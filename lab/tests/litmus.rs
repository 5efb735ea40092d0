//! Our own litmus tests have the verdicts that the architecture gives them, and bad ones are named.
#![cfg(feature = "clock")]

use std::{fs, path::Path};

use lookaside_lab::litmus::{Bound, Litmus, Mode, Recorded, Suite, Traces};
use proptest::prelude::*;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../litmus"))
}

#[test]
fn protocols_have_their_verdicts() {
    let suite = Suite::open(folder()).unwrap();
    assert_eq!(suite.skipped, []);
    let table = fs::read_to_string(folder().join("verdicts.tsv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|row| row.split('\t').collect()).collect();
    let named: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let mut found: Vec<&str> = suite.cases.iter().map(|case| &*case.litmus.name).collect();
    found.sort_unstable();
    assert_eq!(found, named, "a test without a verdict, or a verdict without a test");
    for row in rows {
        let case = suite.cases.iter().find(|case| case.litmus.name == row[0]).unwrap();
        for (mode, verdict) in [(Mode::Base, row[1]), (Mode::Ets2, row[2])] {
            let found = case.compare(mode, Bound::default()).unwrap().found;
            let text = format!("{} {}", row[0], mode.word());
            assert_eq!(case.litmus.verdict(&found.states), verdict, "{text}");
            assert_eq!(if found.broke { "yes" } else { "no" }, row[3], "{text}");
        }
    }
}

const PLAIN: &str =
    "AArch64 plain\n{ 0:X1=x; }\n P0 ;\n MOV W0,#1 ;\n STR W0,[X1] ;\nexists (x=1)\n";

fn trouble(text: &str) -> String {
    Litmus::read(text).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_read_is_named_with_its_line() {
    assert!(Litmus::read(PLAIN).is_ok());
    let unknown = PLAIN.replace("STR W0", "SWP W0");
    assert_eq!(trouble(&unknown), "line 5: `SWP W0,[X1]` is no instruction that the machine has");
    assert!(trouble(&PLAIN.replace("AArch64", "X86")).starts_with("line 1: the first line"));
    assert!(trouble(&PLAIN.replace('{', "")).contains("no `{`"));
    assert!(trouble(&PLAIN.replace('}', "")).contains("no `}`"));
    assert_eq!(
        trouble(&PLAIN.replace("exists", "(* exists")),
        "line 6: a comment that does not end"
    );
    assert!(trouble(&PLAIN.replace("(x=1)", "(x=1")).starts_with("line 6"));
    assert!(trouble(&PLAIN.replace("0:X1=x", "3:X1=x")).contains("a thread that is not there"));
    assert!(trouble(&PLAIN.replace("0:X1=x", "0:X1=(valid:0)")).contains("without `oa`"));
    assert!(trouble("").starts_with("line 1"));
}

#[test]
fn a_folder_is_read_as_far_as_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
    assert!(Suite::open(folder.path()).unwrap().cases.is_empty());
    assert!(Suite::open(&folder.path().join("nowhere")).is_err());
    write("good.litmus", PLAIN.as_bytes());
    write("bytes.litmus", b"AArch64 \xff");
    write("broken.litmus", PLAIN.replace("STR", "LDXR").as_bytes());
    fs::create_dir_all(folder.path().join("outcomes/base")).unwrap();
    write("outcomes/base/good.out", b"Test plain Allowed\nStates 1\n[x]=2;\n");
    let suite = Suite::open(folder.path()).unwrap();
    assert_eq!(suite.cases.len(), 1);
    let places: Vec<_> = suite.skipped.iter().map(|skipped| &*skipped.place).collect();
    assert_eq!(places, ["broken.litmus:5", "bytes.litmus", "outcomes/ets2/good.out"]);
    let compared = suite.cases[0].compare(Mode::Base, Bound::default()).unwrap();
    assert_eq!((compared.missing.len(), compared.extra.len(), compared.exact()), (1, 1, false));
    let extra = compared.extra.first().unwrap();
    let steps =
        suite.cases[0].litmus.witness(Mode::Base.hardware(), extra, Bound::default()).unwrap();
    assert!(!steps.is_empty());
}

/// Runs the command; how it ended, and what it wrote.
fn lab(arguments: &[&str], folder: &Path) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lab"));
    let output = command.arg("litmus").args(arguments).arg(folder).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn the_command_ends_as_the_comparison_does() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let (code, text) = lab(&[], folder.path());
    assert!(code == Some(2) && text.contains("neither"), "{text}");
    write("plain.litmus", PLAIN);
    let (code, text) = lab(&[], folder.path());
    assert!(code == Some(0) && text.contains("plain (base): always"), "{text}");
    assert_eq!(lab(&["--strict"], folder.path()).0, Some(1));
    for mode in ["base", "ets2"] {
        fs::create_dir_all(folder.path().join("outcomes").join(mode)).unwrap();
        write(&format!("outcomes/{mode}/plain.out"), "States 1\n[x]=1;\n");
    }
    assert_eq!(lab(&["--strict"], folder.path()).0, Some(0));
    write("outcomes/ets2/plain.out", "States 1\n[x]=2;\n");
    let (code, text) = lab(&["--format", "json"], folder.path());
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, json["modes"]["ets2"]["all"]["extra"].as_u64()), (Some(1), Some(1)));
    let (code, text) = lab(&["--test", "plain"], folder.path());
    assert!(code == Some(1) && text.contains("how [x]=1;  comes about"), "{text}");
}

/// Five threads of six accesses that nothing orders: more states than any machine has memory for.
fn endless() -> String {
    let mut text = "AArch64 endless\n{ ".to_owned();
    for thread in 0..5 {
        text.push_str(&format!(
            "{thread}:X1=x; {thread}:X2=y; {thread}:X3=z; {thread}:X4=PTE(x); "
        ));
    }
    text.push_str("}\n P0 | P1 | P2 | P3 | P4 ;\n");
    for what in ["LDR W5,[X1]", "STR W5,[X2]", "LDR W6,[X3]", "STR W6,[X1]", "LDR W7,[X2]"] {
        text.push_str(&format!(" {} ;\n", [what; 5].join(" | ")));
    }
    text.push_str(" STR XZR,[X4] | STR W7,[X3] | STR W7,[X3] | STR W7,[X3] | STR W7,[X3] ;\n");
    text.push_str("exists (0:X5=1)\n");
    text
}

#[test]
fn a_test_that_takes_too_long_is_named_and_takes_nothing_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("endless.litmus", &endless());
    write("plain.litmus", PLAIN);
    for bound in [["--memory", "8"], ["--budget", "0.5"]] {
        let (code, text) = lab(&bound, folder.path());
        assert_eq!(code, Some(3), "{text}");
        for mode in ["base", "ets2"] {
            assert!(text.contains(&format!("not finished: endless ({mode})")), "{text}");
            assert!(text.contains(&format!("plain ({mode}): always")), "{text}");
        }
        assert!(text.contains("2 tests, 0 skipped, 2 runs not finished"), "{text}");
    }
    // What differs weighs more than what is not finished.
    fs::create_dir_all(folder.path().join("outcomes/base")).unwrap();
    write("outcomes/base/plain.out", "States 1\n[x]=2;\n");
    let (code, text) = lab(&["--memory", "8", "--format", "json"], folder.path());
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, json["not_finished"].as_array().unwrap().len()), (Some(1), 2));
    let (code, text) = lab(&["--memory", "8", "--test", "endless"], folder.path());
    assert!(code == Some(3) && text.contains("endless (base): not finished"), "{text}");
    assert_eq!(lab(&["--budget", "-1"], folder.path()).0, Some(2));
}

#[test]
fn a_recorded_state_too_few_is_refused() {
    let mut names = Litmus::read(PLAIN).unwrap().names;
    let read = |text: &str| Recorded::read(text, &mut names.clone());
    assert_eq!(read("States 1\n[x]=1;\nFlag Warning-BBM-expected\n").unwrap().states.len(), 1);
    assert!(read("States 2\n[x]=1;\n").is_err());
    assert!(read("States 2\n[x]=1;\n[x]=1;\n").is_err());
    assert!(Recorded::read("", &mut names).is_err());
}

#[test]
fn traces_are_accepted_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("locked.log", "(lock (id 0) (tid 0) (address 10) (src \"a:1\"))\n");
    write("twice.log", "(lock 0 0 10 \"a:1\")\n(lock 1 1 10 \"a:2\")\n! whatever\nnothing\n");
    write("noise.log", "(lock (id 0) (tid 9) (address 10) (src \"a:1\"))\n");
    write("expected.tsv", "name\texpected\tmessage\nlocked\taccept\t-\ntwice\treject\tother\n");
    let traces = Traces::open(folder.path()).unwrap();
    let shown: Vec<_> =
        traces.checked.iter().map(|trace| (&*trace.name, trace.agrees(), &*trace.found)).collect();
    assert_eq!(shown[0], ("locked", Some(true), "accepted"));
    assert_eq!((shown[1].0, shown[1].1), ("noise", None));
    assert!(shown[1].2.starts_with("unreadable: line 1"), "{}", shown[1].2);
    assert_eq!((shown[2].0, shown[2].1), ("twice", Some(false)));
}

proptest! {
    #[test]
    fn no_text_is_more_than_the_reader_can_take(text in "\\PC{0,200}") {
        let _ = Litmus::read(&text);
        let _ = Litmus::read(&format!("AArch64 n\n{{ {text} }}\n P0 ;\n NOP ;\nexists (x=1)"));
        let _ = lookaside_machine::casemate::check(&text);
        let _ = lookaside_machine::casemate::check(&format!("({text})"));
    }

    #[test]
    fn no_damaged_test_is_more_than_the_reader_can_take(
        at in 0usize..5000, to in any::<char>(), which in 0usize..19,
    ) {
        let mut files: Vec<_> = fs::read_dir(folder()).unwrap().map(|f| f.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|kind| kind == "litmus"));
        files.sort();
        let text = fs::read_to_string(&files[which % files.len()]).unwrap();
        let mut letters: Vec<char> = text.chars().collect();
        let at = at % letters.len();
        letters[at] = to;
        if let Ok(litmus) = Litmus::read(&letters.into_iter().collect::<String>()) {
            let found = litmus.run(Mode::Base.hardware(), Bound::default());
            prop_assert!(found.is_some());
        }
    }
}
