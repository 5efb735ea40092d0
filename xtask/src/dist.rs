//! Archives of the command line for machines without a toolchain: a program that needs no library of the system,
//! its licences, what it is made of (CycloneDX), and checksums.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use object::{
    Endianness, elf,
    read::elf::{ElfFile64, ProgramHeader as _},
};

use crate::{
    failure::{Context, Failure, Result},
    plugins::Plugin,
    process, setup,
    workspace::Workspace,
};

/// Where the archives run if nothing else is asked for.
pub(crate) const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// What stands beside the program.
const FILES: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md", "lab/README.md"];

const PACKAGE: &str = "lookaside-cli";

const BILLS: Plugin =
    Plugin { subcommand: "cyclonedx", purpose: "lists what a program is made of", cpu_minutes: 2 };

/// What a target needs beside Rust: the compiler of the parts in C, where Debian has it, and the linker of the whole.
struct Needs {
    target: &'static str,
    compiler: &'static str,
    debian: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Runs the program on a machine of another kind.
    emulator: Option<&'static str>,
}

const NEEDS: [Needs; 2] = [
    Needs {
        target: TARGETS[0],
        compiler: "musl-gcc",
        debian: &["musl-tools"],
        environment: &[],
        emulator: if cfg!(target_arch = "x86_64") { None } else { Some("qemu-x86_64-static") },
    },
    // Debian has no C compiler for musl on Arm64. The one for its own C library gives objects that need nothing of
    // that library as long as it neither checks buffers nor calls out for atomics.
    Needs {
        target: TARGETS[1],
        compiler: "aarch64-linux-gnu-gcc",
        debian: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        environment: &[
            ("CC_aarch64_unknown_linux_musl", "aarch64-linux-gnu-gcc"),
            ("CFLAGS_aarch64_unknown_linux_musl", "-U_FORTIFY_SOURCE -mno-outline-atomics"),
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"),
        ],
        emulator: if cfg!(target_arch = "aarch64") { None } else { Some("qemu-aarch64-static") },
    },
];

/// Builds, collects, packs and sums up.
pub(crate) fn run(workspace: &Workspace, targets: &[String]) -> Result<()> {
    let bills = BILLS.get(workspace)?;
    let folder = workspace.target().join("dist");
    if folder.exists() {
        fs::remove_dir_all(&folder).context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).context(|| format!("creating {}", folder.display()))?;
    let mut archives = Vec::new();
    for target in targets {
        archives.push(archive(workspace, &bills, &folder, target)?);
    }
    let mut sums = Command::new("sha256sum");
    let sums = process::output(sums.current_dir(&folder).args(&archives))?;
    fs::write(folder.join("SHA256SUMS"), &sums).context(|| "writing SHA256SUMS".to_owned())?;
    print!("dist: in {}:\n{sums}", folder.display());
    Ok(())
}

/// Makes the archive of a target, and returns its name.
fn archive(
    workspace: &Workspace,
    bills: &impl Fn() -> Command,
    folder: &Path,
    target: &str,
) -> Result<String> {
    has_target(target)?;
    let needs = NEEDS.iter().find(|needs| needs.target == target);
    let program = build(workspace, target, needs)?;
    if target.contains("linux") {
        is_static(&program)?;
    }
    if let Some(needs) = needs {
        runs(&program, needs)?;
    }
    let name = format!("lookaside-{}-{target}", env!("CARGO_PKG_VERSION"));
    let to = folder.join(&name);
    fs::create_dir_all(&to).context(|| format!("creating {}", to.display()))?;
    let copy = |from: &Path, name: &str| {
        fs::copy(from, to.join(name)).context(|| format!("copying {}", from.display()))
    };
    copy(&program, &program.file_name().unwrap_or_default().to_string_lossy())?;
    for file in FILES {
        let short = file.rsplit('/').next().unwrap_or(file);
        copy(&workspace.root().join(file), short)?;
    }
    copy(&bill(workspace, bills, target)?, "lookaside.cdx.json")?;
    let archive = format!("{name}.tar.gz");
    // The same content gives the same bytes.
    let mut tar = Command::new("tar");
    tar.current_dir(folder).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    process::run(tar.args(["--mtime=@0", "-czf", &archive, &name]))?;
    fs::remove_dir_all(&to).context(|| format!("removing {}", to.display()))?;
    Ok(archive)
}

