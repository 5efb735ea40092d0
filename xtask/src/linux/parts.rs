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
    /// Addresses of 52 bits (FEAT_LPA2 with pages of 4 and 16 KiB, or FEAT_LVA with those of 64 KiB): the hunters once more, above 48 bits.
    Va52,
    /// CPUs that may share entries of TLBs (FEAT_TTCNP, Common not Private).
    Cnp,
    /// Suspend to idle.
    Suspend,
    /// The kernel is loaded by itself after the tests (kexec), and runs them once more.
    Kexec,
    /// Pages of 16 KiB.
    Pages16k,
    /// Pages of 64 KiB.
    Pages64k,
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
            Self::Cnp => "cnp",
            Self::Suspend => "suspend",
            Self::Kexec => "kexec",
            Self::Pages16k => "pages16k",
            Self::Pages64k => "pages64k",
            Self::Sva => "sva",
        }
    }

    /// How the names of the hunters begin that run once more for the part.
    pub(super) const fn hunts_again(self) -> Option<&'static str> {
        match self {
            Self::Compat => Some("32-bit "),
            Self::Va52 => Some("high "),
            _ => None,
        }
    }

    /// How the names of its tests begin; shared entries and pages of another size are in all tests.
    const fn tested(self) -> Option<&'static str> {
        match self {
            Self::Modules => Some("module"),
            Self::Sva => Some("pins"),
            Self::Efi => Some("efi"),
            Self::Suspend => Some("suspend"),
            Self::Kexec => Some("kexec"),
            Self::Compat | Self::Va52 => self.hunts_again(),
            Self::Cnp | Self::Pages16k | Self::Pages64k => None,
        }
    }
}

/// Each part once, in the order of the type.
pub(super) fn sorted(parts: &[Part]) -> Vec<Part> {
    let mut sorted = parts.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// The names of the parts, sorted, after a separator each.
pub(super) fn names(parts: &[Part], separator: &str) -> String {
    sorted(parts).iter().map(|part| format!("{separator}{}", part.name())).collect()
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
    if parts.contains(&Part::Suspend) && parts.contains(&Part::Efi) {
        return Err(Failure::new(
            "the firmware keeps the clock that ends a suspend to itself: `suspend` or `efi`",
        ));
    }
    if parts.contains(&Part::Pages16k) && parts.contains(&Part::Pages64k) {
        return Err(Failure::new("pages have one size: `pages16k` or `pages64k`"));
    }
    if parts.contains(&Part::Kexec) && parts.contains(&Part::Va52) {
        return Err(Failure::new(
            "Linux 6.12 cannot kexec with five levels of tables: `kexec` or `va52`",
        ));
    }
    Ok(())
}

/// Refuses a run in which a part has no test that passed.
pub(super) fn passed(parts: &[Part], lines: &[String]) -> Result<()> {
    for name in parts.iter().filter_map(|part| part.tested()) {
        if !lines.iter().any(|line| line.starts_with(&format!("PASS {name}"))) {
            return Err(Failure::new(format!("no test `{name}` was run")));
        }
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

/// Whether pages are of 4 KiB.
pub(super) fn has_small_pages(parts: &[Part]) -> bool {
    !parts.contains(&Part::Pages16k) && !parts.contains(&Part::Pages64k)
}

/// How much memory the machine has for the tests: two huge pages of 512 MiB take more than the others.
pub(super) fn memory(parts: &[Part]) -> &'static str {
    if parts.contains(&Part::Pages64k) { "3G" } else { "1G" }
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
        let mut compile = build::programs(workspace, COMPILER32.0);
        // Linux loads no segments that share one of its pages.
        compile.args(["-Wl,-z,max-page-size=65536", "-Wl,-z,common-page-size=65536", "-o"]);
        process::run(compile.arg(&program))?;
        files.push(("init32".to_owned(), program));
    }
    if parts.contains(&Part::Modules) {
        let file = format!("{MODULE}.ko");
        files.push((file.clone(), workspace.root().join(built).join(MODULE_FOLDER).join(file)));
    }
    Ok(files)
}

/// More files of the initramfs: what a kernel loads to run next.
pub(super) fn next(
    workspace: &Workspace,
    image: &Path,
    initramfs: &Path,
) -> Result<[(String, PathBuf); 2]> {
    let copy = workspace.target().join("linux/initramfs-next");
    fs::copy(initramfs, &copy).context(|| format!("copying {}", initramfs.display()))?;
    Ok([("image".to_owned(), image.to_owned()), ("initramfs".to_owned(), copy)])
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
        assert!(check(Architecture::Arm64, &[Part::Kexec, Part::Va52]).is_err());
        assert!(check(Architecture::Arm64, &[Part::Suspend, Part::Efi]).is_err());
        assert!(check(Architecture::Arm64, &[Part::Pages16k, Part::Pages64k]).is_err());
        assert!(check(Architecture::Riscv64, &[]).is_ok());
    }

    #[test]
    fn a_part_without_its_test_is_no_pass() {
        let lines = ["PASS boot: 4 CPUs", "PASS efi: 20 variables"].map(str::to_owned);
        assert!(passed(&[Part::Efi, Part::Pages64k], &lines).is_ok());
        assert!(passed(&[Part::Efi, Part::Kexec], &lines).is_err());
    }
}
