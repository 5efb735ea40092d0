//! What is counted, and the text of it: the exposition format 0.0.4 of Prometheus.

use core::fmt::Write as _;
use std::collections::{BTreeMap, HashMap};

use lookaside_traces::{CLONE_THREAD, Event, Kind, Pages, Purpose, Reason, record::Seen};

/// The name of all processes beyond so many: a database of series must not grow without end.
const PROCESSES: usize = 1000;
/// Their name.
const OTHERS: &str = "(others)";
/// The name of those of which nothing is known: their threads were there and had ended before they were listed.
const UNKNOWN: &str = "(unknown)";

/// All counts.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// By reason: flushes, the pages of those that are of some, and those of everything.
    flushes: [[u64; 3]; Reason::ALL.len()],
    requests: u64,
    interrupts: u64,
    lost: u64,
    processes: BTreeMap<String, Process>,
    threads: HashMap<u32, Thread>,
}

/// The counts of the processes of one name.
#[derive(Debug, Default)]
struct Process {
    flushes: u64,
    pages: u64,
    requests: u64,
    calls: u64,
    /// The time on CPUs in these calls, in nanoseconds.
    time: u64,
}

/// A thread.
#[derive(Clone, Debug)]
struct Thread {
    process: u32,
    name: String,
    /// The call that it is in: since when, and for how long it has not run since; since when it does not run.
    call: Option<(u64, u64)>,
    off: Option<u64>,
    /// It ends: it still gives back its memory, and then leaves its CPU for good.
    ends: bool,
}

impl Thread {
    const fn new(process: u32, name: String) -> Self {
        Self { process, name, call: None, off: None, ends: false }
    }
}

impl Counts {
    /// Counts what was seen.
    pub(super) fn note(&mut self, seen: &Seen<'_>, names: &[String]) {
        let name =
            |id: lookaside_traces::NameId| names.get(id.0 as usize).cloned().unwrap_or_default();
        match seen {
            Seen::Lost(events) => self.lost += events,
            Seen::Tasks(tasks) => {
                for task in *tasks {
                    self.threads.insert(task.id, Thread::new(task.process, name(task.name)));
                }
            }
            Seen::Event(event) => self.event(event, &name),
        }
    }

    fn event(&mut self, event: &Event, name: &dyn Fn(lookaside_traces::NameId) -> String) {
        let Event { time, task, .. } = *event;
        match event.kind {
            Kind::Flush { reason, pages } => {
                let [flushes, some, everything] = &mut self.flushes[reason as usize];
                *flushes += 1;
                match pages {
                    Pages::Some(pages) => *some += u64::from(pages),
                    Pages::Everything => *everything += 1,
                }
                if reason == Reason::LocalSpace {
                    let process = self.process(task);
                    process.flushes += 1;
                    if let Pages::Some(pages) = pages {
                        process.pages += u64::from(pages);
                    }
                }
            }
            Kind::Ask { flush: true, .. } => {
                self.requests += 1;
                self.process(task).requests += 1;
            }
            Kind::Send { purpose: Purpose::Functions, .. } => self.requests += 1,
            Kind::Serve { flush: true, .. } | Kind::Interrupt => self.interrupts += 1,
            Kind::Call { .. } => {
                if let Some(thread) = self.threads.get_mut(&task) {
                    (thread.call, thread.off) = (Some((time, 0)), None);
                }
            }
            Kind::Return { .. } => {
                let call = self.threads.get_mut(&task).and_then(|thread| thread.call.take());
                if let Some((since, off)) = call {
                    let process = self.process(task);
                    process.calls += 1;
                    process.time += time.saturating_sub(since).saturating_sub(off);
                }
            }
            Kind::Switch { next, runnable, .. } => {
                // Pre-empted, it goes on to end.
                if !runnable && self.threads.get(&task).is_some_and(|thread| thread.ends) {
                    self.threads.remove(&task);
                }
                if let Some(thread) =
                    self.threads.get_mut(&task).filter(|thread| thread.call.is_some())
                {
                    thread.off = Some(time);
                }
                if let Some(Thread { call: Some((_, off)), off: Some(since), .. }) =
                    self.threads.get_mut(&next)
                {
                    *off += time.saturating_sub(*since);
                    if let Some(thread) = self.threads.get_mut(&next) {
                        thread.off = None;
                    }
                }
            }
            Kind::Create { task: child, name: of, flags } => {
                let parent = self.threads.get(&task).map(|thread| thread.process);
                let process = parent.filter(|_| flags & CLONE_THREAD != 0).unwrap_or(child);
                self.threads.insert(child, Thread::new(process, name(of)));
            }
            Kind::Rename { task, name: of } => {
                if let Some(thread) = self.threads.get_mut(&task) {
                    thread.name = name(of);
                }
            }
            Kind::Exit => {
                if let Some(thread) = self.threads.get_mut(&task) {
                    thread.ends = true;
                }
            }
            _ => {}
        }
    }

