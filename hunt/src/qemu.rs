//! QEMU: found, asked what it can do, and given its arguments.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{emulator::Files, kernel::Kernel};

/// What is particular to an architecture.
#[derive(Debug)]
pub(crate) struct Machine {
    program: &'static str,
    /// QEMU's name of the machine.
    machine: &'static str,
    cpu: &'static str,
    /// The physical address of the memory.
    pub(crate) base: u64,
    /// The target for which the workload is compiled.
    pub(crate) target: &'static str,
}

static MACHINES: [(&str, Machine); 3] = [
    (
        "riscv64",
        Machine {
            program: "qemu-system-riscv64",
            machine: "virt",
            cpu: "rv64",
            base: 0x8000_0000,
            target: "riscv64gc-unknown-none-elf",
        },
    ),
    (
        "aarch64",
        Machine {
            program: "qemu-system-aarch64",
            machine: "virt",
            cpu: "max,lpa2=off",
            base: 0x4000_0000,
            target: "aarch64-unknown-none",
        },
    ),
    (
        "x86_64",
        Machine {
            program: "qemu-system-x86_64",
            machine: "q35",
            // It has no PCIDs, whatever the model.
            cpu: "max",
            // All of it is below the hole for devices; above 2 GiB a second part would begin elsewhere.
            base: 0,
            target: "x86_64-unknown-none",
        },
    ),
];

impl Machine {
    /// Those that can be watched.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        MACHINES.iter().map(|(_, machine)| machine)
    }

    pub(crate) fn of(architecture: &str) -> Result<&'static Self, String> {
        let known = MACHINES.iter().find(|(name, _)| *name == architecture);
        known.map(|(_, machine)| machine).ok_or_else(|| {
            format!(
                "there is no sanitizer for {architecture}: riscv64, aarch64 and x86_64 can be watched"
            )
        })
    }
}

/// The oldest QEMU whose plugins can read registers and values.
const OLDEST: u32 = 10;

/// A QEMU that can load the plugin.
#[derive(Debug)]
pub(crate) struct Qemu {
    program: PathBuf,
    /// Where its firmware and modules are, if it was unpacked and not installed.
    unpacked: Option<PathBuf>,
}

impl Qemu {
    /// Finds one: in the folder that setup has filled, or that `LOOKASIDE_QEMU` names, else where programs are.
    pub(crate) fn find(machine: &Machine, setup: &Path) -> Result<Self, String> {
        let named = env::var_os("LOOKASIDE_QEMU").map(PathBuf::from);
        let folders = [named, Some(setup.join("root"))];
        for folder in folders.into_iter().flatten() {
            let program = folder.join("usr/bin").join(machine.program);
            if program.is_file() {
                let found = Self { program, unpacked: Some(folder) };
                return found.is_new_enough().map(|()| found);
            }
        }
        let found = Self { program: machine.program.into(), unpacked: None };
        found.is_new_enough().map(|()| found)
    }

    fn is_new_enough(&self) -> Result<(), String> {
        let advice =
            "`lookaside hunt --setup` unpacks one from Debian's packages, and installs nothing";
        let name = self.program.display();
        let output = self
            .start()
            .arg("--version")
            .output()
            .map_err(|_| format!("there is no {name}. {advice}."))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{name} does not start: {}. {advice}.", why.trim()));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = version(&text);
        if version.is_none_or(|version| version < OLDEST) {
            let has = version.map_or_else(|| "no version".to_owned(), |at| format!("version {at}"));
            return Err(format!(
                "{name} has {has}, and the plugins of QEMU before {OLDEST} cannot read registers. {advice}."
            ));
        }
        let help = self.start().arg("-help").output();
        let can = help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("-plugin"));
        if can { Ok(()) } else { Err(format!("{name} was built without plugins. {advice}.")) }
    }

    /// The program, with the libraries beside it if it was unpacked.
    fn start(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(folder) = &self.unpacked {
            let own = ["usr/lib", "lib"].map(|at| folder.join(at).join("x86_64-linux-gnu"));
            let before = env::var_os("LD_LIBRARY_PATH");
            // An empty name in it would mean the current folder.
            let paths = env::split_paths(before.as_deref().unwrap_or_default())
                .filter(|path| !path.as_os_str().is_empty());
            // A folder with a `:` in its name cannot be named there: then it is looked for where libraries are.
            if let Ok(all) = env::join_paths(own.into_iter().chain(paths)) {
                command.env("LD_LIBRARY_PATH", all);
            }
        }
        command
    }

    /// A command that runs a kernel.
    pub(crate) fn command(&self, kernel: &Kernel, machine: &Machine, files: &Files<'_>) -> Command {
        let mut command = self.start();
        if let Some(folder) = &self.unpacked {
            for data in ["usr/share/qemu", "usr/share/seabios"] {
                command.arg("-L").arg(folder.join(data));
            }
            command.env("QEMU_MODULE_DIR", folder.join("usr/lib/x86_64-linux-gnu/qemu"));
        }
        let memory = kernel.memory;
        command.arg("-object").arg(format!(
            "memory-backend-file,id=guest,mem-path={},size={memory}M,share=on",
            files.memory.display()
        ));
        let board = format!("{},memory-backend=guest", machine.machine);
        command.args(["-machine", &board, "-m", &format!("{memory}M")]);
        command.args(["-smp", &kernel.cpus.to_string()]);
        command.args(["-cpu", kernel.cpu.as_deref().unwrap_or(machine.cpu)]);
        // With `thread=single` callbacks would name the wrong CPU.
        command.args(["-accel", "tcg,thread=multi", "-display", "none", "-serial", "stdio"]);
        command.args(["-monitor", "none", "-nic", "none", "-no-reboot"]);
        if let Some(firmware) = &files.firmware {
            command.arg("-bios").arg(firmware);
        }
        command.arg("-kernel").arg(files.image);
        if let Some(initrd) = files.initrd {
            command.arg("-initrd").arg(initrd);
        }
        if !files.append.is_empty() {
            command.args(["-append", files.append]);
        }
        command.args(&kernel.arguments);
        if let Some(drive) = files.drive {
            command.arg("-drive").arg(format!("file={},if=none,format=raw,id=x0", drive.display()));
            command.args(&kernel.drive_arguments);
        }
        command
    }
}

/// The first number of "QEMU emulator version 10.0.2 (...)".
fn version(text: &str) -> Option<u32> {
    let rest = text.split("version ").nth(1)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)"), Some(10));
        assert_eq!(version("QEMU emulator version 7.2.22"), Some(7));
        assert_eq!(version("nothing"), None);
    }

    #[test]
    fn other_architectures_are_refused_in_a_sentence() {
        assert!(Machine::of("mips").unwrap_err().contains("no sanitizer for mips"));
    }
}
