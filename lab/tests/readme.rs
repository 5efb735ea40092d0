//! What the README shows of `lookaside reproduce` and `lookaside replay` is what they print.

use std::process::Command;

use lookaside_simulation::reproduce::{Book, Plan, Request, Run, table};

const README: &str = include_str!("../../README.md");

/// Finds the pieces that the README shows after a mark, in their order, in what was printed.
#[track_caller]
fn shows(mark: &str, printed: &str) {
    let (_, after) = README.split_once(&format!("<!-- {mark} -->\n```text\n")).unwrap();
    let (shown, _) = after.split_once("```").unwrap();
    let mut rest = printed;
    for piece in shown.split("...\n") {
        let piece = piece.trim_end();
        let at = rest.find(piece);
        let at = at.unwrap_or_else(|| panic!("not printed, or not in this order:\n{piece}"));
        rest = &rest[at + piece.len()..];
    }
}

#[test]
fn the_readme_shows_what_comes_out() {
    let book = Book::shipped().unwrap();
    let plan = Plan::new(&book, &Request::default()).unwrap();
    let execute = |machine: &_, run: &Run| run.measure(machine);
    shows("lookaside reproduce", &table::to_text(&plan.execute(&book, &execute, &|| (), false)));
}

#[test]
fn the_readme_shows_a_replay() {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lookaside"));
    lab.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["replay", "traces/threads.trace"]);
    let output = lab.output().expect("the program can be started");
    shows(
        "lookaside replay traces/threads.trace",
        &String::from_utf8(output.stdout).expect("text"),
    );
}
