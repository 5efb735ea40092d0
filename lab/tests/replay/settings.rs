//! `lookaside diff` and `lookaside what-if` on the traces of the repository, and the schemas of their JSON.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn lab(words: &[&str]) -> (Option<i32>, String, String) {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    let output = lab.current_dir(ROOT).args(words).output().expect("the program can be started");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(words: &[&str]) -> Value {
    let (status, text, errors) = lab(&[words, &["--format", "json"]].concat());
    assert_eq!(status, Some(0), "{words:?}: {errors}");
    serde_json::from_str(&text).expect("JSON")
}

/// Every key that the schema requires is there, and every key that is there is in the schema.
#[track_caller]
fn fits(schema: &str, value: &Value) {
    let file = Path::new(ROOT).join("docs/schemas").join(format!("{schema}.json"));
    let text =
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    let forms = whole["oneOf"].as_array().cloned().unwrap_or_else(|| vec![whole.clone()]);
    let keys = value.as_object().expect("an object");
    let fits = |form: &Value| {
        let required = form["required"].as_array().expect("required keys");
        required.iter().all(|key| keys.contains_key(key.as_str().expect("a key")))
            && keys.keys().all(|key| !form["properties"][key].is_null())
    };
    assert!(forms.iter().any(fits), "{schema}: {:?}", keys.keys());
    let version = &forms[0]["properties"]["version"]["const"];
    assert_eq!(&value["version"], version, "{schema}");
}

#[test]
fn json_fits_its_schema() {
    fits("import", &json(&["import", "traces/sort.trace"]));
    fits("replay", &json(&["replay", "traces/sort.trace"]));
    fits("replay", &json(&["replay", "traces/sort.trace", "--validate"]));
    fits("diff", &json(&["diff", "traces/sort.trace", "--with", "ceiling=1", "--seeds", "1"]));
    fits("what-if", &json(&["what-if", "traces/sort.trace", "ceiling=1", "--seeds", "1"]));
}

#[test]
fn a_knob_changes_what_it_is_about() {
    let value = json(&["what-if", "traces/threads.trace", "ceiling=0", "--seeds", "1"]);
    let reasons = value["difference"]["reasons"].as_array().expect("reasons");
    let row = |name: &str| reasons.iter().find(|row| row["what"][0] == name).expect("a row");
    let pages = row("pages flushed one by one");
    assert!(
        pages["before"]["median"].as_f64() > Some(0.0) && pages["after"]["median"] == 0.0,
        "{pages}"
    );
    assert!(value["answer"].as_str().expect("a sentence").contains("with ceiling=0"));
}

#[test]
fn two_recordings_are_compared_as_the_kernel_counted() {
    let value = json(&["diff", "traces/sort.trace", "traces/sort.trace", "--seeds", "1"]);
    let all = ["causes", "reasons", "initiators"]
        .map(|table| value["difference"][table].as_array().cloned());
    for change in all.into_iter().flatten().flatten() {
        assert_eq!(change["before"], change["after"], "the same recording");
    }
    assert_eq!(value["difference"]["per"], "run");
    let (status, text, errors) =
        lab(&["diff", "traces/sort.trace", "traces/compile.trace", "--seeds", "1"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(text.contains("as the kernel counts") && text.contains("Most of that is"), "{text}");
}

#[test]
fn bad_input_is_refused_in_a_sentence() {
    for (words, why) in [
        (
            &["what-if", "traces/sort.trace", "thq=on"][..],
            "there is no knob `thq`: there are ceiling=N",
        ),
        (&["what-if", "traces/sort.trace", "thp"], "one is NAME=VALUE"),
        (&["what-if", "traces/none.trace", "thp=on"], "cannot be read"),
        (&["what-if", "traces/sort.trace", "cpus=100000"], "CPUs; machine"),
        (&["diff", "traces/sort.trace", "--with", "strategy=nothing"], "no strategy `nothing`"),
    ] {
        let (status, _, errors) = lab(words);
        assert_eq!(status, Some(2), "{words:?}: {errors}");
        assert!(errors.contains(why) && errors.trim().lines().count() == 1, "{words:?}: {errors}");
    }
    let (status, text, _) = lab(&["what-if", "--list"]);
    assert!(status == Some(0) && text.contains("tlb_single_page_flush_ceiling"), "{text}");
}

#[test]
fn completions_and_pages_name_every_command_that_is_shown() {
    let (status, text, _) = lab(&["completions", "bash"]);
    assert_eq!(status, Some(0));
    let folder = tempfile::tempdir().expect("a folder");
    let (status, _, errors) = lab(&["man", folder.path().to_str().expect("text")]);
    assert_eq!(status, Some(0), "{errors}");
    for command in ["replay", "import", "diff", "what-if", "reproduce"] {
        assert!(text.contains(command), "{command}");
        assert!(folder.path().join(format!("lookaside-{command}.1")).exists(), "{command}");
    }
    assert!(!folder.path().join("lookaside-record-part.1").exists(), "it is no command for people");
}
