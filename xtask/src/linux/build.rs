//! The kernels, with the overlay and without, and the initramfs with our programs.

use core::hash::{Hash as _, Hasher as _};
use std::{
    collections::BTreeSet,
    fs,
    hash::DefaultHasher,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use super::{
    Architecture,
    functions::Symbols,
    parts::{self, Part},
    runs::Programs,
};
use crate::{
    capi,
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// The most CPUs: `CONFIG_NR_CPUS` of `linux/config/common`.
const MAX_CPUS: u32 = 8;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stock,
    Library,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Library => "lookaside",
        }
    }
}

impl Architecture {
    pub(super) const fn capi(self) -> capi::Target {
        match self {
            Self::Arm64 => capi::Target::Aarch64,
            Self::Riscv64 => capi::Target::Riscv64,
            Self::X86_64 => capi::Target::X86_64,
        }
    }

    /// What is booted: the target of `make`, in `arch/…/boot`.
    const fn image(self) -> &'static str {
        match self {
            Self::Arm64 | Self::Riscv64 => "Image",
            Self::X86_64 => "bzImage",
        }
    }
}

/// Which kernel.
#[derive(Clone, Copy)]
pub(super) struct Sort<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) source: &'a Path,
    pub(super) architecture: Architecture,
    pub(super) kind: Kind,
    /// With Linux's tracer of the time with interrupts off.
    pub(super) is_traced: bool,
    /// With the library's debug build.
    pub(super) is_checked: bool,
    pub(super) parts: &'a [Part],
}

impl Sort<'_> {
    /// Where it is built.
    pub(super) fn folder(&self) -> PathBuf {
        let (name, kind) = (self.architecture.name(), self.kind.name());
        let traced = if self.is_traced { "-irqs-off" } else { "" };
        let parts = parts::names(self.parts, "-");
        self.workspace.target().join("linux").join(format!("{name}-{kind}{traced}{parts}"))
    }

    /// What is configured.
    fn config(&self) -> Result<String> {
        let files = ["common", self.architecture.name()]
            .into_iter()
            .chain(self.is_traced.then_some("irqs-off"))
            .chain(self.parts.iter().map(|part| part.name()));
        let read = |file| self.workspace.read(&format!("linux/config/{file}"));
        Ok(parts::configuration(&files.map(read).collect::<Result<Vec<_>>>()?))
    }

    /// Where the library lies for it: at one place, whichever build it is of. If another were named, all of Linux would be compiled again.
    fn library(&self) -> PathBuf {
        self.workspace.root().join(self.folder()).join("lookaside")
    }

    /// Builds the library, and puts it there. Returns what it and its header are.
    fn put_library(&self) -> Result<String> {
        let bare = setup::run(self.workspace, false)?;
        let target = self.architecture.capi();
        let build = capi::Build { target, max_cpus: Some(MAX_CPUS), is_checked: self.is_checked };
        let (from, to) = (capi::build(self.workspace, &bare, &build)?, self.library());
        fs::create_dir_all(&to).context(|| format!("making {}", to.display()))?;
        let mut contents = String::new();
        for (file, name) in
            [("lib/lookaside.o", "lookaside.o"), ("include/lookaside.h", "lookaside.h")]
        {
            let bytes = fs::read(from.join(file)).context(|| "reading the library".to_owned())?;
            write(&to.join(name), &bytes)?;
            contents.push_str(&format!("{:x}", hash(&bytes)));
        }
        Ok(contents)
    }

    /// `make` of Linux, with the overlay and the library if it is ours.
    fn make(&self) -> Command {
        let mut make = make(self.workspace, self.source, self.architecture, &self.folder());
        if self.kind == Kind::Library {
            let ours = self.workspace.root().join("linux");
            let include = |path: PathBuf| format!(" -I{}", path.display());
            let library = self.library();
            make.arg(format!("LOOKASIDE={}", ours.display()))
                .arg(format!("LOOKASIDE_OBJECT={}", library.join("lookaside.o").display()))
                .arg(format!(
                    "NOSTDINC_FLAGS=-nostdinc{}{}{}",
                    include(ours.join("include").join(self.architecture.name())),
                    include(ours.join("include/common")),
                    include(library),
                ));
        }
        make
    }
}

