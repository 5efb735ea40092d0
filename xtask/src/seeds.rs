//! Each item of `docs/seeds.md` has its row, and the tests it names are there and bear its number.

use std::collections::BTreeMap;

use crate::{
    failure::{Failure, Result},
    source,
    workspace::Workspace,
};

/// Where the rows are.
const TABLE: &str = "docs/seeds.md";
/// The lists, and how many items each has.
const LISTS: [(&str, u32); 5] =
    [("ASID", 17), ("PCID", 12), ("LOCAL", 13), ("FLAG", 12), ("CONT", 13)];
/// The columns, as the header must name them.
const COLUMNS: [&str; 4] = ["id", "what", "where shown", "state"];
/// What an item may wait for.
const AWAITED: [&str; 2] = ["flushes", "timed machine"];

/// Checks the table against the tests of the workspace and prints what is wrong.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut tests = Vec::new();
    for file in workspace.files()?.iter().filter(|file| file.ends_with(".rs")) {
        tests.extend(tests_in(&workspace.read(file)?));
    }
    let (summary, findings) = check(&workspace.read(TABLE)?, &tests);
    if findings.is_empty() {
        println!("seeds: {summary}");
        return Ok(());
    }
    for (line, what) in &findings {
        println!("{TABLE}:{}: {what}", line + 1);
    }
    println!("seeds: {summary}");
    Err(Failure::new(format!("{} things wrong with the items of {TABLE}", findings.len())))
}

/// The functions that the test attribute stands above.
fn tests_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in source::lines(text) {
        let code = line.code.trim();
        marked |= code.starts_with("#[test]");
        if let (true, Some(name)) = (marked, source::function_name(code)) {
            names.push(name.to_owned());
            marked = false;
        }
    }
    names
}

/// How an item stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State<'t> {
    Holds,
    Waits,
    Todo(&'t str),
}

/// A line of the table, counted from zero, and what is wrong with it.
type Finding = (usize, String);

/// How many items are in which state, and what is wrong.
fn check(table: &str, tests: &[String]) -> (String, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut rows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut in_table, mut holds, mut waits, mut todo) = (false, 0, 0, 0);
    for (line, text) in table.lines().enumerate() {
        let Some(cells) = cells(text) else {
            in_table = false;
            continue;
        };
        if cells == COLUMNS {
            in_table = true;
            continue;
        }
        if !in_table || cells.iter().all(|cell| cell.chars().all(|c| c == '-' || c == ':')) {
            continue;
        }
        let [id, what, shown, state] = cells[..] else {
            findings
                .push((line, format!("a row has {} cells, not {}", cells.len(), COLUMNS.len())));
            continue;
        };
        let mut wrong = |what: String| findings.push((line, format!("{id}: {what}")));
        if rows.insert(id, cells.clone()).is_some() {
            wrong("has a row already".to_owned());
        }
        if what.is_empty() {
            wrong("does not say what must hold".to_owned());
        }
        let shown = names(shown);
        for name in &shown {
            if !tests.iter().any(|test| test == name) {
                wrong(format!("there is no test `{name}`"));
            }
            if !bears(name, id) {
                wrong(format!("`{name}` does not bear the number, as in `{}_...`", prefix(id)));
            }
        }
        match read_state(state) {
            Ok(State::Holds) if shown.is_empty() => wrong("holds, and no test shows it".to_owned()),
            Ok(State::Holds) => holds += 1,
            Ok(State::Waits) => waits += 1,
            Ok(State::Todo(what)) => {
                todo += 1;
                wrong(format!("is to be done: {what}"));
            }
            Err(why) => wrong(why),
        }
    }
    for (list, count) in LISTS {
        for number in 1..=count {
            let id = format!("{list}-{number:02}");
            if rows.remove(id.as_str()).is_none() {
                findings.push((0, format!("{id} has no row")));
            }
        }
    }
    for id in rows.keys() {
        findings.push((0, format!("`{id}` is no item of a list")));
    }
    findings.sort();
    (format!("{holds} items hold, {waits} wait, {todo} are to be done"), findings)
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(str::trim).collect())
}

/// Names between commas; `-` is none.
fn names(cell: &str) -> Vec<&str> {
    let names = cell.split(',').map(|name| name.trim().trim_matches('`'));
    names.filter(|name| !name.is_empty() && *name != "-").collect()
}

/// `asid_01` for `ASID-01`.
fn prefix(id: &str) -> String {
    id.to_lowercase().replace('-', "_")
}

