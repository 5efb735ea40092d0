//! Our own litmus tests have the verdicts that the architecture gives them, and bad ones are named.

use std::{fs, path::Path};

use lookaside_checking::litmus::{Bound, Litmus, Mode, Recorded, Runs, Suite, Traces};
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
    let own = suite.cases.iter().filter(|case| matches!(case.litmus.runs, Runs::OutOfOrder(_)));
    let mut found: Vec<&str> = own.map(|case| &*case.litmus.name).collect();
    found.sort_unstable();
    assert_eq!(found, named, "a test without a verdict, or a verdict without a test");
    for row in rows {
        let case = suite.cases.iter().find(|case| {
            matches!(case.litmus.runs, Runs::OutOfOrder(_)) && case.litmus.name == row[0]
        });
        let case = case.unwrap();
        for (mode, verdict) in [(Mode::Base, row[1]), (Mode::Ets2, row[2])] {
            let found = case.compare(mode, Bound::default()).unwrap().found;
            let text = format!("{} {}", row[0], mode.word());
            assert_eq!(case.litmus.verdict(&found.states), verdict, "{text}");
            assert_eq!(if found.broke { "yes" } else { "no" }, row[3], "{text}");
        }
    }
}

/// The verdict on each test of a folder is the one of its table, and a test that weakens another has
/// the other verdict: what was weakened matters.
fn weakened_tests_flip(folder: &Path, least: usize) {
    let suite = Suite::open(folder).unwrap();
    assert_eq!(suite.skipped, []);
    let table = fs::read_to_string(folder.join("verdicts.tsv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|row| row.split('\t').collect()).collect();
    let named: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let found: Vec<&str> = suite.cases.iter().map(|case| &*case.litmus.name).collect();
    assert_eq!(found, named, "a test without a verdict, or a verdict without a test");
    let mut flipped = 0;
    for (case, row) in suite.cases.iter().zip(&rows) {
        let found = case.litmus.run(Mode::Base.hardware(), Bound::default()).unwrap();
        assert!(!found.broke && !found.states.is_empty(), "{}", row[0]);
        assert_eq!(case.litmus.verdict(&found.states), row[1], "{}", row[0]);
        if row[2] != "-" {
            let strong = rows.iter().find(|strong| strong[0] == row[2]).unwrap();
            assert_eq!((strong[1], row[1]), ("never", "sometimes"), "{}", row[0]);
            flipped += 1;
        }
    }
    let guarded = rows.iter().filter(|row| row[1] == "never");
    for row in guarded.filter(|row| row[3] != "mp" && !row[3].starts_with("n5")) {
        assert!(rows.iter().any(|weak| weak[2] == row[0]), "nothing weakens {}", row[0]);
    }
    assert!(flipped >= least, "{flipped}");
}

#[test]
fn fences_of_risc_v_order_what_the_specification_says() {
    weakened_tests_flip(&folder().join("riscv"), 28);
}

#[test]
fn x86_invalidates_what_transform_says() {
    weakened_tests_flip(&folder().join("x86"), 6);
}

const ISLA: &str = include_str!("isla/unmap.toml");

#[test]
fn tests_of_isla_run_on_the_cpus_of_the_explorer() {
    let verdict = |text: &str| {
        let litmus = Litmus::read_isla(text).unwrap();
        let found = litmus.run(Mode::Ets2.hardware(), Bound::default()).unwrap();
        assert!(!found.states.is_empty());
        litmus.verdict(&found.states)
    };
    assert_eq!(verdict(ISLA), "never");
    assert_eq!(verdict(&ISLA.replace("X2 = 1 & 0:X4 = 0", "X2 = 0 & 0:X4 = 1")), "always");
    for weak in ["    TLBI VAE1IS,X5\n", "    DSB SY\n    TLBI", "page(x)"] {
        let with = if weak.ends_with("TLBI") { "    TLBI" } else { "" };
        let with = if weak == "page(x)" { "0x77" } else { with };
        assert_eq!(verdict(&ISLA.replacen(weak, with, 1)), "sometimes", "{weak}");
    }
    for unknown in ["LDR X2,[X3]", "physical", "pte3", "ERET", "0:X2 = 1"] {
        assert!(Litmus::read_isla(&ISLA.replace(unknown, "HVC #1")).is_err(), "{unknown}");
    }
    assert!(Litmus::read_isla("").is_err());
}

/// The verdict on two threads, without FEAT_ETS2.
fn verdict(begin: &str, one: &str, other: &str, condition: &str) -> &'static str {
    let (one, other): (Vec<_>, Vec<_>) = (one.split("; ").collect(), other.split("; ").collect());
    let mut text = format!("AArch64 asked\n{{ {begin} }}\n P0 | P1 ;\n");
    for row in 0..one.len().max(other.len()) {
        let cell = |of: &[&str]| of.get(row).copied().unwrap_or_default().to_owned();
        text.push_str(&format!(" {} | {} ;\n", cell(&one), cell(&other)));
    }
    text.push_str(condition);
    let litmus = Litmus::read(&text).unwrap();
    let found = litmus.run(Mode::Base.hardware(), Bound::default()).unwrap();
    assert!(!found.states.is_empty());
    litmus.verdict(&found.states)
}

const TWO: &str = "0:X1=x; 0:X2=y; 0:X3=1; 1:X1=x; 1:X2=y; 1:X3=1";

#[test]
fn acquire_and_release_order_what_they_must_and_no_more() {
    let passed = |store: &str, load: &str| {
        let one = format!("STR W3,[X1]; {store} W3,[X2]");
        let other = format!("{load} W4,[X2]; LDR W5,[X1]");
        verdict(TWO, &one, &other, "exists (1:X4=1 /\\ 1:X5=0)")
    };
    assert_eq!(passed("STLR", "LDAR"), "never");
    assert_eq!(passed("STLR", "LDAPR"), "never");
    assert_eq!(passed("STR", "LDAR"), "sometimes");
    assert_eq!(passed("STLR", "LDR"), "sometimes");
    let buffered = |load: &str| {
        let one = format!("STLR W3,[X1]; {load} W4,[X2]");
        let other = format!("STLR W3,[X2]; {load} W4,[X1]");
        verdict(TWO, &one, &other, "exists (0:X4=0 /\\ 1:X4=0)")
    };
    assert_eq!(buffered("LDAR"), "never");
    assert_eq!(buffered("LDAPR"), "sometimes");
}

#[test]
fn no_write_comes_between_the_read_and_the_write_of_an_atomic() {
    let both = |swap: &str| format!("{swap} X3,X4,[X1]");
    for swap in ["SWP", "SWPA", "SWPL", "SWPAL"] {
        let condition = "exists (0:X4=0 /\\ 1:X4=0)";
        assert_eq!(verdict(TWO, &both(swap), &both(swap), condition), "never", "{swap}");
    }
    let added = verdict(TWO, &both("LDADD"), "STADD X3,[X1]", "forall (x=2)");
    assert_eq!(added, "always");
    let compared = "CAS X4,X3,[X1]";
    let one = verdict(TWO, compared, compared, "exists (0:X4=0 /\\ 1:X4=0)");
    assert_eq!(one, "never");
    let ordered = |swap: &str| {
        let one = format!("{swap} X3,X4,[X1]; LDR W5,[X2]");
        let other = format!("{swap} X3,X4,[X2]; LDR W5,[X1]");
        verdict(TWO, &one, &other, "exists (0:X5=0 /\\ 1:X5=0)")
    };
    assert_eq!(ordered("SWPAL"), "never");
    assert_eq!(ordered("SWPA"), "sometimes");
    let flags = "STSET X3,[X1]; STCLR X3,[X1]";
    assert_eq!(verdict(TWO, flags, "", "forall (x=0)"), "always");
}

#[test]
fn a_branch_holds_back_stores_and_not_loads() {
    let sent = "STR W3,[X1]; DMB SY; STR W3,[X2]";
    let condition = "exists (1:X4=1 /\\ 1:X5=0)";
    let read = |between: &str| {
        let receive = format!("LDR W4,[X2]; {between}LDR W5,[X1]");
        verdict(TWO, sent, &receive, condition)
    };
    assert_eq!(read("CBZ W4,L0; L0: "), "sometimes");
    assert_eq!(read("CBZ W4,L0; ISB; L0: "), "never");
    assert_eq!(read("EOR W6,W4,W4; L0: ADD X1,X1,W6,SXTW; "), "never");
    assert_eq!(read("CMP W4,#2; CSEL X1,X2,X1,EQ; "), "sometimes");
    let write = |between: &str| {
        let receive = format!("LDR W4,[X2]; {between}STR W3,[X1]");
        let sent = "LDR W4,[X1]; DMB SY; STR W3,[X2]";
        verdict(TWO, sent, &receive, "exists (0:X4=1 /\\ 1:X4=1)")
    };
    assert_eq!(write(""), "sometimes");
    assert_eq!(write("CBNZ W4,L0; L0: "), "never");
    assert_eq!(write("CMP W4,#2; CSEL X1,X2,X1,EQ; "), "never");
    // What is branched over does not happen, and a loop ends.
    assert_eq!(verdict(TWO, "CBNZ X3,L0; STR W3,[X1]; L0: NOP", "", "exists (x=1)"), "never");
    let wait = "L0: LDR W4,[X2]; CBZ W4,L0; DMB SY; LDR W5,[X1]";
    assert_eq!(verdict(TWO, sent, wait, "forall (1:X4=1 /\\ 1:X5=1)"), "always");
}

#[test]
fn a_verdict_alone_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("plain.litmus"), PLAIN).unwrap();
    for (verdict, exact, missing, extra) in [
        ("Required", true, false, false),
        ("Allow", true, false, false),
        ("Forbidden", false, false, true),
    ] {
        fs::write(folder.path().join("kinds.txt"), format!("plain {verdict}\n")).unwrap();
        let suite = Suite::open(folder.path()).unwrap();
        let compared = suite.cases[0].compare(Mode::Base, Bound::default()).unwrap();
        let found = (compared.exact(), compared.is_too_strong(), compared.is_too_weak());
        assert_eq!(found, (exact, missing, extra), "{verdict}");
        assert_eq!(suite.cases[0].compare(Mode::Ets2, Bound::default()).unwrap().said, None);
    }
    let never = PLAIN.replace("x=1)", "x=2)");
    fs::write(inner.join("plain.litmus"), never).unwrap();
    fs::write(folder.path().join("kinds.txt"), "plain Allowed\n").unwrap();
    let suite = Suite::open(folder.path()).unwrap();
    assert!(suite.cases[0].compare(Mode::Base, Bound::default()).unwrap().is_too_strong());
}

const PLAIN: &str =
    "AArch64 plain\n{ 0:X1=x; }\n P0 ;\n MOV W0,#1 ;\n STR W0,[X1] ;\nexists (x=1)\n";

fn trouble(text: &str) -> String {
    Litmus::read(text).unwrap_err().to_string()
}

#[test]
fn unreadable_tests_are_reported_with_the_line() {
    assert!(Litmus::read(PLAIN).is_ok());
    let unknown = PLAIN.replace("STR W0", "LDXR W0");
    assert_eq!(trouble(&unknown), "line 5: `LDXR W0,[X1]` is no instruction that the machine has");
    assert!(trouble(&PLAIN.replace("STR W0,[X1]", "CBZ W0,L1")).contains("to a label"));
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
        at in 0usize..5000, to in any::<char>(), which in any::<usize>(),
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
