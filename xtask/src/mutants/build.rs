//! The copy of the workspace that holds all mutants at once, and the programs that are built from it.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Instant,
};

use serde::Deserialize;

use super::{
    explore::{self, Exploration},
    generation::Effort,
    instrument::Instrumented,
    sites::Kind,
    work_tree::{PACKAGE, PROGRAM},
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
/// Tests that take longer than all others together. They are asked last, about what survives all else.
const SLOW: [&str; 8] = [
    "cont_03_fold_and_unfold_keep_every_flag",
    "cont_04_write_protection_takes_no_flag",
    "every_page_count_is_covered_exactly_at_the_other_granules_and_address_sizes",
    "local_01_no_cpu_uses_what_was_given_away_under_epochs_with_broadcasts",
    "local_02_no_cpu_uses_what_was_given_away_under_epochs_with_interrupts",
    "local_08_no_walker_reads_a_table_that_was_given_away_where_walks_outlive_tags",
    "pcid_09_no_generation_is_recorded_that_was_not_flushed",
    "threads_hammer_few_tags",
];
/// How long those of one program may take without a mutant, and one of them with one, as a multiple of
/// what it takes without.
const SLOWEST: Duration = Duration::from_secs(300);
const SLOW_TIMES: u32 = 4;
/// So many tests of a program are tried alone after they failed together.
const SUSPECTS: usize = 3;

/// Whether the library's own tests are asked. They run on this machine's own CPU, where orderings make no
/// difference.
fn in_library(kind: Kind) -> bool {
    kind != Kind::Ordering
}

/// Whether tests under loom are asked: about what one CPU does, and others may see in between.
const fn in_loom(kind: Kind) -> bool {
    matches!(kind, Kind::Ordering | Kind::Swap | Kind::Reread)
}

#[derive(Debug)]
pub(super) struct Build {
    source: PathBuf,
    target: PathBuf,
    /// The programs that test the library, and their tests that pass with no mutant.
    library: OnceLock<Tests>,
    /// The same, under loom.
    loom: OnceLock<Tests>,
    /// The tests that take long: the program, the test, and how long it takes.
    slow: OnceLock<Vec<(String, String, Duration)>>,
}

type Tests = BTreeMap<String, (PathBuf, BTreeSet<String>)>;

/// Which tests of a program.
#[derive(Clone, Copy)]
enum Which<'t> {
    /// All but those that take long.
    Quick,
    /// Those that take long.
    Slow,
    One(&'t str),
}

impl Build {
    /// Writes the copy and builds the explorer.
    pub(super) fn open(workspace: &Workspace, instrumented: &Instrumented) -> Result<Self> {
        let directory = workspace.target().join("mutants");
        let source = directory.join("instrumented");
        workspace.copy_with(&source, &instrumented.files)?;
        let build = Self {
            source,
            target: directory.join("target-instrumented"),
            library: OnceLock::new(),
            loom: OnceLock::new(),
            slow: OnceLock::new(),
        };
        let mut command = build.cargo();
        command.args(["build", "--quiet", "--release"]);
        process::output(command.args(["--package", PACKAGE]))?;
        Ok(build)
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

    /// Runs generated programs with one mutant.
    pub(super) fn generate(&self, mutant: u32, effort: Effort, budget: f64) -> Result<Exploration> {
        let mut command = Command::new(self.program());
        command.current_dir(&self.source).env(CHOSEN, mutant.to_string());
        command.args(["check", "--generate", "--threads", "1", "--budget", &budget.to_string()]);
        command.args(["--steps", &effort.steps.to_string(), "--seed", &effort.seed.to_string()]);
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

    /// Builds the tests that are asked about mutants of these kinds, and runs them once without a mutant.
    pub(super) fn build_tests(&self, kinds: impl Iterator<Item = Kind>) -> Result<()> {
        let kinds: BTreeSet<Kind> = kinds.collect();
        self.build(
            kinds.iter().any(|kind| in_library(*kind)),
            kinds.iter().any(|kind| in_loom(*kind)),
        )
    }

    /// Builds the programs of these names.
    pub(super) fn build_programs<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<()> {
        let (loom, library): (Vec<_>, Vec<_>) =
            names.partition(|name| name.starts_with(UNDER_LOOM));
        self.build(!library.is_empty(), !loom.is_empty())
    }

    fn build(&self, library: bool, loom: bool) -> Result<()> {
        if library && self.library.get().is_none() {
            let mut command = self.cargo();
            command.args(["test", "--quiet", "--no-run", "--lib", "--tests", "--package", LIBRARY]);
            let tests = self.tests(command, "")?;
            self.library.get_or_init(|| tests);
        }
        if loom && self.loom.get().is_none() {
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
            let tests = self.tests(command, UNDER_LOOM)?;
            self.loom.get_or_init(|| tests);
        }
        Ok(())
    }

    /// Runs the tests that take long once without a mutant, to see which they are, and how long they take.
    pub(super) fn time_slow_tests(&self) -> Result<()> {
        let mut slow = Vec::new();
        for (program, (path, _)) in self.library.get().into_iter().flatten() {
            for test in passed(&self.run(0, path, Which::Slow, SLOWEST)?) {
                let started = Instant::now();
                self.run(0, path, Which::One(&test), SLOWEST)?;
                slow.push((program.clone(), test, started.elapsed()));
            }
        }
        self.slow.get_or_init(|| slow);
        Ok(())
    }

    /// A test that takes long and fails with this mutant.
    pub(super) fn slow_test(&self, mutant: u32) -> Result<Option<(String, String)>> {
        let programs = self.library.get();
        for (program, test, takes) in self.slow.get().into_iter().flatten() {
            let Some((path, _)) = programs.and_then(|programs| programs.get(program)) else {
                continue;
            };
            let longest = TEST + *takes * SLOW_TIMES;
            if self.fails(mutant, path, test, longest)? {
                return Ok(Some((program.clone(), test.clone())));
            }
        }
        Ok(None)
    }

    /// Whether a test, alone, fails with a mutant. One that takes longer than `longest` is tried again, within a
    /// multiple of what it takes without the mutant at the same time: a machine that stood still is no find.
    fn fails(&self, mutant: u32, program: &Path, test: &str, longest: Duration) -> Result<bool> {
        let one = |mutant, longest| self.run(mutant, program, Which::One(test), longest);
        let first = one(mutant, longest)?;
        if first.code.is_some() {
            return Ok(!passed(&first).contains(test));
        }
        let without = one(0, SLOWEST)?;
        if !passed(&without).contains(test) {
            return Ok(false);
        }
        let takes = Duration::from_secs_f64(without.seconds);
        Ok(!passed(&one(mutant, longest + takes * SLOW_TIMES)?).contains(test))
    }

    /// The programs that a command builds, by name, and their tests that pass.
    fn tests(&self, mut command: Command, prefix: &str) -> Result<Tests> {
        #[derive(Deserialize)]
        struct Message {
            executable: Option<PathBuf>,
            target: Option<Target>,
        }
        #[derive(Deserialize)]
        struct Target {
            name: String,
        }
        let mut tests = Tests::new();
        let messages = process::output(command.arg("--message-format=json"))?;
        for line in messages.lines() {
            let message: Message =
                serde_json::from_str(line).context(|| "cargo's answer".into())?;
            if let (Some(path), Some(Target { name })) = (message.executable, message.target) {
                let passed = passed(&self.run(0, &path, Which::Quick, TESTS)?);
                tests.insert(format!("{prefix}{name}"), (path, passed));
            }
        }
        Ok(tests)
    }

    /// Runs tests of a program, within this time.
    fn run(
        &self,
        mutant: u32,
        program: &Path,
        which: Which<'_>,
        longest: Duration,
    ) -> Result<Exploration> {
        let mut command = Command::new(program);
        command.current_dir(self.source.join(LIBRARY)).env(CHOSEN, mutant.to_string());
        command.arg("--test-threads=1");
        match which {
            Which::One(test) => command.args([test, "--exact"]),
            Which::Quick => command.args(SLOW.iter().flat_map(|slow| ["--skip", slow])),
            Which::Slow => command.args(SLOW),
        };
        explore::run_for(&mut command, longest)
    }

    /// The programs whose tests are asked about a kind of mutants.
    pub(super) fn programs(&self, kind: Kind) -> Vec<&str> {
        let asked = [(&self.library, in_library(kind)), (&self.loom, in_loom(kind))];
        let asked = asked.into_iter().filter_map(|(tests, asked)| tests.get().filter(|_| asked));
        asked.flat_map(BTreeMap::keys).map(String::as_str).collect()
    }

    /// Whether a test passes without a mutant.
    pub(super) fn has_test(&self, program: &str, test: &str) -> bool {
        let tests = [&self.library, &self.loom].into_iter().filter_map(OnceLock::get);
        tests.filter_map(|tests| tests.get(program)).any(|(_, good)| good.contains(test))
    }

    /// A test of a program that fails with this mutant and passes without: of all, or this one.
    pub(super) fn test(
        &self,
        mutant: u32,
        program: &str,
        only: Option<&str>,
    ) -> Result<Option<String>> {
        let tests = [&self.library, &self.loom].into_iter().filter_map(OnceLock::get);
        let Some((path, good)) = tests.filter_map(|tests| tests.get(program)).next() else {
            return Ok(None);
        };
        if let Some(test) = only {
            let found = good.contains(test) && self.fails(mutant, path, test, TEST)?;
            return Ok(found.then(|| test.to_owned()));
        }
        let passed = passed(&self.run(mutant, path, Which::Quick, TESTS)?);
        // A test that never ends takes others with it, which then fail only beside it.
        for suspect in good.iter().filter(|good| !passed.contains(*good)).take(SUSPECTS) {
            if self.fails(mutant, path, suspect, TEST)? {
                return Ok(Some(suspect.clone()));
            }
        }
        Ok(None)
    }
}

/// The tests of a run that passed.
fn passed(run: &Exploration) -> BTreeSet<String> {
    let tests = run.output.lines().filter_map(|line| line.strip_prefix("test "));
    tests.filter_map(|line| line.strip_suffix(" ... ok")).map(str::to_owned).collect()
}
