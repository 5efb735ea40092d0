//! Text that other tools print, line by line.

use std::{collections::BTreeSet, io::Read};

use super::{
    Bad,
    body::{Body, body},
    field::{after_blanks, decimal, split_first},
    head::{Dialect, Head, defect},
    lines::{End, Lines},
    tasks::Seen,
};
use crate::{
    BadPlace, Event, Kind, Names, Origin, Task, Trace,
    binary::events,
    callers::{self, Frame},
    order::{cpus, order},
};

/// Reads text. `tasks` and `names` are what a list of threads has given.
pub(super) fn read(from: impl Read, tasks: Vec<Task>, names: Names) -> Result<Trace, Bad> {
    let mut lines = Lines::new(from);
    let mut reader = Reader {
        dialect: None,
        seen: Seen::default(),
        names,
        origin: Origin::default(),
        events: Vec::new(),
        latest: Vec::new(),
        first_bad: None,
        defect: None,
        lines: 0,
        chain: None,
        recorded: BTreeSet::new(),
    };
    loop {
        let number = lines.number() + 1;
        let line = lines.next().map_err(|error| Bad::reading(number, &error))?;
        let Some(line) = line else { break };
        match line.end {
            End::Whole => reader.line(line.number, line.bytes),
            End::TooLong => reader.damaged(line.number),
            // It may look right and be the beginning of a longer one.
            End::Cut => reader.origin.losses.truncated = true,
        }
    }
    reader.origin.losses.truncated |= lines.cut();
    reader.finish(tasks)
}

struct Reader {
    dialect: Option<Dialect>,
    seen: Seen,
    names: Names,
    origin: Origin,
    events: Vec<Event>,
    /// By CPU: time and thread of the latest event.
    latest: Vec<Option<(u64, u32)>>,
    /// The first line that could not be read.
    first_bad: Option<u64>,
    /// What is wrong with it, if that is known.
    defect: Option<&'static str>,
    /// How many lines there were of events, whole or not.
    lines: u64,
    /// The functions of the latest event, as far as they were read; none if it can have none.
    chain: Option<Vec<Frame>>,
    /// The events that a header says were recorded.
    recorded: BTreeSet<String>,
}

impl Reader {
    fn line(&mut self, number: u64, line: &[u8]) {
        let head = match self.dialect {
            Some(dialect) => dialect.head(line),
            None => {
                self.dialect = Dialect::of(line);
                self.dialect.and_then(|dialect| dialect.head(line))
            }
        };
        if head.is_some() || line.is_empty() {
            self.end_chain();
        }
        match head {
            Some(head) => {
                if self.lines == 0 {
                    self.defect = defect(line);
                }
                self.lines += 1;
                self.event(number, &head);
            }
            None if self.frame(line) || self.remark(line) => {}
            None => {
                self.lines += 1;
                if self.first_bad.is_none() {
                    self.defect = defect(line).or(self.defect);
                }
                self.damaged(number);
            }
        }
    }

    fn damaged(&mut self, line: u64) {
        self.origin.losses.damaged += 1;
        self.first_bad.get_or_insert(line);
    }

    fn event(&mut self, number: u64, head: &Head<'_>) {
        match body(head.rest, &mut self.names) {
            Body::Foreign => self.origin.losses.foreign += 1,
            Body::Damaged => self.damaged(number),
            Body::Known { kind, task, kernel } => {
                let latest = self.latest_of(head.cpu).map(|(_, task)| task);
                // `perf` forgets who ran when the thread is gone: it is still the one that ran before.
                let Some(ran) = task.or(head.task).or(latest) else {
                    return self.damaged(number);
                };
                self.seen.note(head, kernel, &kind, &mut self.names);
                let &Head { cpu, in_interrupt, time, .. } = head;
                *self.latest_of(cpu) = Some((time, ran));
                let event = Event { time, cpu, in_interrupt, task: ran, kind };
                self.events.push(event);
                let may_have = self.dialect == Some(Dialect::Perf) && event.is_of_its_thread();
                self.chain = may_have.then(Vec::new);
            }
        }
    }

