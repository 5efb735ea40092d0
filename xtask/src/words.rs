//! Words that the project has given up stay away: each has a standard term, which a maintainer of Linux or FreeBSD
//! knows without having read the design.

use crate::{
    failure::{Failure, Result},
    workspace::Workspace,
};

/// Words that are gone, and what is said instead. Upper and lower case differ: `Board` is a type that was.
const GONE: [(&str, &str); 39] = [
    ("Board", "BroadcastRing"),
    ("Debt", "MissedFlush"),
    ("Demand", "FlushRequest"),
    ("HeldPage", "Gather::hold_page"),
    ("HeldTable", "Gather::hold_table"),
    ("Inbox", "RequestQueue"),
    ("Specimen", "Protocol"),
    ("Stretch", "VaRange"),
    ("Sweep", "FlushRanges"),
    ("Turned", "RolledOver"),
    ("boards", "broadcast rings"),
    ("culprit", "cause, initiator"),
    ("culprits", "causes, initiators"),
    ("deed", "operation"),
    ("deeds", "operations"),
    ("heed", "process"),
    ("heeds", "processes"),
    ("lend", "let borrow; with_root"),
    ("lends", "lets borrow; with_root"),
    ("lent", "borrowed; with_root"),
    ("mill", "build"),
    ("parties", "accounts"),
    ("party", "account"),
    ("payment", "catching up"),
    ("payments", "catching up"),
    ("rung", "round"),
    ("rungs", "rounds"),
    ("owe", "have missed a flush; be stale"),
    ("paid", "flushed, caught up"),
    ("specimen", "protocol"),
    ("specimens", "protocols"),
    ("stocks", "ASID caches"),
    ("stretches", "ranges"),
    ("sweeps", "sets of ranges"),
    ("turnover", "rollover"),
    ("turnovers", "rollovers"),
    ("weave", "instrument"),
    ("workshop", "work tree"),
    ("woven", "instrumented"),
];

/// Where they were used. Records of bugs quote their time.
const SEARCHED: [&str; 25] = [
    "CONTRIBUTING.md",
    "DESIGN.md",
    "README.md",
    "capi/",
    "checking/src/",
    "docs/",
    "explorer/src/",
    "hardware/",
    "hunt/",
    "kernel/src/",
    "lab/src/",
    "lookaside/src/",
    "lookaside/tests/",
    "loom/",
    "machine/",
    "playground/",
    "replay/src/",
    "reports/",
    "scenarios/src/",
    "simulation/src/",
    "terminal/src/",
    "traces/src/",
    "watch/",
    "watch-qemu/",
    "xtask/src/",
];

/// This file has them all.
const LIST: &str = "xtask/src/words.rs";

/// Prints each place where a word that is gone has come back.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut back = 0;
    for file in workspace.files()? {
        let text = file.ends_with(".rs") || file.ends_with(".md");
        if !text || file == LIST || !SEARCHED.iter().any(|place| file.starts_with(place)) {
            continue;
        }
        for (line, word, instead) in found(&workspace.read(&file)?) {
            println!("{file}:{line}: `{word}`; say: {instead}");
            back += 1;
        }
    }
    if back > 0 {
        return Err(Failure::new(format!("{back} words that were gone are back")));
    }
    println!("words: {} are gone", GONE.len());
    Ok(())
}

/// The lines of `text` with words that are gone. A name's parts are words.
fn found(text: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        let words: Vec<_> = line.split(|char: char| !char.is_alphanumeric()).collect();
        let gone = GONE.iter().filter(move |(word, _)| words.contains(word));
        gone.map(move |(word, instead)| (index + 1, *word, *instead))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole_and_as_parts_of_names() {
        let text =
            "A letter to the Board.\nfn the_turnover_ends() {}\nboarding, Boards, Turnover\n";
        let found: Vec<_> = found(text).map(|(line, word, _)| (line, word)).collect();
        assert_eq!(found, [(1, "Board"), (2, "turnover")]);
    }
}
