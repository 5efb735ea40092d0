//! `lookaside record`: records the TLB operations of this system's kernel.

use core::time::Duration;
use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, BufWriter, Write},
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus},
};

use lookaside_terminal::{Refused, counted, plain, tell};
use lookaside_traces::{
    Kind, Trace, file,
    record::{self, End, NoRecording, Plan, Recording, What},
};

use super::{output, progress};

/// Exit status if the command cannot be executed, as in shells.
const NOT_EXECUTABLE: u8 = 126;
/// Exit status if the command does not exist, as in shells.
const NOT_FOUND: u8 = 127;
/// The exit status of a command that a signal ended is this plus the signal's number, as in shells.
const SIGNALS: i32 = 128;

/// The command, and what it starts itself.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Records what this system's kernel does, for one command or for all processes. Needs root.
    Record(Arguments),
    /// A helper process of `record`, which starts it.
    #[command(hide = true)]
    RecordPart(Part),
}

/// Arguments of `lookaside record`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lookaside record -- make -j8                        a command and all that it starts
  lookaside record --pid 4711 --duration 10           a server that runs already
  lookaside record --cgroup system.slice/nginx.service --duration 10
  lookaside record --pid 4711 --duration 10 --user-stacks  with the functions that unmap
  lookaside record --system --duration 10             everything")]
#[command(group = clap::ArgGroup::new("subject").required(true).args(["command", "pid", "cgroup", "system", "duration"]).multiple(true))]
pub(crate) struct Arguments {
    /// The file to write. Default: the name of the command, or `system`, with `.trace`.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Record this process, which runs already, and its descendants, until it ends. May be given several times.
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "cgroup", "system"])]
    pid: Vec<u32>,
    /// Record the processes of this control group, until it is empty: a folder, or what `/proc/PID/cgroup` shows of a
    /// process in it.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["command", "system"])]
    cgroup: Option<PathBuf>,
    /// Record the whole system, until Ctrl-C. So does a recording with nothing but a `--duration`, for so long.
    #[arg(long, conflicts_with = "command")]
    system: bool,
    /// Record for this many seconds. Without it until the recorded processes end, or until Ctrl-C.
    #[arg(long, value_name = "SECONDS", alias = "seconds", value_parser = lookaside_terminal::seconds, conflicts_with = "command")]
    duration: Option<Duration>,
    /// Also keep the events and names of other processes.
    #[arg(long)]
    all: bool,
    /// Disturb less: record the ends only of system calls that return an address. The errors of all others,
    /// and what their threads did after them, are then guessed.
    #[arg(long)]
    lean: bool,
    /// Also record the user stack of each system call that changes page tables, and keep the name of the function that
    /// made it: the innermost that is not of the C library. Programs without frame pointers have none.
    #[arg(long, alias = "stacks")]
    user_stacks: bool,
    /// The buffer of each CPU in KiB. Default: 16 MiB, or less if all buffers would exceed a quarter of the
    /// free memory.
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(64..))]
    buffer: Option<u64>,
    /// The command to record: only its processes are recorded, and the work of other CPUs on their behalf.
    /// Its exit status becomes that of this program.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Arguments of a helper process of `lookaside record`.
#[derive(clap::Args)]
pub(crate) struct Part {
    #[command(subcommand)]
    role: Role,
}

