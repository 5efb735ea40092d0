//! A timeline: what each CPU did, and when.
//!
//! Nothing is noted unless [`Options::timeline`](super::Options::timeline) asks for it, and then at most
//! so many moments: the latest. A run does and takes the same with a timeline and without.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{account::Cause, machine::Machine, price::Ps};

/// The latest moments of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// They, in the order in which they were over: what lasts longer than its parts comes after them.
    pub moments: Vec<Moment>,
    /// How many there were before, of which nothing is known any more.
    pub dropped: u64,
    /// When the program of each CPU ended.
    pub ended: Vec<Ps>,
}

/// Something that was going on. Times are in picoseconds since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A CPU did something. What one CPU did is nested: two slices of it are apart, or one is within
    /// the other.
    Slice {
        /// Which CPU.
        cpu: u32,
        /// What.
        doing: Doing,
        /// From when.
        begin: Ps,
        /// Until when.
        end: Ps,
    },
    /// An interrupt, from one CPU to another.
    Interrupt(Interrupt),
    /// A broadcast invalidation was under way.
    Broadcast {
        /// Whose.
        cpu: u32,
        /// Since when.
        begin: Ps,
        /// When it was answered.
        end: Ps,
    },
    /// How often a CPU had walked its page tables until then.
    Walks {
        /// Which CPU.
        cpu: u32,
        /// When.
        time: Ps,
        /// How often since the machine was started.
        count: u64,
    },
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// What its program says that it does ([`during`](super::during)), or `interrupt`.
    Activity(&'static str),
    /// It waits.
    Waiting(Cause),
}

/// An interrupt on its way. Those that are taken together have the same moment in `taken`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// The CPU that sent it.
    pub from: u32,
    /// To whom.
    pub to: u32,
    /// When it was sent.
    pub sent: Ps,
    /// When its handler was entered, if it was.
    pub taken: Option<Ps>,
    /// When its handler was left, if it was.
    pub returned: Option<Ps>,
    /// When the sender got a cache line that the handler had written: the last one in the activity in
    /// which the interrupt was sent. None if the sender went on without.
    pub answered: Option<Ps>,
}

/// An interrupt that may still be taken, left or answered.
struct Open {
    interrupt: Interrupt,
    /// Whether the sender has gone on to something else.
    closed: bool,
}

/// An activity that is not over.
struct Begun {
    name: &'static str,
    begin: Ps,
    /// To whom interrupts were sent in it.
    sent: Vec<u32>,
}

/// One CPU, as the recorder sees it.
#[derive(Default)]
struct Seen {
    /// What it does, the innermost last.
    stack: Vec<Begun>,
    /// Interrupts that it has not taken: when each arrives, and from whom.
    pending: Vec<(Ps, u32)>,
    /// The CPU whose interrupts it handles.
    serving: Vec<u32>,
    /// How many interrupts of its own are not closed.
    waits_for: usize,
    /// How many walks were noted.
    walks: u64,
}

/// What writes the timeline of a run.
pub(crate) struct Recorder {
    limit: usize,
    moments: VecDeque<Moment>,
    dropped: u64,
    cpus: Vec<Seen>,
    /// By sender and target, the oldest first.
    open: FxHashMap<(u32, u32), VecDeque<Open>>,
    /// Which handlers have written a cache line, and when last.
    writers: FxHashMap<usize, Vec<(u32, Ps)>>,
}

impl Recorder {
    pub(crate) fn new(limit: usize, cpus: usize) -> Self {
        Self {
            limit,
            moments: VecDeque::new(),
            dropped: 0,
            cpus: (0..cpus).map(|_| Seen::default()).collect(),
            open: FxHashMap::default(),
            writers: FxHashMap::default(),
        }
    }

    fn push(&mut self, moment: Moment) {
        if self.moments.len() == self.limit {
            self.moments.pop_front();
            self.dropped += 1;
        }
        self.moments.push_back(moment);
    }

    fn walks(&mut self, cpu: usize, time: Ps, count: u64) {
        if self.cpus[cpu].walks != count {
            self.cpus[cpu].walks = count;
            self.push(Moment::Walks { cpu: cpu as u32, time, count });
        }
    }

