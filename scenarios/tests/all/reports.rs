//! Reports and pages about bugs name protocols of the zoo, and a report has what a person needs to send it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use lookaside_scenarios::zoo;

/// The Markdown files of a folder of the repository, without the one that lists them.
fn pages(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let files = fs::read_dir(&folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path());
    let is_page = |path: &PathBuf| {
        path.extension().is_some_and(|kind| kind == "md")
            && !path.ends_with("README.md")
            && !path.ends_with("index.md")
    };
    files
        .filter(is_page)
        .map(|path| (path.clone(), fs::read_to_string(path).expect("it is text")))
        .collect()
}

/// The protocols whose schedule a text asks for: `cargo lab zoo NAME`.
fn asked(text: &str) -> Vec<&str> {
    let names = text.split("cargo lab zoo ").skip(1).filter_map(|rest| {
        rest.split(|letter: char| letter != '-' && !letter.is_ascii_alphanumeric()).next()
    });
    names.filter(|name| !name.is_empty() && !name.starts_with('-')).collect()
}

/// Whether a protocol of the zoo is a broken one.
fn is_broken(name: &str) -> bool {
    zoo::find(name).is_some_and(|protocol| protocol.repair.is_some())
}

/// Whether a text names a commit: forty hexadecimal digits.
fn names_a_commit(text: &str) -> bool {
    text.split(|letter: char| !letter.is_ascii_hexdigit()).any(|word| word.len() == 40)
}

#[test]
fn every_schedule_that_a_page_asks_for_is_one_of_the_zoo() {
    let files: Vec<_> = pages("reports").into_iter().chain(pages("docs/bugs")).collect();
    assert!(files.len() > 20, "{} files", files.len());
    for (file, text) in &files {
        let names = asked(text);
        assert!(!names.is_empty(), "{}: no schedule", file.display());
        for name in names {
            assert!(zoo::find(name).is_some(), "{}: `{name}` is not in the zoo", file.display());
        }
    }
}

#[test]
fn every_report_has_a_commit_a_reason_a_broken_schedule_and_a_change() {
    for (file, text) in pages("reports") {
        let file = file.display();
        assert!(names_a_commit(&text), "{file}: no commit");
        for part in ["why it is wrong", "**proposed change.**"] {
            assert!(text.to_lowercase().contains(part), "{file}: no `{part}`");
        }
        assert!(asked(&text).into_iter().any(is_broken), "{file}: no protocol that breaks");
    }
}

#[test]
fn every_report_is_in_the_list_and_on_the_site() {
    let read = |file: &str| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file))
            .expect("it is there")
    };
    let (list, summary) = (read("reports/README.md"), read("docs/SUMMARY.md"));
    for (file, _) in pages("reports") {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(list.contains(&format!("({name})")), "reports/README.md does not list {name}");
        assert!(
            summary.contains(&format!("(../reports/{name})")),
            "docs/SUMMARY.md does not list {name}"
        );
    }
}

#[test]
fn every_schedule_of_the_list_replays_to_a_violation() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/README.md");
    let list = fs::read_to_string(list).expect("it is there");
    let strings: Vec<_> = list.split('`').filter(|part| part.starts_with("v1:")).collect();
    for (file, text) in pages("reports") {
        let broken = asked(&text).into_iter().filter(|name| is_broken(name));
        for name in broken {
            let prefix = format!("v1:zoo/{name}:");
            let is_listed = strings.iter().any(|string| string.starts_with(&prefix));
            assert!(is_listed, "{}: the list has no schedule of `{name}`", file.display());
        }
    }
    for string in strings {
        let schedule = string.parse().unwrap_or_else(|error| panic!("{string}: {error}"));
        let protocol = zoo::of(&schedule).unwrap_or_else(|| panic!("{string}: no such protocol"));
        let failure =
            protocol.replay(&schedule).unwrap_or_else(|error| panic!("{string}: {error}"));
        let failure = failure.unwrap_or_else(|| panic!("{string}: nothing breaks"));
        assert_eq!(Some(failure.violation.rule), protocol.expected.rule(), "{string}");
    }
}
