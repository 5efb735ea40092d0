//! Emulators that can be watched: QEMU 10 for a system whose own is older, from Debian's packages, and Bochs with the
//! instrumentation, built from Debian's source. Nothing is installed, and apt's own lists stay as they are.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use crate::{emulator::Kind, run::store};

/// Where Debian's keys are, on Debian.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The packages of QEMU: for the emulators, and for what they load.
const QEMU: [&str; 8] = [
    "qemu-system-misc",
    "qemu-system-riscv",
    "qemu-system-arm",
    "qemu-system-x86",
    "seabios",
    "qemu-system-common",
    "qemu-system-data",
    "opensbi",
];

/// The suite whose Bochs is built: the instrumentation is written for its version, 3.0.
const BOCHS_SUITE: &str = "trixie";
/// Its firmware, which Debian has apart from its source.
const BOCHS_FIRMWARE: [&str; 2] = ["bochsbios", "vgabios"];
/// How it is configured: SMP, 64 bits, the features of recent CPUs, no display, and the instrumentation.
const BOCHS_OPTIONS: [&str; 11] = [
    "--enable-smp",
    "--enable-cpu-level=6",
    "--enable-x86-64",
    "--enable-long-phy-address",
    "--enable-avx",
    "--enable-evex",
    "--enable-all-optimizations",
    "--disable-docbook",
    "--without-x11",
    "--with-nogui",
    "--enable-instrumentation=instrument/lookaside",
];
const HEADER: &str = include_str!("../bochs/instrument.h");
const SOURCE: &str = include_str!("../bochs/instrument.cc");

pub(crate) fn run(emulator: Kind) -> Result<(), String> {
    match emulator {
        Kind::Qemu => qemu(),
        Kind::Bochs => bochs(),
    }
}

fn qemu() -> Result<(), String> {
    let suite = suite()?;
    let base = suite.trim_end_matches("-backports");
    let apt = Apt::new(&store(), "deb", &format!("{base} {suite}"))?;
    let into = store().join("root");
    println!("setup: unpacking QEMU 10 from Debian's {suite} into {}", into.display());
    let emulators = QEMU.map(|name| format!("{name}/{suite}"));
    apt.unpack_with_libraries(&emulators, suite, &into)?;
    println!("setup: done");
    Ok(())
}

fn bochs() -> Result<(), String> {
    let folder = store().join("bochs");
    let build = folder.join("build");
    // A build that was broken off is begun again.
    let _ = fs::remove_dir_all(&build);
    make_folder(&folder.join("share"))?;
    make_folder(&build)?;
    println!(
        "setup: building Bochs with the instrumentation in {}: some minutes",
        folder.display()
    );
    let log = folder.join("build.log");

    let apt = Apt::new(&folder.join("source"), "deb-src", BOCHS_SUITE)?;
    let archive = apt.source("bochs", &folder)?;
    step(
        Command::new("tar")
            .arg("-xJf")
            .arg(archive)
            .args(["--strip-components=1", "-C"])
            .arg(&build),
        &log,
    )?;
    let own = build.join("instrument/lookaside");
    make_folder(&own)?;
    let put = |name: &str, text: &str| {
        fs::write(own.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    put("instrument.h", HEADER)?;
    put("instrument.cc", SOURCE)?;
    fs::copy(build.join("instrument/stubs/Makefile.in"), own.join("Makefile.in"))
        .map_err(|error| format!("Bochs's Makefile for instrumentation: {error}"))?;
    let mut configure = Command::new("sh");
    configure.arg("./configure").args(BOCHS_OPTIONS).env("CXXFLAGS", "-O2").env("CFLAGS", "-O2");
    step(configure.current_dir(&build), &log)?;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    step(Command::new("make").arg(format!("-j{jobs}")).current_dir(&build), &log)?;

    let firmware = Apt::new(&folder.join("firmware"), "deb", BOCHS_SUITE)?;
    let root = folder.join("firmware/root");
    firmware.unpack(&BOCHS_FIRMWARE.map(str::to_owned), &root)?;
    for (from, to) in [
        ("bochs/BIOS-bochs-latest", "BIOS-bochs-latest"),
        ("vgabios/vgabios.bin", "VGABIOS-lgpl-latest"),
    ] {
        let from = root.join("usr/share").join(from);
        fs::copy(&from, folder.join("share").join(to))
            .map_err(|error| format!("{}: {error}", from.display()))?;
    }
    fs::copy(build.join("bochs"), folder.join("bochs"))
        .map_err(|error| format!("the program that was built: {error}"))?;
    // What was built from takes 100 MB, and is not needed again.
    let _ = fs::remove_dir_all(&build);
    println!("setup: done");
    Ok(())
}

fn make_folder(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a command; what it says goes to a file.
fn step(command: &mut Command, log: &Path) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let told = fs::File::options().create(true).append(true).open(log);
    let told = told.map_err(|error| format!("{}: {error}", log.display()))?;
    let both = told.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    let done = command.stdin(Stdio::null()).stdout(told).stderr(both).status();
    match done {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "{program} failed ({status}); {} says why. It needs g++ and make: on Debian, apt-get install g++ make",
            log.display()
        )),
        Err(error) => {
            Err(format!("{program}: {error}; on Debian, apt-get install g++ make xz-utils"))
        }
    }
}

