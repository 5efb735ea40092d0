//! Linux 6.12 on the library: its source fetched, built with the overlay in `linux/` and without it, booted in QEMU, tested, and
//! counted beside itself.

pub(crate) mod background;
mod build;
mod functions;
mod machine;
mod memory;
pub(crate) mod overlay;
mod parts;
mod runs;
mod source;
mod stress;
mod table;

use core::iter;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use self::{
    build::{Kind, Sort},
    machine::{Boot, Ran},
    parts::Part,
};
use crate::{
    failure::{Failure, Result},
    workspace::Workspace,
};

/// What is built, and what it does.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// For which architecture.
    architecture: Architecture,
    /// Linux as it is, without the library; with it and without `--tests` alone, both are counted.
    #[arg(long)]
    stock: bool,
    /// Run the tests; without, the operations of the table are counted.
    #[arg(long)]
    tests: bool,
    /// Run Linux's own tests of memory (`selftests/mm`) on stock and on the library, and compare.
    #[arg(long, conflicts_with = "tests")]
    selftests: bool,
    /// Run classes of stress-ng on stock and on the library, and compare.
    #[arg(long, conflicts_with_all = ["tests", "selftests"])]
    stress: bool,
    /// Count what runs on one CPU alone, on CPUs that take turns: a busy host changes nothing, and it takes longer.
    #[arg(long, conflicts_with_all = ["tests", "selftests", "stress", "irqs_off"])]
    turns: bool,
    /// Count what single calls and faults take, on stock alone.
    #[arg(long, conflicts_with_all = ["tests", "selftests", "stress", "turns", "functions", "irqs_off", "tags"])]
    calls: bool,
    /// Of `--calls`, on this image of a kernel, such as a distribution's, in place of one that is built.
    #[arg(long, value_name = "FILE", requires = "calls", conflicts_with = "source")]
    image: Option<PathBuf>,
    /// Print, too, by which functions of the kernels the counts differ.
    #[arg(long, conflicts_with_all = ["stock", "tests", "selftests", "stress", "irqs_off"])]
    functions: bool,
    /// Measure the longest time with interrupts off, by Linux's tracer, in kernels that are built with it.
    #[arg(long, conflicts_with_all = ["tests", "selftests", "stress", "drop"])]
    irqs_off: bool,
    /// Of `--selftests` or `--stress`, this run alone: a line of the list in `linux/runs`, without its number.
    #[arg(long, value_name = "COMMAND")]
    only: Option<String>,
    /// With these parts of Linux, too, in the kernel and in the tests.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', conflicts_with_all = ["selftests", "stress", "turns", "functions", "irqs_off"])]
    config: Vec<Part>,
    /// Build the kernel of the tests, and boot nothing.
    #[arg(long, requires = "tests")]
    build: bool,
    /// With the library's debug build: it has assertions, and checks each load of a root.
    #[arg(long, requires = "tests", conflicts_with = "stock")]
    checked: bool,
    /// Use no more than so many ASIDs.
    #[arg(long, value_name = "N")]
    tags: Option<u32>,
    /// With so many CPUs.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=8))]
    cpus: u32,
    /// Each test has a part of its rounds: one in so many.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    less: u32,
    /// Repeat the hunts for stale translations, and CPUs that go down and up, for so long.
    #[arg(long, value_name = "MINUTES", requires = "tests", conflicts_with = "drop", value_parser = clap::value_parser!(u32).range(1..=1440))]
    soak: Option<u32>,
    /// Leave these flushes out in the tests (`ranges`, `whole`, `batches`, `kernel`), and demand that they find it.
    #[arg(long, value_name = "FLUSHES")]
    drop: Option<Dropped>,
    /// More words for the kernel's command line.
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    /// This firmware in place of the emulator's own.
    #[arg(long, value_name = "FILE")]
    bios: Option<PathBuf>,
    /// Print what the library takes of memory, by the number of CPUs; builds and boots no Linux.
    #[arg(long, conflicts_with_all = ["stock", "tests", "selftests", "stress", "functions", "turns", "irqs_off", "tags", "drop", "source", "bios"])]
    memory: bool,
    /// This source of Linux 6.12 in place of Debian's; a line is added to a Makefile in it, and on x86-64 to Kconfig.
    #[arg(long, value_name = "FOLDER")]
    source: Option<PathBuf>,
}

