//! stress-ng: Debian's binary package of the architecture that is booted, and the shared libraries that it needs, fetched by apt into a
//! root of its own, so that nothing is installed or configured here. Where this Debian is too old for the architecture, the package is that
//! of the first release that has it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Architecture, runs::Programs};
use crate::{
    failure::{Context, Failure, Result},
    process,
    workspace::Workspace,
};

const PACKAGE: &str = "stress-ng";
/// Written when all packages are unpacked.
const UNPACKED: &str = ".unpacked";

impl Architecture {
    /// As Debian calls it.
    const fn debian(self) -> &'static str {
        match self {
            Self::Arm64 => "arm64",
            Self::Riscv64 => "riscv64",
            Self::X86_64 => "amd64",
        }
    }

    /// The first release of Debian that has the architecture, if this machine's may be an older one.
    const fn first_release(self) -> Option<&'static str> {
        match self {
            Self::Riscv64 => Some("trixie"),
            Self::Arm64 | Self::X86_64 => None,
        }
    }
}

/// The list of its runs, the program, its interpreter and its libraries.
pub(super) fn programs(workspace: &Workspace, architecture: Architecture) -> Result<Programs> {
    let root = unpacked(workspace, architecture)?;
    let program = root.join("usr/bin").join(PACKAGE);
    let readelf = format!("{}readelf", architecture.cross());
    let triple = architecture.cross().trim_end_matches('-');
    let folders = [root.join("lib").join(triple), root.join("usr/lib").join(triple)];
    let find = |name: &str| {
        folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()).ok_or_else(
            || Failure::new(format!("{name}, which {PACKAGE} needs, is in none of its packages")),
        )
    };
    let asked = |option: &str, file: &Path| {
        process::output(Command::new(&readelf).args([option, "--wide"]).arg(file))
    };
    let interpreter = interpreter(&asked("--program-headers", &program)?)
        .ok_or_else(|| Failure::new(format!("{} has no interpreter", program.display())))?;
    let mut files = BTreeMap::new();
    files.insert(interpreter.clone(), find(file_name(&interpreter))?);
    let mut asking = vec![program.clone()];
    files.insert(format!("runs/{PACKAGE}"), program);
    while let Some(file) = asking.pop() {
        for name in needed(&asked("--dynamic", &file)?) {
            // One of the places in which every interpreter looks.
            let place = format!("lib/{name}");
            if !files.contains_key(&place) && name != file_name(&interpreter) {
                let library = find(&name)?;
                asking.push(library.clone());
                files.insert(place, library);
            }
        }
    }
    Ok(Programs { list: workspace.read("linux/runs/stress")?, files: files.into_iter().collect() })
}

/// The packages, fetched and unpacked if they are not there.
fn unpacked(workspace: &Workspace, architecture: Architecture) -> Result<PathBuf> {
    let linux = workspace.root().join(workspace.target()).join("linux");
    let folder = linux.join(format!("{PACKAGE}-{}", architecture.name()));
    let root = folder.join("root");
    if root.join(UNPACKED).is_file() {
        return Ok(root);
    }
    let apt = folder.join("apt");
    for folder in ["state/lists/partial", "cache/archives/partial"] {
        make_folder(&apt.join(folder))?;
    }
    // Nothing is installed, as this says: what it needs is fetched as well.
    let status = apt.join("status");
    fs::write(&status, "").context(|| format!("writing {}", status.display()))?;
    let option = |name: &str, value: String| format!("-o{name}={value}");
    let options = [
        option("Dir::State", apt.join("state").display().to_string()),
        option("Dir::State::status", status.display().to_string()),
        option("Dir::Cache", apt.join("cache").display().to_string()),
        option("APT::Architecture", architecture.debian().to_owned()),
        option("APT::Architectures", architecture.debian().to_owned()),
    ];
    let fetched = fetch(&options, &[]).or_else(|failure| {
        let Some(release) = architecture.first_release() else { return Err(failure) };
        println!(
            "linux: this Debian has no {PACKAGE} of {}: that of {release}",
            architecture.debian()
        );
        let sources = apt.join("sources.list");
        fs::write(&sources, format!("deb {} {release} main\n", mirror()?))
            .context(|| format!("writing {}", sources.display()))?;
        let others = [
            option("Dir::Etc::sourcelist", sources.display().to_string()),
            option("Dir::Etc::sourceparts", "-".to_owned()),
        ];
        fetch(&options, &others)
    });
    fetched.map_err(|failure: Failure| {
        Failure::new(format!(
            "Debian's package {PACKAGE} of {} cannot be fetched ({failure}); unpack it, with what it depends on, into {}, \
             and make a file {UNPACKED} there",
            architecture.debian(),
            root.display()
        ))
    })?;
    if root.exists() {
        fs::remove_dir_all(&root).context(|| format!("removing {}", root.display()))?;
    }
    make_folder(&root)?;
    let archives = apt.join("cache/archives");
    let entries = fs::read_dir(&archives).context(|| format!("reading {}", archives.display()))?;
    for package in entries.flatten().map(|entry| entry.path()) {
        if package.extension().is_some_and(|extension| extension == "deb") {
            process::run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root))?;
        }
    }
    fs::write(root.join(UNPACKED), "").context(|| "marking the packages".to_owned())?;
    Ok(root)
}

/// Fetches the package and what it needs.
fn fetch(options: &[String], more: &[String]) -> Result<()> {
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        process::run(command.args(options).args(more).args(words))
    };
    apt(&["update", "--quiet"])?;
    apt(&["install", "--yes", "--quiet", "--no-install-recommends", "--download-only", PACKAGE])
}

/// From where this machine has its Debian.
fn mirror() -> Result<String> {
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(REPO_URI)"]);
    command.args(["Created-By: Packages", "Origin: Debian", "Label: Debian"]);
    let printed = process::output(&mut command)?;
    let first = printed.lines().next();
    first.map(str::to_owned).ok_or_else(|| Failure::new("apt-get names no mirror of Debian"))
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))
}

/// The last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The program that loads libraries, in what `readelf --program-headers` prints; without the first slash.
fn interpreter(printed: &str) -> Option<String> {
    let (_, after) = printed.split_once("Requesting program interpreter: /")?;
    Some(after.split(']').next()?.to_owned())
}

/// The libraries, in what `readelf --dynamic` prints.
fn needed(printed: &str) -> Vec<String> {
    let name = |line: &str| {
        let (_, after) = line.split_once("(NEEDED)")?;
        Some(after.split_once('[')?.1.split(']').next()?.to_owned())
    };
    printed.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_needs_is_read_from_readelf() {
        let printed = "  INTERP 0x0238\n      [Requesting program interpreter: /lib64/ld.so.2]\n";
        assert_eq!(interpreter(printed).as_deref(), Some("lib64/ld.so.2"));
        assert_eq!(interpreter("There are no program headers in this file."), None);
        let printed = " 0x01 (NEEDED)    Shared library: [libm.so.6]\n 0x0e (SONAME)  Library soname: [a.so]\n \
                       0x01 (NEEDED)    Shared library: [libc.so.6]\n";
        assert_eq!(needed(printed), ["libm.so.6", "libc.so.6"]);
        assert_eq!(file_name("lib64/ld.so.2"), "ld.so.2");
    }
}
