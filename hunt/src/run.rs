//! One run: the emulator is started, followed, and ended; what it has found gets names.

use core::time::Duration;
use std::{
    env, fs,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use lookaside_watch::{
    Criterion, Finding,
    front_end::{Progress, Report},
};
use serde::Serialize;

use crate::{
    arguments::Arguments,
    console::{Said, Script},
    emulator::{Emulator, Files, Kind},
    interrupted,
    kernel::{Kernel, find},
    linux,
    qemu::{Machine, Qemu},
    symbols::Symbols,
};

/// What a run has shown.
#[derive(Serialize)]
pub(crate) struct Outcome {
    pub(crate) kernel: String,
    /// How long the emulator has kept processors busy, in seconds.
    pub(crate) processors: f64,
    pub(crate) report: Report,
    /// Findings that the kernel's description forgives: the function, the reason, how many.
    pub(crate) forgiven: Vec<(String, String, u64)>,
    /// Sentences about what went wrong, or what the run does not show.
    pub(crate) remarks: Vec<String>,
    #[serde(skip)]
    pub(crate) symbols: Symbols,
}

impl Outcome {
    /// How many different findings are denied.
    pub(crate) fn denied(&self, letters: &[char]) -> usize {
        self.findings().filter(|finding| letters.contains(&finding.criterion.letter())).count()
    }

    /// Findings that are shown: D is a policy that most kernels do not have.
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.report.findings.iter()
    }

    pub(crate) fn certain(&self) -> usize {
        self.findings().filter(|finding| finding.criterion.is_certain()).count()
    }

    /// Whether a fence was put to the test at all.
    pub(crate) fn proves_something(&self) -> bool {
        self.report.counts.revoked > 0
    }

    pub(crate) fn name(&self, address: u64) -> String {
        self.symbols.name(address).unwrap_or_default()
    }
}

/// Where things are kept between runs: QEMU, symbols.
pub(crate) fn store() -> PathBuf {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    target.join("hunt")
}

