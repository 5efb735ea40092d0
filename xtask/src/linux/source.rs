//! The source of Linux: Debian's package, unpacked once, with the lines added that include ours.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::Architecture;
use crate::{
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// Debian's package, and the version that the overlay is for.
const PACKAGE: &str = "linux-source-6.12";
const VERSION: &str = "6.12";
/// What x86's configuration reads of ours.
const KCONFIG: &str =
    "source \"$(if-success,test -n '$(LOOKASIDE)',$(LOOKASIDE)/Kconfig.x86_64,/dev/null)\"\n";
/// Written when all is unpacked.
const UNPACKED: &str = ".unpacked";

/// The programs that are needed, and the packages of Debian that have them.
const PROGRAMS: [(&str, &str); 6] = [
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("xz", "xz-utils"),
    ("gcc", "gcc"),
];

impl Architecture {
    /// As `make` of Linux calls it.
    pub(super) const fn linux(self) -> &'static str {
        match self {
            Self::Arm64 => "arm64",
            Self::Riscv64 => "riscv",
            Self::X86_64 => "x86",
        }
    }

    /// How the names of the cross-compiler's programs begin.
    pub(super) const fn cross(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-linux-gnu-",
            Self::Riscv64 => "riscv64-linux-gnu-",
            Self::X86_64 => "x86_64-linux-gnu-",
        }
    }

    /// The emulator.
    pub(super) const fn qemu(self) -> &'static str {
        match self {
            Self::Arm64 => "qemu-system-aarch64",
            Self::Riscv64 => "qemu-system-riscv64",
            Self::X86_64 => "qemu-system-x86_64",
        }
    }

    const fn packages(self) -> [&'static str; 3] {
        match self {
            Self::Arm64 => ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-system-arm"],
            Self::Riscv64 => {
                ["gcc-riscv64-linux-gnu", "libc6-dev-riscv64-cross", "qemu-system-misc"]
            }
            Self::X86_64 if cfg!(target_arch = "x86_64") => ["gcc", "libc6-dev", "qemu-system-x86"],
            Self::X86_64 => ["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross", "qemu-system-x86"],
        }
    }
}

/// Compilers, the emulator, and what Linux's build takes: here, or installed, or named.
pub(super) fn tools(architecture: Architecture) -> Result<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_here =
        |program: &str| env::split_paths(&path).any(|place| place.join(program).is_file());
    let [compiler, library, emulator] = architecture.packages();
    let gcc = format!("{}gcc", architecture.cross());
    let mut missing: Vec<_> = PROGRAMS
        .into_iter()
        .chain([(gcc.as_str(), compiler), (architecture.qemu(), emulator)])
        .filter(|(program, _)| !is_here(program))
        .collect();
    // Linux's objtool, which its build for x86 runs, is compiled with this library's header.
    if architecture == Architecture::X86_64 && !Path::new("/usr/include/libelf.h").is_file() {
        missing.push(("", "libelf-dev"));
    }
    if !missing.is_empty() {
        missing.push(("", library));
        let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
        setup::debian("What builds and boots Linux is", &packages)?;
    }
    Ok(())
}

/// Whether the source is there.
pub(super) fn is_here(workspace: &Workspace) -> bool {
    workspace.target().join("linux/source").join(UNPACKED).is_file()
}

/// Debian's source, fetched and unpacked if it is not there.
pub(super) fn fetch(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target().join("linux");
    let source = folder.join("source");
    if is_here(workspace) {
        return Ok(source);
    }
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    let mut package = package_in(&folder)?;
    if package.is_none() {
        let mut fetch = Command::new("apt-get");
        process::run(fetch.args(["download", PACKAGE]).current_dir(&folder)).map_err(|failure| {
            Failure::new(format!(
                "Debian's package {PACKAGE} cannot be fetched ({failure}); put it, or a link to it, into {}",
                folder.display()
            ))
        })?;
        package = package_in(&folder)?;
    }
    let package = package.ok_or_else(|| Failure::new("apt-get fetched no package"))?;
    // Half of it may be there.
    if source.exists() {
        fs::remove_dir_all(&source).context(|| format!("removing {}", source.display()))?;
    }
    fs::create_dir_all(&source).context(|| format!("making {}", source.display()))?;
    println!("linux: unpacking {}", package.display());
    let unpack = "dpkg-deb --fsys-tarfile \"$1\" | tar xO --wildcards '*.tar.xz' | tar xJ --strip-components=1 -C \"$2\"";
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", unpack, "unpack"]).arg(&package).arg(&source);
    process::run(&mut shell)?;
    fs::write(source.join(UNPACKED), "").context(|| "marking the source".to_owned())?;
    Ok(source)
}