    fn begin(&mut self, cpu: usize, name: &'static str, now: Ps) {
        self.cpus[cpu].stack.push(Begun { name, begin: now, sent: Vec::new() });
    }

    fn end(&mut self, cpu: usize, now: Ps) {
        let Some(Begun { name, begin, sent }) = self.cpus[cpu].stack.pop() else { return };
        self.cpus[cpu].waits_for -= sent.len();
        for to in sent {
            self.close(cpu as u32, to);
        }
        let doing = Doing::Activity(name);
        self.push(Moment::Slice { cpu: cpu as u32, doing, begin, end: now });
    }

    fn waited(&mut self, waiter: u32, why: Cause, from: Ps, until: Ps) {
        // A wait in a loop that polls is one for each time round.
        if let Some(Moment::Slice { cpu, doing, end, .. }) = self.moments.back_mut()
            && (*cpu, *doing, *end) == (waiter, Doing::Waiting(why), from)
        {
            *end = until;
            return;
        }
        let doing = Doing::Waiting(why);
        self.push(Moment::Slice { cpu: waiter, doing, begin: from, end: until });
    }

    /// The sender does something else from here on.
    fn close(&mut self, from: u32, to: u32) {
        let Some(open) = self.open.get_mut(&(from, to)) else { return };
        if let Some(first) = open.iter_mut().find(|open| !open.closed) {
            first.closed = true;
        }
        self.settle(from, to);
    }

    /// Keeps the interrupts to which nothing more can happen.
    fn settle(&mut self, from: u32, to: u32) {
        while let Some(open) = self.open.get_mut(&(from, to))
            && let Some(first) = open.front()
            && first.closed
            && first.interrupt.returned.is_some()
        {
            let interrupt = first.interrupt;
            open.pop_front();
            self.push(Moment::Interrupt(interrupt));
        }
    }

    fn sent(&mut self, from: usize, to: usize, sent: Ps, arrival: Ps) {
        self.cpus[to].pending.push((arrival, from as u32));
        let (key, sender) = ((from as u32, to as u32), &mut self.cpus[from]);
        // What is sent outside of every activity stays open until the run is over.
        if let Some(begun) = sender.stack.last_mut() {
            begun.sent.push(to as u32);
            sender.waits_for += 1;
        }
        let interrupt =
            Interrupt { from: key.0, to: key.1, sent, taken: None, returned: None, answered: None };
        self.open.entry(key).or_default().push_back(Open { interrupt, closed: false });
    }

    fn taken(&mut self, cpu: usize, now: Ps) {
        let Seen { pending, serving, .. } = &mut self.cpus[cpu];
        for (_, from) in pending.extract_if(.., |(arrival, _)| *arrival <= now) {
            serving.push(from);
            let open = self.open.get_mut(&(from, cpu as u32)).into_iter().flatten();
            if let Some(open) = open.into_iter().find(|open| open.interrupt.taken.is_none()) {
                open.interrupt.taken = Some(now);
            }
        }
    }

    fn returned(&mut self, cpu: usize, now: Ps) {
        for from in core::mem::take(&mut self.cpus[cpu].serving) {
            for open in self.open.get_mut(&(from, cpu as u32)).into_iter().flatten() {
                let interrupt = &mut open.interrupt;
                if interrupt.taken.is_some() && interrupt.returned.is_none() {
                    interrupt.returned = Some(now);
                }
            }
            self.settle(from, cpu as u32);
        }
    }

    fn wrote(&mut self, cpu: usize, line: usize, now: Ps) {
        if self.cpus[cpu].serving.is_empty() {
            return;
        }
        let writers = self.writers.entry(line).or_default();
        match writers.iter_mut().find(|(writer, _)| *writer == cpu as u32) {
            Some((_, time)) => *time = now,
            None => writers.push((cpu as u32, now)),
        }
    }

    fn read(&mut self, cpu: usize, line: usize, now: Ps) {
        if self.cpus[cpu].waits_for == 0 {
            return;
        }
        for &(writer, written) in self.writers.get(&line).into_iter().flatten() {
            for open in self.open.get_mut(&(cpu as u32, writer)).into_iter().flatten() {
                if !open.closed && open.interrupt.taken.is_some_and(|taken| taken <= written) {
                    open.interrupt.answered = Some(now);
                }
            }
        }
    }