    fn latest_of(&mut self, cpu: u16) -> &mut Option<(u64, u32)> {
        let cpu = usize::from(cpu);
        if self.latest.len() <= cpu {
            self.latest.resize(cpu + 1, None);
        }
        &mut self.latest[cpu]
    }

    /// A function of the call chain of the latest event.
    fn frame(&mut self, line: &[u8]) -> bool {
        if self.dialect != Some(Dialect::Perf) {
            return false;
        }
        let Some(frame) = callers::line(line) else { return false };
        if let Some((chain, frame)) = self.chain.as_mut().zip(frame)
            && chain.len() < callers::DEPTH
        {
            chain.push(frame);
        }
        true
    }

    /// The call chain of the latest event is over: who called goes before it.
    fn end_chain(&mut self) {
        if let Some(caller) = self.chain.take().as_deref().and_then(callers::caller)
            && let Some(event) = self.events.pop()
        {
            let kind = Kind::Caller { function: self.names.number(caller.as_bytes()) };
            self.events.extend([Event { kind, ..event }, event]);
        }
    }

    /// What a tool says beside events. False if it is nothing of the kind.
    fn remark(&mut self, line: &[u8]) -> bool {
        let line = line.trim_ascii();
        if let Some(comment) = line.strip_prefix(b"#") {
            self.comment(after_blanks(comment));
            return true;
        }
        if let Some(rest) = line.strip_prefix(b"CPU:") {
            return self.lost(rest);
        }
        // `trace-cmd` says how many CPUs, and which of them have no events; traces of stacks follow
        // their events.
        if let Some(cpus) = line.strip_prefix(b"cpus=") {
            return decimal(cpus).is_some_and(|(cpus, _)| self.cpus(cpus));
        }
        line.is_empty()
            || line.starts_with(b"=>")
            || (line.starts_with(b"CPU ") && line.ends_with(b"is empty"))
    }

    fn cpus(&mut self, cpus: u64) -> bool {
        let cpus = u32::try_from(cpus).ok().filter(|&cpus| cpus <= 1 << 16);
        self.origin.cpus = self.origin.cpus.max(cpus.unwrap_or(0));
        cpus.is_some()
    }

