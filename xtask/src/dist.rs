//! Archives of the command line for machines without a toolchain: a program that needs no library of the system,
//! its licences, what it is made of (CycloneDX), and checksums.

use std::{fs, path::Path, process::Command};

use crate::{
    failure::{Context, Failure, Result},
    process, setup,
    workspace::Workspace,
};

/// Where the archives run if nothing else is asked for.
pub(crate) const TARGETS: [&str; 1] = ["x86_64-unknown-linux-musl"];

/// What stands beside the program.
const FILES: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md", "lab/README.md"];

const PACKAGE: &str = "lookaside-cli";

/// Builds, collects, packs and sums up.
pub(crate) fn run(workspace: &Workspace, targets: &[String]) -> Result<()> {
    if !process::succeeds(setup::cargo().args(["cyclonedx", "--version"])) {
        return Err(Failure::new(
            "cargo-cyclonedx, which lists what the program is made of, is missing: \
             cargo install --locked cargo-cyclonedx",
        ));
    }
    let folder = workspace.target().join("dist");
    if folder.exists() {
        fs::remove_dir_all(&folder).context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).context(|| format!("creating {}", folder.display()))?;
    let mut archives = Vec::new();
    for target in targets {
        archives.push(archive(workspace, &folder, target)?);
    }
    let mut sums = Command::new("sha256sum");
    let sums = process::output(sums.current_dir(&folder).args(&archives))?;
    fs::write(folder.join("SHA256SUMS"), &sums).context(|| "writing SHA256SUMS".to_owned())?;
    print!("dist: in {}:\n{sums}", folder.display());
    Ok(())
}

/// Makes the archive of a target, and returns its name.
fn archive(workspace: &Workspace, folder: &Path, target: &str) -> Result<String> {
    has_target(target)?;
    if target == TARGETS[0] && !process::succeeds(Command::new("musl-gcc").arg("--version")) {
        setup::debian("musl-gcc, for the parts in C,", &["musl-tools"])?;
    }
    let mut build = setup::cargo();
    build.current_dir(workspace.root()).args([
        "build",
        "--release",
        "--locked",
        "--target",
        target,
    ]);
    process::run(build.args(["--package", PACKAGE]))?;
    let name = format!("lookaside-{}-{target}", env!("CARGO_PKG_VERSION"));
    let to = folder.join(&name);
    fs::create_dir_all(&to).context(|| format!("creating {}", to.display()))?;
    let copy = |from: &Path, name: &str| {
        fs::copy(from, to.join(name)).context(|| format!("copying {}", from.display()))
    };
    let program = if target.contains("windows") { "lookaside.exe" } else { "lookaside" };
    copy(&workspace.target().join(target).join("release").join(program), program)?;
    for file in FILES {
        let short = file.rsplit('/').next().unwrap_or(file);
        copy(&workspace.root().join(file), short)?;
    }
    copy(&bill(workspace, target)?, "lookaside.cdx.json")?;
    let archive = format!("{name}.tar.gz");
    // The same content gives the same bytes.
    let mut tar = Command::new("tar");
    tar.current_dir(folder).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    process::run(tar.args(["--mtime=@0", "-czf", &archive, &name]))?;
    fs::remove_dir_all(&to).context(|| format!("removing {}", to.display()))?;
    Ok(archive)
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
fn bill(workspace: &Workspace, target: &str) -> Result<std::path::PathBuf> {
    let name = "lookaside-dist";
    let mut command = setup::cargo();
    command.current_dir(workspace.root().join("lab"));
    command.args(["cyclonedx", "--format", "json", "--target", target]);
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