/// A folder that goes away with the run.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, String> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
        let folder = base.join(format!("lookaside-hunt-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Scratch {
    fn report(&self) -> PathBuf {
        self.0.join("report")
    }

    fn progress(&self) -> PathBuf {
        self.0.join("progress")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind is left in a folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An emulator that is ready to start.
struct Ready {
    scratch: Scratch,
    emulator: Emulator,
    command: Command,
    symbols: Symbols,
}

/// Says whether the emulator is there, for each architecture that it can be watched on.
pub(crate) fn check(kind: Kind) -> Result<(), String> {
    match kind {
        Kind::Qemu => Machine::all().try_for_each(|machine| {
            Emulator::Qemu(Qemu::find(machine, &store())?).plugin().map(|_| ())
        }),
        Kind::Bochs => {
            let any = Kernel::of_image(Path::new("kernel"), "x86_64");
            Emulator::find(kind, &any, &store())?.plugin().map(|_| ())
        }
    }
}

/// Makes everything ready. `skip` are the fences that are ignored; nothing if the plugin is left out.
fn prepare(
    arguments: &Arguments,
    kernel: &Kernel,
    skip: Option<&[String]>,
) -> Result<Ready, String> {
    let machine = Machine::of(&kernel.architecture)?;
    let emulator = Emulator::find(arguments.emulator, kernel, &store())?;
    let from = if arguments.image.is_some() { Path::new(".") } else { &arguments.from };
    let advice = |error| {
        if kernel.get.is_empty() { error } else { format!("{error}. To get it: {}", kernel.get) }
    };
    let image = find(from, &kernel.image).map_err(advice)?;
    emulator.plugin()?;
    let scratch = Scratch::new()?;
    let initrd = match &kernel.initrd {
        Some(initrd) => Some(find(from, initrd).map_err(advice)?),
        None => {
            let programs = linux::Program::all(&arguments.run)?;
            linux::user_space(kernel, machine, from, &scratch.0, &programs).map_err(advice)?
        }
    };
    if initrd.is_none() && !arguments.run.is_empty() {
        return Err(format!("--run: the user space of {} is not made here", kernel.name));
    }
    let drive = match &kernel.drive {
        None => None,
        Some(drive) => {
            let original = if arguments.drive.is_some() {
                drive.clone()
            } else {
                find(from, drive).map_err(advice)?
            };
            let copy = scratch.0.join("drive");
            fs::copy(&original, &copy)
                .map_err(|error| format!("{}: {error}", original.display()))?;
            Some(copy)
        }
    };
    let firmware = match &kernel.firmware {
        Some(name) if name != Path::new("none") => Some(find(from, name).map_err(advice)?),
        other => other.clone(),
    };
    let memory = scratch.0.join("memory");
    let mut files = Files {
        scratch: &scratch.0,
        memory: &memory,
        image: &image,
        firmware,
        initrd: initrd.as_deref(),
        drive: drive.as_deref(),
        append: &kernel.append,
    };
    let symbols = symbols(kernel, &emulator, from, &mut files)?;
    let mut command = emulator.command(kernel, &files)?;
    if let Some(skip) = skip {
        let task = symbols.task(&kernel.task).unwrap_or_else(|| {
            eprintln!(
                "hunt: the kernel has no variable of `{}`: tasks are not told apart",
                kernel.task
            );
            "none".to_owned()
        });
        let mut option = format!(
            "base={:#x},report={},progress={},task={},entries={},strict={}",
            machine.base,
            scratch.report().display(),
            scratch.progress().display(),
            task,
            arguments.entries,
            if arguments.strict { "on" } else { "off" }
        );
        for site in skip {
            for address in symbols.addresses(site)? {
                option.push_str(&format!(",skip={address:#x}"));
            }
        }
        emulator.watch(&mut command, &memory, &option)?;
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(Ready { scratch, emulator, command, symbols })
}

fn start(command: &mut Command) -> Result<Child, String> {
    command.spawn().map_err(|error| format!("the emulator does not start: {error}"))
}

/// Runs a kernel without the plugin, and says how long it takes.
pub(crate) fn plain(arguments: &Arguments, kernel: &Kernel) -> Result<(), String> {
    let mut ready = prepare(arguments, kernel, None)?;
    let mut remarks = Vec::new();
    let began = Instant::now();
    let followed = follow(&ready.emulator, start(&mut ready.command)?, kernel, None, &mut remarks)?;
    let seconds = began.elapsed().as_secs_f64();
    keep_log(arguments, &followed.said)?;
    remarks.iter().for_each(|remark| println!("remark: {remark}"));
    println!(
        "hunt: {}: without the plugin: {seconds:.1} s, {:.1} s of processors",
        kernel.name, followed.processors
    );
    Ok(())
}

fn keep_log(arguments: &Arguments, said: &Said) -> Result<(), String> {
    let Some(log) = &arguments.log else { return Ok(()) };
    said.with(|text| fs::write(log, text)).map_err(|error| format!("{}: {error}", log.display()))
}

/// Runs a kernel with some fences ignored.
pub(crate) fn run(
    arguments: &Arguments,
    kernel: &Kernel,
    skip: &[String],
) -> Result<Outcome, String> {
    let mut ready = prepare(arguments, kernel, Some(skip))?;
    let progress = ready.scratch.progress();
    let mut remarks = Vec::new();
    let followed =
        follow(&ready.emulator, start(&mut ready.command)?, kernel, Some(&progress), &mut remarks)?;
    let said = followed.said;
    keep_log(arguments, &said)?;
    let tail = || {
        let tail = |text: &mut String| {
            let mut lines: Vec<_> =
                text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
            lines.reverse();
            lines.join(" / ")
        };
        let tail = said.with(tail);
        if tail.is_empty() {
            "The console said nothing.".to_owned()
        } else {
            format!("The console ended with: {tail}")
        }
    };
    let text = fs::read(ready.scratch.report()).map_err(|_| {
        format!("{} has left no report. {} {}", ready.emulator.name(), remarks.join(" "), tail())
    })?;
    let report: Report =
        serde_json::from_slice(&text).map_err(|error| format!("the report: {error}"))?;
    if report.counts.filled == 0 {
        remarks.push(tail());
    }
    let mut outcome = Outcome {
        kernel: kernel.name.clone(),
        processors: followed.processors,
        report,
        forgiven: Vec::new(),
        remarks,
        symbols: ready.symbols,
    };
    forgive(&mut outcome, kernel);
    outcome.remarks.extend(limits(&outcome));
    Ok(outcome)
}

/// Takes out what the kernel's description forgives, and counts it.
fn forgive(outcome: &mut Outcome, kernel: &Kernel) {
    for forgiven in &kernel.forgive {
        let symbols = &outcome.symbols;
        let is_in = |pc: u64| {
            symbols.name(pc).is_some_and(|name| name.split('+').next() == Some(&forgiven.symbol))
        };
        let mut count = 0;
        outcome.report.findings.retain(|finding| {
            let by = finding.revoked.map(|revoked| revoked.by.pc);
            let matches = is_in(finding.shown.pc) || by.is_some_and(is_in);
            count += u64::from(matches);
            !matches
        });
        if count > 0 {
            outcome.forgiven.push((forgiven.symbol.clone(), forgiven.reason.clone(), count));
        }
    }
}

/// What the run does not show.
fn limits(outcome: &Outcome) -> Vec<String> {
    let counts = &outcome.report.counts;
    let mut remarks = Vec::new();
    if counts.filled == 0 {
        remarks.push(
            "nothing was watched: no access went through page tables of a kind that is modelled (RISC-V \
             Sv39 to Sv57; Arm64 with 4 KiB and at most 48 bits; x86-64 in long mode). This run proves nothing."
                .to_owned(),
        );
    } else if counts.revoked == 0 {
        remarks.push(
            "revocations: 0. No CPU held what was taken away, so the fences were not put to the test: this run \
             proves nothing about them."
                .to_owned(),
        );
    }
    if counts.untranslated > counts.accesses / 2 {
        remarks.push(format!(
            "{} of {} accesses were by tables that are not modelled",
            counts.untranslated, counts.accesses
        ));
    }
    if counts.evicted > 0 {
        remarks.push(format!(
            "the shadow was full {} times: errors about what was forgotten are missed; try a larger --entries, as \
             {}",
            counts.evicted,
            1 << 20
        ));
    }
    remarks
}

/// What came of an emulator.
struct Followed {
    said: Said,
    /// How long it has kept processors busy, in seconds; 0 where that is not known.
    processors: f64,
}

/// How long a process has kept processors busy: the fields 14 and 15 of Linux's `stat`, in hundredths of a second.
fn processors(process: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / 100.0)
}

/// Follows an emulator to its end, or ends it.
fn follow(
    emulator: &Emulator,
    mut child: Child,
    kernel: &Kernel,
    progress: Option<&Path>,
    remarks: &mut Vec<String>,
) -> Result<Followed, String> {
    let mut busy = 0.0;
    let said = Said::collect(child.stdout.take().expect("it is piped"));
    let mut errors = child.stderr.take().expect("it is piped");
    let errors = thread::spawn(move || {
        let mut text = String::new();
        // What cannot be read is not told.
        let _ = std::io::Read::read_to_string(&mut errors, &mut text);
        text
    });
    let mut input = child.stdin.take().expect("it is piped");
    let mut script = Script::new(&kernel.script);
    let began = Instant::now();
    let live = std::io::stderr().is_terminal();
    loop {
        if child.try_wait().map_err(|error| format!("the emulator: {error}"))?.is_some() {
            break;
        }
        busy = processors(child.id()).unwrap_or(busy);
        script.go_on(&said, &mut input);
        let done = said.with(|text| kernel.done.iter().any(|words| text.contains(words.as_str())));
        if done
            || interrupted::was_interrupted()
            || began.elapsed() > Duration::from_secs(kernel.seconds)
        {
            if !done && !interrupted::was_interrupted() && !kernel.done.is_empty() {
                remarks.push(format!(
                    "the time was up ({} s) before the workload ended.",
                    kernel.seconds
                ));
            }
            if done {
                // What runs after the last words, the end of the last process, is watched, too.
                thread::sleep(Duration::from_millis(500));
            }
            end(&mut child);
            break;
        }
        if live && let Some(file) = progress {
            // Before the guest has page tables nothing is counted: then the time alone goes on.
            let line = fs::read(file).unwrap_or_default();
            let now: Progress = serde_json::from_slice(&line).unwrap_or_default();
            eprint!(
                "\r{:4} s  {:6} million instructions  {:8} revocations  {:3} findings ",
                began.elapsed().as_secs(),
                now.instructions / 1_000_000,
                now.revoked,
                now.findings
            );
        }
        thread::sleep(Duration::from_millis(100));
    }
    if live {
        eprintln!();
    }
    if interrupted::was_interrupted() {
        let seconds = began.elapsed().as_secs_f64();
        remarks.push(format!("the run was interrupted after {seconds:.1} s."));
    }
    if let Some(sentence) = script.stuck() {
        remarks.push(sentence);
    }
    let errors = errors.join().unwrap_or_default();
    // A QEMU that was unpacked also finds modules of the one that is installed, and refuses them. Bochs says what it is
    // before its log is open, and that it ends because the guest has switched it off.
    let usual = [
        "terminating on signal",
        " module: ",
        "Only modules from",
        "00000000000i[",
        "=====",
        "Bochs is exiting with",
        "Shutdown port: shutdown requested",
        "ACPI control: soft power off",
    ];
    let own = errors.lines().filter(|line| !usual.iter().any(|words| line.contains(words)));
    remarks.extend(own.map(|line| format!("{} says: {line}", emulator.name())));
    let _ = std::io::stderr().flush();
    Ok(Followed { said, processors: busy })
}

/// Ends an emulator so that the plugin writes its report.
fn end(child: &mut Child) {
    // `kill` of the standard library would not let it.
    let asked = Command::new("kill").arg(child.id().to_string()).status();
    let began = Instant::now();
    while asked.is_ok() && began.elapsed() < Duration::from_secs(30) {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    // It is one that this program has started, and it does not listen.
    let _ = child.kill();
    let _ = child.wait();
}

/// The names of the kernel's functions. A Linux whose image has none, and which is described without a list, prints them in a run of
/// their own, once.
fn symbols(
    kernel: &Kernel,
    emulator: &Emulator,
    from: &Path,
    files: &mut Files<'_>,
) -> Result<Symbols, String> {
    if let Some(list) = &kernel.symbols {
        let list = find(from, list)?;
        let text =
            fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
        return Ok(Symbols::of_kallsyms(&text));
    }
    let own = Symbols::of_elf(files.image);
    if !own.is_empty() || kernel.busybox.is_none() {
        return Ok(own);
    }
    let size = fs::metadata(files.image).map_or(0, |data| data.len());
    let kept = store().join(format!("{}-{size}.symbols", kernel.name));
    if let Ok(text) = fs::read_to_string(&kept) {
        return Ok(Symbols::of_kallsyms(&text));
    }
    eprintln!("hunt: the kernel prints its symbols, once");
    let append = format!("{} hunt.symbols", kernel.append);
    let plain = Files { append: &append, firmware: files.firmware.clone(), ..*files };
    // QEMU prints them in seconds, where there is one; Bochs has the speed of a serial line.
    let quick = Emulator::find(Kind::Qemu, kernel, &store());
    let emulator = quick.as_ref().unwrap_or(emulator);
    let mut command = emulator.command(kernel, &plain)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let until =
        Kernel { done: vec!["hunt: end of symbols".to_owned()], seconds: 240, ..kernel.clone() };
    let said = follow(emulator, start(&mut command)?, &until, None, &mut Vec::new())?.said;
    let symbols = said.with(|text| Symbols::of_console(text)).unwrap_or_default();
    if symbols.is_empty() {
        eprintln!("hunt: the kernel has printed no symbols; addresses stay numbers");
    } else {
        // Without it they are printed again next time.
        let _ = fs::create_dir_all(store()).and_then(|()| fs::write(&kept, symbols.to_text()));
    }
    Ok(symbols)
}

/// How a criterion is written in a line.
pub(crate) fn label(criterion: Criterion) -> String {
    format!("{} {}", criterion.letter(), criterion.title())
}