fn package_in(folder: &Path) -> Result<Option<PathBuf>> {
    let entries = fs::read_dir(folder).context(|| format!("reading {}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(PACKAGE) && name.ends_with(".deb")
    }))
}

/// Refuses another version, and adds the lines that include ours; without the variable they include nothing.
pub(super) fn prepare(source: &Path, architecture: Architecture) -> Result<()> {
    let version = version(&read(&source.join("Makefile"))?);
    if version.as_deref() != Some(VERSION) {
        let found = version.map_or_else(|| "no Linux".to_owned(), |other| format!("Linux {other}"));
        return Err(Failure::new(format!(
            "the overlay is for Linux {VERSION}, and {} holds {found}",
            source.display()
        )));
    }
    let folder = source.join("arch").join(architecture.linux());
    let include = format!("-include $(LOOKASIDE)/Kbuild.{}\n", architecture.name());
    append(&folder.join("mm/Makefile"), &include)?;
    match architecture {
        Architecture::X86_64 => append(&folder.join("Kconfig"), KCONFIG),
        Architecture::Arm64 | Architecture::Riscv64 => Ok(()),
    }
}

/// Adds a line at the end of a file, once.
fn append(file: &Path, line: &str) -> Result<()> {
    let text = read(file)?;
    if text.ends_with(line) {
        return Ok(());
    }
    fs::write(file, text + line).context(|| format!("writing {}", file.display()))
}

/// The first two numbers of it.
fn version(makefile: &str) -> Option<String> {
    let number =
        |name| makefile.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix("= "));
    Some(format!("{}.{}", number("VERSION")?, number("PATCHLEVEL")?))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).context(|| format!("reading {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_of_another_version_is_refused_and_the_lines_are_added_once() {
        let folder = env::temp_dir().join(format!("lookaside-linux-{}", std::process::id()));
        let [arm, x86] = ["arch/arm64", "arch/x86"].map(|place| folder.join(place));
        for place in [&arm, &x86] {
            fs::create_dir_all(place.join("mm")).unwrap();
            fs::write(place.join("mm/Makefile"), "obj-y := a.o\n").unwrap();
            fs::write(place.join("Kconfig"), "config A\n").unwrap();
        }
        fs::write(folder.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 13\n").unwrap();
        let refused = prepare(&folder, Architecture::Arm64).unwrap_err().to_string();
        assert!(
            refused.contains("for Linux 6.12") && refused.contains("holds Linux 6.13"),
            "{refused}"
        );
        fs::write(folder.join("Makefile"), "all:\n").unwrap();
        let refused = prepare(&folder, Architecture::Arm64).unwrap_err().to_string();
        assert!(refused.contains("holds no Linux"), "{refused}");
        fs::write(folder.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n").unwrap();
        for _ in 0..2 {
            prepare(&folder, Architecture::Arm64).unwrap();
            prepare(&folder, Architecture::X86_64).unwrap();
        }
        let made = |place: &Path| read(&place.join("mm/Makefile")).unwrap();
        assert_eq!(made(&arm), "obj-y := a.o\n-include $(LOOKASIDE)/Kbuild.arm64\n");
        assert_eq!(made(&x86), "obj-y := a.o\n-include $(LOOKASIDE)/Kbuild.x86_64\n");
        let configured = |place: &Path| read(&place.join("Kconfig")).unwrap();
        assert_eq!(configured(&arm), "config A\n");
        assert_eq!(configured(&x86), format!("config A\n{KCONFIG}"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
