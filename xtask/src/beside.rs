//! Programs that run beside the steps of the gate, one after the other, with what these leave of the processors.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use crate::{
    failure::{Context, Failure, Result},
    process,
};

/// How much of what a program said is repeated if it failed.
const LINES: usize = 30;

/// The programs. The gate ends after them.
#[derive(Default)]
pub(crate) struct Beside {
    programs: Vec<Program>,
}

struct Program {
    name: &'static str,
    log: PathBuf,
    ended: Receiver<Result<ExitStatus>>,
}

impl Beside {
    /// Begins, each with a log in `folder`.
    ///
    /// # Errors
    ///
    /// If a log cannot be written.
    pub(crate) fn begin(folder: &Path, commands: Vec<(&'static str, Command)>) -> Result<Self> {
        fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
        let (mut programs, mut work) = (Vec::new(), Vec::new());
        for (name, command) in commands {
            let log = folder.join(format!("{}.log", name.replace(", ", "-")));
            let file = File::create(&log).context(|| format!("writing {}", log.display()))?;
            let errors = file.try_clone().context(|| "a second handle of the log".to_owned())?;
            let mut nice = Command::new("nice");
            nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
            println!("{name}: beside the other steps: $ {}", process::spelled(&nice));
            nice.stdin(Stdio::null()).stdout(file).stderr(errors);
            let (sender, ended) = mpsc::channel();
            programs.push(Program { name, log, ended });
            work.push((nice, sender));
        }
        thread::spawn(move || {
            for (mut command, sender) in work {
                let ended = command.status().context(|| format!("starting {command:?}"));
                // Nobody waits any more if the gate has ended.
                let _ = sender.send(ended);
            }
        });
        Ok(Self { programs })
    }

    /// Waits for the program of this name, and says whether it succeeded; `None` if there is none.
    pub(crate) fn wait(&self, name: &str) -> Option<Result<()>> {
        let program = self.programs.iter().find(|program| program.name == name)?;
        Some(program.wait())
    }
}

impl Program {
    fn wait(&self) -> Result<()> {
        let status = self.ended.recv().context(|| format!("waiting for `{}`", self.name))??;
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        Err(Failure::new(format!("it ended with {status}, and said last:\n{last}")))
    }
}

/// The program that this is.
pub(crate) fn this_program() -> Result<PathBuf> {
    env::current_exe().context(|| "finding the program that runs".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_one_after_the_other_and_a_failure_repeats_what_was_said() {
        let folder = env::temp_dir().join(format!("lookaside-beside-{}", std::process::id()));
        let shell = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            command
        };
        let there = folder.join("there");
        let make = format!("echo made; : > {}", there.display());
        let fail = format!("test -e {} && echo why && exit 3", there.display());
        let beside = Beside::begin(&folder, vec![("one", shell(&make)), ("two", shell(&fail))]);
        let beside = beside.unwrap();
        let two = beside.wait("two").unwrap().unwrap_err().to_string();
        assert!(two.contains("exit status: 3") && two.contains("why"), "{two}");
        assert!(beside.wait("one").unwrap().is_ok() && beside.wait("three").is_none());
        fs::remove_dir_all(folder).unwrap();
    }
}