/// Apt with lists of its own, which knows some suites.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// `kind` is `deb` or `deb-src`.
    fn new(folder: &Path, kind: &str, suites: &str) -> Result<Self, String> {
        for name in ["apt/lists/partial", "apt/cache/archives/partial", "apt/sources", "packages"] {
            make_folder(&folder.join(name))?;
        }
        let folder =
            folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        let source = format!(
            "Types: {kind}\nURIs: {}\nSuites: {suites}\nComponents: main\nArchitectures: amd64\n\
             Signed-By: {KEYS}\n",
            mirror()?
        );
        let write = |name: &str, text: &str| {
            fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))
        };
        write("apt/sources/hunt.sources", &source)?;
        write("apt/status", "")?;
        let apt = Self { folder };
        apt.get("update", &[], &apt.folder)?;
        Ok(apt)
    }

    fn command(&self) -> Command {
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        let mut command = Command::new("apt-get");
        for option in [
            option("Dir::Etc::sourcelist", Path::new("/dev/null")),
            option("Dir::Etc::sourceparts", &self.folder.join("apt/sources")),
            option("Dir::State::lists", &self.folder.join("apt/lists")),
            option("Dir::State::status", &self.folder.join("apt/status")),
            option("Dir::Cache", &self.folder.join("apt/cache")),
        ] {
            command.args(["-o", &option]);
        }
        command.arg("-q");
        command
    }

    fn get(&self, verb: &str, words: &[String], at: &Path) -> Result<(), String> {
        let done =
            self.command().current_dir(at).stdout(Stdio::null()).arg(verb).args(words).status();
        if done.is_ok_and(|status| status.success()) {
            return Ok(());
        }
        Err(format!(
            "apt-get {verb} failed; without network, name the folder of a QEMU 10 in LOOKASIDE_QEMU, or of a Bochs with \
             the instrumentation in LOOKASIDE_BOCHS"
        ))
    }

    /// Downloads packages, and unpacks them into a folder.
    fn unpack(&self, packages: &[String], into: &Path) -> Result<(), String> {
        make_folder(into)?;
        let folder = self.folder.join("packages");
        self.get("download", packages, &folder)?;
        unpack_all(&folder, into)
    }

    /// Downloads packages, and of what they need what this system does not have, and unpacks them into a folder.
    fn unpack_with_libraries(
        &self,
        packages: &[String],
        suite: &str,
        into: &Path,
    ) -> Result<(), String> {
        make_folder(into)?;
        let options = ["--download-only", "--reinstall", "--no-install-recommends", "--assume-yes"];
        let words = options.into_iter().map(str::to_owned);
        // What is installed is read, and not locked: nothing is installed.
        let installed = ["Dir::State::status=/var/lib/dpkg/status", "Debug::NoLocking=true"];
        let installed = installed.into_iter().flat_map(|option| ["-o".to_owned(), option.into()]);
        let target = ["--target-release".to_owned(), suite.to_owned()];
        let words: Vec<_> =
            words.chain(installed).chain(target).chain(packages.iter().cloned()).collect();
        self.get("install", &words, &self.folder)?;
        unpack_all(&self.folder.join("apt/cache/archives"), into)
    }

    /// Downloads the archive of a source as its authors have released it; apt compares its hash.
    fn source(&self, name: &str, into: &Path) -> Result<PathBuf, String> {
        let output =
            self.command().args(["--print-uris", "--only-source", "source", name]).output();
        let output = output.map_err(|error| format!("apt-get: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (address, hash) = original(&text)
            .ok_or_else(|| format!("Debian's {BOCHS_SUITE} has no source of {name}"))?;
        let file = into.join(format!("{name}.tar.xz"));
        let mut command = Command::new("/usr/lib/apt/apt-helper");
        command.args(["-q", "download-file", address]).arg(&file).arg(hash);
        let done = command.stdout(Stdio::null()).status();
        if done.is_ok_and(|status| status.success()) {
            return Ok(file);
        }
        Err(format!("the source of {name} could not be downloaded from {address}"))
    }
}

/// Unpacks the packages of a folder into another.
fn unpack_all(folder: &Path, into: &Path) -> Result<(), String> {
    let files = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let files = files.flatten().map(|file| file.path());
    for package in files.filter(|file| file.extension().is_some_and(|end| end == "deb")) {
        let done = Command::new("dpkg-deb").arg("-x").arg(&package).arg(into).status();
        if !done.is_ok_and(|status| status.success()) {
            return Err(format!("dpkg-deb could not unpack {}", package.display()));
        }
    }
    Ok(())
}

/// The address and the hash of the authors' archive, in what `apt-get --print-uris source` prints: `'ADDRESS' NAME SIZE HASH`.
fn original(text: &str) -> Option<(&str, &str)> {
    let line = text.lines().find(|line| line.contains(".orig.tar.xz "))?;
    let (address, rest) = line.strip_prefix('\'')?.split_once('\'')?;
    Some((address, rest.split_whitespace().last()?))
}

/// Where this system gets Debian's packages from.
fn mirror() -> Result<String, String> {
    let asked = Command::new("apt-get")
        .args([
            "indextargets",
            "--format",
            "$(REPO_URI)",
            "Created-By: Packages",
            "Component: main",
        ])
        .output();
    let text = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.map_err(|error| format!("apt-get: {error}"))?;
    let first = text.lines().find(|address| !address.contains("security"));
    first
        .map(str::to_owned)
        .ok_or_else(|| "apt-get knows no source of Debian's packages".to_owned())
}

/// The suite that has QEMU 10 for this system's libraries.
fn suite() -> Result<&'static str, String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if release.contains("VERSION_ID=\"12\"") && release.contains("ID=debian") {
        return Ok("bookworm-backports");
    }
    Err("setup knows only Debian 12. Debian 13 and later have a QEMU that is new enough: \
         apt-get install qemu-system-misc qemu-system-arm qemu-system-x86. Elsewhere, build QEMU 10 with --enable-plugins and name \
         its folder in LOOKASIDE_QEMU."
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authors_archive_is_found_among_what_apt_prints() {
        let text = "Reading package lists...\n\
                    'http://mirror/pool/b_3.0-1.dsc' b_3.0-1.dsc 2581 SHA256:aa\n\
                    'http://mirror/pool/b_3.0%2bdfsg.orig.tar.xz' b_3.0+dfsg.orig.tar.xz 3896488 SHA256:bb\n\
                    'http://mirror/pool/b_3.0-1.debian.tar.xz' b_3.0-1.debian.tar.xz 30720 SHA256:cc\n";
        assert_eq!(
            original(text),
            Some(("http://mirror/pool/b_3.0%2bdfsg.orig.tar.xz", "SHA256:bb"))
        );
        assert_eq!(original("E: Unable to find a source package for b"), None);
    }
}
