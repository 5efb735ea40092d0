//! Bochs with our instrumentation: x86-64 with PCIDs. It starts no kernel by itself, so GRUB does, from a disc made for the
//! purpose.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{emulator::Files, kernel::Kernel};

/// A CPU with PCIDs and `INVPCID`.
const CPU: &str = "corei7_haswell_4770";
/// Instructions that a CPU executes in a second of the guest.
const SPEED: u64 = 50_000_000;
/// Where Debian has what GRUB needs to start from a disc.
const GRUB: &str = "/usr/lib/grub/i386-pc";
/// How a kernel for multiboot begins its header, which is in its first 32 KiB, 4-byte aligned.
const MULTIBOOT_2: [u8; 4] = 0xe852_50d6_u32.to_le_bytes();
const MULTIBOOT: [u8; 4] = 0x1bad_b002_u32.to_le_bytes();
/// What a Linux for x86 has at 0x202 (Documentation/arch/x86/boot.rst).
const LINUX: &[u8] = b"HdrS";

/// A Bochs that was built with the instrumentation, with its firmware.
#[derive(Debug)]
pub(crate) struct Bochs {
    /// `bochs`, and below `share` its firmware.
    folder: PathBuf,
}

impl Bochs {
    /// Finds it in the folder that `LOOKASIDE_BOCHS` names, or that setup has filled.
    pub(crate) fn find(kernel: &Kernel, setup: &Path) -> Result<Self, String> {
        if kernel.architecture != "x86_64" {
            return Err(format!("Bochs is an x86 machine, and {} is not for it", kernel.name));
        }
        if !kernel.script.is_empty() {
            return Err(format!(
                "nothing can be said to the console of Bochs, and the workload of {} is started there",
                kernel.name
            ));
        }
        if kernel.drive.is_some() {
            return Err(format!(
                "Bochs is given no disk but the one that it starts from, and {} wants one",
                kernel.name
            ));
        }
        let named = env::var_os("LOOKASIDE_BOCHS").map(PathBuf::from);
        let folder = named.unwrap_or_else(|| setup.join("bochs"));
        if !folder.join("bochs").is_file() {
            return Err(format!(
                "there is no {}; `lookaside hunt --setup bochs` builds one with the instrumentation, and installs \
                 nothing",
                folder.join("bochs").display()
            ));
        }
        let folder =
            folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder })
    }

    /// A command that runs a kernel.
    pub(crate) fn command(&self, kernel: &Kernel, files: &Files<'_>) -> Result<Command, String> {
        let disc = disc(files)?;
        let told = files.scratch.join("bochsrc");
        let text = self.settings(kernel, &disc, &files.scratch.join("log"));
        fs::write(&told, text).map_err(|error| format!("{}: {error}", told.display()))?;
        let mut command = Command::new(self.folder.join("bochs"));
        command.arg("-q").arg("-f").arg(told);
        if let Some(more) = kernel.invlpgb {
            command.env("LOOKASIDE_INVLPGB", more.to_string());
        }
        Ok(command)
    }

    /// What Bochs is told.
    fn settings(&self, kernel: &Kernel, disc: &Path, log: &Path) -> String {
        let share = self.folder.join("share").display().to_string();
        format!(
            "config_interface: textconfig\n\
             display_library: nogui\n\
             cpu: model={CPU}, count={cpus}, ips={SPEED}, reset_on_triple_fault=0\n\
             memory: guest={memory}, host={memory}\n\
             romimage: file={share}/BIOS-bochs-latest, options=fastboot\n\
             vgaromimage: file={share}/VGABIOS-lgpl-latest\n\
             ata0-master: type=cdrom, path=\"{disc}\", status=inserted\n\
             boot: cdrom\n\
             com1: enabled=1, mode=file, dev=\"/dev/stdout\"\n\
             clock: sync=none, time0=1\n\
             log: \"{log}\"\n\
             panic: action=fatal\n\
             error: action=ignore\n\
             info: action=ignore\n\
             debug: action=ignore\n",
            cpus = kernel.cpus,
            memory = kernel.memory,
            disc = disc.display(),
            log = log.display(),
        )
    }
}

