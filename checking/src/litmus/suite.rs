//! A folder of tests with what was recorded of them, and how the machine compares.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use lookaside_machine::litmus::Hardware;

use super::{
    Bound, Found, Litmus, Observation, Recorded, Runs, Trouble, Verdict, verdict::Verdicts,
};

/// FEAT_ETS2, off or on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Off.
    Base,
    /// On.
    Ets2,
}

impl Mode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Base, Self::Ets2];

    /// Its name, which is also that of the folder of outcomes.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Ets2 => "ets2",
        }
    }

    /// The hardware.
    #[must_use]
    pub fn hardware(self) -> Hardware {
        Hardware { ets2: self == Self::Ets2, ..Hardware::default() }
    }
}

/// A test of a folder.
#[derive(Debug)]
pub struct Case {
    /// What it is about, if a table beside it says so.
    pub class: String,
    /// The test.
    pub litmus: Litmus,
    /// What was recorded of it, by mode.
    pub recorded: BTreeMap<Mode, Recorded>,
    /// What is said of its proposition, by mode.
    pub verdicts: BTreeMap<Mode, Verdict>,
}

/// Something that cannot be run, or compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The file and the line.
    pub place: String,
    /// Why.
    pub why: String,
}

/// A folder of tests.
#[derive(Debug, Default)]
pub struct Suite {
    /// The tests, by name.
    pub cases: Vec<Case>,
    /// What cannot be run, or compared.
    pub skipped: Vec<Skipped>,
}

/// What the machine makes of a test, beside what was recorded.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The mode.
    pub mode: Mode,
    /// What the machine makes of it.
    pub found: Found,
    /// Recorded states that the machine does not reach: it is too strong.
    pub missing: BTreeSet<Observation>,
    /// States that the machine reaches and that are not recorded: it is too weak.
    pub extra: BTreeSet<Observation>,
    /// Whether break-before-make is asked for where it is recorded.
    pub same_warning: bool,
    /// In how many of the states the proposition holds: `never`, `sometimes`, `always`.
    pub verdict: &'static str,
    /// What is said of the proposition.
    pub said: Option<Verdict>,
}

impl Compared {
    /// Whether nothing differs.
    #[must_use]
    pub fn exact(&self) -> bool {
        !self.is_too_strong() && !self.is_too_weak() && self.same_warning
    }

    /// Whether a state is missing.
    #[must_use]
    pub fn is_too_strong(&self) -> bool {
        !self.missing.is_empty() || self.said.is_some_and(|said| said.is_missed(self.verdict))
    }

    /// Whether there is a state too many.
    #[must_use]
    pub fn is_too_weak(&self) -> bool {
        !self.extra.is_empty() || self.said.is_some_and(|said| said.is_exceeded(self.verdict))
    }
}

