//! Filters the recording of a command, or of processes that were followed: keeps the events of these processes and
//! their descendants, the requests that other CPUs
//! executed for them, and all switches. Of other processes no name and no operation remains.

use std::collections::{HashMap, HashSet};

use crate::{Call, Event, Kind, NameId, Reason, Trace};

/// The name of threads of other processes.
const OTHER: &str = "other";
/// The name of kernel threads.
const KERNEL: &str = "kernel";

/// The handler that runs on a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    /// The place of the event with which the handler of requests began, on a thread that is none of
    /// ours: it is kept if a request of ours is served in it.
    interrupt: Option<usize>,
    /// Whether a request of ours was served in it.
    interrupt_is_ours: bool,
    /// In a request: whether one of ours sent it, and whether it is served in an interrupt. None outside.
    serves: Option<(bool, Option<bool>)>,
}

impl Busy {
    /// Ends a request, at the latest, at an event of its CPU that no request causes.
    fn ends_before(&mut self, event: &Event) {
        if self.serves.is_some_and(|(_, inside)| !event.is_of_request(inside)) {
            self.serves = None;
        }
    }
}

/// Removes events from a trace that do not concern its subject: the command of [`Origin::root`], the processes of
/// [`Origin::members`], and the descendants of both.
///
/// [`Origin::root`]: crate::Origin::root
/// [`Origin::members`]: crate::Origin::members
pub(super) fn only(trace: &mut Trace) {
    let mut tree = Tree::new(trace);
    let keep: Vec<bool> = tree.mark(&trace.events);
    let mut marks = keep.iter();
    trace.events.retain(|_| *marks.next().expect("one for each event"));
    tree.hide(trace);
}

/// Removes the calls of `close` of descriptors by which nobody mapped a file shared: programs make many, and `fsync` of such
/// a descriptor flushes nothing.
pub(super) fn closes_of_mapped(events: &mut Vec<Event>) {
    let mapped = events.iter().filter_map(|event| event.kind.maps_file_shared());
    let mapped: HashSet<u32> = mapped.map(|(descriptor, _)| descriptor).collect();
    let mut removed = HashSet::new();
    events.retain(|event| match event.kind {
        Kind::Call { call: Call::Close, arguments: [descriptor, ..] } => {
            let is_kept = mapped.contains(&(descriptor as u32));
            if is_kept {
                removed.remove(&event.task);
            } else {
                removed.insert(event.task);
            }
            is_kept
        }
        Kind::Return { call: Call::Close, .. } => !removed.remove(&event.task),
        _ => true,
    });
}

/// The place of the event with which a process begins its first `execve`: the change of its name, which
/// precedes the event of the `execve`. 0 if there is none.
fn begins(root: u32, events: &[Event]) -> usize {
    let executes = |event: &Event| matches!(event.kind, Kind::Execute { task, .. } if task == root);
    let end = events.iter().position(executes).unwrap_or(0);
    let renames = |event: &Event| matches!(event.kind, Kind::Rename { task, .. } if task == root);
    events[..end].iter().rposition(renames).unwrap_or(end)
}

struct Tree {
    /// Our threads that live, or have lived.
    ours: HashSet<u32>,
    /// By the number of a request: whether one of ours sent the latest one with this number.
    requests: HashMap<u64, bool>,
    cpus: Vec<Busy>,
    kernel: HashSet<u32>,
    /// The process of the command, and the place of the event with which it executes the command: earlier
    /// events are the recorder's.
    root: Option<u32>,
    begins: usize,
    /// Processes that belong to the subject whoever made them.
    members: HashSet<u32>,
}

impl Tree {
    fn new(trace: &Trace) -> Self {
        let root = trace.origin.root;
        let members: HashSet<u32> = trace.origin.members.iter().copied().collect();
        let cpus = trace.events.iter().map(|event| usize::from(event.cpu) + 1).max().unwrap_or(0);
        let kernel = trace.tasks.iter().filter(|task| task.kernel).map(|task| task.id).collect();
        let is_ours = |process: u32| Some(process) == root || members.contains(&process);
        let first = trace.tasks.iter().filter(|task| is_ours(task.process)).map(|task| task.id);
        Self {
            ours: first.chain(root).collect(),
            requests: HashMap::new(),
            cpus: vec![Busy::default(); cpus],
            kernel,
            root,
            begins: root.map_or(0, |root| begins(root, &trace.events)),
            members,
        }
    }

