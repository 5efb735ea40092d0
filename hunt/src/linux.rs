//! A user space for Linux: busybox, a script, and a workload that is compiled for the occasion.

use std::{fs, path::Path, process::Command};

use crate::{
    cpio::Archive,
    emulator::Machine,
    kernel::{Kernel, find},
};

const STRESS: &str = include_str!("../guest/stress.rs");
const INIT: &str = include_str!("../guest/init.sh");

/// Makes the archive for a kernel that wants one, in a scratch folder.
pub(crate) fn user_space(
    kernel: &Kernel,
    machine: &Machine,
    from: &Path,
    scratch: &Path,
) -> Result<Option<std::path::PathBuf>, String> {
    let Some(busybox) = &kernel.busybox else { return Ok(None) };
    let busybox = fs::read(find(from, busybox)?).map_err(|error| format!("busybox: {error}"))?;
    let mut archive = Archive::default();
    for name in ["bin", "dev", "proc"] {
        archive.folder(name);
    }
    archive.device("dev/console", (5, 1));
    archive.program("bin/busybox", &busybox);
    archive.program("init", INIT.as_bytes());
    archive.program("stress", &compile(machine, scratch)?);
    let file = scratch.join("initrd");
    fs::write(&file, archive.finish()).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Some(file))
}

/// Compiles the workload. It needs the bare-metal target of the guest, and nothing else.
fn compile(machine: &Machine, scratch: &Path) -> Result<Vec<u8>, String> {
    let (source, program) = (scratch.join("stress.rs"), scratch.join("stress"));
    let failed = |error: std::io::Error| format!("the workload cannot be compiled: {error}");
    fs::write(&source, STRESS).map_err(failed)?;
    let rounds = std::env::var("STRESS_ROUNDS").unwrap_or_else(|_| "1".to_owned());
    let output = Command::new("rustc")
        .env("STRESS_ROUNDS", rounds)
        .args(["--edition", "2024", "-O", "--target", machine.target])
        .args(["-C", "relocation-model=static", "-C", "panic=abort", "-C", "linker=rust-lld"])
        .arg("-o")
        .args([&program, &source])
        .output()
        .map_err(failed)?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!(
            "the workload cannot be compiled; is the target there? `rustup target add {}`\n{error}",
            machine.target
        ));
    }
    fs::read(&program).map_err(failed)
}
