//! Starting a command only when recording is on.
//!
//! A second process of this program connects to a socket of the recorder, waits there for one byte, and
//! then executes the command: so the number of the process is known before the command's first
//! instruction. The socket closes when the command is executed; before that, an error comes through it.
//! If the recorder is gone, nothing is executed.

use std::{
    ffi::{CString, OsString},
    fs,
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command},
};

use lookaside_terminal::Refused;
use tempfile::TempDir;

use super::PART;

/// A command that has not begun yet.
#[derive(Debug)]
pub(super) struct Held {
    /// The process that will execute it.
    pub(super) process: Child,
    line: UnixStream,
}

/// A command that could not be executed.
#[derive(Debug)]
pub(super) struct NotExecuted {
    /// Why.
    pub(super) why: String,
    /// Whether there is no such program.
    pub(super) missing: bool,
}

/// What is sent to say "begin".
const BEGIN: u8 = b'b';

impl Held {
    /// Prepares a command.
    ///
    /// # Errors
    ///
    /// If no process can be started.
    pub(super) fn prepare(command: &[OsString]) -> Result<Self, Refused> {
        Self::try_prepare(command)
            .map_err(|error| Refused(format!("cannot prepare the command: {error}")))
    }

    fn try_prepare(command: &[OsString]) -> io::Result<Self> {
        let folder = TempDir::with_prefix("lookaside-")?;
        let socket = folder.path().join("line");
        let listener = UnixListener::bind(&socket)?;
        let mut process = Command::new(super::OWN_PROGRAM)
            .arg0("lookaside")
            .args([PART, "start"])
            .arg(&socket)
            .arg("--")
            .args(command)
            .spawn()?;
        // Should it fail before it connects, we must not wait for ever.
        listener.set_nonblocking(true)?;
        loop {
            match listener.accept() {
                Ok((line, _)) => {
                    line.set_nonblocking(false)?;
                    return Ok(Self { process, line });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if process.try_wait()?.is_some() {
                return Err(io::Error::other("it ended before it began"));
            }
            std::thread::sleep(core::time::Duration::from_millis(1));
        }
    }

    /// Lets it begin.
    ///
    /// # Errors
    ///
    /// If it could not be executed; the process has ended then.
    pub(super) fn begin(mut self) -> Result<Child, NotExecuted> {
        let mut answer = String::new();
        let said =
            self.line.write_all(&[BEGIN]).and_then(|()| self.line.read_to_string(&mut answer));
        if let Err(error) = said {
            answer = format!("?{error}");
        }
        if answer.is_empty() {
            return Ok(self.process);
        }
        let _ = self.process.wait();
        let missing = answer.starts_with('!');
        Err(NotExecuted { why: answer.split_off(1), missing })
    }
}

/// What the second process does: waits at the socket, and becomes the command. Comes back only if that
/// fails.
pub fn start(socket: &Path, command: &[OsString]) -> io::Error {
    let connect = || {
        // The kernel calls this process after the program that it is about to be, also before.
        if let Some(name) = command.first().and_then(|program| Path::new(program).file_name()) {
            let _ = rustix::thread::set_name(&CString::new(name.as_bytes())?);
        }
        let mut line = UnixStream::connect(socket)?;
        // Nobody needs the name any more.
        let _ = fs::remove_file(socket);
        let mut byte = [0];
        line.read_exact(&mut byte)?;
        Ok(line)
    };
    let mut line = match connect() {
        Ok(line) => line,
        Err(error) => return error,
    };
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::other("there is no command");
    };
    let error = Command::new(program).args(arguments).exec();
    let sign = if error.kind() == io::ErrorKind::NotFound { '!' } else { '?' };
    let _ = write!(line, "{sign}{error}");
    error
}
