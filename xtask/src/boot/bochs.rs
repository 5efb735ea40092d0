//! Bochs, the x86 machine with PCIDs: slow, and not subject to the time of day.
//!
//! It starts no kernel by itself, so GRUB does, from a disc made for the purpose: the kernel has a
//! header for multiboot, version 2. Bochs has no device that hands on an exit code, so the kernel
//! prints `exit CODE`.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Console, Options,
    emulator::{self, Ending, Scratch, Stop},
};
use crate::{
    failure::{Context, Failure, Result},
    process, setup,
};

/// By how much it is slower than QEMU, and a second of the machine longer than one of ours.
pub(super) const SLOWER: u64 = 5;

/// A CPU with PCIDs and with the instruction that invalidates by them.
const CPU: &str = "corei7_haswell_4770";

const PACKAGES: [&str; 8] = [
    "bochs",
    "bochs-term",
    "bochsbios",
    "vgabios",
    "grub-pc-bin",
    "grub-common",
    "xorriso",
    "mtools",
];
/// What of them we use: programs, and files where Debian has them.
const PROGRAMS: [&str; 4] = ["bochs", "grub-mkrescue", "xorriso", "mformat"];
const GRUB: &str = "/usr/lib/grub/i386-pc";
const SHARE: &str = "/usr/share/bochs";
const BIOS: &str = "BIOS-bochs-latest";
const VIDEO_BIOS: &str = "VGABIOS-lgpl-latest";
/// Some of Bochs was built for the display of a terminal, some was not.
const DISPLAY: &str = "bochs/plugins/libbx_term_gui.so";

/// Installs what is missing, and checks that there is such a model of CPU.
pub(super) fn find(options: &Options) -> Result<()> {
    let missing = missing();
    if !missing.is_empty() {
        println!("boot: missing: {}", missing.join(", "));
        setup::debian("Bochs, or what makes a disc for it to boot from,", &PACKAGES)?;
    }
    let Some(model) = &options.cpu else { return Ok(()) };
    let models = Command::new("bochs").args(["--help", "cpu"]).output();
    let models = models.context(|| "asking Bochs for its models of CPU".to_owned())?;
    // It writes the list to either, and ends with a status that says nothing.
    let models = [models.stdout, models.stderr].concat();
    if String::from_utf8_lossy(&models).lines().any(|line| line.trim() == model) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "Bochs has no CPU model `{model}`. It lists those it has: bochs --help cpu"
    )))
}

fn missing() -> Vec<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_here =
        |program: &&str| env::split_paths(&path).any(|place| place.join(program).is_file());
    let programs = PROGRAMS.iter().filter(|program| !is_here(program)).map(ToString::to_string);
    let display = format!("/usr/lib/{}-linux-gnu/{DISPLAY}", env::consts::ARCH);
    let files = [PathBuf::from(GRUB).join("multiboot2.mod"), display.into()];
    let roms = [BIOS, VIDEO_BIOS].map(|file| Path::new(SHARE).join(file));
    let files = files.into_iter().chain(roms).filter(|file| !file.is_file());
    programs.chain(files.map(|file| file.display().to_string())).collect()
}

/// Boots a kernel, and follows it to its end.
pub(super) fn run(
    options: &Options,
    kernel: &Path,
    scratch: &Scratch,
    console: &mut Console,
    enough: impl Fn(&Console) -> bool,
) -> Result<Ending> {
    let disc = disc(options, kernel, scratch)?;
    let serial = scratch.write("console", "")?;
    let log = scratch.path("log");
    let settings = scratch.write("bochsrc", &settings(options, &disc, &serial, &log))?;
    // Debian's Bochs has a debugger, which waits for a word before it begins.
    let debugger = scratch.write("debugger", "continue\n")?;
    let mut command = emulator::command("bochs");
    command.arg("-q").arg("-f").arg(settings).arg("-rc").arg(debugger);
    // Its display is a terminal of its own, of any kind that there is. What it says, it says in its
    // log, but for a page of its libraries.
    let noise = scratch.path("noise");
    let noise = File::create(&noise).context(|| format!("making {}", noise.display()))?;
    let both = noise.try_clone().context(|| "sharing a file".to_owned())?;
    command.env("TERM", "vt100").stdout(noise).stderr(both);
    let over = |console: &Console| console.exit().is_some() || enough(console);
    Ok(match emulator::follow(&mut command, &serial, options.patience(), console, over)? {
        Stop::Enough => console.exit().map_or(Ending::Enough, Ending::Code),
        Stop::NoProgress => Ending::NoProgress,
        Stop::Ended(status) => Ending::Broken(format!(
            "did not leave by itself: Bochs ended ({status}), with these words:\n{}",
            last_lines(&log)
        )),
    })
}

