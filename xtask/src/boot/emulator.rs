//! A program that is a machine: started, followed and in every case ended.

use core::{fmt, time::Duration};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::{self, Child, Command, ExitStatus, Stdio},
    thread,
    time::Instant,
};

use super::{
    Console,
    patience::{Patience, Watch, processor_time},
};
use crate::{
    failure::{Context, Result},
    process::{spelled, succeeds},
    workspace::Workspace,
};

/// How often the console is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// How a run of the kernel came to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The kernel left, with this exit code.
    Code(u8),
    /// We have seen enough.
    Enough,
    /// No test ended for too long.
    NoProgress,
    /// The emulator ended and the kernel had no say in it.
    Broken(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "left with exit code {code}"),
            Self::Enough => f.write_str("was stopped when enough was seen"),
            Self::NoProgress => f.write_str("was stopped: no test had ended for too long"),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

/// Why we stopped to follow an emulator.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has ended.
    Ended(ExitStatus),
    /// Enough was seen on the console.
    Enough,
    /// There was no progress for too long.
    NoProgress,
}

/// A directory for one run, removed after it. Runs at the same time have one each, which bears the
/// number of the process.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(workspace: &Workspace) -> Result<Self> {
        let all = workspace.target().join("boot");
        sweep(&all);
        let directory = all.join(process::id().to_string());
        fs::create_dir_all(&directory).context(|| format!("making {}", directory.display()))?;
        Ok(Self(directory))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).context(|| format!("making {}", directory.display()))?;
        }
        fs::write(&path, text).context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

/// Removes what runs have left behind that were killed, where one can see which processes there are.
fn sweep(all: &Path) {
    let processes = Path::new("/proc");
    let Ok(entries) = fs::read_dir(all) else { return };
    for entry in entries.flatten().filter(|_| processes.join("self").exists()) {
        if !processes.join(entry.file_name()).exists() {
            // It does no harm, so it is no reason to stop.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that is left behind does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A command for an emulator, without arguments. It dies with us, whatever kills us, where the system
/// has the program that arranges that.
pub(super) fn command(program: &str) -> Command {
    let mut ours = Command::new("setpriv");
    ours.args(["--pdeathsig", "KILL", "--"]);
    if succeeds(Command::new("setpriv").args(["--pdeathsig", "KILL", "--", "true"])) {
        ours.arg(program);
        ours
    } else {
        Command::new(program)
    }
}

/// An emulator that runs. It does not outlive this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended, which is what they are for. It cannot refuse this signal.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an emulator, which writes the kernel's console to `file`, and follows that until the
/// emulator ends, patience is at its end, or enough was seen. Each line goes to our standard output.
pub(super) fn follow(
    command: &mut Command,
    file: &Path,
    patience: Patience,
    console: &mut Console,
    enough: impl Fn(&Console) -> bool,
) -> Result<Stop> {
    println!("$ {}", spelled(command));
    let mut output = File::open(file).context(|| format!("opening {}", file.display()))?;
    let started = Instant::now();
    let child = command.stdin(Stdio::null()).spawn();
    let mut running = Running(child.context(|| format!("starting `{}`", spelled(command)))?);
    let process = running.0.id();
    let mut watch = Watch::new(patience);
    let show = |line: &str| println!("{line}");
    let mut bytes = Vec::new();
    let stop = loop {
        // Before the console is read: what the emulator wrote at its end is then read, too.
        let ended = running.0.try_wait().context(|| "waiting for the emulator".to_owned())?;
        bytes.clear();
        output.read_to_end(&mut bytes).context(|| format!("reading {}", file.display()))?;
        console.take(&bytes, show);
        if enough(console) {
            break Stop::Enough;
        }
        if let Some(status) = ended {
            break Stop::Ended(status);
        }
        let ended_tests = console.passed() + console.failed();
        if watch.is_over(ended_tests, processor_time(process), started.elapsed()) {
            break Stop::NoProgress;
        }
        if bytes.is_empty() {
            thread::sleep(GLANCE);
        }
    };
    console.close(show);
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    /// Follows a shell command, whose output is the console.
    fn follow_shell(name: &str, script: &str, patience: Duration) -> (Stop, Console) {
        let file = env::temp_dir().join(format!("lookaside-{}-{name}", process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(File::create(&file).unwrap());
        let mut console = Console::default();
        let enough = |console: &Console| console.exit().is_some();
        let patience = Patience { time: patience, cpus: 1 };
        let stop = follow(&mut command, &file, patience, &mut console, enough).unwrap();
        fs::remove_file(&file).unwrap();
        (stop, console)
    }

    #[test]
    fn the_last_output_before_exit_is_read() {
        let (stop, console) =
            follow_shell("last", "echo PASS one; printf 'PASS two'; exit 3", LONG);
        assert!(matches!(stop, Stop::Ended(status) if status.code() == Some(3)), "{stop:?}");
        assert_eq!(console.passed(), 2);
    }

    #[test]
    fn an_emulator_is_stopped_when_it_gets_nowhere_or_enough_was_seen() {
        let spin = "echo PASS one; while :; do :; done";
        let (stop, console) = follow_shell("spin", spin, Duration::from_secs(1));
        assert_eq!((stop, console.passed()), (Stop::NoProgress, 1));
        let sleep = "echo PASS one; exec sleep 600";
        let (stop, console) = follow_shell("sleep", sleep, Duration::from_millis(200));
        assert_eq!((stop, console.passed()), (Stop::NoProgress, 1));
        let (stop, _) = follow_shell("enough", "echo exit 7; exec sleep 60", LONG);
        // Not the limit: that would be another reason.
        assert_eq!(stop, Stop::Enough);
    }

    const LONG: Duration = Duration::from_secs(30);
}
