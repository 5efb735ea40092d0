//! The command line.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, ValueEnum};
use lookaside_watch::Criterion;

use crate::{
    emulator::Kind,
    interrupted,
    kernel::{self, Kernel},
    render, run, setup, skip,
};

/// Runs a kernel under the TLB sanitizer: which CPU may use a translation that was revoked, and which fence is missing.
#[derive(Clone, Debug, Parser)]
#[command(name = "lookaside-hunt", version)]
pub struct Arguments {
    /// octox, xv6, xv6-aarch64, nuttx, nanos-aarch64, toaruos, starryos, ward, linux-riscv64, linux-arm64, linux-x86_64,
    /// lookaside-riscv64, lookaside-aarch64, lookaside-x86_64, or a description FILE.toml.
    pub(crate) kernel: Option<String>,
    /// A kernel of which nothing is known but its image, and --arch.
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pub(crate) image: Option<PathBuf>,
    /// riscv64, aarch64 or x86_64, for --image.
    #[arg(long, default_value = "riscv64")]
    pub(crate) arch: String,
    /// The folder in which the kernel was built or unpacked.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) from: PathBuf,
    /// The emulator. Bochs is for x86-64 with PCIDs, slow, and built by `--setup bochs`.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) emulator: Kind,
    /// In Bochs: CPUs have AMD's INVLPGB and TLBSYNC, and an INVLPGB names up to N pages beyond the first.
    #[arg(long, value_name = "N")]
    pub(crate) invlpgb: Option<u16>,
    /// How many CPUs.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) cpus: Option<u32>,
    /// Words that are added to the kernel's command line.
    #[arg(long, value_name = "WORDS")]
    pub(crate) append: Option<String>,
    /// An image of a disk. It is copied, so it stays as it is.
    #[arg(long, value_name = "FILE")]
    pub(crate) drive: Option<PathBuf>,
    /// What is said to the console: lines `WAIT => SAY`.
    #[arg(long, value_name = "FILE")]
    pub(crate) console: Option<PathBuf>,
    /// For a Linux whose user space is made here: a static program, and its arguments behind it, that runs in the place
    /// of the workload. Several run one after the other.
    #[arg(long, value_name = "FILE [ARGUMENT...]")]
    pub(crate) run: Vec<String>,
    /// Firmware for QEMU's -bios, or `none`.
    #[arg(long, value_name = "FILE")]
    pub(crate) firmware: Option<PathBuf>,
    /// Ignores the fence at an address, a function, or function+offset; or `each` in turn.
    #[arg(long, value_name = "SITE|each")]
    pub(crate) skip: Vec<String>,
    /// The letters of the findings that make the exit status 1.
    #[arg(long, value_delimiter = ',', default_value = "A,E,F,G,H")]
    pub(crate) deny: Vec<char>,
    /// Ends the run after so many seconds.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// Takes each CPU to hold all that its architecture permits, and not only what it has used: finds C.
    #[arg(long)]
    pub(crate) strict: bool,
    /// How many entries of each CPU are kept.
    #[arg(long, default_value_t = 1 << 16)]
    pub(crate) entries: usize,
    /// How the result is told.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Where the result goes, instead of to the terminal.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Where the guest's console goes.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Says whether there is an emulator that can be watched, and runs nothing.
    #[arg(long)]
    pub(crate) check: bool,
    /// Runs the kernel without the plugin, to see how long it takes by itself.
    #[arg(long, conflicts_with_all = ["skip", "strict"])]
    pub(crate) plain: bool,
    /// Unpacks QEMU 10 from Debian's packages into this project's `target/hunt`, or builds Bochs there from Debian's
    /// source with the instrumentation, and installs nothing.
    #[arg(long, value_enum, value_name = "EMULATOR", num_args = 0..=1, default_missing_value = "qemu")]
    pub(crate) setup: Option<Kind>,
}

