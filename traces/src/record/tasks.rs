//! The threads of the system, from `/proc`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::{Names, Task};

/// Flag of a thread of the kernel, in the file `stat` of a thread.
const KERNEL_THREAD: u64 = 0x20_0000;

/// The threads that exist now. Those that end while we look are left out.
pub(super) fn now(names: &mut Names) -> Vec<Task> {
    let mut tasks = Vec::new();
    for process in numbered(Path::new("/proc")) {
        for id in numbered(Path::new(&format!("/proc/{process}/task"))) {
            let stat = fs::read(format!("/proc/{process}/task/{id}/stat"));
            let stat = stat.ok();
            if let Some(stat) = stat.as_deref().and_then(Stat::parse) {
                let name = names.number(stat.name);
                tasks.push(Task { id, process, name, kernel: stat.flags & KERNEL_THREAD != 0 });
            }
        }
    }
    tasks.sort_by_key(|task| task.id);
    tasks
}

/// What was seen now, and what was seen before and not any more: it may have run in between.
pub(super) fn with(mut now: Vec<Task>, before: Vec<Task>) -> Vec<Task> {
    let known: BTreeSet<u32> = now.iter().map(|task| task.id).collect();
    now.extend(before.into_iter().filter(|task| !known.contains(&task.id)));
    now.sort_by_key(|task| task.id);
    now
}

/// The entries of a folder of which the names are numbers.
fn numbered(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// When a process was started, in the kernel's own ticks; with its number this is a name that is never
/// used again until the next boot. None if there is no such process.
pub(super) fn started(process: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    Stat::parse(&stat).map(|stat| stat.started)
}

/// The parent of each process.
pub(super) fn parents() -> BTreeMap<u32, u32> {
    let parent = |process: u32| {
        let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
        Stat::parse(&stat).map(|stat| (process, stat.parent))
    };
    numbered(Path::new("/proc")).into_iter().filter_map(parent).collect()
}

/// Whether a thread is one of the kernel's own.
pub(super) fn is_kernel(id: u32) -> bool {
    let stat = fs::read(format!("/proc/{id}/stat")).unwrap_or_default();
    Stat::parse(&stat).is_some_and(|stat| stat.flags & KERNEL_THREAD != 0)
}

/// What we need of a file `stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat<'s> {
    name: &'s [u8],
    parent: u32,
    flags: u64,
    started: u64,
}

impl<'s> Stat<'s> {
    /// Reads `4101 (a name) S 1 ...`. The name may hold spaces and parentheses.
    fn parse(stat: &'s [u8]) -> Option<Self> {
        let start = stat.iter().position(|&byte| byte == b'(')? + 1;
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        // Of the fields behind the name, the first is the third of the file.
        let rest: Vec<_> = str::from_utf8(stat.get(end + 1..)?).ok()?.split_whitespace().collect();
        Some(Self {
            name: stat.get(start..end)?,
            parent: rest.get(4 - 3)?.parse().ok()?,
            flags: rest.get(9 - 3)?.parse().ok()?,
            started: rest.get(22 - 3)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_whatever_it_likes() {
        let stat = b"17 (a) R (b c) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let read = Stat::parse(stat).expect("a stat");
        assert_eq!(read, Stat { name: b"a) R (b c", parent: 2, flags: 2_129_984, started: 4711 });
        assert_ne!(read.flags & KERNEL_THREAD, 0);
        assert_eq!(Stat::parse(b"17 (short) S 2"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn a_thread_that_has_ended_is_listed_once() {
        let mut names = Names::default();
        let mut task = |id, name: &[u8]| {
            let name = names.number(name);
            Task { id, process: id, name, kernel: false }
        };
        let (gone, old, new) = (task(2, b"gone"), task(3, b"old"), task(3, b"new"));
        assert_eq!(with(vec![new], vec![gone, old]), [gone, new]);
    }

    #[test]
    fn we_are_there_ourselves() {
        let mut names = Names::default();
        let own = std::process::id();
        let tasks = now(&mut names);
        let task = tasks.iter().find(|task| task.id == own).expect("this process");
        assert_eq!((task.process, task.kernel), (own, false));
        assert!(started(own).is_some());
    }
}
