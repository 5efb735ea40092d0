//! The static library of the C interface: built, made one object, checked, and laid out as a kernel's build takes it.

mod archive;
mod check;
mod example;
mod float;
mod link;
mod prefix;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::{Args, ValueEnum};

pub(crate) use self::example::{CMAKE_NOT_HERE, is_cmake_here, is_compiler_here};
use crate::{
    failure::{Context, Failure, Result},
    process,
    setup::{self, BareMetal},
    workspace::Workspace,
};

/// The package.
const PACKAGE: &str = "lookaside-c";
/// Flags for its compiler beyond those that each target gets, for what a kernel's configuration asks for.
const MORE_FLAGS: &str = "LOOKASIDE_RUSTFLAGS";

/// What is to be built.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Build for this target only.
    #[arg(long)]
    target: Option<Target>,
    /// The most CPUs: the macro of the header. 64 if it is not given.
    #[arg(long, value_name = "N")]
    max_cpus: Option<u32>,
    /// A debug build: with assertions, and a check of each load of a root. In `target/capi/TARGET-checked`.
    #[arg(long)]
    checked: bool,
    /// Compile and run the examples with the library of the host.
    #[arg(long)]
    example: bool,
}

/// For what the library is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Programs on this machine, which are the hardware themselves.
    Host,
    /// AArch64 kernels.
    Aarch64,
    /// RISC-V kernels with 64 bits, of the soft-float ABI.
    Riscv64,
    /// x86-64 kernels.
    #[value(name = "x86_64")]
    X86_64,
}

impl Target {
    /// Those that kernels link.
    pub(crate) const KERNELS: [Self; 3] = [Self::Aarch64, Self::Riscv64, Self::X86_64];

    /// What rustc calls it; none on the host.
    const fn triple(self) -> Option<&'static str> {
        match self {
            Self::Host => None,
            Self::Aarch64 => Some("aarch64-unknown-none-softfloat"),
            Self::Riscv64 => Some("riscv64imac-unknown-none-elf"),
            Self::X86_64 => Some("x86_64-unknown-none"),
        }
    }

    /// Its name on the command line and in paths.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Aarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
            Self::X86_64 => "x86_64",
        }
    }

    /// Flags without which its code is none for a kernel.
    const fn flags(self) -> &'static str {
        match self {
            Self::Host => "-Crelocation-model=pic",
            // Atomics in line: functions that choose at run time are not there in a kernel.
            Self::Aarch64 => "-Crelocation-model=static -Ctarget-feature=-outline-atomics",
            Self::Riscv64 => "-Crelocation-model=static",
            // As Linux compiles itself: no table of offsets.
            Self::X86_64 => "-Crelocation-model=static -Ccode-model=kernel",
        }
    }
}

/// Builds what was asked for.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let all = core::iter::once(Target::Host).chain(Target::KERNELS);
    let chosen: Vec<_> =
        all.filter(|target| options.target.is_none_or(|one| one == *target)).collect();
    let triples: Vec<_> = chosen.iter().filter_map(|target| target.triple()).collect();
    let bare = setup::targets(workspace, &triples)?;
    for target in chosen {
        let Options { max_cpus, checked: is_checked, .. } = *options;
        build(workspace, &bare, &Build { target, max_cpus, is_checked })?;
    }
    if options.example {
        examples(workspace, &bare)?;
    }
    Ok(())
}

/// Compiles and runs the examples with the library of the host.
pub(crate) fn examples(workspace: &Workspace, bare: &BareMetal) -> Result<()> {
    let host = Build::of(Target::Host);
    let checked = build(workspace, bare, &Build { is_checked: true, ..host })?;
    example::run_checked(workspace, &checked)?;
    example::run(workspace, &build(workspace, bare, &host)?)
}

/// Compiles the examples as CMake and pkg-config say.
pub(crate) fn with_cmake(workspace: &Workspace, bare: &BareMetal) -> Result<()> {
    let prefix = build(workspace, bare, &Build::of(Target::Host))?;
    example::with_cmake(workspace, &prefix)
}

/// One build of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Build {
    pub(crate) target: Target,
    /// 64 if it is not given.
    pub(crate) max_cpus: Option<u32>,
    /// Whether it has assertions, and checks each load of a root.
    pub(crate) is_checked: bool,
}

impl Build {
    /// That for 64 CPUs.
    pub(crate) const fn of(target: Target) -> Self {
        Self { target, max_cpus: None, is_checked: false }
    }
}

/// Builds the library, checks it, and returns where it is laid out.
pub(crate) fn build(workspace: &Workspace, bare: &BareMetal, build: &Build) -> Result<PathBuf> {
    let Build { target, max_cpus, is_checked } = *build;
    let directory = workspace.target().join("capi");
    let suffix = if is_checked { "-checked" } else { "" };
    let prefix = directory.join(format!("{}{suffix}", target.name()));
    let library = compile(workspace, bare, build, &directory)?;
    let object = archive::member_with(&read(&library)?, "lookaside_init_as")?;
    fs::create_dir_all(&prefix).context(|| format!("making {}", prefix.display()))?;
    let mut linked = link::one_object(&object, &check::functions(workspace)?, &prefix)?;
    if target == Target::X86_64 {
        link::without_offset_table(&mut linked)?;
    }
    check::check(workspace, target, &linked)?;
    prefix::lay_out(workspace, target, max_cpus, &linked, &prefix)?;
    println!("{} is there for {}", prefix.display(), target.name());
    Ok(prefix)
}

/// Compiles the archive.
fn compile(
    workspace: &Workspace,
    bare: &BareMetal,
    build: &Build,
    directory: &Path,
) -> Result<PathBuf> {
    let Build { target, max_cpus, is_checked } = *build;
    let mut command = match target.triple() {
        Some(triple) => bare.cargo_for(PACKAGE, "core", "rustc", triple),
        None => {
            let mut command = setup::cargo();
            // With the name of the target, flags are not for what the build itself runs.
            command.args(["rustc", "--package", PACKAGE, "--target", &host()?]);
            command
        }
    };
    let more = env::var(MORE_FLAGS).unwrap_or_default();
    let build = directory.join("build");
    command
        .current_dir(workspace.root())
        .args(["--quiet", "--features", if is_checked { "checked" } else { "exports" }])
        .args(["--crate-type", "staticlib", "--profile", "capi"])
        .args(["--config", &format!("profile.capi.debug-assertions={is_checked}")])
        .env("CARGO_TARGET_DIR", &build)
        .env("RUSTFLAGS", format!("{} {more}", target.flags()).trim_end());
    match max_cpus {
        Some(cpus) => command.env("LOOKASIDE_MAX_CPUS", cpus.to_string()),
        None => command.env_remove("LOOKASIDE_MAX_CPUS"),
    };
    process::run(&mut command)?;
    let triple = target.triple().map_or_else(host, |triple| Ok(triple.to_owned()))?;
    Ok(build.join(triple).join("capi").join("liblookaside_c.a"))
}

/// The target of this machine's compiler.
fn host() -> Result<String> {
    let printed = process::output(Command::new("rustc").args(["--version", "--verbose"]))?;
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::new("rustc does not say for what it compiles"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).context(|| format!("reading {}", path.display()))
}

fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
    }
    // What is the same keeps its time, by which a kernel's `make` goes.
    if fs::read(path).is_ok_and(|old| old == contents.as_ref()) {
        return Ok(());
    }
    fs::write(path, contents).context(|| format!("writing {}", path.display()))
}
