//! The kernel's tracing file system, and a private corner of it.
//!
//! All that is changed is in an *instance* of our own: a folder with its own buffers, clock, options and
//! switches for events. Other tracers are not disturbed, and removing the folder undoes everything.

use core::time::Duration;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
};

use super::tasks;
use lookaside_terminal::Refused;

/// What the names of our instances begin with. Behind it stand the number of the recorder's process and
/// the time at which it was started.
const PREFIX: &str = "lookaside-";
/// What the name of an instance of call chains ends with.
const OF_STACKS: &str = "-stacks";

/// How often and after which pause we try to remove an instance that is still busy.
const TRIES: u32 = 1200;
/// See [`TRIES`].
const PAUSE: Duration = Duration::from_millis(50);

/// Where the tracing file system is mounted.
///
/// # Errors
///
/// If it is not, or is closed to us; the message says what to do.
pub(super) fn find() -> Result<PathBuf, Refused> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let root = mounted(&mounts).ok_or_else(|| {
        Refused(
            "the kernel's tracing file system is not mounted; as root: \
             mount -t tracefs nodev /sys/kernel/tracing"
                .to_owned(),
        )
    })?;
    match fs::read_dir(root.join("instances")) {
        Ok(_) => Ok(root),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(needs_root()),
        Err(error) => Err(Refused(format!(
            "{}: {error}; recording needs a kernel with CONFIG_TRACING, and its instances",
            root.join("instances").display()
        ))),
    }
}

fn needs_root() -> Refused {
    Refused("tracing needs root: run the same command with sudo, or as root".to_owned())
}

/// The mount point of tracefs in the text of `/proc/mounts`; that of its own rather than the one within
/// debugfs.
fn mounted(mounts: &str) -> Option<PathBuf> {
    let mut own = None;
    let mut within = None;
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(_), Some(place), Some(kind)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let place = PathBuf::from(place.replace("\\040", " "));
        match kind {
            "tracefs" => {
                let in_debugfs = place.ends_with("debug/tracing");
                let slot = if in_debugfs { &mut within } else { &mut own };
                slot.get_or_insert(place);
            }
            // The kernel mounts it there when somebody looks.
            "debugfs" => drop(within.get_or_insert(place.join("tracing"))),
            _ => {}
        }
    }
    own.or(within)
}

