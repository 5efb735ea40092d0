//! The properties of this system.

use std::{ffi::OsStr, fs, path::Path};

use crate::{Hardware, Origin};

/// This system, of which the kernel has no such events.
pub(super) fn here(absent: Vec<String>) -> Origin {
    let system = rustix::system::uname();
    let text = |text: &core::ffi::CStr| text.to_str().ok().map(str::to_owned);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    Origin {
        architecture: text(system.machine()),
        kernel: text(system.release()).map(|release| version(&release).to_owned()),
        cpus: count(&online).unwrap_or(1),
        guest: cpuinfo.as_deref().and_then(guest),
        hardware: hardware(cpuinfo.as_deref().unwrap_or_default()),
        absent,
        ..Origin::default()
    }
}

/// The version in the name of a release, without what those who built it have added.
fn version(release: &str) -> &str {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.');
    release[..end.unwrap_or(release.len())].trim_end_matches('.')
}

/// How many numbers there are in a list such as `0-3,8`.
fn count(list: &str) -> Option<u32> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').map(part).sum()
}

/// Whether the text of `/proc/cpuinfo` is that of a guest. Only x86 tells.
fn guest(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'))?.1;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The machine, by the text of `/proc/cpuinfo` and by sysfs.
fn hardware(cpuinfo: &str) -> Hardware {
    let file = |path: &str| Some(fs::read_to_string(path).ok()?.trim().to_owned());
    let caches = (0..16).map_while(|index| {
        let of =
            |what: &str| file(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}"));
        Some(format!("L{} {} {}", of("level")?, of("type")?.to_lowercase(), of("size")?))
    });
    Hardware {
        processor: processor(cpuinfo),
        name: entry(cpuinfo, "model name").map(str::to_owned),
        hypervisor: file("/sys/hypervisor/type").filter(|name| !name.is_empty()).or_else(kvm),
        caches: caches.collect(),
    }
}

/// A value of the first CPU in `/proc/cpuinfo`.
fn entry<'t>(cpuinfo: &'t str, key: &str) -> Option<&'t str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The processor in the form of [`Hardware::processor`].
fn processor(cpuinfo: &str) -> Option<String> {
    let entry = |key| entry(cpuinfo, key);
    if let (Some(vendor), Some(family), Some(model)) =
        (entry("vendor_id"), entry("cpu family"), entry("model"))
    {
        return Some(format!("{vendor} {family}/{model}"));
    }
    if let (Some(implementer), Some(part)) = (entry("CPU implementer"), entry("CPU part")) {
        return Some(format!("{implementer}/{part}"));
    }
    // RISC-V: the numbers of vendors are alike for all cores of some.
    entry("uarch").map(str::to_owned)
}

/// Whether a guest keeps its time by the clock that KVM offers, which sysfs shows.
fn kvm() -> Option<String> {
    let clocks = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let clocks = fs::read_to_string(clocks).ok()?;
    clocks.split_whitespace().any(|clock| clock == "kvm-clock").then(|| "kvm".to_owned())
}

/// How much memory is free, in KiB.
pub(super) fn free_kib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// A word of a command without the folders of the files that it names.
pub(super) fn without_folders(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    if !text.contains('/') {
        return text.into_owned();
    }
    // `--output=/a/b` names a file, too.
    let (option, path) = match text.split_once('=') {
        Some((option, path)) if !option.contains('/') => (format!("{option}="), path),
        _ => (String::new(), &*text),
    };
    let name = Path::new(path).file_name().unwrap_or_default();
    option + &name.to_string_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted() {
        assert_eq!(count("0-3,8\n"), Some(5));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count(""), None);
        assert_eq!(count("3-0"), None);
    }

    #[test]
    fn a_release_keeps_its_version_and_drops_its_builder() {
        assert_eq!(version("6.18.44-somebody-7"), "6.18.44");
        assert_eq!(version("6.1.0+"), "6.1.0");
        assert_eq!(version("5.15"), "5.15");
    }

    #[test]
    fn guests_are_known_where_the_processor_tells() {
        assert_eq!(guest("processor\t: 0\nflags\t\t: fpu hypervisor pcid\n"), Some(true));
        assert_eq!(guest("flags\t\t: fpu pcid\n"), Some(false));
        assert_eq!(guest("Features\t: fp asimd\n"), None);
    }

    #[test]
    fn the_processor_is_told_by_numbers() {
        let x86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
             model name\t: AMD EPYC\n\nprocessor\t: 1\nmodel\t\t: 99\n";
        assert_eq!(processor(x86).as_deref(), Some("AuthenticAMD 25/17"));
        assert_eq!(entry(x86, "model name"), Some("AMD EPYC"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(processor(arm).as_deref(), Some("0x41/0xd40"));
        assert_eq!(processor("Features\t: fp\n"), None);
    }

    /// As Linux prints it there; numbers and names of AMD and Intel are those that CPUID gives.
    #[test]
    fn the_processors_of_servers_and_of_risc_v_are_told() {
        let x86 = |vendor: &str, family: u32, model: u32, name: &str| {
            format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
                 model name\t: {name}\nstepping\t: 1\n"
            )
        };
        let told = |text: String| processor(&text).expect("it is told");
        let genoa = x86("AuthenticAMD", 25, 17, "AMD EPYC 9654 96-Core Processor");
        assert_eq!(told(genoa), "AuthenticAMD 25/17");
        let turin = x86("AuthenticAMD", 26, 2, "AMD EPYC 9655 96-Core Processor");
        assert_eq!(told(turin), "AuthenticAMD 26/2");
        let sapphire_rapids = x86("GenuineIntel", 6, 143, "Intel(R) Xeon(R) w7-2475X");
        assert_eq!(told(sapphire_rapids), "GenuineIntel 6/143");
        let arm = |implementer: &str, part: &str| {
            format!(
                "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: {implementer}\n\
                 CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: {part}\nCPU revision\t: 1\n"
            )
        };
        assert_eq!(told(arm("0x41", "0xd4f")), "0x41/0xd4f");
        assert_eq!(told(arm("0xc0", "0xac3")), "0xc0/0xac3");
        // A VisionFive 2.
        let board = "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc_zicntr_zicsr_zifencei_zihpm_zba_zbb\nmmu\t\t: sv39\n\
             uarch\t\t: sifive,u74-mc\nmvendorid\t: 0x489\nmarchid\t\t: 0x8000000000000007\nmimpid\t\t: 0x4210427\n";
        assert_eq!(told(board.to_owned()), "sifive,u74-mc");
    }

    #[test]
    fn a_command_keeps_its_words_and_loses_its_folders() {
        let plain = |word: &str| without_folders(OsStr::new(word));
        assert_eq!(plain("/home/somebody/bin/sort"), "sort");
        assert_eq!(plain("-n"), "-n");
        assert_eq!(plain("--output=/home/somebody/out"), "--output=out");
        assert_eq!(plain("/home/a=b/c"), "c");
        assert_eq!(plain("folder/"), "folder");
        assert_eq!(plain("/"), "");
    }
}