/// A disc from which GRUB boots the kernel.
fn disc(options: &Options, kernel: &Path, scratch: &Scratch) -> Result<PathBuf> {
    scratch.write("disc/boot/grub/grub.cfg", &menu(options))?;
    let copy = scratch.path("disc/boot/kernel");
    fs::copy(kernel, &copy).context(|| format!("copying {}", kernel.display()))?;
    let disc = scratch.path("disc.iso");
    let mut command = Command::new("grub-mkrescue");
    command.args(["--directory", GRUB, "--output"]).arg(&disc).arg(scratch.path("disc"));
    process::output(&mut command)?;
    Ok(disc)
}

/// What GRUB is told.
fn menu(options: &Options) -> String {
    format!("multiboot2 /boot/kernel {}\nboot\n", options.words())
}

/// What Bochs is told.
fn settings(options: &Options, disc: &Path, serial: &Path, log: &Path) -> String {
    format!(
        "config_interface: textconfig\n\
         display_library: term\n\
         cpu: model={model}, count={cpus}, ips=50000000, reset_on_triple_fault=0\n\
         memory: guest=256, host=256\n\
         romimage: file={SHARE}/{BIOS}, options=fastboot\n\
         vgaromimage: file={SHARE}/{VIDEO_BIOS}\n\
         ata0-master: type=cdrom, path=\"{disc}\", status=inserted\n\
         boot: cdrom\n\
         com1: enabled=1, mode=file, dev=\"{serial}\"\n\
         clock: sync=none, time0=1\n\
         sound: driver=dummy\n\
         speaker: enabled=0\n\
         log: \"{log}\"\n\
         panic: action=fatal\n\
         error: action=report\n\
         info: action=ignore\n\
         debug: action=ignore\n",
        model = options.cpu.as_deref().unwrap_or(CPU),
        cpus = options.cpus,
        disc = disc.display(),
        serial = serial.display(),
        log = log.display(),
    )
}

/// The end of a file, for whoever has to find out what went wrong.
fn last_lines(file: &Path) -> String {
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Architecture;

    #[test]
    fn options_reach_the_machine_and_the_kernel() {
        let options = Options { cpus: 2, tags: Some(16), ..Options::short(Architecture::X86_64) };
        assert_eq!(menu(&options), "multiboot2 /boot/kernel seed=1 soak=0 tags=16\nboot\n");
        let [disc, serial, log] = ["a disc.iso", "serial", "log"].map(Path::new);
        let told = settings(&options, disc, serial, log);
        for line in [
            "cpu: model=corei7_haswell_4770, count=2, ips=50000000, reset_on_triple_fault=0",
            "ata0-master: type=cdrom, path=\"a disc.iso\", status=inserted",
            "com1: enabled=1, mode=file, dev=\"serial\"",
        ] {
            assert!(told.lines().any(|told| told == line), "{line} is not in\n{told}");
        }
        let options = Options { cpu: Some("ryzen".to_owned()), ..options };
        assert!(settings(&options, disc, serial, log).contains("model=ryzen,"));
    }

    #[test]
    fn a_file_that_is_not_there_has_no_last_lines() {
        assert_eq!(last_lines(Path::new("/nowhere/at/all")), "");
    }
}
