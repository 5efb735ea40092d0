//! What the README shows of `lab reproduce` is what it prints.

use lookaside_lab::reproduce::{Book, Plan, Request, Run, table};

const README: &str = include_str!("../../README.md");

#[test]
fn the_readme_shows_what_comes_out() {
    let book = Book::shipped().unwrap();
    let plan = Plan::new(&book, &Request::default()).unwrap();
    let execute = |machine: &_, run: &Run| run.measure(machine);
    let printed = table::to_text(&plan.execute(&book, &execute, &|| (), false));

    let (_, after) = README.split_once("<!-- lab reproduce -->\n```text\n").unwrap();
    let (shown, _) = after.split_once("```").unwrap();
    let mut rest = printed.as_str();
    for piece in shown.split("...\n") {
        let piece = piece.trim_end();
        let at = rest.find(piece);
        let at = at.unwrap_or_else(|| panic!("not printed, or not in this order:\n{piece}"));
        rest = &rest[at + piece.len()..];
    }
}
