//! Cleaning up after a recorder that was killed.
//!
//! A recorder that gets `SIGKILL` can do nothing any more, and its instance would go on recording. So a
//! second process of the same program waits at the end of a pipe that only the recorder holds open: when
//! the recorder is gone, however that came about, the pipe ends, and the guard removes the instance.

use core::sync::atomic::AtomicBool;
use std::{
    io::{self, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use lookaside_terminal::Refused;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use super::{PART, tracefs};

/// The guard of instances. Ends when the value goes.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
}

impl Guard {
    /// Sets it up.
    ///
    /// # Errors
    ///
    /// If no process can be started.
    pub(super) fn post(instances: &[&Path]) -> Result<Self, Refused> {
        Command::new(super::OWN_PROGRAM)
            .arg0("lookaside")
            .args([PART, "guard"])
            .args(instances)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Of its own group, so that the keys that interrupt the recorder are none of its business.
            .process_group(0)
            .spawn()
            .map(|process| Self { process })
            .map_err(|error| Refused(format!("cannot start the guard of the recording: {error}")))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// What the guard does: waits until its standard input ends, and removes the instances.
///
/// # Errors
///
/// If one cannot be removed.
pub fn stand(instances: &[PathBuf]) -> io::Result<()> {
    // Signals that end the recorder in an orderly way are sent to whole groups of processes.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let mut input = io::stdin().lock();
    let mut byte = [0];
    loop {
        match input.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    // All of them, whatever becomes of one.
    let removed: Vec<_> = instances.iter().map(|instance| tracefs::remove(instance)).collect();
    removed.into_iter().collect()
}