impl Options {
    /// Whether what runs is not ours, and is compared.
    const fn runs_others(&self) -> bool {
        self.selftests || self.stress
    }
}

/// What Linux is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    Arm64,
    Riscv64,
    #[value(name = "x86_64")]
    X86_64,
}

impl Architecture {
    const ALL: [Self; 3] = [Self::Arm64, Self::Riscv64, Self::X86_64];

    /// In the names of the overlay's files.
    const fn name(self) -> &'static str {
        match self {
            Self::Arm64 => "arm64",
            Self::Riscv64 => "riscv64",
            Self::X86_64 => "x86_64",
        }
    }
}

/// Flushes that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dropped {
    /// Those of ranges and of pages.
    Ranges,
    /// Those of a whole address space.
    Whole,
    /// Those of reclaim and migration.
    Batches,
    /// Those of kernel addresses, of which a module's test knows.
    Kernel,
}

impl Dropped {
    const fn name(self) -> &'static str {
        match self {
            Self::Ranges => "ranges",
            Self::Whole => "whole",
            Self::Batches => "batches",
            Self::Kernel => "kernel",
        }
    }

    /// Whether the hunters run once more for parts of Linux. Without the other flushes a process soon ends in memory that is no longer its
    /// own, or hangs.
    fn is_hunted_again(self) -> bool {
        self == Self::Ranges
    }

    /// The test that must find it, too, where it runs: once, with pages of 4 KiB.
    fn found_once_by(self, parts: &[Part]) -> Option<&'static str> {
        (self == Self::Ranges && parts::has_small_pages(parts)).then_some("shared-tables")
    }

    /// The tests that must find it.
    const fn found_by(self) -> &'static [&'static str] {
        match self {
            Self::Ranges => {
                &["protect", "munmap-mmap", "mmap-over", "madvise-dontneed", "mremap-over"]
            }
            Self::Whole => &["fork-copy"],
            Self::Batches => &["swap-out"],
            Self::Kernel => &["module"],
        }
    }
}

