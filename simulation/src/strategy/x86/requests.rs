//! Calls of functions on other CPUs, as Linux makes them: a queue for each CPU and a record for each
//! pair of caller and target.

use core::cell::{OnceCell, RefCell};

use lookaside::platform::{CpuId, Ordering, Targets, Word as _};
use lookaside_machine::timed::{self, Arena, Word};

/// A request to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The space; none for the kernel's addresses.
    pub(super) space: Option<u32>,
    pub(super) first: u64,
    /// 0 for everything.
    pub(super) pages: u64,
    /// The generation of the space that this flush begins.
    pub(super) generation: u64,
    /// Whether the CPU is to load the space's root again, under the tag that it has now.
    pub(super) reload: bool,
}

/// How calls are laid out in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Whether the request is in the record itself; otherwise it is in a line of the caller's, which the
    /// record points to.
    pub(super) inlined: bool,
    /// Whether a target releases the record before it performs the request.
    pub(super) early: bool,
}

#[repr(align(64))]
struct Line(Word);

/// The queues and records of a machine.
pub(super) struct Calls<'a> {
    arena: &'a Arena,
    layout: Layout,
    /// The head of each target's queue: whether the queue is non-empty.
    heads: &'a [Line],
    /// The callers in each queue.
    queues: Vec<RefCell<Vec<u32>>>,
    /// The request of each caller: a cache line of its stack.
    asks: &'a [Line],
    asked: Vec<RefCell<Option<Asked>>>,
    /// For each caller that has called the record of each target: 1 while the target has it.
    records: Vec<OnceCell<&'a [Line]>>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(arena: &'a Arena, cpus: usize, layout: Layout) -> Self {
        let lines = |name| {
            let lines = arena.fill(cpus, |_| Line(Word::ZERO));
            timed::name(lines, name);
            lines
        };
        Self {
            arena,
            layout,
            heads: lines("queues of calls"),
            queues: (0..cpus).map(|_| RefCell::default()).collect(),
            asks: lines("requests"),
            asked: (0..cpus).map(|_| RefCell::default()).collect(),
            records: (0..cpus).map(|_| OnceCell::new()).collect(),
        }
    }

    fn record(&self, from: u32, to: u32) -> &'a Word {
        let records = self.records[from as usize].get_or_init(|| {
            let lines = self.arena.fill(self.heads.len(), |_| Line(Word::ZERO));
            timed::name(lines, "records of calls");
            lines
        });
        &records[to as usize].0
    }

    /// Sends a request to `targets`, which do not include this CPU. Interrupts those whose queues were empty.
    pub(super) fn ask(&self, targets: &[CpuId], asked: Asked, interrupt: impl Fn(Targets)) {
        let me = timed::cpu();
        *self.asked[me.index()].borrow_mut() = Some(asked);
        if !self.layout.inlined {
            self.asks[me.index()].0.store(1, Ordering::Relaxed);
        }
        let mut groups: Vec<Targets> = Vec::new();
        for &target in targets {
            self.record(me.0, target.0).store(1, Ordering::Relaxed);
            let head = &self.heads[target.index()].0;
            // A list without a lock: read the head, put the record before it.
            let mut first = head.load(Ordering::Relaxed);
            while let Err(now) =
                head.compare_exchange(first, 1, Ordering::SeqCst, Ordering::Relaxed)
            {
                first = now;
            }
            self.queues[target.index()].borrow_mut().push(me.0);
            if first == 0 {
                let base = target.0 & !63;
                let bit = 1 << (target.0 & 63);
                match groups.last_mut() {
                    Some(group) if group.first.0 == base => group.mask |= bit,
                    _ => groups.push(Targets { first: CpuId(base), mask: bit }),
                }
            }
        }
        groups.into_iter().for_each(interrupt);
    }

    /// Waits until the targets have given their records back.
    pub(super) fn wait(&self, targets: &[CpuId]) {
        let me = timed::cpu();
        for target in targets {
            let record = self.record(me.0, target.0);
            while record.load(Ordering::Acquire) != 0 {
                timed::relax();
            }
        }
    }

    /// On a target: calls `f` with each pending request.
    pub(super) fn handle_ipi(&self, mut f: impl FnMut(&Asked)) {
        let me = timed::cpu();
        if self.heads[me.index()].0.swap(0, Ordering::SeqCst) == 0 {
            return;
        }
        let callers = core::mem::take(&mut *self.queues[me.index()].borrow_mut());
        for caller in callers {
            let record = self.record(caller, me.0);
            let _ = record.load(Ordering::Acquire);
            if !self.layout.inlined {
                let _ = self.asks[caller as usize].0.load(Ordering::Relaxed);
            }
            let asked = *self.asked[caller as usize].borrow();
            let Some(asked) = asked else { continue };
            if self.layout.early {
                record.store(0, Ordering::Release);
            }
            f(&asked);
            if !self.layout.early {
                record.store(0, Ordering::Release);
            }
        }
    }
}