/// Whether an instance of that name was left by a recorder that is no more.
fn left_behind(name: &str, started: impl Fn(u32) -> Option<u64>) -> bool {
    let Some((process, time)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'))
    else {
        return false;
    };
    let time = time.strip_suffix(OF_STACKS).unwrap_or(time);
    match (process.parse(), time.parse()) {
        (Ok(process), Ok(time)) => started(process) != Some(time),
        _ => false,
    }
}

/// Removes the instances of recorders that are no more.
pub(super) fn remove_stale(root: &Path) {
    let entries = fs::read_dir(root.join("instances")).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| left_behind(name, tasks::started)) {
            // It is busy while it is read, and then it is in use.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The folder of an instance of this process.
pub(super) fn own_instance(root: &Path) -> PathBuf {
    let process = std::process::id();
    let started = tasks::started(process).unwrap_or(0);
    root.join("instances").join(format!("{PREFIX}{process}-{started}"))
}

/// The folder of the instance of call chains, beside another of this process.
pub(super) fn beside(instance: &Path) -> PathBuf {
    let mut name = instance.file_name().unwrap_or_default().to_owned();
    name.push(OF_STACKS);
    instance.with_file_name(name)
}

/// Removes an instance, of which the last readers may be about to go.
///
/// # Errors
///
/// If it is still there at the end. That it is not there at all is none.
pub(super) fn remove(instance: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        // Without this the events stay switched on for as long as the folder is busy.
        let _ = fs::write(instance.join("events/enable"), "0");
        match fs::remove_dir(instance) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ResourceBusy && tries < TRIES => {
                tries += 1;
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// An instance that is removed when the value goes.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
}

impl Instance {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn make(path: PathBuf) -> Result<Self, Refused> {
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(needs_root()),
            Err(error) => Err(Refused(format!("{}: {error}", path.display()))),
        }
    }

    /// Reads one of its files.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn read(&self, file: &str) -> Result<String, Refused> {
        let path = self.path.join(file);
        whole(&path).map_err(|error| Refused(format!("{}: {error}", path.display())))
    }

    /// Writes one of its files.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn set(&self, file: &str, value: &str) -> Result<(), Refused> {
        let path = self.path.join(file);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(value.as_bytes()))
            .map_err(|error| Refused(format!("{}: cannot set `{value}`: {error}", path.display())))
    }

    /// Switches recording on or off.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn record(&self, on: bool) -> Result<(), Refused> {
        self.set("tracing_on", if on { "1" } else { "0" })
    }

    /// The CPUs that have a buffer.
    pub(super) fn cpus(&self) -> Vec<u16> {
        let entries = fs::read_dir(self.path.join("per_cpu")).into_iter().flatten().flatten();
        let mut cpus: Vec<u16> = entries
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        cpus
    }

    /// Opens the buffer of a CPU. Reading does not wait.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn buffer(&self, cpu: u16) -> Result<File, Refused> {
        let path = self.path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        file.map_err(|error| Refused(format!("{}: {error}", path.display())))
    }

    /// How many events the buffer of a CPU had no room for.
    pub(super) fn lost(&self, cpu: u16) -> u64 {
        lost_in(&self.read(&format!("per_cpu/cpu{cpu}/stats")).unwrap_or_default())
    }

    /// Removes it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn remove(self) -> Result<(), Refused> {
        let path = self.path.clone();
        // Dropping it would try once more, in vain.
        core::mem::forget(self);
        remove(&path).map_err(|error| {
            let place = path.display();
            Refused(format!("{place} cannot be removed: {error}; try: rmdir {place}"))
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

/// Reads a file with as few calls as it takes: some files of tracefs give their text to the first alone.
fn whole(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = Vec::new();
    let mut room = vec![0; 64 * 1024];
    loop {
        match file.read(&mut room)? {
            0 => break,
            length => text.extend_from_slice(&room[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The lost events in the text of a file `stats`.
fn lost_in(stats: &str) -> u64 {
    let counts = stats.lines().filter_map(|line| line.split_once(':'));
    counts
        .filter(|(key, _)| matches!(*key, "overrun" | "commit overrun" | "dropped events"))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_its_own_goes_before_that_in_debugfs() {
        let debug = "debugfs /sys/kernel/debug debugfs rw 0 0\n";
        let inner = "tracefs /sys/kernel/debug/tracing tracefs rw 0 0\n";
        let own = "nodev /a\\040b/tracing tracefs rw 0 0\n";
        let inside = Some(PathBuf::from("/sys/kernel/debug/tracing"));
        assert_eq!(mounted(debug), inside);
        assert_eq!(mounted(inner), inside);
        assert_eq!(mounted(&format!("{debug}{inner}{own}")), Some("/a b/tracing".into()));
        assert_eq!(mounted("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn only_instances_of_dead_recorders_are_stale() {
        let started = |process| (process == 7).then_some(100);
        assert!(!left_behind("lookaside-7-100", started), "it lives");
        assert!(left_behind("lookaside-7-99", started), "the number is another process's now");
        assert!(left_behind("lookaside-8-100", started), "it is no more");
        assert!(left_behind("lookaside-8-100-stacks", started), "it is no more");
        assert!(!left_behind("lookaside-7-100-stacks", started), "it lives");
        assert!(!left_behind("lookaside-mine", started), "not one of ours");
        assert!(!left_behind("sample", started), "not one of ours");
    }

    #[test]
    fn lost_events_are_summed() {
        let stats = "entries: 9\noverrun: 3\ncommit overrun: 1\nbytes: 7\ndropped events: 2\n";
        assert_eq!(lost_in(stats), 6);
        assert_eq!(lost_in(""), 0);
    }
}