fn build(workspace: &Workspace, target: &str, needs: Option<&Needs>) -> Result<PathBuf> {
    let mut command = setup::cargo();
    if let Some(needs) = needs {
        if !process::succeeds(Command::new(needs.compiler).arg("--version")) {
            setup::debian(&format!("{}, for the parts in C,", needs.compiler), needs.debian)?;
        }
        command.envs(needs.environment.iter().copied());
    }
    command.current_dir(workspace.root()).args(["build", "--release", "--locked"]);
    process::run(command.args(["--target", target, "--package", PACKAGE]))?;
    let program = if target.contains("windows") { "lookaside.exe" } else { "lookaside" };
    Ok(workspace.target().join(target).join("release").join(program))
}

/// Fails on a program that asks for a loader of the system, and so for its libraries.
fn is_static(program: &Path) -> Result<()> {
    let bytes = fs::read(program).context(|| format!("reading {}", program.display()))?;
    if loader_is_asked_for(&bytes).context(|| format!("reading {}", program.display()))? {
        let program = program.display();
        return Err(Failure::new(format!("{program} needs a loader: it is not static")));
    }
    Ok(())
}

fn loader_is_asked_for(bytes: &[u8]) -> object::read::Result<bool> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let endian = file.endian();
    Ok(file.elf_program_headers().iter().any(|part| part.p_type(endian) == elf::PT_INTERP))
}

/// Explores the example of the tour with the program, without an environment, if this machine or an emulator can run it.
fn runs(program: &Path, needs: &Needs) -> Result<()> {
    let mut command = Command::new(needs.emulator.map_or(program, Path::new));
    if let Some(emulator) = needs.emulator {
        if !process::succeeds(Command::new(emulator).arg("--version")) {
            println!("dist: there is no {emulator}: the program for {} was not run", needs.target);
            return Ok(());
        }
        command.arg(program);
    }
    process::run(command.env_clear().args(["explore", "tour"]))
}

fn has_target(target: &str) -> Result<()> {
    let sysroot = process::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib");
    if library.is_dir()
        || process::run(Command::new("rustup").args(["target", "add", target])).is_ok()
    {
        return Ok(());
    }
    Err(Failure::new(format!("no standard library for {target}: rustup target add {target}")))
}

/// The list of what the program is made of. cargo-cyclonedx writes one beside every manifest: they are removed again.
fn bill(workspace: &Workspace, bills: &impl Fn() -> Command, target: &str) -> Result<PathBuf> {
    let name = "lookaside-dist";
    let mut command = bills();
    command.current_dir(workspace.root().join("lab"));
    command.args(["--format", "json", "--target", target]);
    process::run(command.args(["--override-filename", name]))?;
    let written = format!("{name}.json");
    let kept = workspace.target().join("dist").join(format!("{target}.cdx.json"));
    fs::copy(workspace.root().join("lab").join(&written), &kept)
        .context(|| format!("copying {written}"))?;
    for file in workspace.files()?.iter().filter(|file| file.ends_with(&written)) {
        fs::remove_file(workspace.root().join(file)).context(|| format!("removing {file}"))?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_needs_a_loader_is_told_from_one_that_does_not() {
        // A header of ELF for 64 bits, little-endian, and one part of the program.
        let program = |kind: u32| {
            let mut bytes = vec![0; 64 + 56];
            bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
            bytes[20] = 1;
            bytes[32] = 64;
            bytes[52] = 64;
            bytes[54] = 56;
            bytes[56] = 1;
            bytes[64..68].copy_from_slice(&kind.to_le_bytes());
            bytes
        };
        assert_eq!(loader_is_asked_for(&program(elf::PT_INTERP)), Ok(true));
        assert_eq!(loader_is_asked_for(&program(elf::PT_LOAD)), Ok(false));
        assert!(loader_is_asked_for(b"#!/bin/sh").is_err());
    }
}