    /// The counts of the process of a thread: it is called as its first thread.
    fn process(&mut self, task: u32) -> &mut Process {
        let thread = self.threads.get(&task);
        let first = thread.and_then(|thread| self.threads.get(&thread.process));
        let name = first.or(thread).map_or(UNKNOWN, |thread| &thread.name);
        let known = self.processes.contains_key(name) || self.processes.len() < PROCESSES;
        let name = if known { name } else { OTHERS };
        self.processes.entry(name.to_owned()).or_default()
    }

    /// The text of all counts.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, help: &str, samples: &mut dyn FnMut(&mut String)| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
            samples(&mut text);
        };
        let by_reason = |name: &'static str, which: usize| {
            move |text: &mut String| {
                for (reason, counts) in Reason::ALL.into_iter().zip(&self.flushes) {
                    let _ =
                        writeln!(text, "{name}{{reason=\"{}\"}} {}", reason.words(), counts[which]);
                }
            }
        };
        let name = "lookaside_flushes_total";
        family(name, "TLB flushes, as the kernel counts them.", &mut by_reason(name, 0));
        let name = "lookaside_flushed_pages_total";
        family(name, "Pages of flushes that are not of everything.", &mut by_reason(name, 1));
        let name = "lookaside_full_flushes_total";
        family(name, "Flushes of everything.", &mut by_reason(name, 2));
        let totals = [
            (
                "lookaside_requests_total",
                "Requests to flush that CPUs sent to each other.",
                self.requests,
            ),
            (
                "lookaside_interrupts_total",
                "Requests to flush that interrupted CPUs.",
                self.interrupts,
            ),
            ("lookaside_lost_events_total", "Events that the kernel had no room for.", self.lost),
        ];
        for (name, help, value) in totals {
            family(name, help, &mut |text| {
                let _ = writeln!(text, "{name} {value}");
            });
        }
        type Value = fn(&Process) -> String;
        let of_processes: [(&str, &str, Value); 5] = [
            ("lookaside_process_flushes_total", "Flushes that a process began.", |of| {
                of.flushes.to_string()
            }),
            ("lookaside_process_flushed_pages_total", "Pages of these flushes.", |of| {
                of.pages.to_string()
            }),
            ("lookaside_process_requests_total", "Requests to other CPUs to flush.", |of| {
                of.requests.to_string()
            }),
            ("lookaside_process_calls_total", "System calls that change page tables.", |of| {
                of.calls.to_string()
            }),
            ("lookaside_process_call_seconds_total", "Time on CPUs in these calls.", |of| {
                format!("{:.9}", of.time as f64 / 1e9)
            }),
        ];
        for (name, help, value) in of_processes {
            family(name, help, &mut |text| {
                for (process, counts) in &self.processes {
                    let _ = writeln!(
                        text,
                        "{name}{{process=\"{}\"}} {}",
                        escaped(process),
                        value(counts)
                    );
                }
            });
        }
        text
    }
}