/// Builds a kernel, unless one of the same contents is there, and the module of the tests if it takes modules.
pub(super) fn kernel(sort: &Sort<'_>) -> Result<PathBuf> {
    let Sort { workspace, source, architecture, kind, .. } = *sort;
    let (linux, name) = (architecture.linux(), architecture.name());
    let folder = sort.folder();
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    let image = folder.join("arch").join(linux).join("boot").join(architecture.image());
    let config = sort.config()?;
    let mut contents = config.clone();
    contents.push_str(&read(&source.join("Makefile"))?);
    if kind == Kind::Library {
        contents.push_str(&sort.put_library()?);
        contents.push_str(&overlay(workspace, architecture)?);
        let mm = folder.join("arch").join(linux).join("mm");
        fs::create_dir_all(&mm).context(|| format!("making {}", mm.display()))?;
        for file in [name, "mm"] {
            let text = workspace.read(&format!("linux/kernel/{file}.c"))?;
            write(&mm.join(format!("lookaside_{file}.c")), text)?;
        }
    }
    let takes_modules = sort.parts.contains(&Part::Modules);
    let key = format!("{:x}\n", hash(contents.as_bytes()));
    let built = folder.join("lookaside.key");
    if image.is_file() && fs::read_to_string(&built).is_ok_and(|old| old == key) {
        println!("linux: {} is built already", image.display());
    } else {
        configure(sort, &folder, &config)?;
        println!("linux: building {}: this takes minutes", image.display());
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let mut make = sort.make();
        make.arg(format!("-j{cpus}")).arg(architecture.image());
        if takes_modules {
            make.arg("modules");
        }
        process::run(&mut make)?;
        write(&built, &key)?;
    }
    if takes_modules {
        parts::module(workspace, &mut sort.make(), &folder)?;
    }
    Ok(image)
}

/// The functions of a kernel that was built.
pub(super) fn symbols(image: &Path) -> Result<Symbols> {
    // arch/…/boot/Image in the folder of the build.
    let folder = image.ancestors().nth(4).unwrap_or(image);
    Ok(Symbols::new(&read(&folder.join("System.map"))?))
}

/// `make` of Linux, out of its tree.
fn make(workspace: &Workspace, source: &Path, architecture: Architecture, to: &Path) -> Command {
    let mut make = Command::new("make");
    make.current_dir(source)
        // What `make` of ours was told, and compilers' settings, are not for Linux.
        .env_remove("MAKEFLAGS")
        .env("KBUILD_BUILD_TIMESTAMP", "1970-01-01")
        .args(["-s", &format!("ARCH={}", architecture.linux())])
        .arg(format!("CROSS_COMPILE={}", architecture.cross()))
        .arg(format!("O={}", workspace.root().join(to).display()));
    make
}

/// Configures, if it is not configured so already, and refuses a setting that Linux has not taken.
fn configure(sort: &Sort<'_>, folder: &Path, wanted: &str) -> Result<()> {
    let (fragment, made) = (folder.join("lookaside.config"), folder.join(".config"));
    if !made.is_file() || !fs::read_to_string(&fragment).is_ok_and(|old| old == wanted) {
        write(&fragment, wanted)?;
        let mut command = sort.make();
        let all = sort.workspace.root().join(&fragment);
        command.env("KCONFIG_ALLCONFIG", all).arg("allnoconfig");
        process::output(&mut command)?;
    }
    let taken = read(&made)?;
    let lost = wanted.lines().filter(|line| line.contains("CONFIG_")).find(|line| {
        let option = line.trim_start_matches("# ").split([' ', '=']).next().unwrap_or_default();
        let is_off = line.ends_with(" is not set");
        let present = taken.lines().any(|other| other == *line);
        // An option that depends on one that is off is not named.
        let is_named = taken.contains(&format!("{option}="));
        !(present || is_off && !is_named)
    });
    match lost {
        Some(line) => Err(Failure::new(format!("Linux's configuration has not taken `{line}`"))),
        None => Ok(()),
    }
}

