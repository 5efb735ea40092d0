//! What others say of a test's proposition, where they say no more: the tables of verdicts beside tests.

use std::{collections::BTreeMap, fs, path::Path};

use super::suite::Mode;

/// What is said of the proposition of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds in no final state.
    Forbidden,
    /// It holds in some.
    Allowed,
    /// It holds in all.
    Required,
}

impl Verdict {
    /// Reads one: a word of herd's tables, or of ours.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        Some(match word {
            "Forbidden" | "Forbid" | "never" => Self::Forbidden,
            "Allowed" | "Allow" | "sometimes" => Self::Allowed,
            "Required" | "Require" | "always" => Self::Required,
            _ => return None,
        })
    }

    /// Whether the machine is too strong if it finds what is said to be allowed never.
    #[must_use]
    pub fn is_missed(self, found: &str) -> bool {
        self == Self::Allowed && found == "never"
    }

    /// Whether the machine is too weak: it finds a state that must not be.
    #[must_use]
    pub fn is_exceeded(self, found: &str) -> bool {
        match self {
            Self::Forbidden => found != "never",
            Self::Allowed => false,
            Self::Required => found != "always",
        }
    }
}

/// The verdicts of a folder, by mode and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts(BTreeMap<(Mode, String), Verdict>);

impl Verdicts {
    /// Reads the tables of a folder: herd's and Isla's `kinds.txt` and `VMSA-ETS2-kinds.txt`, or `verdicts.tsv`,
    /// whose columns after the name are for FEAT_ETS2 off and, if the header says `ets2`, on.
    pub(super) fn open(folder: &Path) -> Self {
        let mut verdicts = Self::default();
        for (mode, file) in [(Mode::Base, "kinds.txt"), (Mode::Ets2, "VMSA-ETS2-kinds.txt")] {
            for line in read(folder, file).lines() {
                let words = line.split(|letter: char| letter.is_whitespace() || letter == ',');
                let mut words = words.filter(|word| !word.is_empty());
                verdicts.add(mode, words.next(), words.next());
            }
        }
        let table = read(folder, "verdicts.tsv");
        let mut lines = table.lines();
        let both = lines.next().is_some_and(|head| head.split('\t').nth(2) == Some("ets2"));
        for line in lines {
            let cells: Vec<_> = line.split('\t').collect();
            let (name, base) = (cells.first().copied(), cells.get(1).copied());
            verdicts.add(Mode::Base, name, base);
            verdicts.add(Mode::Ets2, name, if both { cells.get(2).copied() } else { base });
        }
        verdicts
    }

    fn add(&mut self, mode: Mode, name: Option<&str>, verdict: Option<&str>) {
        if let (Some(name), Some(verdict)) = (name, verdict.and_then(Verdict::read)) {
            self.0.insert((mode, name.to_owned()), verdict);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn of(&self, name: &str) -> BTreeMap<Mode, Verdict> {
        let own = |mode| Some((mode, *self.0.get(&(mode, name.to_owned()))?));
        Mode::ALL.into_iter().filter_map(own).collect()
    }
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_default()
}