    /// What was noted. What is still going on ends now, at the time of its CPU.
    fn finish(mut self, now: &[Ps], ended: Vec<Ps>) -> Timeline {
        for (cpu, &now) in now.iter().enumerate() {
            while !self.cpus[cpu].stack.is_empty() {
                self.end(cpu, now);
            }
        }
        let mut left: Vec<Interrupt> =
            self.open.values().flatten().map(|open| open.interrupt).collect();
        left.sort_by_key(|interrupt| (interrupt.sent, interrupt.from, interrupt.to));
        left.into_iter().for_each(|interrupt| self.push(Moment::Interrupt(interrupt)));
        Timeline { moments: self.moments.into(), dropped: self.dropped, ended }
    }
}

/// What the machine records, if a timeline is kept.
impl Machine {
    #[inline]
    fn note(&mut self, note: impl FnOnce(&mut Recorder, usize, Ps)) {
        if let Some(recorder) = &mut self.recorder {
            let cpu = self.running;
            note(recorder, cpu, self.cpus[cpu].now);
        }
    }

    /// An activity begins on the CPU that runs.
    #[inline]
    pub(crate) fn note_begin(&mut self, name: &'static str) {
        if self.recorder.is_some() {
            self.note_walks();
            self.note(|recorder, cpu, now| recorder.begin(cpu, name, now));
        }
    }

    /// The activity that began last on the CPU that runs is over.
    #[inline]
    pub(crate) fn note_end(&mut self) {
        if self.recorder.is_some() {
            self.note_walks();
            self.note(Recorder::end);
        }
    }

    fn note_walks(&mut self) {
        let count = self.cpu().counters.walks;
        self.note(|recorder, cpu, now| recorder.walks(cpu, now, count));
    }

    /// The CPU that runs has waited for so long.
    #[inline]
    pub(crate) fn note_wait(&mut self, cause: Cause, time: Ps) {
        self.note(|recorder, cpu, end| {
            if time > 0 {
                recorder.waited(cpu as u32, cause, end - time, end);
            }
        });
    }

    /// The CPU that runs sends an interrupt.
    #[inline]
    pub(crate) fn note_interrupt(&mut self, to: usize, arrival: Ps) {
        self.note(|recorder, cpu, now| recorder.sent(cpu, to, now, arrival));
    }

    /// The CPU that runs takes the interrupts that have arrived.
    #[inline]
    pub(crate) fn note_taken(&mut self) {
        self.note(Recorder::taken);
        self.note_begin("interrupt");
    }

    /// The CPU that runs leaves the handler of interrupts.
    #[inline]
    pub(crate) fn note_returned(&mut self) {
        self.note_end();
        self.note(Recorder::returned);
    }

    /// The CPU that runs takes a cache line away from others, to write it.
    #[inline]
    pub(crate) fn note_wrote(&mut self, line: usize) {
        self.note(|recorder, cpu, now| recorder.wrote(cpu, line, now));
    }

    /// The CPU that runs has got a cache line to read.
    #[inline]
    pub(crate) fn note_read(&mut self, line: usize) {
        self.note(|recorder, cpu, now| recorder.read(cpu, line, now));
    }

    /// A broadcast of the CPU that runs is under way until then.
    #[inline]
    pub(crate) fn note_broadcast(&mut self, end: Ps) {
        self.note(|recorder, cpu, begin| {
            recorder.push(Moment::Broadcast { cpu: cpu as u32, begin, end });
        });
    }

    /// The recorded timeline, if one was kept.
    pub(crate) fn take_timeline(&mut self) -> Option<Timeline> {
        let recorder = self.recorder.take()?;
        let now: Vec<Ps> = self.cpus.iter().map(|cpu| cpu.now).collect();
        let ended = self.cpus.iter().map(|cpu| cpu.ended.unwrap_or(cpu.now)).collect();
        Some(recorder.finish(&now, ended))
    }
}
