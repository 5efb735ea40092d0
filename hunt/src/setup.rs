//! QEMU 10 for a system whose own is older: Debian's packages, unpacked into a folder of this project. Nothing is
//! installed, and apt's own lists stay as they are.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::run::store;

/// Where Debian's keys are, on Debian.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The packages: for the emulators, and for what they load.
const PACKAGES: [&str; 8] = [
    "qemu-system-misc",
    "qemu-system-riscv",
    "qemu-system-arm",
    "qemu-system-x86",
    "seabios",
    "qemu-system-common",
    "qemu-system-data",
    "opensbi",
];

pub(crate) fn run() -> Result<(), String> {
    let folder = store();
    let suite = suite()?;
    for name in
        ["apt/lists/partial", "apt/cache/archives/partial", "apt/sources", "packages", "root"]
    {
        fs::create_dir_all(folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
    }
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let source = format!(
        "Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\nArchitectures: amd64\n\
         Signed-By: {KEYS}\n",
        mirror()?
    );
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    write("apt/sources/hunt.sources", &source)?;
    write("apt/status", "")?;
    println!(
        "setup: unpacking QEMU 10 from Debian's {suite} into {}",
        folder.join("root").display()
    );
    apt(&folder, "update", &[], &folder)?;
    let wanted: Vec<String> = PACKAGES.iter().map(|name| format!("{name}/{suite}")).collect();
    apt(&folder, "download", &wanted, &folder.join("packages"))?;
    let packages = fs::read_dir(folder.join("packages")).map_err(|error| error.to_string())?;
    for package in packages.flatten() {
        let done = Command::new("dpkg-deb")
            .arg("-x")
            .arg(package.path())
            .arg(folder.join("root"))
            .status();
        if !done.is_ok_and(|status| status.success()) {
            return Err(format!("dpkg-deb could not unpack {}", package.path().display()));
        }
    }
    println!("setup: done");
    Ok(())
}

/// Where this system gets Debian's packages from.
fn mirror() -> Result<String, String> {
    let asked = Command::new("apt-get")
        .args([
            "indextargets",
            "--format",
            "$(REPO_URI)",
            "Created-By: Packages",
            "Component: main",
        ])
        .output();
    let text = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.map_err(|error| format!("apt-get: {error}"))?;
    let first = text.lines().find(|address| !address.contains("security"));
    first
        .map(str::to_owned)
        .ok_or_else(|| "apt-get knows no source of Debian's packages".to_owned())
}

/// The suite that has QEMU 10 for this system's libraries.
fn suite() -> Result<&'static str, String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if release.contains("VERSION_ID=\"12\"") && release.contains("ID=debian") {
        return Ok("bookworm-backports");
    }
    Err("setup knows only Debian 12. Debian 13 and later have a QEMU that is new enough: \
         apt-get install qemu-system-misc qemu-system-arm qemu-system-x86. Elsewhere, build QEMU 10 with --enable-plugins and name \
         its folder in LOOKASIDE_QEMU."
        .into())
}

fn apt(folder: &Path, verb: &str, words: &[String], at: &Path) -> Result<(), String> {
    let option = |name: &str, value: &Path| format!("{name}={}", value.display());
    let options = [
        option("Dir::Etc::sourcelist", Path::new("/dev/null")),
        option("Dir::Etc::sourceparts", &folder.join("apt/sources")),
        option("Dir::State::lists", &folder.join("apt/lists")),
        option("Dir::State::status", &folder.join("apt/status")),
        option("Dir::Cache", &folder.join("apt/cache")),
    ];
    let mut command = Command::new("apt-get");
    command.arg("-q").current_dir(at).stdout(Stdio::null());
    options.iter().for_each(|option| {
        command.args(["-o", option]);
    });
    let done = command.arg(verb).args(words).status();
    if done.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(format!(
        "apt-get {verb} failed; without network, name the folder of a QEMU 10 in LOOKASIDE_QEMU"
    ))
}
