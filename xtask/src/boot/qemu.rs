//! QEMU: how it is asked for a machine, and how it hands on the kernel's exit code.

use std::{
    fs::File,
    path::Path,
    process::{Command, ExitStatus},
};

use super::{
    Accelerator, Architecture, Console, Options,
    emulator::{self, Ending, Scratch, Stop},
};
use crate::{
    failure::{Context, Failure, Result},
    process, setup,
};

/// What is particular to an architecture.
struct Machine {
    program: &'static str,
    /// The Debian package of the program.
    package: &'static str,
    /// The model of CPU that can most.
    cpu: &'static str,
    /// The machine, and the device by which the kernel leaves it.
    arguments: &'static [&'static str],
}

fn machine(architecture: Architecture) -> Machine {
    match architecture {
        Architecture::X86_64 => Machine {
            program: "qemu-system-x86_64",
            package: "qemu-system-x86",
            cpu: "max",
            arguments: &["-machine", "q35", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"],
        },
        Architecture::Aarch64 => Machine {
            program: "qemu-system-aarch64",
            package: "qemu-system-arm",
            cpu: "max",
            arguments: &["-machine", "virt", "-semihosting-config", "enable=on,target=native"],
        },
        Architecture::Riscv64 => Machine {
            program: "qemu-system-riscv64",
            package: "qemu-system-misc",
            cpu: "rv64",
            arguments: &["-machine", "virt"],
        },
    }
}

/// Installs QEMU if it is missing, and checks that it knows the model of CPU.
pub(super) fn find(options: &Options) -> Result<()> {
    let Machine { program, package, .. } = machine(options.architecture);
    if !process::succeeds(Command::new(program).arg("--version")) {
        setup::debian(&format!("QEMU for {} ({program})", options.architecture), &[package])?;
    }
    let Some(model) = &options.cpu else { return Ok(()) };
    let models = process::output(Command::new(program).args(["-cpu", "help"]))?;
    if knows(&models, model) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "QEMU has no CPU model `{model}` for {}. It lists those it has: {program} -cpu help",
        options.architecture
    )))
}

/// Whether a model, with or without features, is in QEMU's list.
fn knows(models: &str, model: &str) -> bool {
    let name = model.split(',').next().unwrap_or(model);
    // A list of features follows.
    let models = models.lines().take_while(|line| !line.starts_with("Recognized"));
    models.flat_map(str::split_whitespace).any(|word| word == name)
}

/// Boots a kernel, and follows it to its end.
pub(super) fn run(
    options: &Options,
    kernel: &Path,
    scratch: &Scratch,
    console: &mut Console,
    enough: impl Fn(&Console) -> bool,
) -> Result<Ending> {
    let file = scratch.path("console");
    let output = File::create(&file).context(|| format!("making {}", file.display()))?;
    let Machine { program, .. } = machine(options.architecture);
    let mut command = emulator::command(program);
    command.args(arguments(options, kernel)).stdout(output);
    Ok(match emulator::follow(&mut command, &file, options.patience(), console, enough)? {
        Stop::Ended(status) => ending(options.architecture, status),
        Stop::Enough => Ending::Enough,
        Stop::NoProgress => Ending::NoProgress,
    })
}

fn arguments(options: &Options, kernel: &Path) -> Vec<String> {
    let machine = machine(options.architecture);
    let accelerator = match options.accel {
        Accelerator::Tcg => "tcg,thread=multi",
        Accelerator::Kvm => "kvm",
    };
    let cpus = options.cpus.to_string();
    let mut arguments = machine.arguments.to_vec();
    arguments.extend(["-cpu", options.cpu.as_deref().unwrap_or(machine.cpu)]);
    arguments.extend(["-smp", &cpus, "-m", "256M", "-accel", accelerator]);
    arguments.extend(["-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot"]);
    // The network card that a machine has by default wants an option ROM, which Debian has in a package
    // that QEMU only recommends.
    arguments.extend(["-nic", "none"]);
    let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    arguments.extend(["-kernel".to_owned(), kernel.display().to_string()]);
    arguments.extend(["-append".to_owned(), options.words()]);
    arguments
}

/// What the end of QEMU says about the end of the kernel.
fn ending(architecture: Architecture, status: ExitStatus) -> Ending {
    let code = status.code().and_then(|code| guest_code(architecture, code));
    code.map_or_else(
        || Ending::Broken(format!("did not leave by itself: QEMU ended ({status})")),
        Ending::Code,
    )
}

/// The kernel's exit code.
fn guest_code(architecture: Architecture, status: i32) -> Option<u8> {
    let status = u8::try_from(status).ok()?;
    match architecture {
        // The device that ends the machine doubles the code and adds 1. An even status is not its: a
        // triple fault, for example, is a reset, and ends QEMU with 0.
        Architecture::X86_64 => (status & 1 == 1).then_some(status >> 1),
        Architecture::Aarch64 | Architecture::Riscv64 => Some(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(options: &Options) -> String {
        arguments(options, Path::new("kernel.elf")).join(" ")
    }

    #[test]
    fn each_architecture_has_its_machine() {
        let common = "-smp 4 -m 256M -accel tcg,thread=multi -display none -serial stdio \
                      -monitor none -no-reboot -nic none -kernel kernel.elf -append seed=1 soak=0";
        for (architecture, machine) in [
            (
                Architecture::X86_64,
                "-machine q35 -device isa-debug-exit,iobase=0xf4,iosize=0x04 -cpu max",
            ),
            (
                Architecture::Aarch64,
                "-machine virt -semihosting-config enable=on,target=native -cpu max",
            ),
            (Architecture::Riscv64, "-machine virt -cpu rv64"),
        ] {
            let expected = format!("{machine} {common}");
            assert_eq!(spelled(&Options::short(architecture)), expected);
        }
    }

    #[test]
    fn options_reach_the_machine_and_the_kernel() {
        let options = Options {
            cpus: 8,
            cpu: Some("EPYC,-pcid".to_owned()),
            soak: 60,
            seed: 7,
            tags: Some(16),
            only: Some(3),
            accel: Accelerator::Kvm,
            ..Options::short(Architecture::X86_64)
        };
        let spelled = spelled(&options);
        for part in
            ["-smp 8", "-cpu EPYC,-pcid", "-accel kvm", "-append seed=7 soak=60 tags=16 only=3"]
        {
            assert!(spelled.contains(part), "{part} is not in {spelled}");
        }
    }

    #[test]
    fn exit_codes_are_mapped_back() {
        use Architecture::{Aarch64, Riscv64, X86_64};
        assert_eq!(guest_code(X86_64, 1), Some(0));
        assert_eq!(guest_code(X86_64, 203), Some(101));
        assert_eq!(guest_code(X86_64, 0), None, "a reset is not an end");
        for architecture in [Aarch64, Riscv64] {
            assert_eq!(guest_code(architecture, 0), Some(0));
            assert_eq!(guest_code(architecture, 101), Some(101));
        }
    }

    #[test]
    fn models_are_words_of_the_list_of_models() {
        let models = "Available CPUs:\nx86 486      (alias)\nx86 max      all features\n\n\
                      Recognized CPUID flags:\n  pcid\n";
        assert!(knows(models, "max") && knows(models, "max,+pcid"));
        assert!(!knows(models, "pcid") && !knows(models, "ma") && !knows(models, "z80"));
    }
}
