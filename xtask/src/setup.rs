//! What the tests need beyond cargo itself: found, or installed, or named.
//!
//! The usual way is rustup. Where its server cannot be reached, the bare-metal targets can still be
//! built from the source of the standard library, which Debian packages: the stable compiler then
//! has to be told that it may use `-Zbuild-std` (`RUSTC_BOOTSTRAP=1`). Nothing but the bare-metal builds
//! is ever compiled in that way.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    failure::{Context, Failure, Result},
    process,
    workspace::Workspace,
};

/// The bare-metal targets that the library is built for. The kernel is built for the one of Arm that
/// uses no registers of floating point, and kernels in C take the objects of that one on RISC-V, too (`imac`). The last one has words of 32 bits: what is 64 bits wide must
/// be so there, too, and atomic.
pub(crate) const TARGETS: [&str; 6] = [
    "x86_64-unknown-none",
    "aarch64-unknown-none",
    "aarch64-unknown-none-softfloat",
    "riscv64gc-unknown-none-elf",
    "riscv64imac-unknown-none-elf",
    "armv7a-none-eabi",
];

/// The components of the toolchain that the checks run: its name for rustup, and for cargo.
const COMPONENTS: [(&str, &str); 2] = [("rustfmt", "fmt"), ("clippy", "clippy")];

/// What Debian calls a current toolchain with the source of its standard library.
const DEBIAN_PACKAGES: [&str; 4] =
    ["rustc-web", "cargo-web", "rust-web-src", "libstd-rust-web-dev"];

/// How the library is built for the bare-metal targets: with the compiled `core` of the target,
/// or, where that is missing, by the stand-in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BareMetal {
    missing: Vec<&'static str>,
    stand_in: StandIn,
}

/// A toolchain that builds `core` from the source beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StandIn {
    cargo: PathBuf,
    rustc: PathBuf,
}

impl BareMetal {
    /// Whether the compiled `core` of a target is here.
    pub(crate) fn is_installed(&self, target: &str) -> bool {
        !self.missing.contains(&target)
    }

    /// A cargo command for a package on one target, and for those crates of the standard library that
    /// it takes.
    pub(crate) fn cargo_for(
        &self,
        package: &str,
        crates: &str,
        subcommand: &str,
        target: &str,
    ) -> Command {
        let mut command;
        if self.is_installed(target) {
            command = cargo();
            command.arg(subcommand);
        } else {
            command = Command::new(&self.stand_in.cargo);
            command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", &self.stand_in.rustc);
            command.arg(subcommand).arg(format!("-Zbuild-std={crates}"));
        }
        command.args(["--package", package, "--target", target]);
        command
    }
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Finds what is needed, installs what is missing, and says how the bare-metal builds are done.
pub(crate) fn run(workspace: &Workspace, bench: bool) -> Result<BareMetal> {
    if !process::succeeds(Command::new("git").arg("--version")) {
        debian("git", &["git"])?;
    }
    if bench && !process::succeeds(Command::new("valgrind").arg("--version")) {
        debian("valgrind, which counts the instructions of the benchmarks,", &["valgrind"])?;
    }
    components()?;
    targets(workspace, &TARGETS)
}

/// Finds or installs these targets alone, which is what one build takes.
pub(crate) fn targets(workspace: &Workspace, wanted: &[&'static str]) -> Result<BareMetal> {
    if wanted.is_empty() {
        return Ok(BareMetal::default());
    }
    let sysroot = process::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    bare_metal(Path::new(sysroot.trim()), wanted, oldest_version(workspace)?)
}

/// A cargo command of the oldest Rust that the library promises to be built by, if rustup has it
/// or can get it.
pub(crate) fn oldest_cargo(workspace: &Workspace) -> Result<Option<Command>> {
    let (major, minor) = oldest_version(workspace)?;
    let toolchain = format!("{major}.{minor}.0");
    let here = || {
        process::succeeds(Command::new("rustup").args([
            "which",
            "--toolchain",
            &toolchain,
            "rustc",
        ]))
    };
    if !here() {
        rustup(&["toolchain", "install", "--profile=minimal", "--no-self-update"], &[&toolchain]);
    }
    Ok(here().then(|| {
        let mut command = Command::new("rustup");
        // What it builds runs for seconds: to optimise the crates of others for it takes minutes.
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        command.args(["run", &toolchain, "cargo"]);
        command
    }))
}

/// The `rust-version` of the workspace.
fn oldest_version(workspace: &Workspace) -> Result<(u32, u32)> {
    let manifest = workspace.read("Cargo.toml")?;
    let manifest: toml::Table = manifest.parse().context(|| "reading Cargo.toml".to_owned())?;
    let version = |table: &toml::Table| {
        let package = table.get("workspace")?.get("package")?;
        version(package.get("rust-version")?.as_str()?)
    };
    version(&manifest)
        .ok_or_else(|| Failure::new("Cargo.toml: `workspace.package` has no `rust-version`"))
}

fn components() -> Result<()> {
    let missing = missing_components();
    if missing.is_empty() {
        println!("setup: rustfmt and clippy are here");
        return Ok(());
    }
    rustup(&["component", "add"], &missing);
    let missing = missing_components();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} missing from the Rust toolchain, and rustup could not install it: with network \
         access, `rustup component add {}`",
        missing.join(" and "),
        missing.join(" "),
    )))
}

fn missing_components() -> Vec<&'static str> {
    COMPONENTS
        .into_iter()
        .filter(|(_, subcommand)| !process::succeeds(cargo().args([subcommand, "--version"])))
        .map(|(component, _)| component)
        .collect()
}