/// Does it.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.stock && (options.drop.is_some() || options.tags.is_some()) {
        return Err(Failure::new(
            "--drop and --tags are for the library's kernel: leave out --stock",
        ));
    }
    if options.only.is_some() && !options.runs_others() {
        return Err(Failure::new("--only is for --selftests and --stress"));
    }
    if options.drop.is_some() && !options.tests && !options.runs_others() {
        return Err(Failure::new("--drop is for the tests: add --tests, --selftests, or --stress"));
    }
    if options.cpus == 1 && !options.tests && !options.runs_others() {
        return Err(Failure::new("what is counted needs a second CPU: add --tests, or --cpus 2"));
    }
    let (architecture, parts) = (options.architecture, parts::sorted(&options.config));
    let parts = parts.as_slice();
    parts::check(architecture, parts)?;
    if !parts.is_empty() && !options.tests {
        return Err(Failure::new("--config is for the tests: add --tests"));
    }
    if options.drop == Some(Dropped::Kernel) && !parts.contains(&Part::Modules) {
        return Err(Failure::new("`kernel` is found by a module: add --config modules"));
    }
    if options.tags.is_some() && architecture == Architecture::X86_64 {
        return Err(Failure::new(
            "--tags is not for x86_64: each of its CPUs has numbers of its own",
        ));
    }
    if options.turns && architecture != Architecture::Arm64 {
        // Who waits for another CPU spins until its turn, which would be all that is counted.
        return Err(Failure::new("--turns is for arm64, where no CPU waits for another one"));
    }
    if options.memory {
        return memory::print(workspace, architecture);
    }
    if let Some(image) = &options.image {
        return calls(workspace, options, image);
    }
    source::tools(architecture)?;
    parts::tools(parts)?;
    let source = match &options.source {
        Some(folder) => folder.canonicalize().map_err(|error| {
            Failure::new(format!("{} cannot be used: {error}", folder.display()))
        })?,
        None => source::fetch(workspace)?,
    };
    source::prepare(&source, architecture)?;
    let sort = |kind| {
        let (source, is_traced) = (source.as_path(), options.irqs_off);
        let is_checked = options.checked;
        Sort { workspace, source, architecture, kind, is_traced, is_checked, parts }
    };
    let kernel = |kind| build::kernel(&sort(kind));
    let others = if options.selftests {
        Some(runs::selftests(workspace, &source, architecture)?)
    } else if options.stress {
        Some(stress::programs(workspace, architecture)?)
    } else {
        None
    };
    let boot_one = |kind: Kind, image: &Path, only: Option<&str>| {
        let mut more = parts::files(workspace, parts, &sort(kind).folder())?;
        let files = |more: &[_]| build::initramfs(workspace, architecture, more, others.as_ref());
        if parts.contains(&Part::Kexec) {
            more.extend(parts::next(workspace, image, &files(&more)?)?);
        }
        let initramfs = files(&more)?;
        machine::boot(workspace, &Boot { options, kind, image, initramfs: &initramfs, only })
    };
    if options.calls {
        return calls(workspace, options, &kernel(Kind::Stock)?);
    }
    let boot = |kind, image: &Path| boot_one(kind, image, options.only.as_deref());
    if let Some(others) = &others {
        return compared(options, &others.list, kernel, boot_one);
    }
    if options.tests {
        let kind = if options.stock { Kind::Stock } else { Kind::Library };
        let image = kernel(kind)?;
        if options.build {
            return Ok(());
        }
        let ran = boot(kind, &image)?;
        return match options.drop {
            Some(dropped) => found(&ran, dropped, parts),
            None => passed(&ran)
                .and_then(|()| parts::passed(parts, &ran.lines))
                .and_then(|()| if options.checked { checked(&ran.lines) } else { Ok(()) }),
        };
    }
    let (mut counted, mut longest, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    for kind in [Kind::Stock, Kind::Library] {
        if kind == Kind::Library && options.stock {
            continue;
        }
        let image = kernel(kind)?;
        let ran = boot(kind, &image)?;
        passed(&ran)?;
        if options.functions {
            let symbols = build::symbols(&image)?;
            blocks.push(functions::by_function(&symbols, &ran.blocks)?);
        }
        if options.irqs_off {
            longest.push(table::longest(&ran.lines)?);
        } else {
            counted.push(table::counted(&ran.lines, &ran.plugin)?);
        }
    }
    let table = if options.irqs_off {
        table::longest_table(&longest)
    } else {
        table::table(architecture, &counted)
    };
    print!("\n{table}");
    if let (Ok(blocks), Some(works)) = (blocks.try_into(), counted.first()) {
        print!("{}", functions::differences(works, &blocks));
    }
    Ok(())
}

/// What single calls take on a kernel without the library.
fn calls(workspace: &Workspace, options: &Options, image: &Path) -> Result<()> {
    let initramfs = build::initramfs(workspace, options.architecture, &[], None)?;
    let boot = Boot { options, kind: Kind::Stock, image, initramfs: &initramfs, only: None };
    let ran = machine::boot(workspace, &boot)?;
    passed(&ran)?;
    let counted = table::counted(&ran.lines, &ran.plugin)?;
    print!("\n{}", table::table(options.architecture, &[counted]));
    Ok(())
}

/// What the programs of others say on both kernels, or on one; a difference is a failure, or, with flushes left out, what was found.
fn compared(
    options: &Options,
    list: &str,
    kernel: impl Fn(Kind) -> Result<PathBuf>,
    boot: impl Fn(Kind, &Path, Option<&str>) -> Result<Ran>,
) -> Result<()> {
    let list: String = list
        .lines()
        .filter(|line| options.only.as_ref().is_none_or(|only| line.ends_with(&format!(" {only}"))))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut seen = Vec::new();
    for kind in [Kind::Stock, Kind::Library] {
        if kind == Kind::Library && options.stock {
            continue;
        }
        let image = kernel(kind)?;
        let mut lines = Vec::new();
        if options.drop.is_some() && kind == Kind::Library {
            // What such a program writes to is no longer its own: each has a machine of its own.
            for command in runs::commands(&list) {
                match boot(kind, &image, Some(command)) {
                    Ok(ran) => lines.extend(ran.lines),
                    Err(failure) => println!("linux: {command}: {failure}"),
                }
            }
        } else {
            let ran = boot(kind, &image, options.only.as_deref())?;
            if let Some(line) = ran.broken() {
                return Err(Failure::new(format!("Linux is broken: {line}")));
            }
            if !ran.is_done() {
                return Err(Failure::new("Linux did not come to the end of the programs"));
            }
            lines = ran.lines;
        }
        seen.push(runs::outcomes(&list, &lines));
    }
    let (table, different) = runs::table(&seen);
    print!("\n{table}");
    match (options.drop, different.as_slice()) {
        (Some(dropped), []) => Err(Failure::new(format!(
            "the flushes `{}` were left out, and no program found it",
            dropped.name()
        ))),
        (Some(_), found) => {
            println!("linux: found by {}", found.join("; "));
            Ok(())
        }
        (None, []) => Ok(()),
        (None, [first, ..]) => Err(Failure::new(format!(
            "{} of the programs have another result on the library; the first: {first}",
            different.len()
        ))),
    }
}