/// All text of the overlay that the kernel is built from.
fn overlay(workspace: &Workspace, architecture: Architecture) -> Result<String> {
    let mut all = String::new();
    for file in workspace.files()? {
        let is_part = ["linux/include/", "linux/kernel/", "linux/Kbuild.", "linux/Kconfig."];
        let is_of_another = Architecture::ALL
            .into_iter()
            .any(|other| other != architecture && file.contains(other.name()));
        if !is_of_another && is_part.iter().any(|part| file.starts_with(part)) {
            all.push_str(&workspace.read(&file)?);
        }
    }
    Ok(all)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The compiler of the programs and what it is told, without the file that it makes.
pub(super) fn programs(workspace: &Workspace, compiler: &str) -> Command {
    let mut compile = Command::new(compiler);
    compile
        .current_dir(workspace.root().join("linux/programs"))
        .args(["-std=gnu11", "-O2", "-static", "-pthread", "-Wall", "-Wextra", "-Werror"])
        .args(["-D_FILE_OFFSET_BITS=64", "init.c", "hunters.c", "parts.c", "runs.c", "works.c"]);
    compile
}

/// The programs, compiled, as the file system that Linux unpacks into memory, with more files by their names.
/// With them, the programs of others, and the list of their runs.
pub(super) fn initramfs(
    workspace: &Workspace,
    architecture: Architecture,
    more: &[(String, PathBuf)],
    others: Option<&Programs>,
) -> Result<PathBuf> {
    let folder = workspace.target().join("linux");
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    let program = folder.join(format!("init-{}", architecture.name()));
    let mut compile = programs(workspace, &format!("{}gcc", architecture.cross()));
    process::run(compile.arg("-o").arg(workspace.root().join(&program)))?;
    let bytes = fs::read(&program).context(|| format!("reading {}", program.display()))?;
    let archive = folder.join(format!("initramfs-{}", architecture.name()));
    let mut cpio = Vec::new();
    entry(&mut cpio, "dev", 0o040_755, &[]);
    entry(&mut cpio, "init", 0o100_755, &bytes);
    for (name, file) in more {
        let bytes = fs::read(file).context(|| format!("reading {}", file.display()))?;
        entry(&mut cpio, name, 0o100_755, &bytes);
    }
    if let Some(Programs { list, files }) = others {
        let folders: BTreeSet<_> = files
            .iter()
            .filter_map(|(name, _)| name.split_once('/'))
            .map(|(first, _)| first)
            .collect();
        for folder in folders {
            entry(&mut cpio, folder, 0o040_755, &[]);
        }
        entry(&mut cpio, "runs/list", 0o100_644, list.as_bytes());
        for (name, file) in files {
            let bytes = fs::read(file).context(|| format!("reading {}", file.display()))?;
            entry(&mut cpio, name, 0o100_755, &bytes);
        }
    }
    entry(&mut cpio, "TRAILER!!!", 0, &[]);
    fs::write(&archive, cpio).context(|| format!("writing {}", archive.display()))?;
    Ok(archive)
}

/// One entry of a cpio archive of the form `newc`: a header of thirteen numbers, the name, the contents, each padded to four
/// bytes. Source: the kernel's documentation, "initramfs buffer format".
fn entry(to: &mut Vec<u8>, name: &str, mode: u32, contents: &[u8]) {
    let links = if mode & 0o040_000 == 0 { 1 } else { 2 };
    let (size, name_size) = (contents.len(), name.len() + 1);
    let number = to.len();
    to.extend_from_slice(b"070701");
    for field in [number, mode as usize, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0] {
        to.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    let pad = |to: &mut Vec<u8>| to.resize(to.len().next_multiple_of(4), 0);
    to.extend_from_slice(name.as_bytes());
    to.push(0);
    pad(to);
    to.extend_from_slice(contents);
    pad(to);
}

/// The plugin that counts, for the emulator's version of the interface.
pub(super) fn plugin(workspace: &Workspace, architecture: Architecture) -> Result<PathBuf> {
    let printed = process::output(Command::new(architecture.qemu()).arg("--version"))?;
    let version = interface(&printed)
        .ok_or_else(|| Failure::new(format!("`{}` says no version", architecture.qemu())))?;
    let plugin = workspace.target().join("linux/libcount.so");
    let mut compile = Command::new("rustc");
    compile
        .current_dir(workspace.root())
        .env("QEMU_PLUGIN_VERSION", version)
        .args(["--edition", "2024", "-O", "--crate-type", "cdylib", "-Dwarnings", "-o"])
        .arg(&plugin)
        .arg("linux/plugin/count.rs");
    process::run(&mut compile)?;
    Ok(workspace.root().join(plugin))
}

/// The version of the plugin interface in this emulator.
fn interface(printed: &str) -> Option<&'static str> {
    let number =
        printed.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    Some(match (parts.next()?, parts.next()?) {
        (..=8, _) => "1",
        (9, 0) => "2",
        (9, _) => "3",
        _ => "4",
    })
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).context(|| format!("reading {}", file.display()))
}

/// Writes, unless the text is the same: `make` goes by times.
pub(super) fn write(file: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    if fs::read(file).is_ok_and(|old| old == contents.as_ref()) {
        return Ok(());
    }
    fs::write(file, contents).context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_names_and_contents_at_multiples_of_four() {
        let mut cpio = Vec::new();
        entry(&mut cpio, "init", 0o100_755, b"12345");
        assert_eq!(cpio.len(), 110 + 6 + 8);
        assert_eq!(&cpio[..22], b"07070100000000000081ED");
        assert_eq!(&cpio[110..], b"init\0\x0012345\0\0\0");
    }

    #[test]
    fn the_emulator_decides_on_the_interface() {
        assert_eq!(interface("QEMU emulator version 7.2.22 (Debian)"), Some("1"));
        assert_eq!(interface("QEMU emulator version 9.1.0"), Some("3"));
        assert_eq!(interface("QEMU emulator version 10.0.2"), Some("4"));
        assert_eq!(interface("none"), None);
    }
}