    /// Which events are kept.
    fn mark(&mut self, events: &[Event]) -> Vec<bool> {
        let mut keep = vec![false; events.len()];
        for (place, event) in events.iter().enumerate() {
            keep[place] = self.keeps(event, place, &mut keep);
        }
        keep
    }

    fn keeps(&mut self, event: &Event, place: usize, keep: &mut [bool]) -> bool {
        let begun = Some(event.task) != self.root || place >= self.begins;
        let ours = begun && self.ours.contains(&event.task);
        let cpu = &mut self.cpus[usize::from(event.cpu)];
        cpu.ends_before(event);
        match event.kind {
            Kind::Switch { .. } | Kind::Lost { .. } => true,
            Kind::Create { task, .. } => {
                // A number may have been another process's before.
                if ours || self.members.contains(&task) {
                    self.ours.insert(task)
                } else {
                    self.ours.remove(&task)
                };
                true
            }
            Kind::Execute { old, task } => {
                if self.ours.contains(&old) {
                    self.ours.insert(task);
                }
                true
            }
            Kind::Exit => true,
            Kind::Migrate { task, .. } => self.ours.contains(&task),
            Kind::Rename { task, .. } => {
                self.ours.contains(&task) && (Some(task) != self.root || place >= self.begins)
            }
            Kind::Unmapped { .. }
            | Kind::Caller { .. }
            | Kind::Call { .. }
            | Kind::Return { .. }
            | Kind::Fault { .. }
            | Kind::Send { .. }
            | Kind::SendMany { .. } => ours,
            Kind::Ask { request, .. } => {
                self.requests.insert(request, ours);
                ours
            }
            Kind::Serve { request, .. } => {
                // A request that was sent before the recording has an unknown sender.
                let known = self.requests.get(&request).copied();
                let served = known.filter(|_| request != 0).unwrap_or(ours);
                cpu.serves = Some((served, event.in_interrupt));
                if served {
                    cpu.interrupt_is_ours = true;
                    if let Some(interrupt) = cpu.interrupt {
                        keep[interrupt] = true;
                    }
                }
                served
            }
            Kind::Served { .. } => cpu.serves.take().map_or(ours, |(served, _)| served),
            Kind::Interrupt => {
                cpu.interrupt = Some(place);
                cpu.interrupt_is_ours = ours;
                ours
            }
            Kind::Resume => {
                cpu.interrupt = None;
                cpu.interrupt_is_ours
            }
            // A flush in a request belongs to the sender of the request. Those of switches belong to the
            // switch, and all switches are kept.
            Kind::Flush { reason, .. } => match (cpu.serves, reason) {
                (Some((served, _)), _) => served,
                (None, Reason::Switch) => true,
                (None, _) => ours,
            },
        }
    }

    /// Removes the names of other processes.
    fn hide(&self, trace: &mut Trace) {
        let mut names = Vec::new();
        let mut numbers = HashMap::new();
        let mut kept = |name: &str| {
            *numbers.entry(name.to_owned()).or_insert_with(|| {
                names.push(name.to_owned());
                NameId(u32::try_from(names.len() - 1).expect("no more than there were"))
            })
        };
        let old = core::mem::take(&mut trace.names);
        let mut neutral = |task: u32, name: NameId| {
            let name = match task {
                task if self.ours.contains(&task) => old.get(name.0 as usize).map(String::as_str),
                task if self.kernel.contains(&task) => Some(KERNEL),
                0 => Some(KERNEL),
                _ => None,
            };
            kept(name.unwrap_or(OTHER))
        };
        for event in &mut trace.events {
            match &mut event.kind {
                Kind::Switch { next: task, name, .. }
                | Kind::Create { task, name, .. }
                | Kind::Rename { task, name } => *name = neutral(*task, *name),
                Kind::Caller { function } => *function = neutral(event.task, *function),
                _ => {}
            }
        }
        for task in &mut trace.tasks {
            task.name = neutral(task.id, task.name);
        }
        trace.names = names;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pages, Purpose, Task};

