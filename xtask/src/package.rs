//! Every crate that is published, packed as for the registry, and built where nothing of this repository is beside it.

use std::{env, fs, path::Path, process::Command};

use crate::{
    failure::{Context, Failure, Result},
    process, registry,
    setup::{self, BareMetal},
    workspace::Workspace,
};

/// What stays in the repository.
const UNPUBLISHED: [&str; 4] =
    ["xtask", "lookaside-loom", "lookaside-playground", "lookaside-adapters-machine"];

/// What kernels link, on every target and with the oldest Rust.
pub(crate) const LIBRARIES: [&str; 4] =
    ["lookaside", "lookaside-testkit", "lookaside-locks", "lookaside-c"];

/// What each archive must have at its root.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Rehearses the publication, packs, looks into manifests and archives, and builds what is in them.
pub(crate) fn run(
    workspace: &Workspace,
    bare: &BareMetal,
    libraries: &[&str],
    targets: &[&str],
) -> Result<()> {
    registry::one_address(workspace)?;
    registry::rehearse(workspace, &UNPUBLISHED)?;
    let archives = pack(workspace)?;
    let unpacked = env::temp_dir().join(format!("lookaside-packed-{}", std::process::id()));
    fs::create_dir_all(&unpacked).context(|| format!("creating {}", unpacked.display()))?;
    let built = build(&unpacked, &archives, bare, libraries, targets);
    // What was not built is looked at where it lies.
    if built.is_ok() {
        fs::remove_dir_all(&unpacked).context(|| format!("removing {}", unpacked.display()))?;
    }
    built
}

/// An archive: the package, its version, and the file.
struct Archive {
    name: String,
    version: String,
    file: std::path::PathBuf,
}

impl Archive {
    fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

fn pack(workspace: &Workspace) -> Result<Vec<Archive>> {
    let mut command = setup::cargo();
    command.current_dir(workspace.root());
    // All that it takes was fetched for the steps before, and without network each archive would wait for it.
    command.args(["package", "--workspace", "--no-verify", "--allow-dirty", "--offline"]);
    process::run(command.args(UNPUBLISHED.map(|package| format!("--exclude={package}"))))?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut packages = registry::metadata(workspace)?;
    packages.retain(|package| !UNPUBLISHED.contains(&text(&package["name"]).as_str()));
    registry::check(packages.iter())?;
    let archives: Vec<Archive> = packages
        .iter()
        .map(|package| (text(&package["name"]), text(&package["version"])))
        .map(|(name, version)| {
            let file = workspace.target().join(format!("package/{name}-{version}.crate"));
            Archive { name, version, file }
        })
        .collect();
    for archive in &archives {
        let listed = process::output(Command::new("tar").arg("-tzf").arg(&archive.file))?;
        let folder = archive.folder();
        let missing = missing(&folder, &listed);
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(Failure::new(format!("the archive of `{folder}` lacks {missing}")));
        }
    }
    println!("package: {} archives, each with its licences and README", archives.len());
    Ok(archives)
}

/// The files that are not in the list of an archive.
fn missing(folder: &str, listed: &str) -> Vec<&'static str> {
    let is_listed = |file: &str| listed.lines().any(|line| line == format!("{folder}/{file}"));
    FILES.into_iter().filter(|file| !is_listed(file)).collect()
}

/// Unpacks the archives side by side, as members of a workspace in which each stands for its name in the registry.
fn build(
    folder: &Path,
    archives: &[Archive],
    bare: &BareMetal,
    libraries: &[&str],
    targets: &[&str],
) -> Result<()> {
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"*-*.*.*\"]\n".to_owned();
    manifest.push_str("\n[patch.crates-io]\n");
    for archive in archives {
        process::run(Command::new("tar").arg("-C").arg(folder).arg("-xzf").arg(&archive.file))?;
        manifest.push_str(&format!("{} = {{ path = \"{}\" }}\n", archive.name, archive.folder()));
    }
    let file = folder.join("Cargo.toml");
    fs::write(&file, manifest).context(|| format!("writing {}", file.display()))?;
    for target in targets {
        for library in libraries {
            let mut command = bare.cargo_for(library, "core", "build", target);
            process::run(
                command.current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target")),
            )?;
        }
    }
    let mut command = setup::cargo();
    command.current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    process::run(command.args(["check", "--workspace"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_archive_lacks_is_named() {
        let listed = "a-1.0.0/Cargo.toml\na-1.0.0/LICENSE-MIT\na-1.0.0/docs/README.md\n";
        assert_eq!(missing("a-1.0.0", listed), ["README.md", "LICENSE-APACHE"]);
    }
}
