//! Set-up, tests and checks of this workspace: the one door for people and for CI.
//!
//! ```text
//! cargo xtask test --stage 1  what a contributor runs first: three minutes
//! cargo xtask setup         what the tests need, installed where it is missing
//! cargo xtask test          everything that must hold before a change lands
//! cargo xtask fences        every named fence and ordering has its partner, its test and its mutant
//! cargo xtask seeds         each item of the founding systems' lists has the tests it names
//! cargo xtask mutants       bugs of the field and weakened lines, one at a time, are found
//! cargo xtask instructions  how many instructions the common paths take
//! cargo xtask loom          protocols of two CPUs in every interleaving, the source as it is
//! cargo xtask miri          the library's own tests under Miri, where it is installed
//! cargo xtask capi          the static libraries of the C interface, built and checked; --example runs the C kernel
//! cargo xtask boot ARCH     the kernel, built, booted in an emulator and judged by what it prints
//! cargo xtask linux ARCH    Linux 6.12 on the library, booted in QEMU: its tests, and its counts beside stock
//! cargo xtask integration   how many lines of the kernel it takes to use the library
//! cargo xtask report        the report's page in a browser, timelines as Perfetto reads them
//! cargo xtask site          the documentation site, in `target/site`, its links followed
//! ```

mod beside;
mod boot;
mod browser;
mod callgrind;
mod capi;
mod corpus;
mod dependencies;
mod dist;
mod failure;
mod fences;
mod first_build;
mod gate;
mod imports;
mod instructions;
mod integration;
mod linux;
mod litmus;
mod loom;
mod map;
mod miri;
mod mutants;
mod optimised;
mod package;
mod path_length;
mod plugins;
mod process;
mod python;
mod registry;
mod report;
mod root_names;
mod sanitizer;
mod seeds;
mod semver;
mod setup;
mod site;
mod source;
mod stage;
mod step;
mod words;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{failure::Result, workspace::Workspace};

/// Set-up, tests and checks of the Lookaside workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the tests need and is not there: targets, rustfmt, clippy.
    Setup {
        /// Also what the benchmarks need: valgrind.
        #[arg(long)]
        bench: bool,
    },
    /// Run everything that must hold before a change lands, and say at the end which steps failed.
    Test {
        /// Run the steps of this stage and of those before it: 1 takes about three minutes, 2 a quarter of an hour, 3 is all.
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
        stage: u8,
        /// Run only the steps whose names contain this text. May be given several times.
        #[arg(long, value_name = "TEXT")]
        only: Vec<String>,
    },
    /// Check that every named fence and ordering has its partner, its row, its test and its mutant.
    Fences,
    /// Check that every item of the founding systems' lists has its row, and its tests exist.
    Seeds,
    /// Print the modules of the library by layers, and fail if their imports have a cycle.
    Imports,
    /// Count the instructions of the common paths, and compare with the goals. Takes valgrind.
    Instructions {
        /// Count only these, and show from which lines of source the instructions come.
        paths: Vec<String>,
        /// Write the figures that the README shows.
        #[arg(long, conflicts_with = "paths")]
        write: bool,
    },
    /// Count the functions and files of the library that the common paths enter. Takes valgrind.
    PathLength {
        /// Count only these, and name the functions.
        paths: Vec<String>,
    },
    /// Run the library's protocols of two CPUs under loom: every interleaving up to a bound, and what C11
    /// lets loads find.
    Loom,
    /// Run the tests that stand beside the library's source under Miri.
    Miri,
    /// Build the kernel, boot it in an emulator, and demand that all its tests pass.
    ///
    /// It leaves with the exit code 0, prints at least one line `PASS name`, and none that begins with
    /// `FAIL` or `STALE` or tells of a panic. What is missing is installed first. The emulator is
    /// stopped when its time is up.
    Boot(boot::Options),
    /// Build the static libraries of the C interface, check what kernels ask of them, and lay them out in `target/capi`.
    Capi(capi::Options),
    /// Build Linux 6.12 on the library, boot it in QEMU, and count what its operations take beside stock, or run the tests.
    ///
    /// The source is Debian's package; a kernel that is built already is not built again. What is missing is installed first.
    Linux(linux::Options),
    /// Record the programs of `traces/corpus/programs.toml` anew, alone and beside others, and say which counts hold.
    ///
    /// It takes root and tracefs. The traces are kept in `target/corpus`.
    Corpus(corpus::Options),
    /// Count the lines of the kernel that use the library, and compare with the goal.
    Integration,
    /// Make reports of made-up results, try their pages out in Chromium, and read timelines with
    /// Perfetto's package. What is missing is installed first.
    Report,
    /// Build the documentation site into `target/site`, with drawings and the playground made from runs, and follow every
    /// link within it. What is missing is installed first.
    Site {
        /// Also try the playground and the search out in Chromium, look at every page wide and narrow, light and dark, and
        /// take pictures.
        #[arg(long)]
        browser: bool,
    },
    /// Compare the interfaces of the libraries with those of the last release, by cargo-semver-checks.
    Semver {
        /// Compare with this revision instead of the last tag `v…`.
        #[arg(long, value_name = "REVISION")]
        baseline_rev: Option<String>,
    },
    /// Make archives of the command line for other machines in `target/dist`: static programs, with checksums and
    /// lists of what is in them (CycloneDX).
    Dist {
        /// For this target. May be given several times.
        #[arg(long, value_name = "TARGET", default_values_t = dist::TARGETS.map(str::to_owned))]
        target: Vec<String>,
    },
    /// Put bugs into the library, one at a time, and demand that each is found: those that were
    /// written down, and one for every ordering, barrier, flush and check.
    Mutants(mutants::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    let workspace = Workspace::find()?;
    match command {
        Command::Setup { bench } => setup::run(&workspace, *bench).map(drop),
        Command::Test { stage, only } => {
            gate::run(&workspace, stage::Selection { stage: *stage, only: only.clone() })
        }
        Command::Fences => fences::run(&workspace),
        Command::Seeds => seeds::run(&workspace),
        Command::Imports => imports::run(&workspace),
        Command::Instructions { paths, write } => instructions::run(&workspace, paths, *write),
        Command::PathLength { paths } => path_length::run(&workspace, paths),
        Command::Loom => loom::run(&workspace),
        Command::Miri => miri::run(&workspace),
        Command::Boot(options) => boot::run(&workspace, options),
        Command::Capi(options) => capi::run(&workspace, options),
        Command::Linux(options) => linux::run(&workspace, options),
        Command::Corpus(options) => corpus::run(&workspace, options),
        Command::Integration => integration::run(&workspace),
        Command::Report => report::run(&workspace),
        Command::Site { browser } => {
            site::run(&workspace)?;
            if *browser { site::try_out(&workspace) } else { Ok(()) }
        }
        Command::Semver { baseline_rev } => semver::run(&workspace, baseline_rev.as_deref()),
        Command::Dist { target } => dist::run(&workspace, target),
        Command::Mutants(options) => mutants::run(&workspace, options),
    }
}