/// How a result is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, in a terminal.
    Text,
    /// For programs.
    Json,
    /// For hosts of code.
    Sarif,
    /// A page that needs nothing else.
    Html,
}

/// Does what the command line says. The status is 0 if nothing was found that is denied, 1 if something was, and 2 if
/// the kernel could not be watched.
#[must_use]
pub fn hunt(arguments: &Arguments) -> ExitCode {
    match attempt(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing was found that is denied.
fn attempt(arguments: &Arguments) -> Result<bool, String> {
    for letter in &arguments.deny {
        if !Criterion::ALL.iter().any(|criterion| criterion.letter() == *letter) {
            return Err(format!("--deny: there is no finding `{letter}`; they are A to H"));
        }
    }
    if let Some(emulator) = arguments.setup {
        return setup::run(emulator).map(|()| true);
    }
    if arguments.check {
        return run::check(arguments.emulator).map(|()| true);
    }
    let kernel = described(arguments)?;
    files(arguments)?;
    interrupted::begin()?;
    let nothing_found = if arguments.plain {
        run::plain(arguments, &kernel)?;
        true
    } else if arguments.skip.iter().any(|site| site == "each") {
        skip::each(arguments, &kernel)?
    } else {
        let outcome = run::run(arguments, &kernel, &arguments.skip)?;
        render::render(arguments, &outcome)?;
        outcome.denied(&arguments.deny) == 0 && outcome.proves_something()
    };
    interrupted::check()?;
    Ok(nothing_found)
}

fn described(arguments: &Arguments) -> Result<Kernel, String> {
    let mut kernel = match (&arguments.kernel, &arguments.image) {
        (Some(name), _) => Kernel::load(name)?,
        (None, Some(image)) => Kernel::of_image(image, &arguments.arch),
        (None, None) => return Err("which kernel? A name, a description, or --image FILE".into()),
    };
    kernel.cpus = arguments.cpus.unwrap_or(kernel.cpus);
    kernel.invlpgb = arguments.invlpgb.or(kernel.invlpgb);
    kernel.seconds = arguments.seconds.unwrap_or(kernel.seconds);
    kernel.drive = arguments.drive.clone().or(kernel.drive);
    kernel.firmware = arguments.firmware.clone().or(kernel.firmware);
    if let Some(words) = &arguments.append {
        kernel.append = format!("{} {words}", kernel.append);
    }
    if let Some(file) = &arguments.console {
        kernel.script = script(file)?;
    }
    Ok(kernel)
}

/// Refuses files that are not there, and places for results that are none, before the emulator is looked for: a name
/// that is mistyped is mended more quickly than a missing emulator, and a run must not end without its results.
fn files(arguments: &Arguments) -> Result<(), String> {
    if arguments.entries == 0 {
        return Err("--entries 0: a CPU of which nothing is kept shows nothing".into());
    }
    if let Some(image) = &arguments.image {
        kernel::find(Path::new("."), image)?;
    }
    if let Some(drive) = arguments.drive.as_ref().filter(|drive| !drive.is_file()) {
        return Err(format!("--drive: there is no file {}", drive.display()));
    }
    for (name, file) in [("--output", &arguments.output), ("--log", &arguments.log)] {
        let Some(file) = file else { continue };
        let folder = file.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        if file.is_dir() || !folder.is_dir() {
            return Err(format!("{name}: no file {} can be made", file.display()));
        }
    }
    let place = |file: &PathBuf| std::path::absolute(file).ok();
    if let (Some(output), Some(log)) = (&arguments.output, &arguments.log)
        && place(output) == place(log)
    {
        return Err(format!("--output and --log both name {}: each needs its own", log.display()));
    }
    Ok(())
}

fn script(file: &Path) -> Result<Vec<kernel::Line>, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let (wait, say) = line
                .split_once(" => ")
                .ok_or_else(|| format!("{}: `{line}` is not WAIT => SAY", file.display()))?;
            Ok(kernel::Line { wait: wait.to_owned(), say: say.to_owned() })
        })
        .collect()
}
