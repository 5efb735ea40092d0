//! Function calls on other CPUs, as Linux makes them (`smp_call_function_many`): a record for each pair of CPUs, a queue
//! for each target, an interrupt for a queue that was empty, and a wait for all records.

use core::cell::RefCell;

use lookaside::platform::{CpuId, Ordering, Targets, Word as _};
use lookaside_machine::timed::{self, Arena, Word};

use super::{
    patches::{Patch, Patches},
    request::{Request, Slip},
};

/// A call from one CPU to another: a cache line.
#[repr(align(64))]
struct Record {
    /// 1 from the request until the target has acknowledged.
    busy: Word,
    /// The next record of the queue, in the form of [`Queue`].
    next: Word,
    /// The number of the caller, whose line has the request.
    at: Word,
    /// The request, where it is not in a line of the caller.
    request: Slip,
}

/// A target's queue of calls: the number of the latest caller plus one, or 0 if it is empty.
#[repr(align(64))]
struct Queue(Word);

/// A line of a caller that holds its request.
#[repr(align(64))]
struct Own(Slip);

/// The calls of all CPUs.
pub(super) struct Calls<'a> {
    arena: &'a Arena,
    inlined: bool,
    early: bool,
    queues: &'a [Queue],
    requests: &'a [Own],
    /// By caller and by target; allocated at a CPU's first call.
    records: RefCell<Vec<Option<&'a [Record]>>>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(arena: &'a Arena, cpus: usize, patches: Patches) -> Self {
        let queues = arena.fill(cpus, |_| Queue(Word::ZERO));
        timed::name(queues, "call queues");
        let requests = arena.fill(cpus, |_| Own(Slip::new()));
        timed::name(requests, "requests");
        Self {
            arena,
            inlined: patches.has(Patch::Inlined),
            early: patches.has(Patch::EarlyAck),
            queues,
            requests,
            records: RefCell::new(vec![None; cpus]),
        }
    }

    fn records(&self, caller: usize) -> &'a [Record] {
        self.records.borrow_mut()[caller].get_or_insert_with(|| {
            let record = |_| Record {
                busy: Word::ZERO,
                next: Word::ZERO,
                at: Word::ZERO,
                request: Slip::new(),
            };
            let records = self.arena.fill(self.queues.len(), record);
            timed::name(records, "call records");
            records
        })
    }

    /// The record of a call to this CPU by a caller that a queue names.
    fn to_me(&self, caller: u64) -> &'a Record {
        &self.records(caller as usize - 1)[timed::cpu().index()]
    }

    /// Calls those CPUs of `groups`, which do not include this one, of which `wanted` says so. Returns the CPUs to wait
    /// for.
    pub(super) fn send<P: lookaside::Platform>(
        &self,
        platform: &P,
        groups: impl Iterator<Item = Targets>,
        wanted: impl Fn(CpuId) -> bool,
        request: &Request,
    ) -> Vec<Targets> {
        let me = timed::cpu();
        if !self.inlined {
            self.requests[me.index()].0.write(request);
        }
        let mut called: Vec<_> = groups.collect();
        let mut interrupted = Vec::with_capacity(called.len());
        for group in &mut called {
            let Targets { first, mask } = *group;
            let mut empty = Targets { first, mask: 0 };
            for target in (Targets { first, mask }).iter() {
                let bit = 1 << (target.0 - first.0);
                if !wanted(target) {
                    group.mask &= !bit;
                    continue;
                }
                let record = self.fill_in(platform, me, target, request);
                if self.enqueue(record, me, target) {
                    empty.mask |= bit;
                }
            }
            interrupted.push(empty);
        }
        for group in interrupted.into_iter().filter(|group| group.mask != 0) {
            platform.send_ipi(group);
        }
        called
    }

    /// Takes a record, which may still be in use by the call before, and writes a call into it.
    fn fill_in<P: lookaside::Platform>(
        &self,
        platform: &P,
        me: CpuId,
        target: CpuId,
        request: &Request,
    ) -> &'a Record {
        let record = &self.records(me.index())[target.index()];
        while record.busy.load(Ordering::Acquire) != 0 {
            platform.relax();
        }
        record.busy.store(1, Ordering::Relaxed);
        if self.inlined {
            record.request.write(request);
        } else {
            record.at.store(me.0.into(), Ordering::Relaxed);
        }
        record
    }

    /// Puts a record at the head of a queue, and returns whether the queue was empty.
    fn enqueue(&self, record: &Record, me: CpuId, target: CpuId) -> bool {
        let queue = &self.queues[target.index()].0;
        let mine = u64::from(me.0) + 1;
        let head = queue.update(|head| {
            record.next.set(head);
            mine
        });
        head == 0
    }

    /// Waits until all targets have acknowledged. Interrupts are on, to avoid a deadlock of two initiators.
    pub(super) fn wait<P: lookaside::Platform>(&self, platform: &P, groups: &[Targets]) {
        let records = self.records(timed::cpu().index());
        for target in groups.iter().flat_map(|group| group.iter()) {
            while records[target.index()].busy.load(Ordering::Acquire) != 0 {
                platform.relax();
            }
        }
    }

    /// Whether this CPU has pending calls. Takes no time.
    pub(super) fn are_queued(&self) -> bool {
        self.queues[timed::cpu().index()].0.peek() != 0
    }

    /// Executes this CPU's pending calls in the order in which they came.
    pub(super) fn handle_ipi(&self, mut process: impl FnMut(&Request)) {
        let mut latest = self.queues[timed::cpu().index()].0.swap(0, Ordering::AcqRel);
        // The queue has the latest call first.
        let mut first = 0;
        while latest != 0 {
            timed::follow();
            let next = &self.to_me(latest).next;
            let earlier = next.load(Ordering::Relaxed);
            next.store(first, Ordering::Relaxed);
            (first, latest) = (latest, earlier);
        }
        while first != 0 {
            // A call is more instructions than a CPU looks ahead, so no load of the next overlaps with it.
            timed::follow();
            let record = self.to_me(first);
            first = record.next.load(Ordering::Relaxed);
            let request = if self.inlined {
                record.request.read()
            } else {
                self.requests[record.at.load(Ordering::Relaxed) as usize].0.read()
            };
            if self.early {
                record.busy.store(0, Ordering::Release);
            }
            process(&request);
            if !self.early {
                record.busy.store(0, Ordering::Release);
            }
        }
    }
}
