//! A user space for Linux: busybox, a script, and a workload that is compiled for the occasion.

use std::{fs, path::Path, process::Command};

use crate::{
    cpio::Archive,
    kernel::{Kernel, find},
    qemu::Machine,
};

const STRESS: &str = include_str!("../guest/stress.rs");
const INIT: &str = include_str!("../guest/init.sh");

/// A program of the user's that runs in the guest.
pub(crate) struct Program {
    name: String,
    content: Vec<u8>,
    arguments: String,
}

impl Program {
    /// Reads what the command line names: a file and, behind it, arguments.
    pub(crate) fn all(named: &[String]) -> Result<Vec<Self>, String> {
        named.iter().map(|words| Self::one(words)).collect()
    }

    fn one(words: &str) -> Result<Self, String> {
        let (file, arguments) = words.split_once(' ').unwrap_or((words, ""));
        let content = fs::read(file).map_err(|error| format!("--run: {file}: {error}"))?;
        let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_plain =
            |word: &str| word.chars().all(|c| c.is_alphanumeric() || " ._-=/,:".contains(c));
        if !is_plain(&name) || !is_plain(arguments) {
            return Err(format!(
                "--run: `{words}` goes through a shell: letters, digits and ._-=/,: alone"
            ));
        }
        Ok(Self { name, content, arguments: arguments.to_owned() })
    }

    /// What the guest's first process does with them.
    fn script(programs: &[Self]) -> String {
        let run = |program: &Self| {
            let Self { name, arguments, .. } = program;
            format!(
                "/programs/{name} {arguments}\necho \"hunt: {name} {arguments}: exit status $?\"\n"
            )
        };
        programs.iter().map(run).collect()
    }
}

/// Makes the archive for a kernel that wants one, in a scratch folder. `programs` run in the place of the workload.
pub(crate) fn user_space(
    kernel: &Kernel,
    machine: &Machine,
    from: &Path,
    scratch: &Path,
    programs: &[Program],
) -> Result<Option<std::path::PathBuf>, String> {
    let Some(busybox) = &kernel.busybox else { return Ok(None) };
    // Debian 12 still has `/bin` beside `/usr/bin`.
    let older = busybox.strip_prefix("usr").map(|path| find(from, path));
    let busybox =
        find(from, busybox).or_else(|error| older.ok().and_then(Result::ok).ok_or(error))?;
    let busybox = fs::read(busybox).map_err(|error| format!("busybox: {error}"))?;
    let mut archive = Archive::default();
    for name in ["bin", "dev", "proc", "sys", "tmp"] {
        archive.folder(name);
    }
    archive.device("dev/console", (5, 1));
    archive.program("bin/busybox", &busybox);
    archive.program("init", INIT.as_bytes());
    if programs.is_empty() {
        archive.program("stress", &compile(machine, scratch)?);
    } else {
        archive.folder("programs");
        archive.program("run", Program::script(programs).as_bytes());
        for program in programs {
            archive.program(&format!("programs/{}", program.name), &program.content);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_run_with_their_arguments() {
        let file =
            std::env::temp_dir().join(format!("lookaside-hunt-program-{}", std::process::id()));
        fs::write(&file, b"program").unwrap();
        let named = format!("{} -p 3", file.display());
        let programs = Program::all(&[named]).unwrap();
        let name = &programs[0].name;
        assert_eq!(programs[0].content, b"program");
        let expected =
            format!("/programs/{name} -p 3\necho \"hunt: {name} -p 3: exit status $?\"\n");
        assert_eq!(Program::script(&programs), expected);
        let shell = format!("{} $(halt)", file.display());
        assert!(Program::all(&[shell]).is_err_and(|error| error.contains("through a shell")));
        fs::remove_file(file).unwrap();
        assert!(Program::all(&["/no/such".into()]).is_err_and(|error| error.contains("/no/such")));
    }
}