/// A disc from which GRUB starts the kernel.
fn disc(files: &Files<'_>) -> Result<PathBuf, String> {
    let folder = files.scratch.join("disc");
    let failed = |error: std::io::Error| format!("the disc to start from: {error}");
    fs::create_dir_all(folder.join("boot/grub")).map_err(failed)?;
    let image = fs::read(files.image).map_err(failed)?;
    fs::write(folder.join("boot/kernel"), &image).map_err(failed)?;
    if let Some(initrd) = files.initrd {
        fs::copy(initrd, folder.join("boot/initrd")).map_err(failed)?;
    }
    let menu = menu(&image, files.append, files.initrd.is_some())
        .ok_or_else(|| format!("{} is neither Linux nor for multiboot", files.image.display()))?;
    fs::write(folder.join("boot/grub/grub.cfg"), menu).map_err(failed)?;
    let disc = files.scratch.join("disc.iso");
    let mut command = Command::new("grub-mkrescue");
    command.args(["--directory", GRUB, "--output"]).arg(&disc).arg(&folder);
    let output = command.output();
    if output.as_ref().is_ok_and(|output| output.status.success()) && disc.is_file() {
        return Ok(disc);
    }
    let said = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let last = said.as_deref().unwrap_or_default().lines().last().unwrap_or_default();
    Err(format!(
        "grub-mkrescue could not make the disc to start from; on Debian: apt-get install grub-common grub-pc-bin xorriso \
         mtools. {last}"
    ))
}

/// What GRUB is told of a kernel.
fn menu(image: &[u8], append: &str, initrd: bool) -> Option<String> {
    let header = &image[..image.len().min(32 << 10)];
    let has = |magic| header.chunks_exact(4).any(|word| word == magic);
    let verb = if image.get(0x202..0x206) == Some(LINUX) {
        "linux"
    } else if has(MULTIBOOT_2) {
        "multiboot2"
    } else if has(MULTIBOOT) {
        "multiboot"
    } else {
        return None;
    };
    let initrd = match (verb, initrd) {
        (_, false) => "",
        ("linux", true) => "initrd /boot/initrd\n",
        ("multiboot2", true) => "module2 /boot/initrd\n",
        _ => "module /boot/initrd\n",
    };
    Some(format!("{verb} /boot/kernel {append}\n{initrd}boot\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grub_is_told_how_to_start_what_it_can_start() {
        let mut linux = vec![0; 0x400];
        linux[0x202..0x206].copy_from_slice(LINUX);
        assert_eq!(
            menu(&linux, "quiet", true).unwrap(),
            "linux /boot/kernel quiet\ninitrd /boot/initrd\nboot\n"
        );
        let mut other = vec![0; 0x400];
        other[0x40..0x44].copy_from_slice(&MULTIBOOT_2);
        assert_eq!(
            menu(&other, "seed=1", false).unwrap(),
            "multiboot2 /boot/kernel seed=1\nboot\n"
        );
        other[0x20..0x24].copy_from_slice(&MULTIBOOT);
        other[0x40] = 0;
        assert_eq!(
            menu(&other, "", true).unwrap(),
            "multiboot /boot/kernel \nmodule /boot/initrd\nboot\n"
        );
        assert_eq!(menu(b"no kernel", "", false), None);
    }

    #[test]
    fn invlpgb_is_in_bochs_alone() {
        use crate::emulator::{Emulator, Kind};
        let kernel = Kernel::of_image(Path::new("kernel"), "x86_64");
        let kernel = Kernel { invlpgb: Some(7), ..kernel };
        let find = |kind| Emulator::find(kind, &kernel, Path::new("/nowhere")).unwrap_err();
        assert!(find(Kind::Qemu).contains("--emulator bochs"));
        assert!(find(Kind::Bochs).contains("there is no"));
    }

    #[test]
    fn what_bochs_cannot_run_is_refused_in_a_sentence() {
        let of = |architecture| Kernel::of_image(Path::new("kernel"), architecture);
        let find = |kernel: &Kernel| Bochs::find(kernel, Path::new("/nowhere")).unwrap_err();
        assert!(find(&of("riscv64")).contains("Bochs is an x86 machine"));
        assert!(find(&of("x86_64")).contains("`lookaside hunt --setup bochs`"));
        let drive = Some("disk".into());
        assert!(find(&Kernel { drive, ..of("x86_64") }).contains("no disk but"));
        let line = crate::kernel::Line { wait: "$".to_owned(), say: "ls".to_owned() };
        assert!(find(&Kernel { script: vec![line], ..of("x86_64") }).contains("console of Bochs"));
    }
}