#[derive(clap::Subcommand)]
enum Role {
    /// Remove the tracing instances when the recorder has ended.
    Guard { instances: Vec<PathBuf> },
    /// Execute the command when the recorder gives the signal.
    Start {
        socket: PathBuf,
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

/// Runs `lookaside record`, or a helper process of it.
pub(crate) fn run(command: &Command) -> super::Result {
    match command {
        Command::Record(arguments) => record(arguments),
        Command::RecordPart(part) => help(part),
    }
}

impl Arguments {
    /// The subject.
    fn what(&self) -> What {
        match (&self.command[..], &self.cgroup, &self.pid[..]) {
            (command @ [_, ..], ..) => What::Command(command.to_vec()),
            (_, Some(group), _) => What::Group(group.clone()),
            (_, _, numbers @ [_, ..]) => What::Processes(numbers.to_vec()),
            _ => What::System,
        }
    }
}

fn record(arguments: &Arguments) -> super::Result {
    let what = arguments.what();
    let output = arguments.output.clone().unwrap_or_else(|| default_name(&what));
    let file = Output::prepare(output, arguments.force)?;
    let folder = file.folder().to_owned();
    let Arguments { all, lean, user_stacks, buffer: buffer_kib, duration, .. } = *arguments;
    let plan = Plan { what, duration, all, lean, user_stacks, buffer_kib, folder };
    let bar = progress::styled(None, "{human_pos} events, {elapsed}", "events");
    let recorded = record::record(&plan, |events| bar.set_position(events));
    bar.finish_and_clear();
    let Recording { trace, end, length, without_stacks } = match recorded {
        Ok(recording) => recording,
        Err(NoRecording::Refused(refused)) => return Err(refused.into()),
        Err(NoRecording::NotExecuted { why, missing }) => {
            let command = arguments.command.first().map(PathBuf::from).unwrap_or_default();
            tell!("error: {}", plain::line(&format!("{}: {why}", command.display())));
            return Ok(ExitCode::from(if missing { NOT_FOUND } else { NOT_EXECUTABLE }));
        }
    };
    if trace.origin.losses.lost > 0 {
        tell!(
            "warning: the kernel lost {}; the trace says where. Try --buffer with more than {} KiB",
            counted(trace.origin.losses.lost as usize, "event", "events"),
            record::BUFFER_KIB,
        );
    }
    if !trace.origin.absent.is_empty() {
        tell!("note: this kernel has no {}", plain::line(&trace.origin.absent.join(", ")));
    }
    if let Some(Refused(why)) = without_stacks {
        tell!("note: the functions that call are not recorded: {}", plain::line(&why));
    } else if let Some(few) = user_stacks.then(|| few_functions(&trace)).flatten() {
        tell!("note: {few}");
    }
    let path = file.write(|to| file::write(&trace, to))?;
    let shown = path.display().to_string();
    let events = counted(trace.events.len(), "event", "events");
    tell!("{}: {events} in {:.1} s", plain::line(&shown), length.as_secs_f64());
    Ok(match end {
        End::Time => ExitCode::SUCCESS,
        End::Gone => {
            tell!(
                "note: {}",
                match arguments.cgroup {
                    // They may live in another one.
                    Some(_) => "the control group has no process any more",
                    None => "the recorded processes have ended",
                }
            );
            ExitCode::SUCCESS
        }
        End::Command(status) => told(status),
        // Without a command or a time this is how recordings end.
        End::Signal(_) if arguments.command.is_empty() && arguments.duration.is_none() => {
            ExitCode::SUCCESS
        }
        End::Signal(signal) => status_code(SIGNALS + signal),
    })
}

/// What to say where most calls have no function, which the tables of a replay do not tell from calls that were recorded
/// without stacks.
fn few_functions(trace: &Trace) -> Option<String> {
    let number = |is: fn(&Kind) -> bool| trace.events.iter().filter(|one| is(&one.kind)).count();
    let known = number(|kind| matches!(kind, Kind::Caller { .. }));
    let calls = number(|kind| matches!(kind, Kind::Call { .. }));
    (known < calls / 2).then(|| {
        format!(
            "{known} of {calls} calls have a function. Programs need frame pointers (`-fno-omit-frame-pointer`), and a call \
             by the first function of a thread has none: docs/recording.md, \"Which function called\""
        )
    })
}

/// Runs a helper process of `lookaside record`.
fn help(part: &Part) -> super::Result {
    match &part.role {
        Role::Guard { instances } => record::stand(instances)?,
        // The recorder, if it still runs, has received the reason.
        Role::Start { socket, command } => {
            let _ = record::start(socket, command);
            return Ok(ExitCode::from(NOT_EXECUTABLE));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports a failed command, and passes its exit status on.
fn told(status: ExitStatus) -> ExitCode {
    if !status.success() {
        tell!("the command ended with {status}");
    }
    status_code(status.code().unwrap_or_else(|| SIGNALS + status.signal().unwrap_or(0)))
}

fn status_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// The name of a file for a recording of this subject.
fn default_name(what: &What) -> PathBuf {
    let mut name = match what {
        What::Command(command) => {
            command.first().and_then(|program| Path::new(program).file_name())
        }
        What::Group(path) => path.file_name(),
        What::Processes(_) | What::System => None,
    }
    .unwrap_or(OsStr::new("system"))
    .to_owned();
    if let What::Processes(numbers) = what {
        name = format!("pid-{}", numbers[0]).into();
    }
    name.push(".trace");
    name.into()
}

/// A file that appears only when it is complete.
struct Output {
    path: PathBuf,
    force: bool,
}

impl Output {
    /// Refuses an output file that could not be written after the recording.
    fn prepare(path: PathBuf, force: bool) -> Result<Self, Refused> {
        if path.as_os_str() == "-" {
            let why =
                "a recording goes into a file, not to standard output: name one with -o".to_owned();
            return Err(Refused(why));
        }
        output::check_ending(&path)?;
        let output = Self { path, force };
        if output.path.is_dir() {
            return Err(Refused(format!("`{}` is a directory", output.path.display())));
        }
        // What is written to a device replaces nothing.
        if !force && output.path.exists() && !output::is_special(&output.path) {
            return Err(output.exists());
        }
        match fs::metadata(output.folder()) {
            Ok(folder) if folder.is_dir() => {
                output::check_place(&output.path)?;
                Ok(output)
            }
            _ => Err(Refused(format!("{}: there is no such folder", output.folder().display()))),
        }
    }

    fn exists(&self) -> Refused {
        Refused(format!("{} exists; --force replaces it", self.path.display()))
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        }
    }

    fn write(
        self,
        write: impl FnOnce(&mut BufWriter<&fs::File>) -> io::Result<()>,
    ) -> Result<PathBuf, Refused> {
        let refuse = |error: io::Error| Refused(format!("{}: {error}", self.path.display()));
        if output::is_special(&self.path) {
            let file = fs::OpenOptions::new().write(true).open(&self.path).map_err(refuse)?;
            let mut writer = BufWriter::new(&file);
            write(&mut writer).and_then(|()| writer.flush()).map_err(refuse)?;
            drop(writer);
            return Ok(self.path);
        }
        let mut builder = tempfile::Builder::new();
        // As other programs make their files; the user's mask applies.
        builder.permissions(fs::Permissions::from_mode(0o666));
        let file = builder.tempfile_in(self.folder()).map_err(refuse)?;
        let mut writer = BufWriter::new(file.as_file());
        write(&mut writer).and_then(|()| writer.flush()).map_err(refuse)?;
        drop(writer);
        let persisted =
            if self.force { file.persist(&self.path) } else { file.persist_noclobber(&self.path) };
        match persisted {
            Ok(_) => Ok(self.path),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(self.exists()),
            Err(error) => Err(refuse(error.error)),
        }
    }
}