/// Whether the name holds the number as whole words: `asid_01` is not in `asid_012_x`.
fn bears(name: &str, id: &str) -> bool {
    let prefix = prefix(id);
    name.match_indices(&prefix).any(|(at, _)| {
        let (before, after) = (&name[..at], &name[at + prefix.len()..]);
        (before.is_empty() || before.ends_with('_')) && (after.is_empty() || after.starts_with('_'))
    })
}

fn read_state(cell: &str) -> core::result::Result<State<'_>, String> {
    if cell == "holds" {
        return Ok(State::Holds);
    }
    let (word, reason) = cell.split_once('(').unwrap_or((cell, ""));
    let reason = reason.trim().trim_end_matches(')').trim();
    let word = word.trim();
    if word != "todo" {
        let awaited = word.strip_prefix("waits for:").map(str::trim);
        if !awaited.is_some_and(|awaited| AWAITED.contains(&awaited)) {
            return Err(format!(
                "`{word}` is no state: write `holds`, `waits for: {}`, or `todo`",
                AWAITED.join("` or `waits for: ")
            ));
        }
    }
    match (word, reason) {
        (_, "") => Err(format!("`{word}` needs a reason in parentheses")),
        ("todo", reason) => Ok(State::Todo(reason)),
        _ => Ok(State::Waits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table in which every item holds, but for what `change` makes of a row.
    fn checked(change: impl Fn(&str, String) -> String) -> Vec<String> {
        let mut table =
            format!("# Title\n\n| {} |\n| --- | --- | --- | --- |\n", COLUMNS.join(" | "));
        let mut tests = Vec::new();
        for (list, count) in LISTS {
            for number in 1..=count {
                let id = format!("{list}-{number:02}");
                let test = format!("{}_holds", prefix(&id));
                table.push_str(&change(&id, format!("| {id} | it does | `{test}` | holds |\n")));
                tests.push(test);
            }
        }
        check(&table, &tests).1.into_iter().map(|(_, what)| what).collect()
    }

    /// The same, with one change to the row of ASID-07.
    fn with(from: &str, to: &str) -> Vec<String> {
        checked(|id, row| if id == "ASID-07" { row.replace(from, to) } else { row })
    }

    #[test]
    fn a_table_in_which_all_is_well_is_clean() {
        assert_eq!(checked(|_, row| row), [""; 0]);
        assert_eq!(with("holds |", "waits for: flushes (of tables) |"), [""; 0]);
        assert_eq!(with("`asid_07_holds` | holds", "- | waits for: timed machine (time)"), [""; 0]);
    }

    #[test]
    fn each_mistake_in_the_requirements_table_is_named() {
        let only = |found: Vec<String>, expected: &str| {
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}, not {expected}");
        };
        only(with("asid_07_holds", "asid_07_gone"), "ASID-07: there is no test `asid_07_gone`");
        only(with("asid_07_holds", "asid_08_holds"), "does not bear the number");
        only(with("`asid_07_holds`", "-"), "no test shows it");
        only(with("it does", ""), "does not say what must hold");
        only(with("holds |", "todo (litmus test) |"), "ASID-07: is to be done: litmus test");
        only(with("holds |", "todo |"), "needs a reason");
        only(with("holds |", "waits for: flushes |"), "needs a reason");
        only(with("holds |", "waits for: better weather (soon) |"), "no state");
        only(with("holds |", "holds mostly |"), "no state");
        only(
            checked(|id, row| if id == "PCID-12" { String::new() } else { row }),
            "PCID-12 has no row",
        );
        only(checked(|id, row| if id == "PCID-12" { row.repeat(2) } else { row }), "a row already");
        only(
            checked(|id, row| {
                if id == "PCID-12" {
                    row + "| X-1 | it does | - | waits for: flushes (x) |\n"
                } else {
                    row
                }
            }),
            "`X-1` is no item",
        );
        only(
            checked(|id, row| if id == "PCID-12" { row + "| too | few |\n" } else { row }),
            "2 cells",
        );
    }

    #[test]
    fn a_number_is_a_whole_word_of_a_name() {
        assert!(bears("asid_01_x", "ASID-01") && bears("cnp_asid_01", "ASID-01"));
        assert!(!bears("asid_012", "ASID-01") && !bears("basid_01", "ASID-01"));
    }

    #[test]
    fn only_functions_under_the_test_attribute_are_tests() {
        let text = "fn asid_01_helper() {}\n#[test]\n#[should_panic]\nfn asid_01_a() {}\n\
            fn b() {}\nproptest! {\n    #[test]\n    fn c(x in 0..1) {}\n}\n// #[test]\nfn d() {}\n";
        assert_eq!(tests_in(text), ["asid_01_a", "c"]);
    }
}
