//! Running other programs. None of them gets our standard input.

use core::fmt::Write as _;
use std::{
    env, fs,
    process::{Command, Output, Stdio},
};

use crate::failure::{Context, Failure, Result};

/// The command as one would type it, with the environment that was set for it.
pub(crate) fn spelled(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = write!(line, "{}={} ", name.display(), quoted(&value.to_string_lossy()));
        }
    }
    // The path of the cargo that runs us says nothing to a reader.
    let ours = env::var_os("CARGO").is_some_and(|cargo| cargo == command.get_program());
    let program = if ours { "cargo".into() } else { command.get_program().to_string_lossy() };
    line.push_str(&quoted(&program));
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&quoted(&argument.to_string_lossy()));
    }
    line
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(|c: char| c.is_whitespace() || "'\"$*;&|".contains(c)) {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        word.to_owned()
    }
}

/// Runs a command whose output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", spelled(command));
    let status = command
        .stdin(Stdio::null())
        .status()
        .context(|| format!("starting `{}`", spelled(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("`{}` failed ({status})", spelled(command))))
    }
}

/// As [`run`], for a program that says first what is wrong: a failure repeats the first lines of its standard output, so
/// that they stand in the summary of a long log.
pub(crate) fn run_and_repeat(command: &mut Command) -> Result<()> {
    const LINES: usize = 24;
    println!("$ {}", spelled(command));
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context(|| format!("starting `{}`", spelled(command)))?;
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    if output.status.success() {
        return Ok(());
    }
    let first: Vec<_> = said.lines().take(LINES).collect();
    let (command, status) = (spelled(command), output.status);
    Err(Failure::new(format!("`{command}` failed ({status})\n{}", first.join("\n"))))
}

/// Runs a command and returns what it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = collected(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command and returns what it wrote to its standard error, for programs that say there what they do.
pub(crate) fn errors(command: &mut Command) -> Result<String> {
    println!("$ {}", spelled(command));
    let output = collected(command)?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn collected(command: &mut Command) -> Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(|| format!("starting `{}`", spelled(command)))?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(Failure::new(format!(
            "`{}` failed ({})\n{}",
            spelled(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        )))
    }
}

/// Whether a command can be started and succeeds; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Seconds of CPU of all children that have ended, and of theirs.
pub(crate) fn spent() -> Result<f64> {
    let stat =
        fs::read_to_string("/proc/self/stat").context(|| "reading /proc/self/stat".into())?;
    children(&stat)
        .ok_or_else(|| Failure::new("/proc/self/stat has another form than proc(5) says"))
}

/// The fields `cutime` and `cstime`, which count in hundredths of a second (`USER_HZ`).
fn children(stat: &str) -> Option<f64> {
    // The name of the program is in parentheses, and may have blanks and parentheses in it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(13);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_found_behind_any_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 250 50 20 0";
        assert_eq!(children(stat), Some(3.0));
        assert_eq!(children("7 a S"), None);
    }

    #[test]
    fn a_command_is_spelled_so_that_it_can_be_pasted() {
        let mut command = Command::new("cargo");
        command.args(["clippy", "--", "-D warnings"]).env("A", "b");
        assert_eq!(spelled(&command), "A=b cargo clippy -- '-D warnings'");
    }

    #[test]
    fn a_failure_repeats_what_was_said_first() {
        let command = "echo found; seq 100; exit 1";
        let failure = run_and_repeat(Command::new("sh").args(["-c", command])).unwrap_err();
        let message = failure.to_string();
        assert!(message.contains("found\n1\n") && !message.contains("\n99"), "{message}");
    }

    #[test]
    fn a_failing_command_says_what_it_wrote() {
        let failure = output(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        let message = failure.to_string();
        assert!(message.contains("exit status: 3") && message.contains("no"), "{message}");
    }
}
