//! Who was there when a trace began.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use super::{
    Bad,
    field::decimal,
    head::Head,
    lines::{End, Lines},
};
use crate::{BadPlace, BadTrace, Kind, NameId, Names, Task, fault};

/// Flag of a thread in `/proc/*/task/*/stat`: it belongs to the kernel (`PF_KTHREAD`).
const KERNEL: u64 = 0x20_0000;

/// How names of threads of the kernel begin.
const KERNEL_NAMES: [&[u8]; 12] = [
    b"kworker/",
    b"ksoftirqd/",
    b"migration/",
    b"cpuhp/",
    b"rcu_",
    b"kthreadd",
    b"kswapd",
    b"kcompactd",
    b"khugepaged",
    b"jbd2/",
    b"irq/",
    b"idle_inject/",
];

/// Whether a thread is called as those of the kernel are.
pub(super) fn named_as_kernel(name: &[u8]) -> bool {
    KERNEL_NAMES.iter().any(|start| name.starts_with(start))
}

/// Finds out who was there from what threads do.
#[derive(Default)]
pub(super) struct Seen {
    threads: HashMap<u32, Thread>,
    /// The thread that was looked at last.
    latest: Option<u32>,
}

/// What is known about a thread.
struct Thread {
    process: Option<u32>,
    name: NameId,
    /// Made while the trace ran.
    made: bool,
    kernel: bool,
    /// Did what only threads with user memory do.
    user: bool,
}

impl Seen {
    /// Looks at an event: whose it is, and what it tells of others.
    pub(super) fn note(&mut self, head: &Head<'_>, kernel: bool, kind: &Kind, names: &mut Names) {
        if let Kind::Create { task, name, .. } = *kind {
            // Who was there before under the number stays what was there when the trace began.
            let thread = Thread { process: None, name, made: true, kernel: false, user: false };
            self.threads.entry(task).or_insert(thread);
        }
        let Some(task) = head.task.filter(|&task| task != 0) else { return };
        let user = match *kind {
            Kind::Call { .. } | Kind::Unmapped { .. } => true,
            Kind::Fault { code, .. } => code & fault::USER != 0,
            _ => false,
        };
        // Most events are of the thread of the event before, and tell nothing new of it.
        if self.latest == Some(task) && !user && !kernel {
            return;
        }
        let thread = match self.threads.entry(task) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let by_name = named_as_kernel(head.name);
                let name = names.number(head.name);
                let process = head.process;
                let thread = Thread { process, name, made: false, kernel: by_name, user: false };
                entry.insert(thread)
            }
        };
        if !thread.made && thread.process.is_none() {
            thread.process = head.process;
        }
        thread.kernel |= kernel;
        thread.user |= user;
        self.latest = thread.process.is_some().then_some(task);
    }

    /// Adds those to `tasks` that were there and are not yet in it. Those whose process nobody knows are
    /// left out.
    pub(super) fn complete(self, tasks: &mut Vec<Task>) {
        let listed: HashMap<u32, ()> = tasks.iter().map(|task| (task.id, ())).collect();
        let was_there = |(&id, thread): (&u32, &Thread)| {
            let process = thread.process.filter(|_| !thread.made && !listed.contains_key(&id))?;
            let kernel = thread.kernel && !thread.user && process == id;
            Some(Task { id, process, name: thread.name, kernel })
        };
        let mut more: Vec<Task> = self.threads.iter().filter_map(was_there).collect();
        more.sort_by_key(|task| task.id);
        tasks.extend(more);
    }
}

/// The list of threads that lies beside a text, if there is one: `a.tasks` or `a.txt.tasks` for `a.txt`
/// and `a.txt.gz`.
pub(super) fn beside(text: &Path) -> Option<PathBuf> {
    let packed = matches!(text.extension().and_then(|end| end.to_str()), Some("gz" | "zst"));
    let inner = if packed { text.with_extension("") } else { text.to_owned() };
    let appended = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".tasks");
        PathBuf::from(name)
    };
    let places = [inner.with_extension("tasks"), appended(&inner), appended(text)];
    places.into_iter().find(|path| path.is_file() && path != text)
}

