//! The kernel, built, started in an emulator, and judged by what it prints.
//!
//! The kernel talks on its serial console, in lines, and ends the machine with an exit code. This is
//! all that is asked of it: the code 0, at least one `PASS name`, and no `FAIL name`, no line that
//! begins with `STALE` and no panic. What gets nowhere is ended
//! ([`patience`]).

mod architecture;
mod bochs;
pub(crate) mod build;
mod console;
mod emulator;
mod patience;
mod qemu;

use core::{fmt, fmt::Write as _, time::Duration};
use std::time::Instant;

use clap::ValueEnum;

pub(crate) use self::architecture::Architecture;
use self::{
    console::Console,
    emulator::{Ending, Scratch},
    patience::Patience,
};
use crate::{
    failure::{Failure, Result},
    setup::{self, BareMetal},
    workspace::Workspace,
};

/// How many seconds a test of a short run may take, on a host that does nothing else. Seconds of soak
/// come on top.
const LIMIT: u64 = 120;

/// The number of the user program that looks for translations of pages that have moved (`Moves` in the
/// kernel's `user/src/main.rs`).
const MOVES: u32 = 8;

/// What to boot, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The architecture of the kernel.
    #[arg(value_enum, value_name = "ARCH")]
    pub(crate) architecture: Architecture,
    /// How many CPUs the machine has: 1 to 8.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) cpus: u32,
    /// The model of CPU, as the emulator calls it; by default the one that can most.
    #[arg(long, value_name = "MODEL")]
    pub(crate) cpu: Option<String>,
    /// For how long the hunters run, in seconds of the machine; 0 for one short round of everything.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) soak: u64,
    /// For what the programs choose at random.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// As many tags as this and no more, so that they run out soon.
    #[arg(long)]
    pub(crate) tags: Option<u32>,
    /// The one test to run, by its number.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) only: Option<u32>,
    /// What the kernel is booted in.
    #[arg(long, value_enum, default_value_t = Emulator::Qemu)]
    pub(crate) emulator: Emulator,
    /// Whether QEMU translates the instructions or lets this machine execute them.
    #[arg(long, value_enum, default_value_t = Accelerator::Tcg)]
    pub(crate) accel: Accelerator,
    /// After how many seconds without a test that ends the emulator is stopped. Those in which the host
    /// runs something else do not count. By default 120 and the soak; Bochs gets more.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) limit: Option<u64>,
    /// Put a fault into the kernel. Its tests must notice.
    #[arg(long, value_enum, hide = true)]
    pub(crate) fault: Option<build::Fault>,
}

/// A program that is a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emulator {
    /// For all architectures.
    Qemu,
    /// For x86-64: slow, but it has PCIDs.
    Bochs,
}

/// Who executes the kernel's instructions in QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Accelerator {
    /// QEMU, with a thread for each CPU.
    Tcg,
    /// The CPUs of this machine.
    Kvm,
}

impl Options {
    /// The short form: one round of everything on four CPUs.
    pub(crate) fn short(architecture: Architecture) -> Self {
        Self {
            architecture,
            cpus: 4,
            cpu: None,
            soak: 0,
            seed: 1,
            tags: None,
            only: None,
            emulator: Emulator::Qemu,
            accel: Accelerator::Tcg,
            limit: None,
            fault: None,
        }
    }

    /// What the kernel is told.
    fn words(&self) -> String {
        let mut words = format!("seed={} soak={}", self.seed, self.soak);
        for (name, value) in [("tags", self.tags), ("only", self.only)] {
            if let Some(value) = value {
                let _ = write!(words, " {name}={value}");
            }
        }
        words
    }

    /// How long the kernel may run without a test that ends.
    fn patience(&self) -> Patience {
        let by_default = match self.emulator {
            Emulator::Qemu => LIMIT.saturating_add(self.soak),
            Emulator::Bochs => LIMIT.saturating_add(self.soak).saturating_mul(bochs::SLOWER),
        };
        // Bochs is one thread, however many CPUs it has.
        let cpus = if self.emulator == Emulator::Qemu { self.cpus } else { 1 };
        Patience { time: Duration::from_secs(self.limit.unwrap_or(by_default)), cpus }
    }

