//! Parts of Linux that most runs do without: what configures them, what they need to be built and booted, and their tests.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::ValueEnum;

use super::{Architecture, build};
use crate::{
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// Debian's build of EDK II, which has runtime services, and the package of it.
const FIRMWARE: (&str, &str) = ("/usr/share/qemu-efi-aarch64/QEMU_EFI.fd", "qemu-efi-aarch64");
/// The compiler for programs of 32 bits, and the packages of it.
const COMPILER32: (&str, [&str; 2]) =
    ("arm-linux-gnueabihf-gcc", ["gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross"]);
/// The module of the tests, in `linux/module`, and where it is built in the folder of the kernel.
const MODULE: &str = "lookaside_hunter";
const MODULE_FOLDER: &str = "lookaside-module";

/// A part of Linux for arm64. Each has a file in `linux/config`, which stands after the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Part {
    /// Modules: one hunts for stale translations of kernel addresses.
    Modules,
    /// Programs of 32 bits: the hunters once more.
    Compat,
    /// Runtime calls of EFI, beside all tests, on Debian's firmware.
    Efi,
    /// Addresses of 52 bits (FEAT_LPA2): the hunters once more, above 48 bits.
    Va52,
    /// The driver whose devices share address spaces, and ASIDs that are pinned by the module.
    Sva,
}

impl Part {
    /// Of the file, and the word on the kernel's command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Modules => "modules",
            Self::Compat => "compat",
            Self::Efi => "efi",
            Self::Va52 => "va52",
            Self::Sva => "sva",
        }
    }

    /// How the names of the hunters begin that run once more for the part.
    pub(super) const fn hunts_again(self) -> Option<&'static str> {
        match self {
            Self::Compat => Some("32-bit "),
            Self::Va52 => Some("high "),
            Self::Modules | Self::Efi | Self::Sva => None,
        }
    }
}

/// The names of the parts, in the order of the type, after a separator each.
pub(super) fn names(parts: &[Part], separator: &str) -> String {
    let mut sorted = parts.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.iter().map(|part| format!("{separator}{}", part.name())).collect()
}

/// Refuses parts that the architecture has no tests of, and those that need another one.
pub(super) fn check(architecture: Architecture, parts: &[Part]) -> Result<()> {
    if !parts.is_empty() && architecture != Architecture::Arm64 {
        return Err(Failure::new(
            "--config is for arm64: the overlay refuses these parts elsewhere",
        ));
    }
    if parts.contains(&Part::Sva) && !parts.contains(&Part::Modules) {
        return Err(Failure::new("`sva` is tested by a module: --config modules,sva"));
    }
    Ok(())
}

/// What the parts need beside the rest: here, or installed, or named.
pub(super) fn tools(parts: &[Part]) -> Result<()> {
    let mut missing = Vec::new();
    let path = env::var_os("PATH").unwrap_or_default();
    let (compiler, packages) = COMPILER32;
    let is_here = env::split_paths(&path).any(|place| place.join(compiler).is_file());
    if parts.contains(&Part::Compat) && !is_here {
        missing.extend(packages);
    }
    if parts.contains(&Part::Efi) && !Path::new(FIRMWARE.0).is_file() {
        missing.push(FIRMWARE.1);
    }
    if missing.is_empty() { Ok(()) } else { setup::debian("What these parts need is", &missing) }
}

/// The configuration with those of the parts: of an option that is set twice, the last one stays.
pub(super) fn configuration(texts: &[String]) -> String {
    let lines: Vec<_> = texts.iter().flat_map(|text| text.lines()).collect();
    let mut kept = String::new();
    for (at, line) in lines.iter().enumerate() {
        let is_set_again = option(line)
            .is_some_and(|name| lines[at + 1..].iter().any(|other| option(other) == Some(name)));
        if !is_set_again {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The option that a line sets or clears.
fn option(line: &str) -> Option<&str> {
    let cleared = line.strip_prefix("# ").and_then(|rest| rest.strip_suffix(" is not set"));
    let set = line.split_once('=').map(|(name, _)| name);
    cleared.or(set).filter(|name| name.starts_with("CONFIG_"))
}

/// What QEMU is told beside the rest: the firmware, which hands the device tree on and no tables of ACPI.
pub(super) fn firmware(parts: &[Part]) -> Option<(&'static str, &'static str)> {
    parts.contains(&Part::Efi).then_some(("virt,acpi=off", FIRMWARE.0))
}

/// Files of the initramfs: the hunters as a program of 32 bits, and the module that was built with the kernel in `built`.
pub(super) fn files(
    workspace: &Workspace,
    parts: &[Part],
    built: &Path,
) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    if parts.contains(&Part::Compat) {
        let program = workspace.root().join(workspace.target().join("linux/init-armhf"));
        process::run(build::programs(workspace, COMPILER32.0).arg("-o").arg(&program))?;
        files.push(("init32".to_owned(), program));
    }
    if parts.contains(&Part::Modules) {
        let file = format!("{MODULE}.ko");
        files.push((file.clone(), workspace.root().join(built).join(MODULE_FOLDER).join(file)));
    }
    Ok(files)
}

/// Builds the module outside of Linux's tree, for the kernel in `built`, by a `make` that is told all but what it makes.
pub(super) fn module(workspace: &Workspace, make: &mut Command, built: &Path) -> Result<()> {
    let folder = workspace.root().join(built).join(MODULE_FOLDER);
    fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
    for file in ["Kbuild".to_owned(), format!("{MODULE}.c")] {
        build::write(&folder.join(&file), &workspace.read(&format!("linux/module/{file}"))?)?;
    }
    process::run(make.arg(format!("M={}", folder.display())).arg("modules"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_option_that_is_set_twice_the_last_one_stays() {
        let texts =
            ["# a\nCONFIG_A=y\n# CONFIG_B is not set\n", "CONFIG_B=y\n# CONFIG_A is not set\n"];
        let merged = configuration(&texts.map(str::to_owned));
        assert_eq!(merged, "# a\nCONFIG_B=y\n# CONFIG_A is not set\n");
    }

    #[test]
    fn parts_are_named_in_one_order_and_are_for_arm64() {
        assert_eq!(names(&[Part::Efi, Part::Modules, Part::Efi], "-"), "-modules-efi");
        assert!(check(Architecture::Riscv64, &[Part::Efi]).is_err());
        assert!(check(Architecture::Arm64, &[Part::Sva]).is_err());
        assert!(check(Architecture::Riscv64, &[]).is_ok());
    }
}
