//! Traces as stories: who does what, a microsecond after what came before.

use std::collections::BTreeMap;

use lookaside_traces::{
    Call, Event, Kind, NameId, Pages, Reason, Task, Trace,
    reconstruct::{Act, Flushes, Initiator, Script, Step, reconstruct},
};

/// Flags of `mmap`: private memory, private file, shared file, at this address, populated.
pub(crate) const ANONYMOUS: u64 = 0x22;
pub(crate) const FILE: u64 = 0x2;
pub(crate) const SHARED: u64 = 0x1;
pub(crate) const FIXED: u64 = 0x10;
pub(crate) const POPULATE: u64 = 0x8000;
/// What is allowed.
pub(crate) const NONE: u64 = 0;
pub(crate) const READ: u64 = 1;
pub(crate) const WRITE: u64 = 3;
/// Codes of faults: read and write where nothing is, write where a page is.
pub(crate) const ABSENT_READ: u64 = 4;
pub(crate) const ABSENT_WRITE: u64 = 6;
pub(crate) const COPY: u64 = 7;
/// Flags of `clone` of a fork.
pub(crate) const FORK: u64 = 0x120_0000;
/// Of a thread.
pub(crate) const THREAD: u64 = 0x3d_0f00;
/// Of `vfork`.
pub(crate) const VFORK: u64 = 0x4100;
/// Where stories map things: two mebibytes aligned, and alone there.
pub(crate) const BASE: u64 = 0x7000_0000_0000;

/// A trace in the making.
pub(crate) struct Story {
    pub(crate) trace: Trace,
    now: u64,
    /// The CPU and the thread of what comes next.
    cpu: u16,
    task: u32,
    interrupt: Option<bool>,
}

impl Story {
    /// Thread 10 of process 10 runs on CPU 0, thread 20 of process 20 exists, and thread 2 is the
    /// kernel's.
    pub(crate) fn new() -> Self {
        let mut story = Self {
            trace: Trace::default(),
            now: 1_000_000,
            cpu: 0,
            task: 10,
            interrupt: Some(false),
        };
        story.trace.origin.cpus = 2;
        for (id, name, kernel) in [(10, "old", false), (20, "other", false), (2, "kthreadd", true)]
        {
            let name = story.name(name);
            story.trace.tasks.push(Task { id, process: id, name, kernel });
        }
        story
    }

    /// Thread 10 has just executed `new`, so that all of its space is known.
    pub(crate) fn fresh() -> Self {
        let mut story = Self::new();
        story.execute("new");
        story
    }

    pub(crate) fn name(&mut self, name: &str) -> NameId {
        let names = &mut self.trace.names;
        let place = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.into());
            names.len() - 1
        });
        NameId(place as u32)
    }

    /// What comes next is done by that thread on that CPU.
    pub(crate) fn on(&mut self, cpu: u16, task: u32) -> &mut Self {
        (self.cpu, self.task) = (cpu, task);
        self
    }

    /// What comes next is done in an interrupt, or not.
    pub(crate) fn interrupt(&mut self, inside: Option<bool>) -> &mut Self {
        self.interrupt = inside;
        self
    }

    pub(crate) fn event(&mut self, kind: Kind) -> &mut Self {
        self.now += 1000;
        let Self { now: time, cpu, task, interrupt: in_interrupt, .. } = *self;
        self.trace.events.push(Event { time, cpu, in_interrupt, task, kind });
        self
    }

    pub(crate) fn switch(&mut self, next: u32) -> &mut Self {
        self.switch_from(next, true)
    }

    pub(crate) fn switch_from(&mut self, next: u32, runnable: bool) -> &mut Self {
        let name = self.name("switched");
        self.event(Kind::Switch { next, name, runnable });
        self.task = next;
        self
    }

    pub(crate) fn begin(&mut self, call: Call, arguments: &[u64]) -> &mut Self {
        let mut all = [0; 5];
        all[..arguments.len()].copy_from_slice(arguments);
        self.event(Kind::Call { call, arguments: all })
    }

    pub(crate) fn end(&mut self, call: Call, value: i64) -> &mut Self {
        self.event(Kind::Return { call, value })
    }

    pub(crate) fn call(&mut self, call: Call, arguments: &[u64]) -> &mut Self {
        self.begin(call, arguments).end(call, 0)
    }

    /// Maps pages at [`BASE`] plus some.
    pub(crate) fn map(&mut self, page: u64, pages: u64, prot: u64, flags: u64) -> &mut Self {
        let address = BASE + page * 4096;
        let arguments = [address, pages * 4096, prot, flags];
        self.begin(Call::Mmap, &arguments).end(Call::Mmap, address as i64)
    }

    /// A call about pages at [`BASE`] plus some.
    pub(crate) fn about(&mut self, call: Call, page: u64, pages: u64, third: u64) -> &mut Self {
        self.call(call, &[BASE + page * 4096, pages * 4096, third])
    }

    pub(crate) fn touch(&mut self, pages: impl IntoIterator<Item = u64>, code: u64) -> &mut Self {
        for page in pages {
            self.event(Kind::Fault { address: BASE + page * 4096 + 8, code });
        }
        self
    }

    pub(crate) fn create(&mut self, task: u32, flags: u64) -> &mut Self {
        let name = self.name("child");
        self.event(Kind::Create { task, name, flags })
    }

    pub(crate) fn execute(&mut self, name: &str) -> &mut Self {
        let (name, task) = (self.name(name), self.task);
        self.event(Kind::Rename { task, name });
        self.event(Kind::Execute { task, old: task })
    }

    pub(crate) fn flush(&mut self, reason: Reason, pages: i64) -> &mut Self {
        let pages = u32::try_from(pages).map_or(Pages::Everything, Pages::Some);
        self.event(Kind::Flush { reason, pages })
    }

    pub(crate) fn script(&self, flushes: Flushes) -> Script {
        reconstruct(&self.trace, flushes).expect("a story is a good trace")
    }

    /// The flushes that follow from the calls, beyond those of `before`: pages, or -1 for everything.
    pub(crate) fn flushes_since(&self, before: &Self) -> Vec<i64> {
        let count = |story: &Self| story.script(Flushes::FromCalls).expected;
        difference(&count(self), &count(before))
    }

    pub(crate) fn copy(&self) -> Self {
        Self { trace: self.trace.clone(), ..*self }
    }
}

fn difference(after: &BTreeMap<Pages, u64>, before: &BTreeMap<Pages, u64>) -> Vec<i64> {
    let mut all = Vec::new();
    for (&pages, &count) in after {
        let number = match pages {
            Pages::Some(pages) => i64::from(pages),
            Pages::Everything => -1,
        };
        let more = count - before.get(&pages).copied().unwrap_or(0);
        all.extend(core::iter::repeat_n(number, more as usize));
    }
    all
}

/// The steps of all CPUs, by time.
pub(crate) fn steps(script: &Script) -> Vec<Step> {
    let mut steps: Vec<Step> = script.cpus.iter().flatten().copied().collect();
    steps.sort_by_key(|step| step.time);
    steps
}

/// The same, without who and when.
pub(crate) fn acts(script: &Script) -> Vec<Act> {
    steps(script).into_iter().map(|step| step.act).collect()
}

/// Who did the first step of that kind.
pub(crate) fn initiator(script: &Script, kind: impl Fn(&Act) -> bool) -> &Initiator {
    let step = steps(script).into_iter().find(|step| kind(&step.act)).expect("there is one");
    &script.initiators[step.initiator as usize]
}