/// All tests passed.
fn passed(ran: &Ran) -> Result<()> {
    if let Some(line) = ran.broken() {
        return Err(Failure::new(format!("Linux is broken: {line}")));
    }
    let passed = ran.lines.iter().filter(|line| line.starts_with("PASS ")).count();
    let failed: Vec<_> = ran.lines.iter().filter(|line| line.starts_with("FAIL ")).collect();
    if let Some(first) = failed.first() {
        return Err(Failure::new(format!(
            "{} of the tests failed; the first: {first}",
            failed.len()
        )));
    }
    if passed == 0 || !ran.is_done() {
        return Err(Failure::new("Linux did not come to the end of the tests"));
    }
    let (revokes, seconds) = (revokes(&ran.lines), ran.took.as_secs());
    let seen = match revokes {
        0 => String::new(),
        _ => format!("; {revokes} revokes seen in {seconds} s"),
    };
    println!("linux: {passed} passed, none failed{seen}");
    Ok(())
}

/// The library has checked loads of roots.
fn checked(lines: &[String]) -> Result<()> {
    let count = lines.iter().find_map(|line| line.strip_prefix("LOOKASIDE checked "));
    match count.map(str::parse::<u64>) {
        Some(Ok(count @ 1..)) => {
            println!("linux: {count} loads of roots were checked");
            Ok(())
        }
        _ => Err(Failure::new("no load of a root was checked: has the CPU ASIDs or PCIDs?")),
    }
}

/// How many changes of translations the tests saw take effect. Lines of hunters that go on (`HUNT`) count the same ones.
fn revokes(lines: &[String]) -> u64 {
    let passed = lines.iter().filter(|line| line.starts_with("PASS "));
    let counts = passed.filter_map(|line| line.strip_suffix(" revokes seen"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// The tests found what was left out, in programs of 32 bits and at high addresses, too.
fn found(ran: &Ran, dropped: Dropped, parts: &[Part]) -> Result<()> {
    let again = parts.iter().filter_map(|part| part.hunts_again());
    let again = again.filter(|_| dropped.is_hunted_again());
    for (place, name) in iter::once("")
        .chain(again)
        .flat_map(|place| dropped.found_by().iter().map(move |&name| (place, name)))
        .chain(dropped.found_once_by(parts).map(|name| ("", name)))
    {
        let failed = format!("FAIL {place}{name}: ");
        if !ran.lines.iter().any(|line| line.starts_with(&failed)) {
            return Err(Failure::new(format!(
                "the flushes `{}` were left out, and the test `{place}{name}` did not find it",
                dropped.name()
            )));
        }
    }
    let once = dropped.found_once_by(parts).map_or_else(String::new, |name| format!(", {name}"));
    println!("linux: found by {}{once}", dropped.found_by().join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revokes_are_summed_over_tests_and_rounds() {
        let lines = [
            "PASS boot: 4 CPUs",
            "HUNT protect: 300 revokes seen",
            "PASS protect: 301 revokes seen",
            "PASS hotplug: all CPUs but the first, down and up",
            "ROUND 2: 17 s",
            "PASS 32-bit protect: 9 revokes seen",
        ];
        assert_eq!(revokes(&lines.map(str::to_owned)), 310);
    }
}