    /// A line of a header, of tracefs or of `perf script --header`.
    fn comment(&mut self, comment: &[u8]) {
        let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes.trim_ascii()).into_owned());
        let after_colon = || split_first(comment, b":").map(|(_, rest)| rest);
        if comment.starts_with(b"entries-in-buffer/entries-written:") {
            self.entries(comment);
        } else if comment.starts_with(b"os release :") {
            self.origin.kernel = after_colon().and_then(text);
        } else if comment.starts_with(b"arch :") {
            self.origin.architecture = after_colon().and_then(text);
        } else if comment.starts_with(b"event : name =") {
            // `event : name = tlb:tlb_flush, , id = { 237, 238 }, ...`
            let name = split_first(comment, b"=").and_then(|(_, rest)| text(rest));
            let name = name.as_deref().and_then(|name| name.split(',').next()?.split_once(':'));
            self.recorded.extend(name.map(|(system, name)| format!("{system}/{name}")));
        } else if comment.starts_with(b"nrcpus online :")
            && let Some((cpus, _)) = after_colon().and_then(|rest| decimal(after_blanks(rest)))
        {
            self.cpus(cpus);
        }
    }

    /// `entries-in-buffer/entries-written: 11203/11203   #P:2`: what was written and is not there was
    /// overwritten before anybody read it.
    fn entries(&mut self, comment: &[u8]) {
        let counts = || {
            let (_, rest) = split_first(comment, b":")?;
            let (there, rest) = decimal(after_blanks(rest))?;
            let (written, rest) = decimal(rest.strip_prefix(b"/")?)?;
            Some((there, written, split_first(rest, b"#P:").map(|(_, cpus)| cpus)))
        };
        let Some((there, written, cpus)) = counts() else { return };
        self.lose(written.saturating_sub(there));
        if let Some((cpus, _)) = cpus.and_then(decimal) {
            self.cpus(cpus);
        }
    }

    fn lose(&mut self, events: u64) {
        let lost = &mut self.origin.losses.lost;
        *lost = lost.saturating_add(events);
    }

    /// `CPU:1 [LOST 20 EVENTS]` of tracefs, `CPU:1 [20 EVENTS DROPPED]` of `trace-cmd`; either may be
    /// without the number. It stands before the first event that was not lost.
    fn lost(&mut self, rest: &[u8]) -> bool {
        let found = || {
            let (cpu, rest) = decimal(rest)?;
            let inner = after_blanks(rest).strip_prefix(b"[")?.strip_suffix(b"]")?;
            let count = match inner {
                b"LOST EVENTS" | b"EVENTS DROPPED" => 0,
                _ => {
                    let count = inner.strip_prefix(b"LOST ").unwrap_or(inner);
                    let (count, words) = decimal(count)?;
                    if !matches!(words, b" EVENTS" | b" EVENTS DROPPED") {
                        return None;
                    }
                    count
                }
            };
            Some((u16::try_from(cpu).ok()?, count))
        };
        let Some((cpu, events)) = found() else { return false };
        // A number that is not known is one at least.
        self.lose(events.max(1));
        let known = *self.latest_of(cpu);
        let (time, task) = known.or(self.events.last().map(|e| (e.time, 0))).unwrap_or((0, 0));
        let kind = Kind::Lost { events };
        // Nothing was there to be lost from before the first event: the trace begins after it.
        if !self.events.is_empty() {
            self.events.push(Event { time, cpu, in_interrupt: None, task, kind });
        }
        true
    }

    fn finish(mut self, mut tasks: Vec<Task>) -> Result<Trace, Bad> {
        self.end_chain();
        let place = self.first_bad.map_or(BadPlace::Whole, BadPlace::Line);
        let hint = self.defect.map_or(String::new(), |defect| {
            format!(
                "; a line {defect}: `perf script -F comm,pid,tid,cpu,time,event,trace --ns` prints what is needed"
            )
        });
        if !self.events.iter().any(|event| !matches!(event.kind, Kind::Lost { .. })) {
            let why = "no event of interest can be read: it is no file of `lookaside record` \
                       (.trace), of `perf record` (perf.data) or of `trace-cmd record` \
                       (trace.dat), and no text of tracefs, of `trace-cmd report` or of \
                       `perf script`";
            return Err(Bad(place, format!("{why}{hint}")));
        }
        // What is left of most events is another program.
        let (damaged, lines) = (self.origin.losses.damaged, self.lines);
        if 2 * damaged > lines {
            let why = format!(
                "{damaged} of {lines} lines cannot be read, of which this is the first{hint}"
            );
            return Err(Bad(place, why));
        }
        self.seen.complete(&mut tasks);
        if !self.recorded.is_empty() {
            self.origin.absent = events::absent(|name| self.recorded.contains(name));
        }
        self.origin.cpus = self.origin.cpus.max(cpus(&self.events));
        self.origin.losses.reordered = order(&mut self.events);
        // Only x86 has these events.
        let x86 = |event: &Event| matches!(event.kind, Kind::Flush { .. } | Kind::Interrupt);
        if self.origin.architecture.is_none() && self.events.iter().any(x86) {
            self.origin.architecture = Some("x86_64".into());
        }
        self.events.shrink_to_fit();
        let Self { names, origin, events, .. } = self;
        Ok(Trace { origin, tasks, names: names.into_all(), events })
    }
}