/// Reads such a list, the output of `grep -H . /proc/[0-9]*/task/[0-9]*/stat`. Tells how many lines of it
/// could not be read.
pub(super) fn read(path: &Path, names: &mut Names) -> Result<(Vec<Task>, u64), BadTrace> {
    let bad = |Bad(place, why)| BadTrace { file: path.to_owned(), place, why };
    let file = File::open(path)
        .map_err(|error| bad(Bad(BadPlace::Whole, format!("it cannot be read: {error}"))))?;
    list(file, names).map_err(bad)
}

fn list(from: impl Read, names: &mut Names) -> Result<(Vec<Task>, u64), Bad> {
    let mut lines = Lines::new(from);
    let (mut tasks, mut damaged, mut first) = (Vec::new(), 0, None);
    loop {
        let number = lines.number() + 1;
        let line = lines.next().map_err(|error| Bad::reading(number, &error))?;
        let Some(line) = line else { break };
        match thread(line.bytes, names).filter(|_| line.end == End::Whole) {
            Some(task) => tasks.push(task),
            None => {
                damaged += 1;
                first = first.or(Some(line.number));
            }
        }
    }
    match first {
        Some(line) if tasks.is_empty() => Err(Bad(
            BadPlace::Line(line),
            "it is no list of threads, as `grep -H . /proc/[0-9]*/task/[0-9]*/stat` makes it"
                .into(),
        )),
        _ => Ok((tasks, damaged)),
    }
}

/// `/proc/4101/task/4102/stat:4102 (worker) S 1 2 3 4 5 4194560 ...`
fn thread(line: &[u8], names: &mut Names) -> Option<Task> {
    let (process, rest) = decimal(line.strip_prefix(b"/proc/")?)?;
    let (id, rest) = decimal(rest.strip_prefix(b"/task/")?)?;
    let rest = rest.strip_prefix(b"/stat:")?;
    let (again, rest) = decimal(rest)?;
    if again != id {
        return None;
    }
    let name = rest.strip_prefix(b" (")?;
    // A name may hold brackets; nothing after it does.
    let close = name.iter().rposition(|&byte| byte == b')')?;
    // The state, five numbers, and then the flags.
    let flags =
        name[close + 1..].split(|&byte| byte == b' ').filter(|word| !word.is_empty()).nth(6)?;
    let (flags, rest) = decimal(flags)?;
    Some(Task {
        id: u32::try_from(id).ok()?,
        process: u32::try_from(process).ok()?,
        name: names.number(&name[..close]),
        kernel: flags & KERNEL != 0,
    })
    .filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_whatever_they_are_called() {
        let text = b"/proc/1/task/1/stat:1 (init) S 0 1 1 0 -1 4194560 1 2\n\
            /proc/2/task/2/stat:2 (kthreadd) S 0 0 0 0 -1 2129984 0 0\n\
            /proc/7/task/9/stat:9 (a) (b c) R 0 1 1 0 -1 4194560 1 2\n\
            /proc/7/task/10/stat:11 (x) R 0 1 1 0 -1 4194560 1 2\n";
        let mut names = Names::default();
        let (tasks, damaged) = list(&text[..], &mut names).ok().unwrap();
        assert_eq!(damaged, 1);
        let found: Vec<_> = tasks
            .iter()
            .map(|t| (t.id, t.process, names.all()[t.name.0 as usize].as_str(), t.kernel))
            .collect();
        assert_eq!(
            found,
            [(1, 1, "init", false), (2, 2, "kthreadd", true), (9, 7, "a) (b c", false)]
        );
    }

    #[test]
    fn text_that_is_no_task_list_is_refused_with_its_line() {
        let Bad(place, _) = list(&b"something else\n"[..], &mut Names::default()).unwrap_err();
        assert_eq!(place, BadPlace::Line(1));
    }
}