    /// Whether the parts fit together.
    fn check(&self) -> Result<()> {
        if self.emulator == Emulator::Bochs {
            if self.architecture != Architecture::X86_64 {
                return Err(Failure::new(format!(
                    "Bochs is an x86 machine: boot {} in QEMU",
                    self.architecture
                )));
            }
            if self.accel == Accelerator::Kvm {
                return Err(Failure::new(
                    "KVM is for QEMU: Bochs executes every instruction itself",
                ));
            }
        }
        if self.accel == Accelerator::Kvm {
            return self.architecture.check_kvm();
        }
        Ok(())
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let emulator = match (self.emulator, self.accel) {
            (Emulator::Qemu, Accelerator::Tcg) => "QEMU",
            (Emulator::Qemu, Accelerator::Kvm) => "QEMU with KVM",
            (Emulator::Bochs, _) => "Bochs",
        };
        let plural = if self.cpus == 1 { "" } else { "s" };
        write!(f, "{} with {} CPU{plural} in {emulator}", self.architecture, self.cpus)
    }
}

/// Boots a kernel and demands that all its tests pass.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    options.check()?;
    let bare = setup::targets(workspace, &[options.architecture.target()])?;
    passes(workspace, &bare, options)
}

/// As [`run`], when the set-up is done.
pub(crate) fn passes(workspace: &Workspace, bare: &BareMetal, options: &Options) -> Result<()> {
    let run = boot(workspace, bare, options, |_| false)?;
    let wrong = run.console.wrong(&run.ending);
    let (passed, seconds) = (run.console.passed(), run.time.as_secs_f64());
    println!("boot: {options}: {passed} passed, {} failed ({seconds:.1} s)", run.console.failed());
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("{options} did not pass:\n    {}", wrong.join("\n    "))))
}

/// Boots a kernel that does no remote flush, and demands that its hunter of moved pages fails: by a line
/// `STALE`, or by a panic, which is what the kernel comes to when its own pages are used after they were freed.
pub(crate) fn bites(workspace: &Workspace, bare: &BareMetal, options: &Options) -> Result<()> {
    let options =
        Options { fault: Some(build::Fault::NoRemote), only: Some(MOVES), ..options.clone() };
    let run = boot(workspace, bare, &options, Console::is_broken)?;
    let seconds = run.time.as_secs_f64();
    if run.console.is_broken() {
        println!("boot: {options}: without remote flushes it fails, as it must ({seconds:.1} s)");
        return Ok(());
    }
    Err(Failure::new(format!(
        "{options}: no remote flush was done, and no stale translation was seen ({seconds:.1} s):\n    {}",
        run.console.wrong(&run.ending).join("\n    ")
    )))
}

/// Boots a kernel with a fault, and demands that the library's conformance tests call it by its name.
pub(crate) fn conformance_finds(
    workspace: &Workspace,
    bare: &BareMetal,
    options: &Options,
    fault: build::Fault,
) -> Result<()> {
    let options = Options { fault: Some(fault), ..options.clone() };
    let run = boot(workspace, bare, &options, |console| console.passed() > 0)?;
    let (found, seconds) = (run.console.conformance_fault(), run.time.as_secs_f64());
    if found.zip(fault.is_called()).is_some_and(|(found, called)| found.contains(called)) {
        println!("boot: {options}: {fault:?} is found, as it must ({seconds:.1} s)");
        return Ok(());
    }
    Err(Failure::new(format!(
        "{options}: the conformance tests did not find {fault:?}, but {found:?} ({seconds:.1} s):\n    {}",
        run.console.wrong(&run.ending).join("\n    ")
    )))
}

/// One run of a kernel.
struct Run {
    console: Console,
    ending: Ending,
    time: Duration,
}

/// Builds a kernel and runs it to its end, until it gets nowhere, or until enough is seen.
fn boot(
    workspace: &Workspace,
    bare: &BareMetal,
    options: &Options,
    enough: impl Fn(&Console) -> bool,
) -> Result<Run> {
    options.check()?;
    // The emulator first: it is quickly asked, and what is wrong with it is known before the build.
    match options.emulator {
        Emulator::Qemu => qemu::find(options)?,
        Emulator::Bochs => bochs::find(options)?,
    }
    let user = build::user(workspace, bare, options.architecture)?;
    let kernel = build::kernel(workspace, bare, options.architecture, &user, options.fault)?;
    let scratch = Scratch::new(workspace)?;
    println!("boot: {options}, `{}`", options.words());
    let mut console = Console::default();
    let started = Instant::now();
    let ending = match options.emulator {
        Emulator::Qemu => qemu::run(options, &kernel, &scratch, &mut console, &enough)?,
        Emulator::Bochs => bochs::run(options, &kernel, &scratch, &mut console, &enough)?,
    };
    Ok(Run { console, ending, time: started.elapsed() })
}

#[cfg(test)]
mod tests;