impl Suite {
    /// Reads the tests of a folder and of the folders in it, or of its folder `aarch64-vmsa`. What cannot
    /// be read is in [`Suite::skipped`].
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let inner = folder.join("aarch64-vmsa");
        let folder = if inner.is_dir() { &inner } else { folder };
        let mut suite = Self::default();
        suite.read_folder(folder, &Verdicts::default())?;
        suite.cases.sort_by(|one, other| one.litmus.name.cmp(&other.litmus.name));
        Ok(suite)
    }

    /// Reads a folder. One without verdicts has those of the folder that it is in.
    fn read_folder(&mut self, folder: &Path, above: &Verdicts) -> io::Result<()> {
        let classes = classes(&folder.join("expected.tsv"));
        let own = Verdicts::open(folder);
        let verdicts = if own.is_empty() { above } else { &own };
        let suite = self;
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                suite.read_folder(&path, verdicts)?;
            } else if path.extension().is_some_and(|kind| kind == "litmus") || is_isla(&path) {
                files.push(path);
            }
        }
        files.sort();
        for file in files {
            let shown = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let litmus = match read(&file) {
                Ok(text) if is_isla(&file) => {
                    Litmus::read_isla(&text).map_err(|what| Trouble { line: 1, what })
                }
                Ok(text) => Litmus::read(&text),
                Err(why) => {
                    suite.skipped.push(Skipped { place: shown, why });
                    continue;
                }
            };
            let mut litmus = match litmus {
                Ok(litmus) => litmus,
                Err(trouble) => {
                    let place = format!("{shown}:{}", trouble.line);
                    suite.skipped.push(Skipped { place, why: trouble.what });
                    continue;
                }
            };
            let mut recorded = BTreeMap::new();
            let outcomes = folder.join("outcomes");
            for mode in Mode::ALL {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                let path = outcomes.join(mode.word()).join(format!("{stem}.out"));
                let shown = format!("outcomes/{}/{stem}.out", mode.word());
                if !outcomes.is_dir() {
                    continue;
                }
                // A copy: names that only the outcomes have are no variables of the test.
                let mut names = litmus.names.clone();
                match read(&path).map(|text| Recorded::read(&text, &mut names)) {
                    Ok(Ok(found)) => {
                        recorded.insert(mode, found);
                    }
                    Ok(Err(trouble)) => {
                        let place = format!("{shown}:{}", trouble.line);
                        suite.skipped.push(Skipped { place, why: trouble.what });
                    }
                    Err(why) => suite.skipped.push(Skipped { place: shown, why }),
                }
            }
            let class = classes.get(&litmus.name).cloned().unwrap_or_else(|| "-".to_owned());
            if litmus.name.is_empty() {
                litmus.name = shown;
            }
            let verdicts = verdicts.of(&litmus.name);
            suite.cases.push(Case { class, litmus, recorded, verdicts });
        }
        Ok(())
    }
}

impl Case {
    /// Those of some modes in which it runs: what the explorer runs has but one.
    #[must_use]
    pub fn modes<'m>(&self, modes: &'m [Mode]) -> &'m [Mode] {
        match self.litmus.runs {
            Runs::OutOfOrder(_) => modes,
            Runs::Explored(_) => &modes[..modes.len().min(1)],
        }
    }

    /// Runs the test; nothing if that is not finished within a bound.
    #[must_use]
    pub fn compare(&self, mode: Mode, bound: Bound) -> Option<Compared> {
        let found = self.litmus.run(mode.hardware(), bound)?;
        let empty = Recorded { states: found.states.clone(), broke: found.broke };
        let recorded = self.recorded.get(&mode).unwrap_or(&empty);
        Some(Compared {
            mode,
            missing: recorded.states.difference(&found.states).cloned().collect(),
            extra: found.states.difference(&recorded.states).cloned().collect(),
            same_warning: recorded.broke == found.broke,
            verdict: self.litmus.verdict(&found.states),
            said: self.verdicts.get(&mode).copied(),
            found,
        })
    }
}

/// Whether a file holds a test in Isla's format.
fn is_isla(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".litmus.toml")
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    String::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 after {} bytes", error.utf8_error().valid_up_to()))
}

/// The classes of tests, from a table with a row for each; none if there is no table.
fn classes(table: &Path) -> BTreeMap<String, String> {
    let text = read(table).unwrap_or_default();
    let rows = text.lines().skip(1).filter_map(|row| {
        let mut cells = row.split('\t');
        Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
    });
    rows.collect()
}

/// How many tests of a class agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Tests with recorded outcomes or a verdict that were run.
    pub tests: usize,
    /// Those with exactly the recorded states, and the verdict.
    pub exact: usize,
    /// Those that lack a state.
    pub missing: usize,
    /// Those with a state too many.
    pub extra: usize,
    /// Those with the recorded answer about break-before-make.
    pub warnings: usize,
}

impl Score {
    /// Counts one more.
    pub fn add(&mut self, compared: &Compared) {
        self.tests += 1;
        let (missing, extra) = (compared.is_too_strong(), compared.is_too_weak());
        self.exact += usize::from(!missing && !extra);
        self.missing += usize::from(missing);
        self.extra += usize::from(extra);
        self.warnings += usize::from(compared.same_warning);
    }
}
