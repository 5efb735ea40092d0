//! A machine for host tests: real threads or pretended CPUs, and for each a TLB that holds all that
//! the walker could have brought in.
//!
//! It is a quick check of what the library records and executes; orderings are the explorer's business.

pub(crate) mod machine;

use core::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::{
    collections::BTreeSet,
    sync::{Mutex, OnceLock},
};

use lookaside::{
    Error, Platform, VaRange,
    arch::{
        Errata, Held, Invalidation, Mmu, Properties, Root, Scope, Sharing, TableChange, Tag, Wait,
    },
    counts::{Counts, Event, Outcome},
    platform::{Costs, CpuId, OperationCosts, Stuck, Targets, Word},
};

thread_local! {
    /// How often this thread has waited.
    static ROUNDS: Cell<u64> = const { Cell::new(0) };
    static CPU: Cell<u32> = const { Cell::new(0) };
    /// Whether the CPU that this thread is has interrupts on.
    pub(crate) static IRQS_ON: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` as the CPU with this number.
pub(crate) fn on<R>(cpu: u32, f: impl FnOnce() -> R) -> R {
    let before = CPU.replace(cpu);
    let result = f();
    CPU.set(before);
    result
}

/// The number of the CPU that the test is now.
pub(crate) fn this_cpu_number() -> u32 {
    CPU.get()
}

/// What was done to one CPU's hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Settle,
    Load {
        table: u64,
        tag: u16,
        held: Held,
        sharing: Sharing,
    },
    Park,
    FlushAll,
    FlushTag(u16),
    /// The tag, the first address and the pages; entries of tables stay.
    FlushRange(u16, u64, u64),
    /// The same, and entries of tables go too.
    FlushTables(u16, u64, u64),
    FlushAllEverywhere,
    FlushTagEverywhere(u16),
    FlushRangeEverywhere(u16, u64, u64, Wait),
    FlushTablesEverywhere(u16, u64, u64, Wait),
    CompleteEverywhere,
    /// First addresses and pages; none means everything.
    FlushKernel(Vec<(u64, u64)>),
    FlushKernelEverywhere(Vec<(u64, u64)>),
    Publish(Wait),
    /// Other CPUs were interrupted.
    Interrupt(Vec<u32>),
}

impl Op {
    /// Whether it removes something from a TLB, or asks for it.
    pub(crate) const fn acts(&self) -> bool {
        !matches!(self, Self::Settle | Self::Publish(_))
    }
}

/// When an interrupted CPU serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// As soon as it is interrupted.
    AtOnce,
    /// When somebody waits.
    WhenWaitedFor,
    /// When somebody waits, interrupted or not: no IPI arrives.
    Polls(u32),
    /// When the test says so.
    Never,
}

/// Entries under `tag`, from `table`, which other CPUs may use if they are `shared`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tag: u16,
    table: u64,
    shared: bool,
}

#[derive(Default)]
struct Hardware {
    named: Option<Entry>,
    /// Everything that entries may exist for.
    entries: BTreeSet<Entry>,
}

type Handler = Box<dyn Fn(u32) + Send + Sync>;
type Diagnosis = Box<dyn Fn(&Stuck) + Send + Sync>;

/// A moment of a flush, at which others may do something.
pub(crate) enum Moment {
    /// Before the next barrier after which walks see the tables as they are.
    Published,
    /// Before the next barrier that comes before a load of the root.
    Settled,
    /// Before something is next removed from a TLB.
    Removed,
    /// Before translations of kernel addresses are.
    KernelRemoved,
    /// When the platform is asked for the so many-th time what things cost.
    CostsAsked(u32),
    /// When the hardware is asked for the so many-th time what it is.
    PropertiesAsked(u32),
}

type Meanwhile = Option<(Moment, Box<dyn FnOnce() + Send>)>;

/// The machine.
pub(crate) struct Fake {
    pub(crate) mmu: FakeMmu,
    /// What each CPU counted.
    pub(crate) counts: Vec<Counts<AtomicU64>>,
    /// What has happened, in order.
    events: Mutex<Vec<(u32, Event)>>,
    /// Who waited for whom for too long.
    stuck: Mutex<Vec<Stuck>>,
    costs: Mutex<&'static Costs>,
    acknowledge: Mutex<Answer>,
    /// Rounds of waiting, on all threads.
    pub(crate) relaxed: AtomicU64,
    pending: Mutex<BTreeSet<u32>>,
    handler: OnceLock<Handler>,
    /// Called with each [`Stuck`].
    diagnosis: OnceLock<Diagnosis>,
    /// Whether the CPUs go on, as far as the platform knows.
    pub(crate) goes_on: AtomicBool,
}

pub(crate) struct FakeMmu {
    pub(crate) properties: Properties,
    cpus: Vec<Mutex<Hardware>>,
    /// What each CPU did, in order.
    trace: Mutex<Vec<(u32, Op)>>,
    /// How deep the latest flush of kernel addresses went.
    kernel_depth: Mutex<Option<TableChange>>,
    uniform: Mutex<Option<bool>>,
    /// What others do, and when.
    meanwhile: Mutex<Meanwhile>,
}

/// Numbers like those of a large machine, in nanoseconds: what is broadcast waits long, and what is
/// lost with a tag is worth many invalidations by address.
pub(crate) const COSTS: Costs = Costs {
    local: OperationCosts { address: 20, tag: 20, wait: 20, ceiling: u64::MAX },
    broadcast: OperationCosts { address: 50, tag: 50, wait: 1000, ceiling: u64::MAX },
    refill: 30,
    useful_entries: 100,
    ipi: 2000,
    ipi_more: 200,
    retag: 300,
};

impl Fake {
    pub(crate) fn new(cpus: usize, tag_bits: u32) -> Self {
        let hardware = (0..cpus).map(|_| Mutex::default()).collect();
        Self {
            mmu: FakeMmu {
                properties: Properties { broadcasts: true, ..Properties::plain(tag_bits, &COSTS) },
                cpus: hardware,
                trace: Mutex::default(),
                kernel_depth: Mutex::default(),
                uniform: Mutex::default(),
                meanwhile: Mutex::default(),
            },
            counts: (0..cpus).map(|_| Counts::new()).collect(),
            events: Mutex::default(),
            stuck: Mutex::default(),
            costs: Mutex::new(&COSTS),
            acknowledge: Mutex::new(Answer::AtOnce),
            relaxed: AtomicU64::new(0),
            pending: Mutex::default(),
            handler: OnceLock::new(),
            diagnosis: OnceLock::new(),
            goes_on: AtomicBool::new(false),
        }
    }

    pub(crate) fn shared(mut self) -> Self {
        self.mmu.properties.sharing = Sharing::Shared;
        self
    }

    pub(crate) fn without_broadcast(mut self) -> Self {
        self.mmu.properties.broadcasts = false;
        self
    }

    /// As firmware broadcasts on RISC-V: it returns when all CPUs have acted.
    pub(crate) fn with_broadcasts_that_wait(mut self) -> Self {
        self.mmu.properties.broadcasts_wait = true;
        self
    }

    /// As Arm is held to be.
    pub(crate) fn with_walks_that_outlive_tags(mut self) -> Self {
        self.mmu.properties.walks_outlive_tags = true;
        self
    }

    /// As x86.
    pub(crate) fn with_faults_that_forget(mut self) -> Self {
        self.mmu.properties.faults_forget = true;
        self
    }

    /// As x86, too.
    pub(crate) fn preferring_per_cpu_tags(mut self) -> Self {
        self.mmu.properties.prefers_per_cpu_tags = true;
        self
    }

    /// As x86 whose kernel has another root.
    pub(crate) fn with_user_flushes_deferred(mut self) -> Self {
        self.mmu.properties.defers_user_flush = true;
        self
    }

    /// As x86-64 with PCIDs and without `INVPCID`.
    pub(crate) fn without_reach_to_other_tags(mut self) -> Self {
        self.mmu.properties.reaches_other_tags = false;
        self
    }

    /// As RISC-V.
    pub(crate) fn with_absent_entries_cached(mut self) -> Self {
        self.mmu.properties.caches_absent = true;
        self
    }

    /// As RISC-V, where nothing else orders the tables before the walks.
    pub(crate) fn with_first_loads_that_drop(mut self) -> Self {
        self.mmu.properties.first_load = Held::Drop;
        self
    }

    /// Has others do something in the middle of what is called next.
    pub(crate) fn meanwhile(&self, when: Moment, act: impl FnOnce() + Send + 'static) {
        *self.mmu.meanwhile.lock().unwrap() = Some((when, Box::new(act)));
    }

    /// What was done on `cpu` since the last call; one [`Op::Settle`] for several in a row.
    pub(crate) fn log(&self, cpu: u32) -> Vec<Op> {
        let mut trace = self.mmu.trace.lock().unwrap();
        let mut log: Vec<_> =
            trace.extract_if(.., |(at, _)| *at == cpu).map(|(_, op)| op).collect();
        log.dedup_by(|a, b| (&*a, &*b) == (&Op::Settle, &Op::Settle));
        log
    }

    /// What was done on all CPUs since the last call and is more than a barrier.
    pub(crate) fn acts(&self) -> Vec<(u32, Op)> {
        let trace = core::mem::take(&mut *self.mmu.trace.lock().unwrap());
        trace.into_iter().filter(|(_, op)| op.acts()).collect()
    }

    pub(crate) fn forget_logs(&self) {
        self.mmu.trace.lock().unwrap().clear();
        self.events.lock().unwrap().clear();
    }

    /// What has happened since the last call.
    pub(crate) fn events(&self) -> Vec<(u32, Event)> {
        core::mem::take(&mut *self.events.lock().unwrap())
    }

    /// How the latest flush ended, and how many CPUs were interrupted for it.
    pub(crate) fn outcome(&self) -> (Outcome, u32) {
        let events = self.events();
        let flushed = |&(_, event): &(u32, Event)| match event {
            Event::Flushed { outcome, targets, .. } => Some((outcome, targets)),
            _ => None,
        };
        events.iter().rev().find_map(flushed).expect("something was flushed")
    }

    /// Who waited for too long since the last call.
    pub(crate) fn stuck_waits(&self) -> Vec<Stuck> {
        core::mem::take(&mut *self.stuck.lock().unwrap())
    }

    pub(crate) fn set_costs(&self, change: impl FnOnce(&mut Costs)) {
        let mut costs = self.costs.lock().unwrap();
        let mut changed = **costs;
        change(&mut changed);
        *costs = Box::leak(Box::new(changed));
    }

    pub(crate) fn set_answer(&self, acknowledge: Answer) {
        *self.acknowledge.lock().unwrap() = acknowledge;
    }

    /// The CPUs that were interrupted and have not served.
    pub(crate) fn pending(&self) -> Vec<u32> {
        self.pending.lock().unwrap().iter().copied().collect()
    }

    /// The interrupts that are pending were never sent.
    pub(crate) fn lose_ipis(&self) {
        self.pending.lock().unwrap().clear();
    }

    /// The interrupts arrive that are pending.
    pub(crate) fn deliver(&self) {
        let pending = core::mem::take(&mut *self.pending.lock().unwrap());
        if let Some(handler) = self.handler.get() {
            pending.into_iter().for_each(handler);
        }
    }

    fn set_handler(&self, handler: impl Fn(u32) + Send + Sync + 'static) {
        assert!(self.handler.set(Box::new(handler)).is_ok());
    }

    pub(crate) fn set_diagnosis(&self, diagnosis: impl Fn(&Stuck) + Send + Sync + 'static) {
        assert!(self.diagnosis.set(Box::new(diagnosis)).is_ok());
    }
}

impl FakeMmu {
    /// How many of what was done, and not looked at, are of this kind.
    pub(crate) fn count(&self, kind: impl Fn(&Op) -> bool) -> usize {
        self.trace.lock().unwrap().iter().filter(|(_, op)| kind(op)).count()
    }

    /// How deep the latest flush of kernel addresses went, on whichever CPU.
    pub(crate) fn kernel_depth(&self) -> Option<TableChange> {
        *self.kernel_depth.lock().unwrap()
    }

    /// Whether the entries of the latest flush of addresses were all said to be of one size.
    pub(crate) fn uniform(&self) -> Option<bool> {
        *self.uniform.lock().unwrap()
    }

    /// Lets the others act for whom this is the moment.
    fn reach(&self, comes: impl FnOnce(&mut Moment) -> bool) {
        let next = self.meanwhile.lock().unwrap().take_if(|(when, _)| comes(when));
        if let Some((_, act)) = next {
            act();
        }
    }

    fn act<R>(&self, op: Op, f: impl FnOnce(&mut Hardware) -> R) -> R {
        self.reach(|when| match when {
            Moment::Published => matches!(op, Op::Publish(_)),
            Moment::Settled => op == Op::Settle,
            Moment::Removed => matches!(op, Op::FlushTag(_) | Op::FlushRange(..)),
            Moment::KernelRemoved => matches!(op, Op::FlushKernel(_)),
            Moment::CostsAsked(_) | Moment::PropertiesAsked(_) => false,
        });
        self.trace.lock().unwrap().push((CPU.get(), op));
        let mut cpu = self.cpus[CPU.get() as usize].lock().unwrap();
        let result = f(&mut cpu);
        // The walker never rests.
        if let Some(named) = cpu.named {
            cpu.entries.insert(named);
            for entry in &cpu.entries {
                assert!(
                    entry.tag != named.tag || entry.table == named.table,
                    "CPU {}: tag {} names {:#x} and {:#x}",
                    CPU.get(),
                    entry.tag,
                    entry.table,
                    named.table
                );
            }
        }
        drop(cpu);
        if self.properties.sharing == Sharing::Shared {
            self.check_shared();
        }
        result
    }

    /// No CPU may hit, under the tag it runs, what another CPU brought in for another space.
    fn check_shared(&self) {
        let cpus: Vec<_> = self.cpus.iter().map(|cpu| cpu.lock().unwrap()).collect();
        for named in cpus.iter().filter_map(|cpu| cpu.named).filter(|named| named.shared) {
            for entry in cpus.iter().flat_map(|cpu| &cpu.entries).filter(|entry| entry.shared) {
                assert!(
                    entry.tag != named.tag || entry.table == named.table,
                    "shared tag {} names two spaces",
                    entry.tag
                );
            }
        }
    }

    fn flush_here(&self, entries: Invalidation<'_>) {
        match entries {
            Invalidation::All => self.act(Op::FlushAll, |cpu| cpu.entries.clear()),
            Invalidation::Tag(tag) => {
                self.act(Op::FlushTag(tag.0), |cpu| cpu.entries.retain(|entry| entry.tag != tag.0));
            }
            Invalidation::Ranges { tag, ranges, change } => {
                self.note_uniform(ranges);
                for range in ranges {
                    let (start, pages) = (range.start(), range.pages());
                    let op = match change {
                        TableChange::LastLevel => Op::FlushRange(tag.0, start, pages),
                        TableChange::FreedTables => Op::FlushTables(tag.0, start, pages),
                    };
                    self.act(op, |_| ());
                }
            }
            Invalidation::Kernel { ranges, change } => {
                *self.kernel_depth.lock().unwrap() = Some(change);
                let every = ranges.is_empty();
                self.act(Op::FlushKernel(addresses(ranges)), |cpu| cpu.entries.retain(|_| !every));
            }
        }
    }

    fn flush_everywhere(&self, entries: Invalidation<'_>, wait: Wait) {
        assert!(self.properties.broadcasts);
        match entries {
            Invalidation::All => self.everywhere(Op::FlushAllEverywhere, |_| false),
            Invalidation::Tag(tag) => {
                self.everywhere(Op::FlushTagEverywhere(tag.0), |entry| entry.tag != tag.0);
            }
            Invalidation::Ranges { tag, ranges, change } => {
                self.note_uniform(ranges);
                for range in ranges {
                    let (start, pages) = (range.start(), range.pages());
                    let op = match change {
                        TableChange::LastLevel => {
                            Op::FlushRangeEverywhere(tag.0, start, pages, wait)
                        }
                        TableChange::FreedTables => {
                            Op::FlushTablesEverywhere(tag.0, start, pages, wait)
                        }
                    };
                    self.act(op, |_| ());
                }
            }
            Invalidation::Kernel { ranges, change } => {
                *self.kernel_depth.lock().unwrap() = Some(change);
                let every = ranges.is_empty();
                self.everywhere(Op::FlushKernelEverywhere(addresses(ranges)), |_| !every);
            }
        }
    }

    fn note_uniform(&self, ranges: &[VaRange]) {
        *self.uniform.lock().unwrap() = Some(ranges.iter().all(|range| range.is_uniform()));
    }

    fn everywhere(&self, op: Op, keep: impl Fn(&Entry) -> bool) {
        for cpu in &self.cpus {
            let mut cpu = cpu.lock().unwrap();
            cpu.entries.retain(&keep);
            if let Some(named) = cpu.named {
                cpu.entries.insert(named);
            }
        }
        self.act(op, |_| ());
    }
}

// SAFETY: `CPU` is set to a number of its own by every thread that pretends to be a CPU.
unsafe impl Platform for Fake {
    type Word = AtomicU64;
    type Mmu = FakeMmu;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = &'static mut [AtomicU64];

    fn root(root: &Root) -> Root {
        *root
    }

    fn has_stopped(&self, _: CpuId) -> bool {
        // A pretended CPU executes nothing unless the test says so.
        !self.goes_on.load(Ordering::Relaxed)
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &FakeMmu {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn irqs_are_off(&self) -> bool {
        !IRQS_ON.get()
    }

    fn send_ipi(&self, targets: Targets) {
        let cpus: Vec<_> = targets.iter().map(|cpu| cpu.0).collect();
        assert!(!cpus.is_empty(), "interrupted nobody");
        assert!(!cpus.contains(&CPU.get()), "CPU {} interrupted itself", CPU.get());
        self.pending.lock().unwrap().extend(&cpus);
        self.mmu.trace.lock().unwrap().push((CPU.get(), Op::Interrupt(cpus)));
        if *self.acknowledge.lock().unwrap() == Answer::AtOnce {
            self.deliver();
        }
    }

    fn relax(&self) {
        let answer = *self.acknowledge.lock().unwrap();
        if let Answer::Polls(cpus) = answer {
            *self.pending.lock().unwrap() = (0..cpus).filter(|cpu| *cpu != CPU.get()).collect();
        }
        if matches!(answer, Answer::WhenWaitedFor | Answer::Polls(_)) {
            self.deliver();
        }
        self.relaxed.fetch_add(1, Ordering::Relaxed);
        // Tests wait for millions of rounds. On a busy machine each yield can take milliseconds.
        let rounds = ROUNDS.get();
        ROUNDS.set(rounds + 1);
        if rounds.is_multiple_of(256) {
            std::thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }

    fn costs(&self) -> &Costs {
        self.mmu.reach(|when| match when {
            Moment::CostsAsked(times) => {
                *times -= 1;
                *times == 0
            }
            _ => false,
        });
        *self.costs.lock().unwrap()
    }

    fn stuck(&self, wait: &Stuck) {
        self.stuck.lock().unwrap().push(*wait);
        if let Some(diagnosis) = self.diagnosis.get() {
            diagnosis(wait);
        }
    }

    fn observe(&self, cpu: CpuId, event: Event) {
        assert_eq!(cpu.0, CPU.get());
        self.counts[cpu.index()].count(event);
        self.events.lock().unwrap().push((CPU.get(), event));
    }
}

impl Mmu for FakeMmu {
    /// Tag bits.
    type Features = u32;

    fn properties(&self) -> Properties {
        self.reach(|when| match when {
            Moment::PropertiesAsked(times) => {
                *times -= 1;
                *times == 0
            }
            _ => false,
        });
        self.properties
    }

    fn admit(&self, cpu: &u32) -> Result<Errata, Error> {
        let machine = self.properties.tag_bits;
        if *cpu < machine {
            return Err(Error::FewerTagBits { machine, cpu: *cpu });
        }
        Ok(Errata::NONE)
    }

    fn check_root(&self, root: Root) -> Result<(), Error> {
        if root.table == 0 || !root.table.is_multiple_of(4096) {
            return Err(Error::BadRoot { address: root.table });
        }
        Ok(())
    }

    fn settle(&self) {
        self.act(Op::Settle, |_| ());
    }

    unsafe fn load(&self, _: Errata, root: Root, tag: Tag, held: Held, sharing: Sharing) {
        let op = Op::Load { table: root.table, tag: tag.0, held, sharing };
        self.act(op, |cpu| {
            if held == Held::Drop {
                cpu.entries.retain(|entry| entry.tag != tag.0);
            }
            let shared = sharing == Sharing::Shared;
            cpu.named = Some(Entry { tag: tag.0, table: root.table, shared });
        });
    }

    fn park(&self, _: Errata) {
        self.act(Op::Park, |cpu| cpu.named = None);
    }

    fn publish(&self, broadcasts: Wait) {
        self.act(Op::Publish(broadcasts), |_| ());
    }

    fn flush(&self, _: Errata, entries: Invalidation<'_>, scope: Scope) {
        match scope {
            Scope::Local => self.flush_here(entries),
            Scope::Broadcast => self.flush_everywhere(entries, Wait::Now),
        }
    }

    fn begin_broadcast(&self, _: Errata, entries: Invalidation<'_>) {
        self.flush_everywhere(entries, Wait::Later);
    }

    fn complete_broadcast(&self, _: Errata) {
        assert!(self.properties.broadcasts);
        self.act(Op::CompleteEverywhere, |_| ());
    }

    fn operations(&self, range: &VaRange, _: TableChange, _: Scope) -> Option<u64> {
        Some(range.pages())
    }

    fn is_loaded(&self, root: Root, tag: Tag) -> bool {
        let named = self.cpus[CPU.get() as usize].lock().unwrap().named;
        named.is_some_and(|named| (named.table, named.tag) == (root.table, tag.0))
    }
}

fn addresses(ranges: &[VaRange]) -> Vec<(u64, u64)> {
    ranges.iter().map(|range| (range.start(), range.pages())).collect()
}

/// Words that live as long as the test.
pub(crate) fn words(count: usize) -> &'static mut [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::ZERO).collect())
}
