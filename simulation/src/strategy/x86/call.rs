//! Function calls on other CPUs, as Linux makes them: a record for each pair of CPUs, a queue for each
//! target, an interrupt for a queue that was empty, and a wait for all records.

use core::cell::RefCell;

use lookaside::platform::{CpuId, Ordering, Targets, Word as _};
use lookaside_machine::timed::{self, Arena, Word};

/// The number of CPUs in one word of a mask.
const BITS: u32 = u64::BITS;

/// A set of CPUs in the memory of the machine.
#[derive(Clone, Copy)]
pub(super) struct Mask<'a>(&'a [Word]);

impl<'a> Mask<'a> {
    /// An empty set, in cache lines of its own.
    pub(super) fn new(arena: &'a Arena, cpus: usize, name: &'static str) -> Self {
        let words = arena.fill(cpus.div_ceil(BITS as usize), |_| Word::ZERO);
        timed::name(words, name);
        Self(words)
    }

    fn place(self, cpu: CpuId) -> (&'a Word, u64) {
        (&self.0[cpu.index() / BITS as usize], 1 << (cpu.0 % BITS))
    }

    pub(super) fn has(self, cpu: CpuId) -> bool {
        let (word, bit) = self.place(cpu);
        word.load(Ordering::Relaxed) & bit != 0
    }

    pub(super) fn add(self, cpu: CpuId) {
        let (word, bit) = self.place(cpu);
        word.fetch_or(bit, Ordering::SeqCst);
    }

    pub(super) fn remove(self, cpu: CpuId) {
        let (word, bit) = self.place(cpu);
        word.fetch_and(!bit, Ordering::SeqCst);
    }

    /// All members but one, in groups of one word each.
    pub(super) fn others(self, but: CpuId) -> impl Iterator<Item = Targets> {
        self.0.iter().zip(0..).filter_map(move |(word, group)| {
            let first = CpuId(group * BITS);
            let mut mask = word.load(Ordering::SeqCst);
            if but.0 / BITS == group {
                mask &= !(1 << (but.0 % BITS));
            }
            (mask != 0).then_some(Targets { first, mask })
        })
    }
}

/// All CPUs but one, in groups.
pub(super) fn all_others(cpus: usize, but: CpuId) -> impl Iterator<Item = Targets> {
    (0..cpus as u32).step_by(BITS as usize).filter_map(move |first| {
        let count = (cpus as u32 - first).min(BITS);
        let mut mask = u64::MAX >> (BITS - count);
        if (first..first + count).contains(&but.0) {
            mask &= !(1 << (but.0 - first));
        }
        (mask != 0).then_some(Targets { first: CpuId(first), mask })
    })
}

/// A call from one CPU to another: a cache line.
#[repr(align(64))]
struct Record {
    /// 1 from the request until the target has executed the call.
    busy: Word,
    /// The caller, whose request is to be read.
    from: Word,
    /// The next entry of the queue, in the form of [`Queue`].
    next: Word,
}

/// A target's queue of calls: the number of the latest caller plus one, or 0 if it is empty.
#[repr(align(64))]
struct Queue(Word);

/// The calls of all CPUs.
pub(super) struct Calls<'a> {
    arena: &'a Arena,
    queues: &'a [Queue],
    /// By caller and by target; allocated at a CPU's first call.
    records: RefCell<Vec<Option<&'a [Record]>>>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(arena: &'a Arena, cpus: usize) -> Self {
        let queues = arena.fill(cpus, |_| Queue(Word::ZERO));
        timed::name(queues, "call queues");
        Self { arena, queues, records: RefCell::new(vec![None; cpus]) }
    }

    fn records(&self, caller: usize) -> &'a [Record] {
        self.records.borrow_mut()[caller].get_or_insert_with(|| {
            let record = |_| Record { busy: Word::ZERO, from: Word::ZERO, next: Word::ZERO };
            let records = self.arena.fill(self.queues.len(), record);
            timed::name(records, "call records");
            records
        })
    }

    /// Sends calls to other CPUs. The caller has stored its request where the targets read it. Returns the
    /// groups to wait for.
    pub(super) fn send<P: lookaside::Platform>(
        &self,
        platform: &P,
        groups: impl Iterator<Item = Targets>,
    ) -> Vec<Targets> {
        let me = timed::cpu();
        let records = self.records(me.index());
        let groups: Vec<_> = groups.collect();
        let mut sleeping = Vec::with_capacity(groups.len());
        for group in &groups {
            let mut interrupted = Targets { mask: 0, ..*group };
            for target in group.iter() {
                let record = &records[target.index()];
                while record.busy.load(Ordering::Acquire) != 0 {
                    platform.relax();
                }
                record.busy.store(1, Ordering::Relaxed);
                record.from.store(u64::from(me.0), Ordering::Relaxed);
                let queue = &self.queues[target.index()].0;
                let mut head = queue.load(Ordering::Relaxed);
                loop {
                    record.next.store(head, Ordering::Relaxed);
                    let mine = u64::from(me.0) + 1;
                    let swapped =
                        queue.compare_exchange(head, mine, Ordering::AcqRel, Ordering::Relaxed);
                    match swapped {
                        Ok(_) => break,
                        Err(other) => head = other,
                    }
                }
                if head == 0 {
                    interrupted.mask |= 1 << (target.0 - group.first.0);
                }
            }
            sleeping.push(interrupted);
        }
        for group in sleeping.into_iter().filter(|group| group.mask != 0) {
            platform.send_ipi(group);
        }
        groups
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

    /// Executes this CPU's pending calls: `process` gets the number of the caller.
    pub(super) fn handle_ipi(&self, mut process: impl FnMut(usize)) {
        let me = timed::cpu().index();
        let mut next = self.queues[me].0.swap(0, Ordering::AcqRel);
        while next != 0 {
            let record = &self.records(next as usize - 1)[me];
            next = record.next.load(Ordering::Relaxed);
            process(record.from.load(Ordering::Relaxed) as usize);
            record.busy.store(0, Ordering::Release);
        }
    }
}
