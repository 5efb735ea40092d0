//! The threads of the system, from `/proc`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::{CLONE_THREAD, Event, Kind, NameId, Names, Reason, Task, Trace};

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

/// Lets a trace begin at the time `seen`, with the threads that existed then.
///
/// [`Trace::tasks`] was listed after recording had begun and before `seen`. Listing takes some milliseconds, in which
/// threads come and go; the earlier events tell which, and are dropped.
pub(super) fn begin_at(trace: &mut Trace, seen: u64) {
    let mut tasks: BTreeMap<u32, Task> = trace.tasks.iter().map(|task| (task.id, *task)).collect();
    let early = trace.events.partition_point(|event| event.time < seen);
    for event in trace.events.drain(..early) {
        match event.kind {
            Kind::Create { task, name, flags } => {
                let parent = tasks.get(&event.task);
                let of_parent = parent.filter(|_| flags & CLONE_THREAD != 0);
                let process = of_parent.map_or(task, |parent| parent.process);
                let kernel = parent.is_some_and(|parent| parent.kernel);
                tasks.insert(task, Task { id: task, process, name, kernel });
            }
            Kind::Execute { task, old } => {
                if let Some(known) = tasks.remove(&old) {
                    tasks.insert(task, Task { id: task, kernel: false, ..known });
                }
            }
            Kind::Rename { task, name } => {
                if let Some(known) = tasks.get_mut(&task) {
                    known.name = name;
                }
            }
            // It stays: the switch from it may come after `seen`. It has left its address space.
            Kind::Exit => {
                let id = event.task;
                let known = Task { id, process: id, name: NameId::default(), kernel: true };
                tasks.entry(id).and_modify(|task| task.kernel = true).or_insert(known);
            }
            _ => {}
        }
    }
    let leaving = already_removed(&tasks, &trace.events);
    tasks.extend(leaving.into_iter().map(|task| (task.id, task)));
    trace.tasks = tasks.into_values().collect();
}

