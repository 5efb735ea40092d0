//! Memory traces.

use std::fs;

use lookaside_traces::{
    import,
    lackey::{working_set, working_set_in},
};

use super::sample;

#[test]
fn pages_are_counted_by_thread_and_window() {
    let pattern = working_set_in(&sample("lackey.txt"), 100).expect("a pattern");
    let ids: Vec<_> = pattern.threads.iter().map(|thread| thread.id).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(pattern.losses.damaged, 0);
    for thread in &pattern.threads {
        for use_ in [&thread.instructions, &thread.data, &thread.both] {
            assert_eq!(use_.in_window.len() as u64, thread.windows);
            assert!(use_.hot <= use_.pages);
            let all: u32 = use_.in_window.iter().sum();
            assert!(use_.others * thread.windows as f64 <= f64::from(all));
        }
        assert!(thread.both.pages <= thread.instructions.pages + thread.data.pages);
    }
}

/// A log with one thread: each window of 4 references fetches page 1, uses pages 2 and 3 as data, and a
/// page of its own.
fn made(windows: u64) -> String {
    let mut log = String::from("==1== Lackey, an example Valgrind tool\n");
    for window in 0..windows {
        let own = (100 + window) * 4096;
        log += &format!("I  00001000,4\n L 00002ffe,4\n M 00001008,8\n S {own:08x},8\n");
    }
    log
}

#[test]
fn hot_pages_are_those_of_nearly_every_window() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    fs::write(&path, made(10) + "I  00009000,4\n").expect("a file");
    let pattern = working_set_in(&path, 4).expect("a pattern");
    assert_eq!((pattern.references, pattern.threads.len()), (41, 1));
    let thread = &pattern.threads[0];
    assert_eq!((thread.id, thread.windows), (1, 10));
    // The reference at 2ffe reaches into the next page. What is in no whole window does not count.
    assert_eq!((thread.instructions.pages, thread.instructions.hot), (1, 1));
    assert_eq!((thread.data.pages, thread.data.hot, thread.data.others), (13, 3, 1.0));
    assert_eq!((thread.both.pages, thread.both.hot, thread.both.others), (13, 3, 1.0));
    assert_eq!(thread.both.in_window, [4; 10]);
}

#[test]
fn files_that_are_no_log_or_too_short_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let refused = |text: &str, words: &str| {
        fs::write(&path, text).expect("a file");
        let error = working_set(&path).expect_err("no pattern").to_string();
        assert!(error.contains(words), "{error}");
    };
    refused("", "no references");
    refused(&made(10), "make no whole window of 100000");
    refused(&"something else\n".repeat(200), "log:101: it is no log");
    refused("I  zz,4\n", "no references");
    let error = import::open(&sample("lackey.txt")).expect_err("no events").to_string();
    assert!(error.contains("which has no events"), "{error}");
}

#[test]
fn damage_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let bad = " L 00002000,99999\n S ffffffffffffffff,8\nI  1,0\nI  11111111111111111,1\n??\n L 20";
    fs::write(&path, made(10) + bad).expect("a file");
    let pattern = working_set_in(&path, 4).expect("a pattern");
    assert_eq!(pattern.losses.damaged, 5);
    assert!(pattern.losses.truncated);
    assert_eq!(pattern.references, 40);
}