    const ROOT: u32 = 10;
    const CHILD: u32 = 11;
    const STRANGER: u32 = 90;

    fn event(cpu: u16, task: u32, kind: Kind) -> Event {
        Event { time: 0, cpu, in_interrupt: Some(false), task, kind }
    }

    fn flush(reason: Reason) -> Kind {
        Kind::Flush { reason, pages: Pages::Some(1) }
    }

    fn ask(request: u64) -> Kind {
        Kind::Ask { target: 1, request, flush: true }
    }

    fn served(request: u64) -> [Kind; 5] {
        [
            Kind::Interrupt,
            Kind::Serve { request, flush: true },
            flush(Reason::Remote),
            Kind::Served { request, flush: true },
            Kind::Resume,
        ]
    }

    fn call() -> Kind {
        Kind::Call { call: Call::Munmap, arguments: [0; 5] }
    }

    fn trace(events: impl IntoIterator<Item = Event>) -> Trace {
        let task = |id, name, kernel| Task { id, process: id, name: NameId(name), kernel };
        Trace {
            tasks: vec![task(2, 2, true), task(ROOT, 0, false), task(STRANGER, 1, false)],
            names: ["ours", "secret", "kworker/secret"].map(str::to_owned).to_vec(),
            events: events.into_iter().collect(),
            origin: crate::Origin { root: Some(ROOT), ..crate::Origin::default() },
        }
    }

    fn kept(events: &[Event]) -> Vec<Event> {
        let mut trace = trace(events.iter().copied());
        only(&mut trace);
        trace.events
    }

    #[test]
    fn descendants_are_kept_and_strangers_are_not() {
        let create = |task| Kind::Create { task, name: NameId(0), flags: 0 };
        let ours = [
            event(0, ROOT, create(CHILD)),
            event(0, CHILD, call()),
            event(0, CHILD, create(12)),
            event(0, 12, Kind::Fault { address: 1, code: 7 }),
            event(0, 12, flush(Reason::LocalSpace)),
            event(0, 12, Kind::Send { target: 1, purpose: Purpose::Functions }),
        ];
        let foreign = [
            event(1, STRANGER, call()),
            event(1, STRANGER, flush(Reason::LocalSpace)),
            event(1, STRANGER, Kind::Fault { address: 1, code: 7 }),
            event(1, STRANGER, Kind::Send { target: 0, purpose: Purpose::WakeUp }),
            event(1, STRANGER, Kind::Unmapped { space: 5 }),
            event(1, STRANGER, Kind::Rename { task: STRANGER, name: NameId(1) }),
        ];
        assert_eq!(kept(&ours), ours);
        assert_eq!(kept(&foreign), []);
        // A number that was ours is not, once a stranger has it.
        let again = [event(0, ROOT, create(CHILD)), event(1, STRANGER, create(CHILD))];
        let stale = event(1, CHILD, call());
        assert_eq!(kept(&[again[0], again[1], stale]).len(), 2);
    }

    #[test]
    fn requests_that_strangers_execute_for_us_are_kept_and_others_are_not() {
        let on = |task, kinds: [Kind; 5]| kinds.map(|kind| event(1, task, kind));
        let mut events = vec![event(0, ROOT, ask(7))];
        events.extend(on(STRANGER, served(7)));
        assert_eq!(kept(&events), events);
        let mut events = vec![event(0, STRANGER, ask(7))];
        events.extend(on(STRANGER, served(7)));
        assert_eq!(kept(&events), []);
        // We are interrupted for others: the interrupt took our time, the flush belongs to them.
        let mut events = vec![event(0, STRANGER, ask(7))];
        events.extend(on(ROOT, served(7)));
        let [.., first, _, _, _, last] = events[..] else { unreachable!("six events") };
        assert_eq!(kept(&events), [first, last]);
    }