/// The threads that had ended when recording began but had not left their CPU for good: Linux removes a thread from `/proc`
/// (`release_task`) before that thread calls the scheduler for the last time. Pre-empted in between, it runs once more in the
/// trace, though nobody created it and no list has it. It has left its address space.
///
/// Nothing is known of these threads but switches, of which the last is to sleep. A thread without a list entry that does
/// anything else was missed by the list, and is left unknown.
fn already_removed(known: &BTreeMap<u32, Task>, events: &[Event]) -> Vec<Task> {
    #[derive(Clone, Copy)]
    enum Found {
        Leaving { left: bool, name: NameId },
        Other,
    }
    let mut found: BTreeMap<u32, Found> = BTreeMap::new();
    let mut created = BTreeSet::from([0]);
    for event in events {
        let strange = |id: u32| !known.contains_key(&id) && !created.contains(&id);
        match event.kind {
            Kind::Switch { next, name, runnable } => {
                if strange(event.task)
                    && let Some(Found::Leaving { left, .. }) = found.get_mut(&event.task)
                {
                    *left |= !runnable;
                }
                if strange(next) {
                    found
                        .entry(next)
                        .and_modify(|found| {
                            if matches!(found, Found::Leaving { left: true, .. }) {
                                *found = Found::Other;
                            }
                        })
                        .or_insert(Found::Leaving { left: false, name });
                }
            }
            Kind::Create { task, .. } => {
                created.insert(task);
            }
            // What a switch and the requests of others say comes under the name of whoever runs.
            Kind::Flush {
                reason: Reason::Switch | Reason::Remote | Reason::WrongSpace, ..
            }
            | Kind::Migrate { .. }
            | Kind::Serve { .. }
            | Kind::Served { .. }
            | Kind::Interrupt
            | Kind::Resume
            | Kind::Lost { .. } => {}
            _ if strange(event.task) => drop(found.insert(event.task, Found::Other)),
            _ => {}
        }
    }
    let task = |(id, found)| match found {
        Found::Leaving { left: true, name } => Some(Task { id, process: id, name, kernel: true }),
        Found::Leaving { left: false, .. } | Found::Other => None,
    };
    found.into_iter().filter_map(task).collect()
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
    use crate::Event;

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
    fn a_trace_begins_with_the_threads_that_events_before_it_leave() {
        let event = |time, task, kind| Event { time, cpu: 0, in_interrupt: None, task, kind };
        let create = |task, flags| Kind::Create { task, name: NameId(1), flags };
        let task = |id, process, name, kernel| Task { id, process, name: NameId(name), kernel };
        let mut trace = Trace {
            tasks: vec![task(1, 1, 0, false), task(2, 2, 0, true), task(8, 8, 0, false)],
            events: vec![
                event(1, 9, Kind::Exit),
                event(2, 1, create(3, CLONE_THREAD)),
                event(3, 2, create(4, 0)),
                event(4, 3, create(5, 0)),
                event(5, 5, Kind::Rename { task: 5, name: NameId(7) }),
                event(6, 3, Kind::Execute { task: 1, old: 3 }),
                // A number that is given away again.
                event(7, 8, Kind::Exit),
                event(8, 5, create(8, CLONE_THREAD)),
                event(9, 5, Kind::Exit),
                event(10, 1, create(6, 0)),
            ],
            ..Trace::default()
        };
        begin_at(&mut trace, 10);
        let expected = [
            task(1, 1, 1, false),
            task(2, 2, 0, true),
            task(4, 4, 1, true),
            task(5, 5, 7, true),
            task(8, 5, 1, false),
            task(9, 9, 0, true),
        ];
        assert_eq!(trace.tasks, expected);
        assert_eq!(trace.events, [event(10, 1, create(6, 0))]);
    }

    #[test]
    fn a_thread_that_was_removed_before_its_last_switch_is_no_stranger() {
        let event = |time, task, kind| Event { time, cpu: 0, in_interrupt: None, task, kind };
        let switch = |next, runnable| Kind::Switch { next, name: NameId(next), runnable };
        let fault = Kind::Fault { address: 4096, code: crate::fault::USER };
        let flush = Kind::Flush { reason: Reason::Switch, pages: crate::Pages::Some(0) };
        let found = |events: &[(u32, Kind)]| {
            let first = (1, switch(1, true));
            let events = [&[first], events].concat();
            let events =
                events.iter().zip(20..).map(|(&(task, kind), time)| event(time, task, kind));
            let task = Task { id: 1, process: 1, name: NameId(0), kernel: false };
            let mut trace =
                Trace { tasks: vec![task], events: events.collect(), ..Trace::default() };
            begin_at(&mut trace, 10);
            let added = trace.tasks.iter().filter(|task| task.id != 1);
            added.map(|task| (task.id, task.kernel, task.name.0)).collect::<Vec<_>>()
        };
        let leaves = [(1, switch(7, true)), (7, switch(1, false)), (7, flush)];
        assert_eq!(found(&leaves), [(7, true, 7)]);
        // Pre-empted once more before that.
        let twice = [(1, switch(7, true)), (7, switch(1, true)), (1, switch(7, true))];
        assert_eq!(found(&[&twice[..], &leaves[1..]].concat()), [(7, true, 7)]);
        // Its number is given away again.
        let again = (1, Kind::Create { task: 7, name: NameId(0), flags: 0 });
        let used = [again, (1, switch(7, true)), (7, fault), (7, switch(1, false))];
        assert_eq!(found(&[&leaves[..], &used].concat()), [(7, true, 7)]);
        // A thread that the list missed: it comes back from its sleep, or runs code, or is still there.
        assert_eq!(found(&[&leaves[..], &leaves[..2]].concat()), []);
        assert_eq!(found(&[leaves[0], (7, fault), leaves[1]]), []);
        assert_eq!(found(&leaves[..1]), []);
        assert_eq!(found(&[(1, switch(0, false)), (0, switch(1, true))]), []);
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
