//! The machine in which Linux is booted, and what it says.

use core::time::Duration;
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Instant,
};

use super::{Architecture, Dropped, Kind, Options, build, parts};
use crate::{
    failure::{Context, Failure, Result},
    process,
    workspace::Workspace,
};

/// After so long without a line, Linux hangs.
const SILENCE: Duration = Duration::from_secs(600);

/// For `--irqs-off`: time goes by instructions, of 64 ns each, so that what the host does meanwhile takes none. With fewer ns, the timer's
/// interrupts and what the tracer adds to them leave Linux little time for anything else. Of one CPU: several take turns then, and
/// what a turn takes would be time with interrupts off of one that waits for the next.
const TRACED: [&str; 2] = ["-icount", "shift=6,sleep=off"];
/// For `--turns`: the same, of 1 ns each, so that few of the instructions are the timer's.
const IN_TURNS: [&str; 2] = ["-icount", "shift=0,sleep=off"];

/// The first version of OpenSBI in which a hart that is started finds the address: older ones tell it to start before they store where.
const FIRST_WITHOUT_RACE: (u32, u32) = (1, 3);

/// What is booted.
pub(super) struct Boot<'a> {
    pub(super) options: &'a Options,
    pub(super) kind: Kind,
    pub(super) image: &'a Path,
    pub(super) initramfs: &'a Path,
    /// Of the programs of others, this run alone.
    pub(super) only: Option<&'a str>,
}

/// What was seen.
pub(super) struct Ran {
    /// Of the console.
    pub(super) lines: Vec<String>,
    /// From the start of the emulator to its end.
    pub(super) took: Duration,
    /// Of the plugin; empty without.
    pub(super) plugin: String,
    /// Of the plugin, by block; empty without `--functions`.
    pub(super) blocks: String,
}

impl Ran {
    /// The programs came to their end.
    pub(super) fn is_done(&self) -> bool {
        self.lines.iter().any(|line| line == "DONE")
    }

    /// A line in which the kernel says that it cannot go on, or that the library waits too long.
    pub(super) fn broken(&self) -> Option<&str> {
        let signs = [
            "Kernel panic",
            "BUG:",
            "WARNING:",
            " has waited for CPU ",
            "rcu_preempt detected stalls",
        ];
        let is_one = |line: &&String| signs.iter().any(|sign| line.contains(sign));
        self.lines.iter().find(is_one).map(String::as_str)
    }
}

/// An emulator that does not outlive this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots, and follows the console to the end.
pub(super) fn boot(workspace: &Workspace, boot: &Boot<'_>) -> Result<Ran> {
    let Boot { options, kind, image, initramfs, only } = *boot;
    let is_counted = !options.tests && !options.irqs_off && !options.runs_others();
    // Huge pages, and files in memory, of the programs of others.
    let memory = if options.runs_others() { "2G" } else { parts::memory(&options.config) };
    let cpus = if options.irqs_off { 1 } else { options.cpus };
    let icount = match (options.irqs_off, options.turns) {
        (true, _) => Some(TRACED),
        (_, true) => Some(IN_TURNS),
        _ => None,
    };
    let mut command = Command::new(options.architecture.qemu());
    let (machine, model) = match options.architecture {
        Architecture::Arm64 => ("virt", "max"),
        Architecture::Riscv64 => ("virt", "rv64"),
        Architecture::X86_64 => ("pc", "max"),
    };
    let firmware = parts::firmware(&options.config);
    let machine = firmware.map_or(machine, |(machine, _)| machine);
    let bios = options.bios.as_deref().or(firmware.map(|(_, image)| Path::new(image)));
    if let Some(bios) = bios {
        command.arg("-bios").arg(bios);
    }
    command
        .args(["-machine", machine, "-cpu", model, "-m", memory, "-smp", &cpus.to_string()])
        .args(["-accel", if icount.is_some() { "tcg,thread=single" } else { "tcg,thread=multi" }])
        .args(icount.into_iter().flatten())
        .args(["-nic", "none", "-display", "none"])
        .args(["-serial", "stdio", "-monitor", "none", "-no-reboot", "-kernel"])
        .arg(image)
        .arg("-initrd")
        .arg(initramfs)
        .args(["-append", &words(options, kind, only)]);
    let counted = workspace.target().join(format!(
        "linux/counted-{}-{}",
        options.architecture.name(),
        kind.name()
    ));
    let blocks = counted.with_extension("blocks");
    if is_counted {
        let plugin = build::plugin(workspace, options.architecture)?;
        let mut plugin = format!("{},out={}", plugin.display(), counted.display());
        if options.functions {
            plugin += &format!(",blocks={}", blocks.display());
        }
        command.arg("-plugin").arg(plugin);
    }
    let start = Instant::now();
    let lines = follow(&mut command)?;
    let took = start.elapsed();
    let written = |is_asked_for: bool, file: &Path| {
        let text = if is_asked_for { fs::read_to_string(file) } else { Ok(String::new()) };
        text.context(|| format!("reading {}", file.display()))
    };
    let plugin = written(is_counted, &counted)?;
    let blocks = written(is_counted && options.functions, &blocks)?;
    Ok(Ran { lines, took, plugin, blocks })
}