    #[test]
    fn a_request_ends_where_its_cpu_does_something_else() {
        let [_, serve, flushed, _, _] = served(7);
        // The end of a request is not recorded. A stranger's is served in an interrupt of ours; our flushes
        // after that are ours.
        let inside = |kind| Event { in_interrupt: Some(true), ..event(1, ROOT, kind) };
        let own = event(1, ROOT, flush(Reason::WrongSpace));
        let asked = event(0, STRANGER, ask(7));
        assert_eq!(kept(&[asked, inside(serve), inside(flushed), own]), [own]);
        let fault = event(1, ROOT, Kind::Fault { address: 1, code: 7 });
        let ours = [fault, inside(flush(Reason::WrongSpace))];
        let mut events = vec![asked, inside(serve)];
        events.extend(ours);
        assert_eq!(kept(&events), ours);
    }

    #[test]
    fn events_before_the_command_is_executed_are_the_recorders() {
        let rename = event(0, ROOT, Kind::Rename { task: ROOT, name: NameId(0) });
        let execute = event(0, ROOT, Kind::Execute { task: ROOT, old: ROOT });
        let early = [
            event(0, ROOT, call()),
            event(0, ROOT, flush(Reason::LocalSpace)),
            event(0, ROOT, Kind::Fault { address: 1, code: 7 }),
        ];
        let own = [rename, event(0, ROOT, Kind::Fault { address: 2, code: 6 }), execute];
        let later = [event(0, ROOT, call()), rename, execute];
        assert_eq!(kept(&[&early[..], &own, &later].concat()), [own, later].concat());
    }

    #[test]
    fn followed_processes_are_kept_whoever_made_them() {
        let create = |task| Kind::Create { task, name: NameId(0), flags: 0 };
        let events = [
            event(0, ROOT, call()),
            event(1, STRANGER, create(CHILD)),
            event(1, CHILD, call()),
            event(1, STRANGER, call()),
        ];
        let kept = |members: &[u32]| {
            let mut trace = trace(events);
            trace.origin = crate::Origin { members: members.to_vec(), ..crate::Origin::default() };
            only(&mut trace);
            trace.events
        };
        assert_eq!(kept(&[ROOT]), events[..2]);
        // One that a stranger made has entered the group.
        assert_eq!(kept(&[ROOT, CHILD]), events[..3]);
        assert_eq!(kept(&[STRANGER]), events[1..]);
    }

    #[test]
    fn only_descriptors_by_which_a_file_was_mapped_shared_are_of_interest() {
        let call = |call, arguments| event(0, ROOT, Kind::Call { call, arguments });
        let map = |flags, descriptor| call(Call::Mmap, [0, 4096, 3, flags, descriptor]);
        let close = |descriptor| call(Call::Close, [descriptor, 0, 0, 0, 0]);
        let closed = event(0, ROOT, Kind::Return { call: Call::Close, value: 0 });
        let other = Event { task: CHILD, ..close(9) };
        // Private, anonymous, and nothing.
        let maps = [map(1, 3), map(2, 4), map(0x21, u64::from(u32::MAX))];
        let mut events = [&maps[..], &[other, close(3), closed, close(4), closed]].concat();
        closes_of_mapped(&mut events);
        assert_eq!(events, [&maps[..], &[close(3), closed]].concat());
    }

    #[test]
    fn switches_stay_with_neutral_names() {
        let switch = |next, name| Kind::Switch { next, name: NameId(name), runnable: false };
        let mut trace = trace([
            event(0, STRANGER, switch(2, 2)),
            event(0, 2, flush(Reason::Switch)),
            event(0, 2, switch(ROOT, 0)),
            event(0, ROOT, switch(STRANGER, 1)),
            event(0, STRANGER, switch(0, 1)),
        ]);
        only(&mut trace);
        assert_eq!(trace.events.len(), 5);
        let names = trace.events.iter().filter_map(|event| match event.kind {
            Kind::Switch { name, .. } => Some(trace.names[name.0 as usize].as_str()),
            _ => None,
        });
        let names: Vec<_> = names.collect();
        assert_eq!(names, ["kernel", "ours", "other", "kernel"]);
        assert!(!trace.names.iter().any(|name| name.contains("secret")), "{:?}", trace.names);
        let first: Vec<_> =
            trace.tasks.iter().map(|task| trace.names[task.name.0 as usize].as_str()).collect();
        assert_eq!(first, ["kernel", "ours", "other"]);
    }
}