/// A value of a label: quotes, backslashes and line feeds are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookaside_traces::{Call, NameId, Task};

    fn event(time: u64, task: u32, kind: Kind) -> Event {
        Event { time, cpu: 0, in_interrupt: Some(false), task, kind }
    }

    #[test]
    fn counts_are_by_reason_and_by_process() {
        let names = ["a \"b\\".to_owned(), "worker".to_owned()];
        let mut counts = Counts::default();
        let task = |id, name| Task { id, process: 7, name: NameId(name), kernel: false };
        counts.note(&Seen::Tasks(&[task(7, 0), task(8, 1)]), &names);
        let flush = |reason, pages| Kind::Flush { reason, pages };
        let events = [
            event(0, 8, Kind::Call { call: Call::Munmap, arguments: [0; 5] }),
            event(10, 8, flush(Reason::Send, Pages::Some(3))),
            event(11, 8, Kind::Ask { target: 1, request: 1, flush: true }),
            event(12, 8, flush(Reason::LocalSpace, Pages::Some(3))),
            event(100, 8, Kind::Switch { next: 7, name: NameId(0), runnable: true }),
            event(1100, 7, Kind::Switch { next: 8, name: NameId(1), runnable: true }),
            event(2000, 8, Kind::Return { call: Call::Munmap, value: 0 }),
            event(2001, 7, flush(Reason::LocalSpace, Pages::Everything)),
        ];
        events.iter().for_each(|event| counts.note(&Seen::Event(event), &names));
        counts.note(&Seen::Lost(5), &names);
        let text = counts.text();
        for line in [
            "lookaside_flushes_total{reason=\"local mm shootdown\"} 2",
            "lookaside_flushed_pages_total{reason=\"local mm shootdown\"} 3",
            "lookaside_full_flushes_total{reason=\"local mm shootdown\"} 1",
            "lookaside_requests_total 1",
            "lookaside_lost_events_total 5",
            "lookaside_process_flushes_total{process=\"a \\\"b\\\\\"} 2",
            "lookaside_process_call_seconds_total{process=\"a \\\"b\\\\\"} 0.000001000",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        // Each family has its help and type once, before its samples.
        let kinds = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(kinds, 11);
        assert!(text.ends_with('\n'));
    }

    /// As Prometheus reads it: the samples of a family follow its help and its type, each is there once, and is a number.
    #[test]
    fn the_text_is_one_that_prometheus_reads() {
        let names = ["a\nb".to_owned(), "c d".to_owned()];
        let mut counts = Counts::default();
        let task = |id, name| Task { id, process: id, name: NameId(name), kernel: false };
        counts.note(&Seen::Tasks(&[task(7, 0), task(8, 1)]), &names);
        for task in [7, 8, 7] {
            let kind = Kind::Flush { reason: Reason::LocalSpace, pages: Pages::Some(2) };
            counts.note(&Seen::Event(&event(1, task, kind)), &names);
        }
        let text = counts.text();
        let (mut family, mut seen) = (String::new(), std::collections::BTreeSet::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split(' ').next().unwrap().to_owned();
                assert!(family.starts_with("lookaside_") && family.ends_with("_total"), "{line}");
                assert_eq!(lines.next().unwrap(), format!("# TYPE {family} counter"));
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
            assert!(seen.insert(series.to_owned()), "{line} is there twice");
            let labels = series.strip_prefix(&family).unwrap_or_else(|| panic!("{line}: {family}"));
            let is_labelled = labels.starts_with("{") && labels.ends_with("\"}");
            assert!(labels.is_empty() || is_labelled, "{line}");
        }
        assert!(seen.contains("lookaside_process_flushes_total{process=\"a\\nb\"}"), "{seen:?}");
        assert!(text.contains("lookaside_process_flushed_pages_total{process=\"c d\"} 2\n"));
    }

    /// Linux 6.18 says that a thread ends before its memory is given back.
    #[test]
    fn what_a_process_flushes_as_it_ends_is_its_own() {
        let names = ["server".to_owned()];
        let mut counts = Counts::default();
        let task = Task { id: 7, process: 7, name: NameId(0), kernel: false };
        counts.note(&Seen::Tasks(&[task]), &names);
        let flush = Kind::Flush { reason: Reason::LocalSpace, pages: Pages::Everything };
        let switch = |runnable| Kind::Switch { next: 0, name: NameId(0), runnable };
        let kinds = [Kind::Exit, flush, switch(true), flush, switch(false)];
        for kind in kinds {
            counts.note(&Seen::Event(&event(1, 7, kind)), &names);
        }
        let flushes = |name: &str| counts.processes.get(name).map(|process| process.flushes);
        assert_eq!((flushes("server"), flushes(UNKNOWN)), (Some(2), None));
        assert!(counts.threads.is_empty());
    }

    #[test]
    fn series_do_not_grow_without_end() {
        let mut counts = Counts::default();
        let names: Vec<String> = (0..1100).map(|n| format!("p{n}")).collect();
        let tasks: Vec<Task> = (0..1100)
            .map(|n| Task { id: n + 1, process: n + 1, name: NameId(n), kernel: false })
            .collect();
        counts.note(&Seen::Tasks(&tasks), &names);
        for task in tasks {
            let kind = Kind::Flush { reason: Reason::LocalSpace, pages: Pages::Some(1) };
            counts.note(&Seen::Event(&event(0, task.id, kind)), &names);
        }
        assert_eq!(counts.processes.len(), PROCESSES + 1);
        assert_eq!(counts.processes[OTHERS].flushes, 100);
    }
}