/// The kernel's command line.
fn words(options: &Options, kind: Kind, only: Option<&str>) -> String {
    let (console, early) = match options.architecture {
        Architecture::Arm64 => ("ttyAMA0", "earlycon"),
        Architecture::Riscv64 => ("ttyS0", "earlycon"),
        // Linux panics if the host is too busy for ticks of the first timer within a moment, unless it does not check them.
        Architecture::X86_64 => ("ttyS0", "earlycon=uart8250,io,0x3f8 no_timer_check"),
    };
    // Early: a refusal at boot is a panic before the console is there.
    let mut words = format!("console={console} {early} panic=-1 loglevel=5");
    if options.runs_others() && options.architecture == Architecture::X86_64 {
        // On a busy host Linux may measure a rate of the TSC that is far too low, and the limits of time are over at once.
        words += " clocksource=hpet";
    }
    if kind == Kind::Library {
        if let Some(tags) = options.tags {
            words += &format!(" lookaside_tags={tags}");
        }
        if let Some(dropped) = options.drop {
            words += &format!(" lookaside_drop={}", dropped.name());
        }
    }
    if !options.tests && !options.runs_others() && !options.irqs_off {
        // By where a process's areas happen to lie, it has one page table more or less.
        words += " norandmaps";
    }
    if !options.append.is_empty() {
        words += " ";
        words += &options.append;
    }
    words += match (options.runs_others(), options.tests) {
        (true, _) => " -- runs",
        (_, true) => " -- tests",
        _ if options.irqs_off => " -- irqs-off",
        _ if options.turns => " -- works alone",
        _ if options.calls => " -- calls",
        _ => " -- works",
    };
    words += &format!(" less={}", options.less);
    if let Some(minutes) = options.soak {
        words += &format!(" soak={minutes}");
    }
    let hunts_again = options.drop.is_none_or(Dropped::is_hunted_again);
    let tested = options.config.iter().filter(|part| hunts_again || part.hunts_again().is_none());
    words += &parts::names(&tested.copied().collect::<Vec<_>>(), " ");
    if options.runs_others() {
        // The kernel parts its command line at spaces.
        if let Some(only) = only {
            words += &format!(" only={}", only.replace(' ', ","));
        }
        if options.drop.is_some() && kind == Kind::Library {
            words += " hunted";
        }
    } else if let Some(dropped) = options.drop {
        // The others would end in memory that is no longer theirs.
        words += &format!(" only={}", dropped.found_by().join(","));
        words += &dropped
            .found_once_by(&options.config)
            .map_or_else(String::new, |name| format!(",{name}"));
    }
    words
}

/// Runs an emulator, and shows and returns what the console says.
fn follow(command: &mut Command) -> Result<Vec<String>> {
    println!("$ {}", process::spelled(command));
    let spelled = process::spelled(command);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut running = Running(child.context(|| format!("starting `{spelled}`"))?);
    let output =
        running.0.stdout.take().ok_or_else(|| Failure::new("the emulator has no output"))?;
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(core::result::Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let mut lines = Vec::new();
    loop {
        match receive.recv_timeout(SILENCE) {
            Ok(line) => {
                println!("{line}");
                lines.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                return Err(Failure::new(silent(&lines)));
            }
        }
    }
    let status = running.0.wait().context(|| "waiting for the emulator".to_owned())?;
    if !status.success() {
        return Err(Failure::new(format!("the emulator failed ({status})")));
    }
    Ok(lines)
}

/// What a silent console is said to be.
fn silent(lines: &[String]) -> String {
    let mut text = "Linux hangs: its console is silent".to_owned();
    let firmware = lines.iter().find_map(|line| version(line.strip_prefix("OpenSBI v")?));
    let has_started =
        lines.iter().any(|line| line.starts_with("PASS ") || line.starts_with("RUN "));
    if firmware.is_some_and(|firmware| firmware < FIRST_WITHOUT_RACE) && !has_started {
        text += "; this firmware (OpenSBI before 1.3) sometimes starts a hart at a wrong address (docs/linux.md, \"Boots of riscv64 \
                 that hang\"): boot it again, or name another one with --bios";
    }
    text
}

/// The first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_before_the_first_program_under_old_firmware_names_the_firmware() {
        let says = |lines: &[&str]| {
            let lines: Vec<_> = lines.iter().map(|&line| line.to_owned()).collect();
            silent(&lines).contains("--bios")
        };
        assert!(says(&["", "OpenSBI v1.1", "printk: legacy bootconsole"]));
        assert!(says(&["OpenSBI v0.9-2"]));
        assert!(!says(&["OpenSBI v1.3"]) && !says(&["OpenSBI v1.10"]) && !says(&["OpenSBI v2.0"]));
        assert!(!says(&["OpenSBI v1.1", "PASS boot: 4 CPUs"]) && !says(&["Booting Linux"]));
    }
}
