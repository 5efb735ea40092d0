//! `lookaside litmus`: how it ends, and what it says of tests that it cannot finish.

use std::{fs, path::Path};

const PLAIN: &str =
    "AArch64 plain\n{ 0:X1=x; }\n P0 ;\n MOV W0,#1 ;\n STR W0,[X1] ;\nexists (x=1)\n";

/// Runs the command; how it ended, and what it wrote.
fn lab(arguments: &[&str], folder: &Path) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lookaside"));
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
    for bound in [["--memory", "8"], ["--budget", "2"]] {
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