fn bare_metal(sysroot: &Path, wanted: &[&'static str], oldest: (u32, u32)) -> Result<BareMetal> {
    let missing = missing_targets(sysroot, wanted);
    if missing.is_empty() {
        println!("setup: found {}", wanted.join(", "));
        return Ok(BareMetal::default());
    }
    rustup(&["target", "add"], &missing);
    // Whether rustup said it failed does not matter, only what is there now: another process may
    // have installed the same target at the same moment.
    let missing = missing_targets(sysroot, wanted);
    if missing.is_empty() {
        return Ok(BareMetal::default());
    }
    println!("setup: rustup could not install {}", missing.join(", "));
    if let Some(stand_in) = source_toolchain(sysroot, oldest) {
        return Ok(BareMetal { missing, stand_in });
    }
    let explained = format!("the compiled targets {}", missing.join(", "));
    debian(&explained, &DEBIAN_PACKAGES).map_err(|failure| {
        Failure::new(format!(
            "{failure}, or, anywhere with access to rustup's server, `rustup target add {}`",
            missing.join(" ")
        ))
    })?;
    let stand_in = source_toolchain(sysroot, oldest).ok_or_else(|| {
        Failure::new(format!(
            "Debian's {} are installed, but hold no standard library source for Rust {}.{} or \
             later under /usr/lib/rustlib/src/rust/library.\nMissing: {}",
            DEBIAN_PACKAGES.join(", "),
            oldest.0,
            oldest.1,
            missing.join(", ")
        ))
    })?;
    Ok(BareMetal { missing, stand_in })
}

fn missing_targets(sysroot: &Path, wanted: &[&'static str]) -> Vec<&'static str> {
    let is_here = |target: &str| has_core(&sysroot.join("lib/rustlib").join(target).join("lib"));
    wanted.iter().copied().filter(|target| !is_here(target)).collect()
}

/// Whether a compiled `core` is in a directory. The directory alone proves nothing: an installation
/// that was broken off may leave it behind.
fn has_core(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
        })
    })
}

/// Asks rustup, if there is one, to install something. Whether it did is for the caller to see.
fn rustup(what: &[&str], names: &[&str]) {
    if !process::succeeds(Command::new("rustup").arg("--version")) {
        println!("setup: {} missing, and there is no rustup to install it", names.join(", "));
        return;
    }
    println!("setup: installing with rustup: {}", names.join(", "));
    if let Err(failure) = process::run(Command::new("rustup").args(what).args(names)) {
        println!("setup: {failure}");
    }
}

/// Installs Debian packages if we may, or says what to install.
pub(crate) fn debian(what: &str, packages: &[&str]) -> Result<()> {
    let advice = |why: &str| {
        let packages = packages.join(" ");
        Failure::new(format!(
            "{what} missing ({why}): on Debian, as root, `apt-get install \
             --no-install-recommends {packages}`"
        ))
    };
    let root = process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !root {
        return Err(advice("this is not root, so nothing was tried"));
    }
    if !process::succeeds(Command::new("apt-get").arg("--version")) {
        return Err(advice("there is no apt-get here"));
    }
    println!("setup: installing with apt-get: {}", packages.join(", "));
    let mut install = Command::new("apt-get");
    install
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages);
    process::run(Command::new("apt-get").args(["update", "--quiet"]))
        .and_then(|()| process::run(&mut install))
        .map_err(|_| advice("apt-get, see above, could not install it"))
}

/// A toolchain that has the source of its standard library: ours, or Debian's.
fn source_toolchain(sysroot: &Path, oldest: (u32, u32)) -> Option<StandIn> {
    if has_source(sysroot) {
        println!("setup: the bare-metal targets are built from the toolchain's own source");
        let cargo = PathBuf::from(cargo().get_program());
        return Some(StandIn { cargo, rustc: "rustc".into() });
    }
    let (cargo, rustc) = (PathBuf::from("/usr/bin/cargo"), PathBuf::from("/usr/bin/rustc"));
    let printed = process::output(Command::new(&rustc).arg("--version")).ok()?;
    let new_enough = printed.split_whitespace().nth(1).and_then(version) >= Some(oldest);
    let found = new_enough && cargo.is_file() && has_source(Path::new("/usr"));
    found.then(|| {
        println!("setup: the bare-metal targets are built from source by {}", printed.trim());
        StandIn { cargo, rustc }
    })
}

fn has_source(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib/src/rust/library/Cargo.toml").is_file()
}

/// Major and minor version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("1.96.0"), Some((1, 96)));
        assert_eq!(version("2.0.1-nightly"), Some((2, 0)));
        assert_eq!(version("stable"), None);
        assert!(version("1.100.0") > version("1.88"));
        assert!(None < version("1.88"), "no compiler is older than any");
    }

    #[test]
    fn the_stand_in_builds_core_from_source_with_its_own_compiler() {
        let stand_in = StandIn { cargo: "/usr/bin/cargo".into(), rustc: "/usr/bin/rustc".into() };
        let bare = BareMetal { missing: vec![TARGETS[1]], stand_in };
        assert!(bare.is_installed(TARGETS[0]) && !bare.is_installed(TARGETS[1]));
        assert_eq!(
            process::spelled(&bare.cargo_for("lookaside", "core", "build", TARGETS[1])),
            "RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 /usr/bin/cargo build -Zbuild-std=core \
             --package lookaside --target aarch64-unknown-none"
        );
        let kernel = bare.cargo_for("kernel", "core,alloc", "build", TARGETS[1]);
        assert!(process::spelled(&kernel).contains(" -Zbuild-std=core,alloc --package kernel "));
    }
}
