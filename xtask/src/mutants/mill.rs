//! The copy of the workspace that holds all mutants at once, and the programs that are built from it.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde::Deserialize;

use super::{
    explore::{self, Exploration},
    sites::Kind,
    weave::Woven,
    workshop::{PACKAGE, PROGRAM},
};
use crate::{
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// The package whose tests are asked, too.
const LIBRARY: &str = "lookaside";
/// The package whose tests are asked about orderings.
const LOOM: &str = "lookaside-loom";
/// How the names of its programs begin.
const UNDER_LOOM: &str = "loom/";
/// The run's mutant.
const CHOSEN: &str = "LOOKASIDE_MUTANT";
/// Where the numbers of the sites are written that were reached.
const REACHED: &str = "LOOKASIDE_REACHED";
/// How long all tests of one program may take, and one of them. A mutant may well loop.
const TESTS: Duration = Duration::from_secs(30);
const TEST: Duration = Duration::from_secs(10);
/// Tests that take longer than all others together. They are not asked.
const SLOW: [&str; 8] = [
    "cont_03_fold_and_unfold_keep_every_flag",
    "cont_04_write_protection_takes_no_flag",
    "every_page_count_is_covered_exactly_at_the_other_granules_and_address_sizes",
    "local_01_no_cpu_uses_what_was_given_away_under_epochs_with_broadcasts",
    "local_02_no_cpu_uses_what_was_given_away_under_epochs_with_interrupts",
    "local_08_no_walker_reads_a_table_that_was_given_away_where_walks_outlive_tags",
    "pcid_09_whatever_is_flushed_nothing_is_recorded_that_was_not_paid",
    "threads_hammer_few_tags",
];
/// So many tests of a program are tried alone after they failed together.
const SUSPECTS: usize = 3;

#[derive(Debug)]
pub(super) struct Mill {
    source: PathBuf,
    target: PathBuf,
    /// The programs that test the library, those under loom too, and their tests that pass with no mutant.
    tests: OnceLock<Tests>,
}

type Tests = BTreeMap<String, (PathBuf, BTreeSet<String>)>;

impl Mill {
    /// Writes the copy and builds the explorer.
    pub(super) fn open(workspace: &Workspace, woven: &Woven) -> Result<Self> {
        let directory = workspace.target().join("mutants");
        let source = directory.join("woven");
        workspace.copy_with(&source, &woven.files)?;
        let mill = Self { source, target: directory.join("target-woven"), tests: OnceLock::new() };
        let mut command = mill.cargo();
        command.args(["build", "--quiet", "--release", "--no-default-features"]);
        process::output(command.args(["--package", PACKAGE]))?;
        Ok(mill)
    }

    fn cargo(&self) -> Command {
        let mut command = setup::cargo();
        command
            .current_dir(&self.source)
            .env("CARGO_TARGET_DIR", &self.target)
            // Mutants have code that is never reached, and variables that are never used.
            .env("RUSTFLAGS", "-Awarnings")
            .envs([("CARGO_PROFILE_RELEASE_DEBUG", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
        command
    }

    /// The explorer.
    pub(super) fn program(&self) -> PathBuf {
        self.target.join("release").join(PROGRAM)
    }

    fn explorer(&self, mutant: u32) -> Command {
        let mut command = Command::new(self.program());
        command.current_dir(&self.source).env(CHOSEN, mutant.to_string()).arg("explore");
        command
    }

    /// The names of all scenarios.
    pub(super) fn scenarios(&self) -> Result<Vec<String>> {
        let list = process::output(&mut self.explorer(0))?;
        Ok(list
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect())
    }

    /// Explores one scenario with one mutant, with so many pre-emptions or as deep as it says itself.
    pub(super) fn explore(
        &self,
        mutant: u32,
        (scenario, preemptions): (&str, Option<u32>),
        budget: f64,
    ) -> Result<Exploration> {
        let mut command = self.explorer(mutant);
        command.args([scenario, "--budget", &budget.to_string()]);
        if let Some(preemptions) = preemptions {
            command.args(["--preemptions", &preemptions.to_string()]);
        }
        explore::run(&mut command, budget)
    }

    /// Explores without a mutant, and says which sites were reached, by the number of their first.
    pub(super) fn reached(
        &self,
        scenario: &str,
        budget: f64,
    ) -> Result<(Exploration, BTreeSet<u32>)> {
        let list = self.target.join(format!("reached-{scenario}"));
        let mut command = self.explorer(0);
        command.env(REACHED, &list).args([scenario, "--budget", &budget.to_string()]);
        command.args(["--preemptions", "2"]);
        // One that reaches nothing writes nothing.
        fs::write(&list, "").context(|| format!("writing {}", list.display()))?;
        let exploration = explore::run(&mut command, budget)?;
        let text = fs::read_to_string(&list).context(|| format!("reading {}", list.display()))?;
        Ok((exploration, text.lines().filter_map(|line| line.parse().ok()).collect()))
    }

    /// How one sees a schedule again.
    pub(super) fn spelled(&self, mutant: u32, schedule: &str) -> String {
        let mut command = self.explorer(mutant);
        process::spelled(command.args(["--schedule", schedule]))
    }

    /// Shows a schedule again.
    pub(super) fn replay(&self, mutant: u32, schedule: &str) -> Result<()> {
        let mut command = self.explorer(mutant);
        let command = command.args(["--schedule", schedule]);
        println!("$ {}", process::spelled(command));
        let status = command.status().context(|| "starting the explorer".to_owned())?;
        match status.code() {
            Some(0 | 1) => Ok(()),
            _ => Err(Failure::new(format!("the explorer failed ({status})"))),
        }
    }

    /// Builds the library's tests, those under loom if there are orderings to be found and the others if
    /// there is anything else, and runs them once without a mutant.
    pub(super) fn build_tests(&self, kinds: impl Iterator<Item = Kind>) -> Result<()> {
        let (loom, library): (Vec<Kind>, Vec<Kind>) =
            kinds.partition(|kind| *kind == Kind::Ordering);
        let mut tests = Tests::new();
        if !library.is_empty() {
            let mut command = self.cargo();
            command.args(["test", "--quiet", "--no-run", "--lib", "--tests", "--package", LIBRARY]);
            self.add_tests(command, "", &mut tests)?;
        }
        if !loom.is_empty() {
            let mut command = self.cargo();
            command.env("RUSTFLAGS", "-Awarnings --cfg loom");
            command.env("CARGO_TARGET_DIR", self.target.with_extension("loom"));
            command.args([
                "test",
                "--quiet",
                "--no-run",
                "--release",
                "--tests",
                "--package",
                LOOM,
            ]);
            self.add_tests(command, UNDER_LOOM, &mut tests)?;
        }
        self.tests.get_or_init(|| tests);
        Ok(())
    }

    fn add_tests(&self, mut command: Command, prefix: &str, tests: &mut Tests) -> Result<()> {
        #[derive(Deserialize)]
        struct Message {
            executable: Option<PathBuf>,
            target: Option<Target>,
        }
        #[derive(Deserialize)]
        struct Target {
            name: String,
        }
        let messages = process::output(command.arg("--message-format=json"))?;
        for line in messages.lines() {
            let message: Message =
                serde_json::from_str(line).context(|| "cargo's answer".into())?;
            if let (Some(path), Some(Target { name })) = (message.executable, message.target) {
                let passed = self.passed(0, &path, None)?;
                tests.insert(format!("{prefix}{name}"), (path, passed));
            }
        }
        Ok(())
    }

    /// The tests that pass: those of a program, or one of them.
    fn passed(&self, mutant: u32, program: &Path, test: Option<&str>) -> Result<BTreeSet<String>> {
        let mut command = Command::new(program);
        command.current_dir(self.source.join(LIBRARY)).env(CHOSEN, mutant.to_string());
        command.arg("--test-threads=1");
        match test {
            Some(test) => command.args([test, "--exact"]),
            None => command.args(SLOW.iter().flat_map(|slow| ["--skip", slow])),
        };
        let longest = if test.is_some() { TEST } else { TESTS };
        let run = explore::run_for(&mut command, longest)?;
        let tests = run.output.lines().filter_map(|line| line.strip_prefix("test "));
        Ok(tests.filter_map(|line| line.strip_suffix(" ... ok")).map(str::to_owned).collect())
    }

    /// The programs whose tests are asked about a kind of mutants. Orderings are asked of loom, and nothing
    /// else is: on this machine's own CPU they make no difference.
    pub(super) fn programs(&self, kind: Kind) -> Vec<&str> {
        let names = self.tests.get().into_iter().flat_map(BTreeMap::keys).map(String::as_str);
        names.filter(|name| name.starts_with(UNDER_LOOM) == (kind == Kind::Ordering)).collect()
    }

    /// A test of a program that fails with this mutant and passes without: of all, or this one.
    pub(super) fn test(
        &self,
        mutant: u32,
        program: &str,
        only: Option<&str>,
    ) -> Result<Option<String>> {
        let Some((path, good)) = self.tests.get().and_then(|tests| tests.get(program)) else {
            return Ok(None);
        };
        let passed = self.passed(mutant, path, only)?;
        let expected = good.iter().filter(|good| only.is_none_or(|test| test == *good));
        // A test that never ends takes others with it, which then fail only beside it.
        for suspect in expected.filter(|good| !passed.contains(*good)).take(SUSPECTS) {
            if !self.passed(mutant, path, Some(suspect))?.contains(suspect) {
                return Ok(Some(suspect.clone()));
            }
        }
        Ok(None)
    }
}
